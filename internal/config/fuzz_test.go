package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever strings a program gives SCR_Config, one after the other: what is set can be
// asked for, and is the same in a file and read again.
func FuzzConfigStrings(f *testing.F) {
	for _, seed := range []string{
		"SCR_FLUSH=3\nSCR_FLUSH", "CKPT=0 INTERVAL=1 TYPE=XOR\nCKPT=0 TYPE\nCKPT\nCKPT=", "STORE=/dev/shm COUNT=2\nSTORE=/dev/shm COUNT=\nSTORE",
		"GROUPS=host1 POWER=psu1 SWITCH=0\nGROUPS=host1 POWER", "SCR_COPY_TYPE=", "A=\"b c\"\nA", "A = 1\nA =\nA", "CKPT=0 A=1\nCKPT=1 B=2\nCKPT=0 A=2\nCKPT=0 A\nCKPT=0 A=", "CKPT=0 CKPT=1", "SCR_MPI_BUF_SIZE=1m A=B", "DEBUG=1\nDEBUG", "CKPT=0 X",
		`#=="`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := &Settings{Environ: func(string) (string, bool) { return "", false }}
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			before := s.Text()
			result, ok, err := s.Config(line)
			if result != "" && !ok || err != nil && before != s.Text() {
				t.Fatalf("%q: %q %v %v; %q became %q", line, result, ok, err, before, s.Text())
			}
			// What is set without a child is the answer, but for variables.
			pairs, err := parseConfig(line)
			if err != nil || len(pairs) != 1 || pairs[0].bare || strings.Contains(pairs[0].value, "$") || pairs[0].key == "SCR_CONF_FILE" {
				continue
			}
			if got, _, err := s.Config(pairs[0].key); err == nil && got != pairs[0].value {
				t.Fatalf("%q: %s is %q", line, pairs[0].key, got)
			}
		}
		again, err := ParseSettings("f", s.Text())
		if err != nil || again.Text() != s.Text() {
			t.Fatalf("%q was written as %q, read as %q (%v)", text, s.Text(), again.Text(), err)
		}
	})
}

// Whatever is in the configuration file, with its tables of stores, schemes and groups, and
// in the environment: it is an error, or a configuration whose values are possible.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"SCR_FLUSH=3\n", "SCR_COPY_TYPE=FILE\nSTORE=/dev/shm GROUP=NODE COUNT=1\nCKPT=0 INTERVAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=16\nCKPT=1 INTERVAL=4 OUTPUT=1 TYPE=RS SET_FAILURES=3\n",
		"GROUPS=host1 POWER=psu1\nCKPT=0 GROUP=POWER\nSCR_COPY_TYPE=FILE", "CKPT=0 INTERVAL=0", "CKPT=-1 INTERVAL=-1 SET_SIZE=99999999999", "STORE=a/b/../.. VIEW=GLOBAL MKDIR=0 TYPE=x FLUSH=y",
		"SCR_MPI_BUF_SIZE=9223372036854775807", "SCR_CHECKPOINT_SECONDS=1e300", "SCR_CHECKPOINT_OVERHEAD=NaN", "SCR_CONF_FILE=/x", "SCR_PREFIX=$SCR_PREFIX/$X", "SCR_NODE_NAME=${SCR_NODE_NAME}",
	} {
		f.Add(seed, "SCR_FLUSH", "2")
		f.Add(seed, "SCR_SET_SIZE", "0x10")
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, name, value string) {
		if err := os.WriteFile(filepath.Join(dir, ".scrconf"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := Load(nil, nil, func(asked string) (string, bool) {
			switch asked {
			case "SCR_PREFIX":
				return dir, true
			case name:
				return value, true
			}
			return "", false
		})
		if err != nil {
			return
		}
		if c.MPIBufSize < 1 || c.FileBufSize < 1 || c.SetSize < 1 || c.HopDistance < 1 || c.FlushWidth < 1 || c.FlushAsyncBW < 0 || !filepath.IsAbs(c.Prefix) {
			t.Fatalf("%+v", c.Values)
		}
		for _, s := range []string{c.UserName, c.JobID} {
			if s == "" || s == "." || s == ".." || strings.Contains(s, "/") {
				t.Fatalf("a name of a directory is %q", s)
			}
		}
		for _, p := range Parameters {
			if _, _, err := c.Query(p.Name); err != nil && !errors.Is(err, ErrAmbiguous) {
				t.Fatalf("%s: %v", p.Name, err)
			}
		}
	})
}

// A size or a time that is understood is possible, and no other than the same in bytes or in
// whole seconds.
func FuzzSizesAndTimes(f *testing.F) {
	for _, seed := range []string{"0", "4096", "64k", "1M", "2gb", "8388607t", "8388608t", "-1", "1.5", "1e9", "9223372036.8", "0x10", "b", "k", "", "+1", "1_000", "NaN", "-Inf"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, ok := ParseSize(text); ok {
			if n < 0 {
				t.Fatalf("%q is %d bytes", text, n)
			}
			for _, p := range Parameters {
				if p.Type == Size {
					if _, err := p.read(text); (err == nil) != (n >= p.Min) {
						t.Fatalf("%s=%q, %d bytes: %v", p.Name, text, n, err)
					}
				}
			}
		}
		if n, ok := parseSeconds(text); ok && (n < 0) != strings.HasPrefix(text, "-") && n != 0 {
			t.Fatalf("%q is %d ns", text, n)
		}
	})
}
