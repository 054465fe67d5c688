package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// nothing is the answer of a call that sets, and of a query for what nobody has set.
const nothing = "NULL"

func answer(text string, ok bool, err error) string {
	switch {
	case errors.Is(err, ErrAmbiguous):
		return "ambiguous"
	case err != nil:
		return err.Error()
	case !ok && text == "":
		return nothing
	case !ok:
		return "without ok: " + text
	}
	return text
}

func TestSettings(t *testing.T) {
	useSystemFile(t, "SCR_SET_SIZE=4\nSTORE=/sys COUNT=1\nCKPT=0 TYPE=xor\n")
	prefix := t.TempDir()
	writeFile(t, prefix+"/.scrconf", "scr_debug = 2\nGROUPS=h1 Power=a\nGROUPS=h2 POWER=b\nMINE=a\nMINE=b\nDIRS=$DIR/${DIR}\nQ=\"q\"\n")
	s := &Settings{Environ: env("SCR_FLUSH=7", "DIR=/d", "SCR_PREFIX="+prefix, "OTHER=$DIR/x", "SCR_FETCH=", "CKPT=5")}
	for _, step := range []struct{ text, want string }{
		{"", nothing},
		{"  ", nothing},
		{"SCR_CACHE_SIZE", nothing}, // a default is not told
		{"SCR_JOB_ID", nothing},
		{"SCR_FETCH", nothing},
		{"SCR_FETCH=0", nothing},
		{"SCR_FETCH", "0"},
		{"SCR_FETCH=", nothing},
		{"SCR_FETCH", nothing},
		{"SCR_FLUSH=3", nothing},
		{"SCR_FLUSH", "7"}, // the environment wins
		{"SCR_PREFIX", prefix},
		{"SCR_DEBUG=1", nothing},
		{"SCR_DEBUG", "2"}, // the user wins
		{"SCR_SET_SIZE", "4"},
		{"SCR_SET_SIZE=5", nothing},
		{"SCR_SET_SIZE", "5"}, // the system does not
		{"SCR_SET_SIZE =", nothing},
		{"SCR_SET_SIZE", "4"},
		{"scr_set_size", nothing}, // names keep their case
		{"scr_set_size=9", nothing},
		{"scr_set_size", "9"},
		{"SCR_SET_SIZE", "4"},
		{"OTHER", "/d/x"},
		{"DIRS", "/d//d"},
		{"Q", `"q"`},
		{"SCR_CURRENT=a=b=c", nothing},
		{"SCR_CURRENT", "a=b=c"},
		{"  SCR_CURRENT = \"a#b\"  ", nothing},
		{"SCR_CURRENT", `"a#b"`},
		{"SCR_CURRENT=a\tb", nothing},
		{"SCR_CURRENT", "a\tb"},
		{"SCR_CURRENT=$DIR/x//$NONE", nothing},
		{"SCR_CURRENT", "/d/x//"},
		{"SCR_COPY_TYPE=rS", nothing},
		{"SCR_COPY_TYPE", "rS"}, // as it was written
		{"A B", "one value at a time"},
		{"A=1 B=2 C", "one value at a time"},
		{"A B=2", "one value at a time"},
		{"=2", "no name"},
		{"MINE", "ambiguous"},
		{"MINE=a", nothing},
		{"MINE", "ambiguous"},
		// Items.
		{"GROUPS", "ambiguous"},
		{"GROUPS=h1 POWER", "a"},
		{"GROUPS=h2 POWER", "b"},
		{"GROUPS=h2 Power", nothing},
		{"GROUPS=h3 POWER", nothing},
		{"CKPT", "0"}, // and not 5
		{"CKPT=0 TYPE", "xor"},
		{"CKPT=1 TYPE=XOR SET_SIZE=4", nothing}, // beside the system's
		{"CKPT", "ambiguous"},
		{"CKPT=0 TYPE", "xor"},
		{"CKPT=1 TYPE", "XOR"},
		{"CKPT=1 SET_SIZE", "4"},
		{"CKPT = 1  BYPASS = 1", nothing},
		{"CKPT=1 TYPE", "XOR"},
		{"CKPT=1 BYPASS", "1"},
		{"CKPT=1 TYPE=XOR", nothing},
		{"CKPT=1 TYPE", "XOR"},
		{"CKPT=1 TYPE=RS", nothing},
		{"CKPT=1 TYPE", "ambiguous"},
		{"CKPT=0 TYPE=PARTNER", nothing},
		{"CKPT=0 TYPE", "ambiguous"},
		{"CKPT=1 TYPE= SET_SIZE=2 X=", "cannot be taken back"},
		{"CKPT=1 A=", nothing}, // the same as CKPT=1
		{"CKPT", "1"},
		{"CKPT=1 TYPE", nothing},
		{"CKPT=1 TYPE=SINGLE", nothing},
		{"CKPT", "1"},
		{"CKPT=1 TYPE", "SINGLE"},
		{"CKPT=", nothing},
		{"CKPT", "0"},
		{"STORE=$DIR/x COUNT=2", nothing},
		{"STORE=$DIR/x COUNT", "2"},
		{"STORE=/d/x COUNT", "2"},
		{"STORE=/sys COUNT", "1"},
		{"STORE", "ambiguous"},
		{"STORE=/mine", nothing},
		{"STORE", "/mine"},
		{"STORE=/sys COUNT", nothing},
	} {
		if got := answer(s.Config(step.text)); got != step.want && !(strings.Contains(step.want, " ") && strings.Contains(got, step.want)) {
			t.Errorf("%s: %s, want %s", step.text, got, step.want)
		}
	}
	// What commands read is what the program set.
	again, err := ParseSettings("app.conf", s.Text())
	if err != nil {
		t.Fatal(err)
	}
	if again.Text() != s.Text() || !strings.Contains(s.Text(), "\nscr_set_size=9\n") {
		t.Errorf("%q parses to %q", s.Text(), again.Text())
	}
}

// What the program adds to the system's items is added there by commands, too, and what it
// puts in their place stays in their place.
func TestSettings_AddedOrInPlace(t *testing.T) {
	useSystemFile(t, "CKPT=0 TYPE=XOR\nCKPT=1 TYPE=RS\n")
	prefix := t.TempDir()
	for _, test := range []struct {
		calls []string
		want  string
	}{
		{nil, "0 XOR, 1 RS"},
		{[]string{"CKPT=2 TYPE=SINGLE"}, "0 XOR, 1 RS, 2 SINGLE"},
		{[]string{"CKPT=1 TYPE=SINGLE"}, "0 XOR, 1 SINGLE"},
		{[]string{"CKPT=2", "CKPT=1 TYPE=SINGLE"}, "1 SINGLE, 2 "},
		{[]string{"CKPT=1", "CKPT=1 TYPE=SINGLE"}, "1 SINGLE"},
		{[]string{"CKPT=1 TYPE=SINGLE", "CKPT=1"}, "1 "},
		{[]string{"CKPT=1", "CKPT=", "CKPT=3 TYPE=SINGLE"}, "0 XOR, 1 RS, 3 SINGLE"},
		{[]string{"CKPT=1", "CKPT=2 TYPE=XOR", "CKPT=1 TYPE=XOR", "CKPT=1 TYPE=RS"}, "1 RS, 2 XOR"},
	} {
		program := settings(t, test.calls...)
		writeFile(t, prefix+"/.scr/app.conf", program.Text())
		commands, err := ParseSettings("app.conf", program.Text())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Settings{program, commands} {
			cfg, _ := load(t, s, "SCR_PREFIX="+prefix)
			var got []string
			for _, c := range cfg.Ckpts {
				got = append(got, fmt.Sprint(c.ID, " ", c.Type.Value))
			}
			if list := strings.Join(got, ", "); list != test.want {
				t.Errorf("%q: %s, want %s", test.calls, list, test.want)
			}
		}
	}
}

// The user's file is where the prefix directory is at that moment, and is read once.
func TestSettings_UserFile(t *testing.T) {
	useSystemFile(t, "")
	a, b, c := t.TempDir(), t.TempDir(), t.TempDir()
	for i, dir := range []string{a, b, c} {
		writeFile(t, dir+"/.scrconf", fmt.Sprintf("SCR_FLUSH=%d\nSCR_PREFIX=/x\n", i+1))
	}
	writeFile(t, b+"/other", "SCR_FLUSH=9")
	t.Chdir(a)
	vars := []string{"X=" + b}
	s := &Settings{Environ: func(name string) (string, bool) { return env(vars...)(name) }}
	expect := func(query, want string) {
		t.Helper()
		if got := answer(s.Config(query)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	expect("SCR_FLUSH", "1")
	expect("SCR_PREFIX", nothing) // it has no effect there
	writeFile(t, a+"/.scrconf", "SCR_FLUSH=8")
	expect("SCR_FLUSH", "1")
	expect("SCR_PREFIX=$X/../"+"./", nothing)
	expect("SCR_FLUSH", nothing)
	expect("SCR_PREFIX=$X", nothing)
	expect("SCR_FLUSH", "2")
	expect("SCR_CONF_FILE=$SCR_PREFIX/other", nothing)
	expect("SCR_FLUSH", "9")
	expect("SCR_CONF_FILE=/not/there", nothing)
	expect("SCR_FLUSH", nothing)
	expect("SCR_CONF_FILE=", nothing)
	expect("SCR_FLUSH", "2")
	vars = append(vars, "SCR_PREFIX="+c)
	expect("SCR_FLUSH", "3")
	expect("SCR_PREFIX=", nothing)
	vars = vars[:1]
	expect("SCR_FLUSH", "8")
	if err := os.WriteFile(a+"/.scrconf", []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := Load(nil, s, nil)
	if err != nil || cfg.Flush != 8 {
		t.Errorf("Init has other settings than a query before it: %v", err)
	}
	if got := answer(s.Config("SCR_FLUSH")); !strings.Contains(got, ".scrconf:1: ") {
		t.Errorf("after it, the file is read again: %s", got)
	}
}

func TestSettings_Errors(t *testing.T) {
	var s Settings
	for _, text := range []string{
		"=", "=x", "A B", "A=1 B C", "B A=1", "SCR_PREFIX=/a b c", "A=x y z", "A=1\x00", "CKPT=0 TYPE SET_SIZE", "CKPT=0 TYPE=XOR SET_SIZE", "# nothing",
	} {
		if _, _, err := s.Config(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	if got := s.Text(); got != "" {
		t.Errorf("a string that was refused set %q", got)
	}
}

// After SCR_Init, queries are answered as before, on all ranks by what counts for the job.
func TestQuery(t *testing.T) {
	useSystemFile(t, "STORE=/a COUNT=1\nSTORE=$NODE/b COUNT=2\nSCR_CNTL_BASE=/c/$NODE\nSCR_JOB_NAME=$NODE\n")
	prefix := t.TempDir()
	writeFile(t, prefix+"/.scrconf", "GROUPS=h1 POWER=$NODE\n")
	_, err := local.Run(3, local.Options{}, func(c mpi.Comm) error {
		node := fmt.Sprint("/n", c.Rank())
		environ := env("NODE="+node, "SCR_PREFIX="+prefix, fmt.Sprint("SCR_FLUSH=", c.Rank()), "SCR_CACHE_BASE=$NODE/x", "MINE=$NODE")
		s := &Settings{Environ: environ}
		for _, text := range []string{"CKPT=0 TYPE=xor", "SCR_MPI_BUF_SIZE=64K", "SCR_DISTRIBUTE=0", "SCR_DISTRIBUTE="} {
			if _, _, err := s.Config(text); err != nil {
				return err
			}
		}
		cfg, _, err := Load(c, s, environ)
		if err != nil {
			return err
		}
		for _, test := range []struct{ text, want string }{
			{"", nothing},
			{"SCR_FLUSH", "0"},
			{"SCR_CACHE_SIZE", nothing},
			{"SCR_DISTRIBUTE", nothing},
			{"SCR_MPI_BUF_SIZE", "64K"},
			{"SCR_CURRENT", nothing},
			{"SCR_NONE", nothing},
			{"MINE", node},
			{"SCR_JOB_NAME", "/n0"},
			{"SCR_CNTL_BASE", "/c/" + node},
			{"SCR_CACHE_BASE", node + "/x"},
			{"STORE", "ambiguous"},
			{"STORE=/a COUNT", "1"},
			{"STORE=" + node + "/b COUNT", "2"},
			{"STORE=$NODE/b COUNT", "2"},
			{"STORE=/c COUNT", nothing},
			{"CKPT=0 TYPE", "xor"},
			{"CKPT=x TYPE", nothing},
			{"GROUPS", "h1"},
			{"GROUPS=h1 POWER", "/n0"},
		} {
			if got := answer(cfg.Query(test.text)); got != test.want {
				return fmt.Errorf("rank %d: %s: %s, want %s", c.Rank(), test.text, got, test.want)
			}
		}
		for _, text := range []string{"SCR_FLUSH=1", "SCR_FLUSH=", "CKPT=0 TYPE=XOR", "A B", "=x"} {
			if _, _, err := cfg.Query(text); err == nil {
				return fmt.Errorf("%q is accepted", text)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestSystemFile(t *testing.T) {
	dir := t.TempDir()
	a, b, c := dir+"/a/scr.conf", dir+"/b/scr.conf", dir+"/c/scr.conf"
	if got := first(a, b, c); got != c {
		t.Errorf("none is there: %s", got)
	}
	writeFile(t, b, "")
	writeFile(t, c, "")
	if got := first("", b, c); got != b {
		t.Errorf("two are there: %s", got)
	}
	writeFile(t, a, "")
	if got := first(a, b, c); got != a {
		t.Errorf("all are there: %s", got)
	}
}

func TestInstalled(t *testing.T) {
	for path, want := range map[string]string{
		"/opt/scr/lib/libscr.so":                            "/opt/scr/etc/scr.conf",
		"/opt/scr/lib64/libscr.so":                          "/opt/scr/etc/scr.conf",
		"/opt/scr/bin/scr":                                  "/opt/scr/etc/scr.conf",
		"/opt/scr/lib/x86_64-linux-gnu/libscr.so":           "/opt/scr/etc/scr.conf",
		"/opt/scr/lib/goscr/openmpi/libscr.so":              "/opt/scr/etc/scr.conf",
		"/opt/scr/lib64/goscr/mpich/libscr.so":              "/opt/scr/etc/scr.conf",
		"/usr/lib/x86_64-linux-gnu/goscr/openmpi/libscr.so": "/usr/etc/scr.conf",
		"/home/anna/goscr/build/libscr.so":                  "",
		"/home/anna/bin/goscr/build/scr":                    "",
	} {
		if got := beside(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// Set and Add are for programs in Go: values may have blanks, and a query is an error.
func TestSettings_SetAndAdd(t *testing.T) {
	var s Settings
	if err := errors.Join(s.Set("SCR_JOB_NAME", "heat 2-d"), s.Add("CKPT=1 TYPE=RS")); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := s.Config("SCR_JOB_NAME"); got != "heat 2-d" || !ok || err != nil {
		t.Errorf("%q %v %v", got, ok, err)
	}
	if got, ok, err := s.Config("CKPT=1 TYPE"); got != "RS" || !ok || err != nil {
		t.Errorf("%q %v %v", got, ok, err)
	}
	before := s.Text()
	for _, err := range []error{s.Set("", "x"), s.Set("A B", "x"), s.Set("A=B", "x"), s.Set("A", "x\ny"), s.Add("SCR_JOB_NAME"), s.Add(""), s.Add("CKPT=1 TYPE"), s.Add("=")} {
		if err == nil {
			t.Error("no error")
		}
	}
	if got := s.Text(); got != before {
		t.Errorf("after errors %q, before %q", got, before)
	}
}
