package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// env is an environment of the variables given, and no others.
func env(vars ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, v := range vars {
			if key, value, _ := strings.Cut(v, "="); key == name {
				return value, true
			}
		}
		return "", false
	}
}

// useSystemFile makes text the system's file for one test.
func useSystemFile(t *testing.T, text string) {
	t.Helper()
	old, path := systemFile, filepath.Join(t.TempDir(), "scr.conf")
	systemFile = func() string { return path }
	t.Cleanup(func() { systemFile = old })
	if text != "" {
		writeFile(t, path, text)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func settings(t *testing.T, texts ...string) *Settings {
	t.Helper()
	s := &Settings{Environ: env()}
	for _, text := range texts {
		if _, _, err := s.Config(text); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func load(t *testing.T, program *Settings, vars ...string) (*Config, []string) {
	t.Helper()
	cfg, warnings, err := Load(nil, program, env(vars...))
	if err != nil {
		t.Fatal(err)
	}
	return cfg, warnings
}

func TestDefaults(t *testing.T) {
	useSystemFile(t, "")
	dir := t.TempDir()
	t.Chdir(dir)
	cfg, warnings := load(t, nil)
	if len(warnings) > 0 {
		t.Errorf("warnings: %q", warnings)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Prefix; got != wd {
		t.Errorf("SCR_PREFIX = %q, want the working directory %q", got, wd)
	}
	if got, want := cfg.ConfFile, wd+"/.scrconf"; got != want {
		t.Errorf("SCR_CONF_FILE = %q, want %q", got, want)
	}
	if got := cfg.MPIBufSize; got != 256<<10 {
		t.Errorf("SCR_MPI_BUF_SIZE = %d", got)
	}
	if !cfg.Enable || cfg.Flush != 10 || cfg.CopyType != "XOR" {
		t.Error("defaults of SCR_ENABLE, SCR_FLUSH or SCR_COPY_TYPE")
	}
	if got := cfg.JobID; got != "defjobid" {
		t.Errorf("SCR_JOB_ID = %q", got)
	}
	if cfg.UserName == "" || cfg.NodeName == "" {
		t.Error("no user or node name")
	}
	if got := cfg.JobName; got != "" {
		t.Errorf("SCR_JOB_NAME = %q", got)
	}
}

// Every default must be a value that its parameter accepts, and the table
// must say what documentation needs.
func TestTable(t *testing.T) {
	useSystemFile(t, "")
	seen := map[string]bool{}
	cfg, _ := load(t, nil)
	for _, p := range Parameters {
		if seen[p.Name] {
			t.Errorf("%s is in the table twice", p.Name)
		}
		seen[p.Name] = true
		if p.Help == "" || strings.Contains(p.Help, "\n") {
			t.Errorf("%s: help is not one line", p.Name)
		}
		if !strings.HasPrefix(p.Name, "SCR_") || nameLength(p.Name) != len(p.Name) {
			t.Errorf("%s is no name for a parameter", p.Name)
		}
		if p.Default == "" && p.derive == nil && p.Type != Text {
			t.Errorf("%s: no default", p.Name)
		}
		if got := cfg.values[p.Name].source.Level; got != Default {
			t.Errorf("%s: from %v", p.Name, got)
		}
	}
}

// What is given as an example of a parameter sets it.
func TestTable_Examples(t *testing.T) {
	useSystemFile(t, "")
	prefix := t.TempDir()
	set := func(line string) *Config {
		program := settings(t, line)
		var vars []string
		if !strings.HasPrefix(line, "SCR_PREFIX=") {
			vars = []string{"SCR_PREFIX=" + prefix}
		}
		cfg, warnings := load(t, program, vars...)
		if strings.Contains(strings.Join(warnings, "\n"), "unknown") {
			t.Errorf("%s: %q", line, warnings)
		}
		return cfg
	}
	for _, p := range Parameters {
		if cfg := set(p.Name + "=" + p.Example); cfg.values[p.Name].source.Level != Program {
			t.Errorf("%s=%s does not set it", p.Name, p.Example)
		}
	}
	for _, kind := range ItemKinds {
		if items := set(kind.Example).items.Get(kind.Name); items.Size() != 1 {
			t.Errorf("%s sets no item", kind.Example)
		}
		for _, field := range kind.Fields {
			items := set(field.Example).items.Get(kind.Name)
			for _, item := range items.All() {
				if item.Text(field.Name) == "" {
					t.Errorf("%s does not set %s", field.Example, field.Name)
				}
			}
			if items.Size() != 1 {
				t.Errorf("%s sets no item", field.Example)
			}
		}
	}
}

func TestPrecedence(t *testing.T) {
	prefix := t.TempDir()
	levels := []string{
		Default:     "",
		System:      "SCR_FLUSH=1\nSCR_CACHE_BASE=/1",
		Program:     "SCR_FLUSH=2\nSCR_CACHE_BASE=/2",
		User:        "SCR_FLUSH=3\nSCR_CACHE_BASE=/3",
		Environment: "SCR_FLUSH=4\nSCR_CACHE_BASE=/4",
	}
	// Every subset of the levels: the highest of those present wins.
	for mask := range 16 {
		t.Run(fmt.Sprintf("%04b", mask), func(t *testing.T) {
			at := func(l Level) string {
				if mask>>(l-1)&1 == 0 {
					return ""
				}
				return levels[l]
			}
			want := Default
			for l := System; l <= Environment; l++ {
				if at(l) != "" {
					want = l
				}
			}
			useSystemFile(t, at(System))
			writeFile(t, prefix+"/.scrconf", at(User))
			program := &Settings{}
			if at(Program) != "" {
				program = settings(t, strings.Fields(at(Program))...)
			}
			vars := append(strings.Fields(at(Environment)), "SCR_PREFIX="+prefix)
			cfg, _ := load(t, program, vars...)
			wantFlush, wantBase := int(want), fmt.Sprintf("/%d", want)
			if want == Default {
				wantFlush, wantBase = 10, "/dev/shm"
			}
			if got := cfg.Flush; got != wantFlush {
				t.Errorf("SCR_FLUSH = %d, want %d", got, wantFlush)
			}
			if got := cfg.CacheBase; got != wantBase {
				t.Errorf("SCR_CACHE_BASE = %s, want %s", got, wantBase)
			}
			for _, name := range []string{"SCR_FLUSH", "SCR_CACHE_BASE"} {
				if got := cfg.values[name].source.Level; got != want {
					t.Errorf("%s is from %v, want %v", name, got, want)
				}
			}
		})
	}
}

func TestSource(t *testing.T) {
	useSystemFile(t, "\n\nSCR_FETCH=0")
	prefix := t.TempDir()
	writeFile(t, prefix+"/.scrconf", "# mine\nSCR_FLUSH=3\n")
	cfg, _ := load(t, settings(t, "SCR_DEBUG=1"), "SCR_PREFIX="+prefix, "SLURM_JOB_ID=17")
	for name, want := range map[string]string{
		"SCR_PREFIX":     "environment",
		"SCR_FLUSH":      "user file, " + prefix + "/.scrconf:2",
		"SCR_DEBUG":      "program",
		"SCR_FETCH":      "system file, " + systemFile() + ":3",
		"SCR_ENABLE":     "default",
		"SCR_JOB_ID":     "default, SLURM_JOB_ID in the environment",
		"SCR_NODE_NAME":  "default, the host name",
		"SCR_CACHE_BASE": "default",
	} {
		if got := cfg.values[name].source.String(); got != want {
			t.Errorf("%s is from %q, want %q", name, got, want)
		}
	}
}

// A value that is empty, or expands to nothing, leaves the decision to the
// levels below.
func TestEmptyValueCountsAsNone(t *testing.T) {
	useSystemFile(t, "SCR_FLUSH=1\nSCR_CACHE_BASE=/1")
	prefix := t.TempDir()
	writeFile(t, prefix+"/.scrconf", "SCR_FLUSH=\nSCR_CACHE_BASE=${NOWHERE}")
	cfg, _ := load(t, nil, "SCR_PREFIX="+prefix, "SCR_FLUSH=", "SCR_CACHE_BASE=")
	if cfg.Flush != 1 || cfg.CacheBase != "/1" {
		t.Errorf("SCR_FLUSH = %d, SCR_CACHE_BASE = %s", cfg.Flush, cfg.CacheBase)
	}
}

func TestPrefixDecidesWhereTheUserFileIs(t *testing.T) {
	a, b, c := t.TempDir(), t.TempDir(), t.TempDir()
	for i, dir := range []string{a, b, c} {
		writeFile(t, dir+"/.scrconf", fmt.Sprintf("SCR_FLUSH=%d", i+1))
	}
	other := filepath.Join(t.TempDir(), "conf")
	writeFile(t, other, "SCR_FLUSH=9")
	named := filepath.Join(t.TempDir(), "conf")
	writeFile(t, named, "SCR_FLUSH=8\nSCR_PREFIX="+b+"\nSCR_CACHE_BASE=$SCR_PREFIX/cache\n")
	t.Chdir(c)
	for _, test := range []struct {
		name, system, program string
		vars                  []string
		prefix                string
		flush                 int
	}{
		{"environment", "SCR_PREFIX=" + b, "SCR_PREFIX=" + b, []string{"SCR_PREFIX=" + a}, a, 1},
		{"program", "SCR_PREFIX=" + a, "SCR_PREFIX=" + b, nil, b, 2},
		{"system", "SCR_PREFIX=" + a, "SCR_FETCH=0", nil, a, 1},
		{"working directory", "", "SCR_FETCH=0", nil, c, 3},
		{"not clean", "", "SCR_FETCH=0", []string{"SCR_PREFIX=" + a + "/x/.././/"}, a, 1},
		{"relative", "", "SCR_FETCH=0", []string{"SCR_PREFIX=."}, c, 3},
		{"SCR_CONF_FILE", "", "SCR_FETCH=0", []string{"SCR_PREFIX=" + a, "SCR_CONF_FILE=" + other}, a, 9},
		{"a prefix in SCR_CONF_FILE", "SCR_PREFIX=" + a, "SCR_PREFIX=" + a, []string{"SCR_CONF_FILE=" + named}, b, 8},
		{"... of the program", "", "SCR_CONF_FILE=" + named, nil, b, 8},
		{"... and in the environment", "", "SCR_FETCH=0", []string{"SCR_PREFIX=" + a, "SCR_CONF_FILE=" + named}, a, 8},
		{"SCR_CONF_FILE of the program", "", "SCR_CONF_FILE=" + other, []string{"SCR_PREFIX=" + a}, a, 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			useSystemFile(t, test.system)
			cfg, warnings := load(t, settings(t, test.program), test.vars...)
			if got := cfg.Prefix; got != test.prefix {
				t.Errorf("SCR_PREFIX = %s, want %s", got, test.prefix)
			}
			if got := cfg.Flush; got != test.flush {
				t.Errorf("SCR_FLUSH = %d, want %d", got, test.flush)
			}
			if len(warnings) > 0 {
				t.Errorf("warnings: %q", warnings)
			}
		})
	}
}

// Commands find the job by the file that SCR_CONF_FILE names, as the job does, and read what it has stored.
func TestRead_PrefixInTheUserFile(t *testing.T) {
	useSystemFile(t, "")
	prefix, other := t.TempDir(), t.TempDir()
	conf := filepath.Join(t.TempDir(), "conf")
	writeFile(t, conf, "SCR_PREFIX="+prefix)
	must(t, os.Mkdir(prefix+"/.scr", 0o700))
	writeFile(t, filepath.Join(prefix, settingsFile), settings(t, "SCR_FLUSH=7").Text())
	t.Chdir(other)
	t.Setenv("SCR_PREFIX", "")
	t.Setenv("SCR_CONF_FILE", conf)
	if cfg, _, err := Read(""); err != nil || cfg.Prefix != prefix || cfg.Flush != 7 {
		t.Errorf("%+v, %v", cfg, err)
	}
	if cfg, _, err := Read(other); err != nil || cfg.Prefix != other || cfg.Flush == 7 { // -p
		t.Errorf("%+v, %v", cfg, err)
	}
	// A file that the prefix leads to does not lead to another prefix.
	writeFile(t, other+"/named", "SCR_PREFIX="+prefix)
	t.Setenv("SCR_CONF_FILE", "$SCR_PREFIX/named")
	if cfg, warnings, err := Read(""); err != nil || cfg.Prefix != other || !strings.Contains(fmt.Sprint(warnings), "SCR_PREFIX has no effect") {
		t.Errorf("%+v, %q, %v", cfg, warnings, err)
	}
}

func TestExpansion(t *testing.T) {
	useSystemFile(t, "")
	prefix := t.TempDir()
	for _, test := range []struct{ in, program, file string }{ // file "": left out of a file
		{"$A/x", "/a b/x", "/a b/x"},
		{"${A}x", "/a bx", "/a bx"},
		{"$A$A", "/a b/a b", "/a b/a b"},
		{"$UNSET-x", "-x", ""},
		{"${UNSET}", "", ""},
		{"100$", "100$", "100$"},
		{"a$/b", "a$/b", "a$/b"},
		{"$DIR2/x", "/2/x", "/2/x"},
		{"$$A", "$/a b", "$/a b"},
		{"$TWICE", "$A", "/a b"},
		{"$SCR_PREFIX/x", prefix + "/x", prefix + "/x"},
		{"${A", "${A", "${A"},
		{"${}", "${}", "${}"},
		{"${A-x}", "${A-x}", "${A-x}"},
	} {
		vars := []string{"A=/a b", "DIR2=/2", "TWICE=$A", "SCR_PREFIX=" + prefix, "SCR_CONF_FILE=/none"}
		cfg, _ := load(t, settings(t, "SCR_JOB_NAME="+test.in), vars...)
		if got := cfg.JobName; got != test.program {
			t.Errorf("%q of the program expands to %q, want %q", test.in, got, test.program)
		}
		cfg, _ = load(t, nil, append(vars, "SCR_JOB_NAME="+test.in)...)
		if got := cfg.JobName; got != test.program {
			t.Errorf("%q of the environment expands to %q, want %q", test.in, got, test.program)
		}
		vars[4] = "SCR_CONF_FILE=" + prefix + "/conf"
		writeFile(t, prefix+"/conf", "SCR_JOB_NAME="+test.in)
		cfg, warnings := load(t, nil, vars...)
		if got := cfg.JobName; got != test.file || (test.file == "") != strings.Contains(strings.Join(warnings, ""), "$UNSET is not set") {
			t.Errorf("%q of a file expands to %q, want %q; %q", test.in, got, test.file, warnings)
		}
	}
	// What belongs to an item that is left out has no effect.
	writeFile(t, prefix+"/conf", "STORE=$UNSET COUNT=3\nSTORE=/a COUNT=$UNSET GROUP=$G\n")
	cfg, _ := load(t, nil, "SCR_PREFIX="+prefix, "SCR_CONF_FILE="+prefix+"/conf", "G=NODE")
	if len(cfg.Stores) != 1 || cfg.Stores[0].ID != "/a" || cfg.Stores[0].Count.Set || cfg.Stores[0].Group.Value != "NODE" {
		t.Errorf("%+v", cfg.Stores)
	}
}

func TestTypes(t *testing.T) {
	for _, test := range []struct {
		p    Parameter
		text string
		want any // nil: not accepted
	}{
		{Parameter{Type: Int}, "10", int64(10)},
		{Parameter{Type: Int}, " 10 ", int64(10)},
		{Parameter{Type: Int, Min: -5}, "-5", int64(-5)},
		{Parameter{Type: Int}, "-1", nil},
		{Parameter{Type: Int}, "", nil},
		{Parameter{Type: Int}, "1.5", nil},
		{Parameter{Type: Int}, "0x10", nil},
		{Parameter{Type: Int}, "99999999999999999999", nil},
		{Parameter{Type: Bool}, "0", int64(0)},
		{Parameter{Type: Bool}, "1", int64(1)},
		{Parameter{Type: Bool}, "Yes", int64(1)},
		{Parameter{Type: Bool}, "no", int64(0)},
		{Parameter{Type: Bool}, "TRUE", int64(1)},
		{Parameter{Type: Bool}, "false", int64(0)},
		{Parameter{Type: Bool}, "2", int64(1)},
		{Parameter{Type: Bool}, "00", int64(0)},
		{Parameter{Type: Bool}, "y", nil},
		{Parameter{Type: Size}, "0", int64(0)},
		{Parameter{Type: Size}, "4096", int64(4096)},
		{Parameter{Type: Size}, "10b", int64(10)},
		{Parameter{Type: Size}, "64k", int64(64 << 10)},
		{Parameter{Type: Size}, "1M", int64(1 << 20)},
		{Parameter{Type: Size}, "2GB", int64(2 << 30)},
		{Parameter{Type: Size}, "3tb", int64(3 << 40)},
		{Parameter{Type: Size}, "8388607t", int64(8388607 << 40)},
		{Parameter{Type: Size}, "8388608t", nil},
		{Parameter{Type: Size}, "9223372036854775807", int64(1<<63 - 1)},
		{Parameter{Type: Size}, "9223372036854775808", nil},
		{Parameter{Type: Size}, "-1", nil},
		{Parameter{Type: Size}, "+1", nil},
		{Parameter{Type: Size}, "1.5m", int64(3 << 19)},
		{Parameter{Type: Size}, ".5kb", int64(512)},
		{Parameter{Type: Size}, "2p", int64(2 << 50)},
		{Parameter{Type: Size}, "7e", int64(7 << 60)},
		{Parameter{Type: Size}, "8e", nil},
		{Parameter{Type: Size}, "8.0e", nil},
		{Parameter{Type: Size}, "1.2.3", nil},
		{Parameter{Type: Size}, ".", nil},
		{Parameter{Type: Size}, "1e3", nil},
		{Parameter{Type: Size}, "1 m", nil},
		{Parameter{Type: Size}, "m", nil},
		{Parameter{Type: Size}, "b", nil},
		{Parameter{Type: Size}, "1kk", nil},
		{Parameter{Type: Size}, "1bk", nil},
		{Parameter{Type: Size, Min: 1}, "0", nil},
		{Parameter{Type: Seconds}, "90", int64(90 * time.Second)},
		{Parameter{Type: Seconds}, "0.25", int64(250 * time.Millisecond)},
		{Parameter{Type: Seconds}, "-1", nil},
		{Parameter{Type: Seconds}, "1e300", nil},
		{Parameter{Type: Seconds}, "NaN", nil},
		{Parameter{Type: Seconds}, "inf", nil},
		{Parameter{Type: Float}, "1.5", 1.5},
		{Parameter{Type: Float}, "-2e3", -2000.0},
		{Parameter{Type: Float}, "NaN", nil},
		{Parameter{Type: Float}, "inf", nil},
		{Parameter{Type: Float}, "1,5", nil},
		{Parameter{Type: Text}, " any thing ", " any thing "},
		{Parameter{Type: Text, Values: copyTypes}, "xor", "XOR"},
		{Parameter{Type: Text, Values: copyTypes}, "Local", "LOCAL"},
		{Parameter{Type: Text, Values: copyTypes}, "RAID", nil},
		{Parameter{Type: Name}, "job.17", "job.17"},
		{Parameter{Type: Name}, "..x", "..x"},
		{Parameter{Type: Name}, ".", nil},
		{Parameter{Type: Name}, "..", nil},
		{Parameter{Type: Name}, "", nil},
		{Parameter{Type: Name}, "a/b", nil},
		{Parameter{Type: Path}, "/a//b/../c/", "/a/c"},
	} {
		v, err := test.p.read(test.text)
		if test.want == nil {
			if err == nil {
				t.Errorf("%q is accepted as %s", test.text, test.p.accepts())
			}
			continue
		}
		var got any
		switch test.want.(type) {
		case int64:
			got = v.number
		case float64:
			got = v.float
		default:
			got = v.text
		}
		if err != nil || got != test.want {
			t.Errorf("%q (%s): %v, %v, want %v", test.text, test.p.accepts(), got, err, test.want)
		}
	}
}

// An error names parameter, value, where it came from, and what is accepted.
func TestInvalidValues(t *testing.T) {
	prefix := t.TempDir()
	for _, test := range []struct {
		name, system, user, program string
		vars                        []string
		want                        []string
	}{
		{"environment", "", "", "", []string{"SCR_FLUSH=often"},
			[]string{"SCR_FLUSH", `"often"`, "environment", "whole number"}},
		{"user file", "", "\nSCR_CACHE_SIZE=-1", "", nil,
			[]string{"SCR_CACHE_SIZE", `"-1"`, prefix + "/.scrconf:2", "at least 0"}},
		{"program", "", "", "SCR_COPY_TYPE=RAID", nil,
			[]string{"SCR_COPY_TYPE", "RAID", "program", "SINGLE, LOCAL, PARTNER, XOR, RS"}},
		{"system file", "SCR_MPI_BUF_SIZE=big", "", "", nil,
			[]string{"SCR_MPI_BUF_SIZE", "big", "scr.conf:1", "bytes"}},
		{"user with a slash", "", "", "", []string{"SCR_USER_NAME=a/b"}, []string{"SCR_USER_NAME", "a/b", "path"}},
		{"job id that leads up", "", "", "", []string{"SCR_JOB_ID=.."}, []string{"SCR_JOB_ID", "path"}},
		{"scheduler's job id", "", "", "", []string{"SLURM_JOB_ID=../1"}, []string{"SCR_JOB_ID", "SLURM_JOB_ID"}},
		{"field", "", "CKPT=0 INTERVAL=x", "", nil, []string{"CKPT=0", "INTERVAL", ".scrconf:1", "whole number"}},
		{"id", "", "CKPT=x", "", nil, []string{"CKPT", `"x"`, ".scrconf:1", "whole number"}},
		{"id that expands to nothing", "", "", "STORE=$NOWHERE", nil, []string{"STORE", "$NOWHERE", "names no item"}},
		{"syntax", "", "SCR_FLUSH=1\nSCR_JOB_NAME=a b", "", nil, []string{".scrconf:2:", `"b" is not NAME=VALUE`}},
		{"no value", "", "STORE= COUNT=1", "", nil, []string{".scrconf:1:", "STORE has no value before"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			useSystemFile(t, test.system)
			writeFile(t, prefix+"/.scrconf", test.user)
			program := &Settings{}
			if test.program != "" {
				program = settings(t, test.program)
			}
			_, _, err := Load(nil, program, env(append(test.vars, "SCR_PREFIX="+prefix)...))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

// A mistake below what was decided harms nobody.
func TestOverriddenValueIsNotChecked(t *testing.T) {
	useSystemFile(t, "SCR_FLUSH=often")
	cfg, _ := load(t, nil, "SCR_FLUSH=4", "SCR_PREFIX="+t.TempDir())
	if got := cfg.Flush; got != 4 {
		t.Errorf("SCR_FLUSH = %d", got)
	}
}

func TestUnreadableFileIsAnError(t *testing.T) {
	useSystemFile(t, "")
	prefix := t.TempDir()
	if err := os.Mkdir(prefix+"/.scrconf", 0o700); err != nil {
		t.Fatal(err)
	}
	_, _, err := Load(nil, nil, env("SCR_PREFIX="+prefix))
	if err == nil || !strings.Contains(err.Error(), prefix+"/.scrconf") {
		t.Errorf("error %v", err)
	}
}

func TestItems(t *testing.T) {
	useSystemFile(t, strings.Join([]string{
		"GROUPS=host1 POWER=psu1 SWITCH=0",
		"GROUPS=host2 POWER=psu1 SWITCH=1",
		"STORE=/dev/shm GROUP=NODE COUNT=1",
		"STORE=$SSD/// GROUP=NODE COUNT=3 ENABLED=yes VIEW=private",
		"CKPT=0 INTERVAL=1 GROUP=NODE STORE=/dev/shm TYPE=XOR SET_SIZE=16",
		"CKPT=1 INTERVAL=4 # the rest comes from parameters",
	}, "\n"))
	prefix := t.TempDir()
	cfg, warnings := load(t, nil, "SCR_PREFIX="+prefix, "SSD=/l/ssd")
	if len(warnings) > 0 {
		t.Errorf("warnings: %q", warnings)
	}
	var text strings.Builder
	for _, kind := range ItemKinds {
		text.WriteString(kind.Name + "\n")
		if err := cfg.items.Get(kind.Name).PrintKV(&text, 2); err != nil {
			t.Fatal(err)
		}
	}
	want := `GROUPS
  host1
    POWER = psu1
    SWITCH = 0
  host2
    POWER = psu1
    SWITCH = 1
CNTLDIR
CACHEDIR
STORE
  /dev/shm
    COUNT = 1
    GROUP = NODE
  /l/ssd
    COUNT = 3
    ENABLED = 1
    GROUP = NODE
    VIEW = PRIVATE
CKPT
  0
    GROUP = NODE
    INTERVAL = 1
    SET_SIZE = 16
    STORE = /dev/shm
    TYPE = XOR
  1
    INTERVAL = 4
`
	if text.String() != want {
		t.Errorf("items:\n%s\nwant:\n%s", text.String(), want)
	}
	if got := cfg.CkptsFrom; got != System {
		t.Errorf("CKPT is from %v", got)
	}

	// The items of a kind do not mix with those of a lower level; the other
	// kinds stay.
	writeFile(t, prefix+"/.scrconf", "CKPT=7 TYPE=single\nCKPT=7 INTERVAL=2\n")
	cfg, _ = load(t, settings(t, "CKPT=0 TYPE=RS"), "SCR_PREFIX="+prefix, "SSD=/l/ssd")
	if got := cfg.items.Get("CKPT").Keys(); !slices.Equal(got, []string{"7"}) {
		t.Errorf("CKPT: %q", got)
	}
	if h := cfg.items.Get("CKPT").Get("7"); h.Text("TYPE") != "SINGLE" || h.Text("INTERVAL") != "2" {
		t.Error("lines about one item were not merged")
	}
	if got := cfg.items.Get("STORE").Size(); got != 2 {
		t.Errorf("%d stores", got)
	}
	if got := cfg.CkptsFrom; got != User {
		t.Errorf("CKPT is from %v", got)
	}
}

// Ids that are one after expansion are one item.
func TestItems_TwoIdsAreOne(t *testing.T) {
	useSystemFile(t, "STORE=/l/ssd COUNT=1 GROUP=NODE\nSTORE=/l/ssd/ COUNT=2\n")
	cfg, _ := load(t, nil, "SCR_PREFIX="+t.TempDir())
	if s := cfg.Store("/l/ssd"); len(cfg.Stores) != 1 || s.Count.Or(0) != 2 || s.Group.Value != "NODE" {
		t.Errorf("%+v", cfg.Stores)
	}
}

// The directory of a store is that of each rank's environment; all know it by the
// name that rank 0 has for it.
func TestStorePath_OfEachRank(t *testing.T) {
	useSystemFile(t, "STORE=$SSD/x COUNT=3\nSTORE=/l COUNT=1\nCKPT=0 STORE=$SSD/x\n")
	var mu sync.Mutex
	seen := map[string]string{}
	_, err := local.Run(3, local.Options{}, func(c mpi.Comm) error {
		cfg, _, err := Load(c, nil, env(fmt.Sprint("SSD=/ssd", c.Rank())))
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, s := range cfg.Stores {
			seen[fmt.Sprint(c.Rank(), " ", s.ID)] = s.Path
		}
		if name := cfg.items.Get("CKPT").Get("0").Text("STORE"); name != "/ssd0/x" {
			return fmt.Errorf("CKPT names %s", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for rank := range 3 {
		want[fmt.Sprint(rank, " /ssd0/x")] = fmt.Sprintf("/ssd%d/x", rank)
		want[fmt.Sprint(rank, " /l")] = "/l"
	}
	if !maps.Equal(seen, want) {
		t.Errorf("%v, want %v", seen, want)
	}
	// A rank for which it is nothing is an error on all.
	useSystemFile(t, "STORE=$SSD\n")
	failed := make([]error, 3)
	_, err = local.Run(3, local.Options{}, func(c mpi.Comm) error {
		var vars []string
		if c.Rank() == 0 {
			vars = []string{"SSD=/ssd"}
		}
		_, _, failed[c.Rank()] = Load(c, nil, env(vars...))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for rank, err := range failed {
		if err == nil || !strings.Contains(err.Error(), "empty on this rank") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func TestModes_DefaultsAndValues(t *testing.T) {
	useSystemFile(t, "")
	cfg, _ := load(t, nil)
	if cfg.CacheBypass || cfg.CachePurge || cfg.FetchBypass || cfg.FlushOnRestart || cfg.GlobalRestart || cfg.DropAfterCurrent || cfg.PrefixPurge {
		t.Error("a mode is on by default")
	}
	if !cfg.CopyMetadata || !cfg.Distribute || cfg.PrefixSize != 0 || cfg.Current != "" {
		t.Error("SCR_COPY_METADATA, SCR_DISTRIBUTE, SCR_PREFIX_SIZE or SCR_CURRENT")
	}
	cfg, _ = load(t, nil, "SCR_COPY_TYPE=file", "SCR_CACHE_SIZE=0")
	if cfg.CopyType != "FILE" || cfg.CacheSize != 0 {
		t.Error("SCR_COPY_TYPE=FILE or SCR_CACHE_SIZE=0")
	}
	if _, _, err := Load(nil, nil, env("SCR_CACHE_SIZE=-1")); err == nil {
		t.Error("SCR_CACHE_SIZE=-1 is accepted")
	}
}

// A negative number turns off what 0 turns off.
func TestOff(t *testing.T) {
	cfg, _ := load(t, nil, "SCR_PREFIX_SIZE=-1", "SCR_FLUSH=-2", "SCR_HALT_SECONDS=-1.5", "SCR_FLUSH_ASYNC_BW=-1m", "SCR_END_TIME=-1")
	if cfg.PrefixSize != 0 || cfg.Flush != 0 || cfg.HaltTime != 0 || cfg.FlushAsyncBW != 0 || cfg.EndTime != 0 {
		t.Errorf("%+v", cfg.Values)
	}
	for _, set := range []string{"SCR_FLUSH=--1", "SCR_FLUSH_ASYNC_BW=-", "SCR_FLUSH_ASYNC_BW=--1", "SCR_FLUSH_WIDTH=-1", "SCR_FLUSH_ASYNC_USLEEP=-1"} {
		if _, _, err := Load(nil, nil, env(set)); err == nil {
			t.Errorf("%s is accepted", set)
		}
	}
}

// A line that takes the place of an earlier one says so; one that adds to it does
// not, and neither does a program that sets something again.
func TestWarnings_ItemTwice(t *testing.T) {
	useSystemFile(t, "")
	prefix := t.TempDir()
	conf := prefix + "/.scrconf"
	writeFile(t, conf, "CKPT=0 TYPE=XOR\nCKPT=1 INTERVAL=4 TYPE=XOR\nCKPT=1 TYPE=XOR SET_SIZE=3\nCKPT=1 INTERVAL=8\n")
	cfg, warnings := load(t, settings(t, "STORE=/a COUNT=1", "STORE=/a COUNT=2"), "SCR_PREFIX="+prefix)
	want := fmt.Sprintf("%s:4: CKPT=1 is here a second time, and its INTERVAL=8 takes the place of INTERVAL=4 (%s:2)", conf, conf)
	if len(warnings) != 1 || warnings[0] != want {
		t.Errorf("%q, want %q", warnings, want)
	}
	if len(cfg.Ckpts) != 2 || cfg.Ckpts[1].Interval.Value != 8 || cfg.Stores[0].Count.Value != 2 {
		t.Errorf("%+v %+v", cfg.Ckpts, cfg.Stores)
	}
	lines := []string{"STORE=/a COUNT=2", "CKPT=0 TYPE=XOR", "CKPT=1 INTERVAL=8 SET_SIZE=3 TYPE=XOR"}
	if got := cfg.ItemLines(); !slices.Equal(got, lines) {
		t.Errorf("%q, want %q", got, lines)
	}
}

// Of settings on a line, only the first can be a parameter.
func TestWarnings_ChildrenOfParameters(t *testing.T) {
	useSystemFile(t, "")
	conf := t.TempDir() + "/conf"
	writeFile(t, conf, "SCR_FLUSH=3 SCR_FETCH=0\nMINE=1 A=b CKPT=0\n")
	cfg, warnings := load(t, nil, "SCR_CONF_FILE="+conf)
	text := strings.Join(warnings, "\n")
	if cfg.Flush != 3 || !cfg.Fetch || len(cfg.Ckpts) != 0 || len(warnings) != 3 ||
		!strings.Contains(text, conf+":1: SCR_FETCH=0 follows SCR_FLUSH=3 on its line") || !strings.Contains(text, conf+":2: CKPT=0 follows MINE=1") {
		t.Errorf("%q %+v", warnings, cfg.Lines)
	}
}

func TestWarnings(t *testing.T) {
	useSystemFile(t, "SCR_COPYTYPE=XOR\nSCR_COPYTYPE=RS\nSCR_LOCAL_SITE=here")
	prefix := t.TempDir()
	conf := prefix + "/.scrconf"
	writeFile(t, conf, "FLUSH=3\nSCR_PREFIX=/elsewhere\nCKPT=0 SETSIZE=3\nCKPT=1 SETSIZE=3\n")
	cfg, warnings := load(t, settings(t, "SCR_COPYTYPE=SINGLE", "SCR_CAHCE_SIZE=1"), "SCR_PREFIX="+prefix)
	want := []string{
		conf + ":2: SCR_PREFIX has no effect",
		conf + ":1: unknown parameter FLUSH; did you mean SCR_FLUSH?",
		"unknown parameter SCR_COPYTYPE; did you mean SCR_COPY_TYPE?",
		"unknown parameter SCR_CAHCE_SIZE; did you mean SCR_CACHE_SIZE?",
		systemFile() + ":3: unknown parameter SCR_LOCAL_SITE",
		conf + ":3: unknown field SETSIZE of CKPT; did you mean SET_SIZE?",
	}
	if len(warnings) != len(want) {
		t.Errorf("%d warnings, want %d", len(warnings), len(want))
	}
	for i := range min(len(warnings), len(want)) {
		if !strings.HasPrefix(warnings[i], want[i]) {
			t.Errorf("warning %q, want %q", warnings[i], want[i])
		}
	}
	if strings.Contains(warnings[4], "mean") {
		t.Errorf("far-fetched: %q", warnings[4])
	}
	// What has no effect is in no list of what has, ...
	for _, set := range cfg.Changed() {
		if set.Name != "SCR_PREFIX" {
			t.Errorf("%+v", set)
		}
	}
	if got := cfg.ItemLines(); !slices.Equal(got, []string{"CKPT=0", "CKPT=1"}) {
		t.Errorf("%q", got)
	}
	// ... but, unknown or not, what was set can be queried.
	if got, ok, err := cfg.Query("SCR_LOCAL_SITE"); got != "here" || !ok || err != nil {
		t.Errorf("query: %q %v %v", got, ok, err)
	}
	if got, _, _ := cfg.Query("SCR_COPYTYPE"); got != "SINGLE" {
		t.Errorf("query: %q", got)
	}

	// Of the environment only what is meant for us.
	program := &Settings{Names: func() []string { return []string{"SCR_X", "PATH", "SCR_FLUSH", "SCR_CHECKPOINT_INTERVALL", "SCRATCH"} }}
	_, warnings = load(t, program, "SCR_PREFIX="+t.TempDir(), "SCR_CONF_FILE=")
	if list := warnings[max(len(warnings)-2, 0):]; !slices.Equal(list, []string{
		"environment: unknown parameter SCR_CHECKPOINT_INTERVALL; did you mean SCR_CHECKPOINT_INTERVAL?",
		"environment: unknown parameter SCR_X",
	}) || strings.Contains(strings.Join(warnings, " "), "SCR_FLUSH") {
		t.Errorf("%q", warnings)
	}

	_, warnings = load(t, nil, "SCR_PREFIX="+prefix, "SCR_CONF_FILE="+prefix+"/none")
	if len(warnings) == 0 || !strings.Contains(warnings[0], "does not exist") {
		t.Errorf("warnings about a user file that is missing: %q", warnings)
	}
}

// Every parameter has a field, of a type for its values.
func TestValues_HaveAFieldForEachParameter(t *testing.T) {
	useSystemFile(t, "")
	cfg, _ := load(t, settings(t, "SCR_CHECKPOINT_SECONDS=1.5", "SCR_MPI_BUF_SIZE=2k", "SCR_CHECKPOINT_OVERHEAD=2.5"), "SCR_COPY_TYPE=rs", "SCR_FLUSH=3",
		"SCR_FETCH=no", "SCR_PREFIX=/a/../b")
	if cfg.CheckpointTime != 1500*time.Millisecond || cfg.MPIBufSize != 2048 || cfg.CheckpointOverhead != 2.5 || cfg.CopyType != "RS" ||
		cfg.Flush != 3 || cfg.Fetch || cfg.Prefix != "/b" {
		t.Errorf("%+v", cfg.Values)
	}
	fields := maps.Collect(fields(&cfg.Values))
	if len(fields) != len(Parameters) {
		t.Errorf("%d fields for %d parameters", len(fields), len(Parameters))
	}
	for _, p := range Parameters {
		if fields[p.Name] == nil {
			t.Errorf("%s has no field", p.Name)
		}
	}
	if got := cfg.Source(&cfg.FileBufSize).Level; got != Default {
		t.Errorf("SCR_FILE_BUF_SIZE is from %v", got)
	}
	if got := cfg.Source(&cfg.MPIBufSize).Level; got != Program {
		t.Errorf("SCR_MPI_BUF_SIZE is from %v", got)
	}
}

// Lines about items are structs too, in which what a line leaves open is not set.
func TestLines(t *testing.T) {
	useSystemFile(t, "GROUPS=n1 POWER=p1 SWITCH=0\nSTORE=$SSD// COUNT=3 ENABLED=no VIEW=private\nSTORE=/a\n"+
		"CKPT=10 INTERVAL=4 BYPASS=yes\nCKPT=2 TYPE=rs STORE=/a\nCACHEDIR=/a BYTES=2k\nCACHEDIR=/b")
	cfg, _ := load(t, nil, "SCR_PREFIX="+t.TempDir(), "SSD=/l/ssd")
	stores := []Store{
		{ID: "/a", Path: "/a"},
		{ID: "/l/ssd", Path: "/l/ssd", Count: Optional[int]{3, true}, Enabled: Optional[bool]{false, true}, View: Optional[string]{"PRIVATE", true}},
	}
	if !slices.Equal(cfg.Stores, stores) {
		t.Errorf("%+v, want %+v", cfg.Stores, stores)
	}
	if s := cfg.Store("/l/ssd"); s != stores[1] || s.Enabled.Or(true) || s.Count.Or(1) != 3 || !s.Mkdir.Or(true) {
		t.Errorf("%+v", s)
	}
	if s := cfg.Store("/c"); s != (Store{ID: "/c", Path: "/c"}) {
		t.Errorf("%+v", s)
	}
	ckpts := []Ckpt{
		{ID: 2, Type: Optional[string]{"RS", true}, Store: Optional[string]{"/a", true}},
		{ID: 10, Interval: Optional[int]{4, true}, Bypass: Optional[bool]{true, true}},
	}
	if !slices.Equal(cfg.Ckpts, ckpts) {
		t.Errorf("%+v, want %+v", cfg.Ckpts, ckpts)
	}
	if !maps.Equal(cfg.Groups["n1"], map[string]string{"POWER": "p1", "SWITCH": "0"}) || len(cfg.Groups) != 1 {
		t.Errorf("%v", cfg.Groups)
	}
	if !maps.Equal(cfg.CacheDirs, map[string]int64{"/a": 2048}) || len(cfg.CntlDirs) != 0 {
		t.Errorf("%v, %v", cfg.CacheDirs, cfg.CntlDirs)
	}
}

func TestRead(t *testing.T) {
	useSystemFile(t, "")
	prefix := t.TempDir()
	program := settings(t, "SCR_FLUSH=3", "SCR_PREFIX=/of/the/job", "SCR_JOB_NAME=a\tb", "CKPT=0 TYPE=XOR")
	writeFile(t, prefix+"/.scr/app.conf", program.Text())
	writeFile(t, prefix+"/.scrconf", "SCR_FETCH=0")
	t.Setenv("SCR_PREFIX", "/not/there")
	cfg, warnings, err := Read(prefix)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if cfg.Prefix != prefix || cfg.Flush != 3 || cfg.Fetch {
		t.Errorf("prefix %s, flush %d, fetch %v", cfg.Prefix, cfg.Flush, cfg.Fetch)
	}
	if cfg.JobName != "a\tb" || cfg.items.Get("CKPT").Get("0").Text("TYPE") != "XOR" {
		t.Error("settings of the program")
	}
	t.Setenv("SCR_PREFIX", prefix)
	if cfg, _, err := Read(""); err != nil || cfg.Flush != 3 {
		t.Errorf("with the prefix from the environment: %v", err)
	}
	writeFile(t, prefix+"/.scr/app.conf", "x")
	if _, _, err := Read(prefix); err == nil || !strings.Contains(err.Error(), "app.conf:1") {
		t.Errorf("error %v", err)
	}
}

// run loads on n ranks, each with its own environment, and returns the values.
func run(t *testing.T, n int, program func(rank int) *Settings, vars func(rank int) []string) ([]*Config, []error) {
	t.Helper()
	configs, errs := make([]*Config, n), make([]error, n)
	_, err := local.Run(n, local.Options{}, func(c mpi.Comm) error {
		r := c.Rank()
		configs[r], _, errs[r] = Load(c, program(r), env(vars(r)...))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return configs, errs
}

func noProgram(int) *Settings { return nil }

func TestLoad_RanksAgree(t *testing.T) {
	useSystemFile(t, "SCR_CNTL_BASE=/cntl/$NODE\nSCR_JOB_NAME=$NODE\nSTORE=/s/$NODE\nSCR_XTRA=$NODE")
	prefix := t.TempDir()
	for n := 1; n <= 17; n++ {
		configs, errs := run(t, n, noProgram, func(r int) []string {
			vars := []string{
				fmt.Sprintf("NODE=n%d", r),
				fmt.Sprintf("SCR_FLUSH=%d", r+1),
				fmt.Sprintf("SCR_JOB_ID=job%d", r),
				fmt.Sprintf("SCR_NODE_NAME=node%d", r/2),
				fmt.Sprintf("SCR_PREFIX=%s", prefix),
			}
			if r%2 == 1 {
				vars = append(vars, fmt.Sprintf("SCR_CACHE_BASE=/cache/%d", r))
			}
			if r > 0 {
				vars[4] = "SCR_PREFIX=/only/on/this/rank"
			}
			return vars
		})
		for r, cfg := range configs {
			if errs[r] != nil {
				t.Fatal(errs[r])
			}
			if cfg.Flush != 1 || cfg.JobID != "job0" || cfg.Prefix != prefix ||
				cfg.JobName != "n0" || !cfg.items.Get("STORE").Has("/s/n0") {
				t.Errorf("%d ranks: rank %d does not have what rank 0 decided", n, r)
			}
			if got, _, _ := cfg.Query("SCR_XTRA"); got != "n0" {
				t.Errorf("%d ranks: rank %d: SCR_XTRA=%q", n, r, got)
			}
			base := "/dev/shm"
			if r%2 == 1 {
				base = fmt.Sprintf("/cache/%d", r)
			}
			for name, want := range map[string]string{
				"SCR_NODE_NAME":  fmt.Sprintf("node%d", r/2),
				"SCR_CNTL_BASE":  fmt.Sprintf("/cntl/n%d", r),
				"SCR_CACHE_BASE": base,
			} {
				if got := cfg.values[name].text; got != want {
					t.Errorf("%d ranks: rank %d: %s = %s, want %s", n, r, name, got, want)
				}
			}
			if got, want := cfg.Source(&cfg.CntlBase), (Source{System, systemFile() + ":1"}); got != want {
				t.Errorf("source %v, want %v", got, want)
			}
		}
	}
}

// Whatever is wrong, on whichever rank, is the same error on all.
func TestLoad_ErrorsAreAgreed(t *testing.T) {
	prefix := t.TempDir()
	bad := t.TempDir()
	writeFile(t, bad+"/.scrconf", "SCR_FLUSH=1\nnonsense\n")
	useSystemFile(t, "")
	const n = 5
	var one, other [n]*Settings // each rank, which is a process in a job, has its own
	for r := range n {
		one[r], other[r] = settings(t, "SCR_FLUSH=1", "SCR_FETCH=1"), settings(t, "SCR_FLUSH=1", "SCR_FETCH=0")
	}
	for _, test := range []struct {
		name    string
		program func(int) *Settings
		vars    func(int) []string
		want    string
	}{
		{"syntax", noProgram, func(int) []string { return []string{"SCR_PREFIX=" + bad} }, bad + "/.scrconf:2: "},
		{"value on rank 0", noProgram, func(r int) []string {
			return []string{"SCR_PREFIX=" + prefix, fmt.Sprintf("SCR_CACHE_SIZE=%d", r-1)}
		}, "rank 0: SCR_CACHE_SIZE"},
		{"program differs on rank 2", func(r int) *Settings {
			if r == 2 {
				return other[r]
			}
			return one[r]
		}, func(int) []string { return []string{"SCR_PREFIX=" + prefix} },
			`rank 2: the program's settings differ between ranks: "SCR_FETCH=0" here, "SCR_FETCH=1" on rank 0`},
		{"only rank 4 sets", func(r int) *Settings {
			if r == 4 {
				return one[r]
			}
			return nil
		}, func(int) []string { return []string{"SCR_PREFIX=" + prefix} }, `rank 4: the program's settings differ`},
	} {
		t.Run(test.name, func(t *testing.T) {
			configs, errs := run(t, n, test.program, test.vars)
			for r := range n {
				switch {
				case errs[r] == nil || !strings.Contains(errs[r].Error(), test.want):
					t.Errorf("rank %d: error %v, want %q", r, errs[r], test.want)
				case configs[r] != nil:
					t.Errorf("rank %d: values and an error", r)
				}
			}
		})
	}
}

// An error that only one rank other than 0 can see, in a parameter of scope
// Rank, is an error on all.
func TestLoad_ErrorOfOneRank(t *testing.T) {
	useSystemFile(t, "")
	old := Parameters
	defer func() { Parameters = old }()
	Parameters = append(slices.Clone(old), Parameter{Name: "SCR_TEST", Type: Int, Default: "1", Scope: Rank})
	_, errs := run(t, 6, noProgram, func(r int) []string {
		if r == 4 {
			return []string{"SCR_TEST=x"}
		}
		return nil
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), `rank 4: SCR_TEST="x" (environment)`) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
