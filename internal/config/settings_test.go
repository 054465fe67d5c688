package config

import (
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	useSystemFile(t, "")
	s := &Settings{Environ: env("SCR_FLUSH=7", "DIR=/d")}
	for _, step := range []struct {
		text, want string
		ok         bool
	}{
		{"SCR_FETCH", "1", true}, // the default
		{"SCR_FETCH=0", "", false},
		{"SCR_FETCH", "0", true},
		{"SCR_FETCH=", "", false},
		{"SCR_FETCH", "1", true},
		{"SCR_FLUSH=3", "", false},
		{"SCR_FLUSH", "7", true}, // the environment wins
		{"SCR_CURRENT", "", false},
		{"SCR_CURRENT=a=b=c", "", false},
		{"SCR_CURRENT", "a=b=c", true},
		{`  SCR_CURRENT="say \"a b\""  `, "", false},
		{"SCR_CURRENT", `say "a b"`, true},
		{"SCR_CACHE_BASE=$DIR/x/", "", false},
		{"SCR_CACHE_BASE", "/d/x", true},
		{"SCR_DEBUG=1 SCR_SET_SIZE=4", "", false},
		{"SCR_DEBUG", "1", true},
		{"SCR_SET_SIZE", "4", true},
		{"SCR_ANYTHING", "", false},
		{"SCR_ANYTHING=1", "", false},
		{"SCR_ANYTHING", "1", true},
		{"CKPT", "", false},
		{"CKPT=0 TYPE", "", false},
		{"CKPT=0 TYPE=XOR SET_SIZE=4", "", false},
		{"CKPT=0 TYPE", "XOR", true},
		{"CKPT=0 SET_SIZE=8 TYPE=", "", false},
		{"CKPT=0 SET_SIZE", "8", true},
		{"CKPT=0 TYPE", "", false},
		{"CKPT=2", "", false},
		{"CKPT", "0 2", true},
		{"STORE=$DIR/x COUNT=2", "", false},
		{"STORE=$DIR/x COUNT", "2", true},
		{"CKPT=", "", false},
		{"CKPT", "", false},
		{"STORE", "$DIR/x", true},
	} {
		got, ok, err := s.Config(step.text)
		if got != step.want || ok != step.ok || err != nil {
			t.Errorf("%s: %q %v %v, want %q %v", step.text, got, ok, err, step.want, step.ok)
		}
	}
	// What commands read is what the program set.
	again, err := ParseSettings("app.conf", s.Text())
	if err != nil {
		t.Fatal(err)
	}
	if again.Text() != s.Text() || !strings.Contains(s.Text(), "STORE=$DIR/x COUNT=2\n") {
		t.Errorf("%q parses to %q", s.Text(), again.Text())
	}
}

func TestSettings_Errors(t *testing.T) {
	var s Settings
	for _, text := range []string{
		"", "  ", "# nothing", "=", "=x", "A B", "A=1 B", "B A=1", "SCR_PREFIX=/a b", `A="x`, `A="x"y`, `A=x"y"`,
		"A=1\nB=2", "A=1\x00", "ä=1", "SCR_FLUSH=1 CKPT=0", "CKPT= TYPE=XOR", "CKPT=0 TYPE SET_SIZE", "CKPT=0 TYPE=XOR SET_SIZE",
	} {
		if _, _, err := s.Config(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	if got := s.Text(); got != "" {
		t.Errorf("a string that was refused set %q", got)
	}
}

func TestQuery(t *testing.T) {
	useSystemFile(t, "STORE=/a COUNT=1\nSTORE=/b/ COUNT=2")
	cfg, _ := load(t, settings(t, "CKPT=0 TYPE=xor", "SCR_MPI_BUF_SIZE=64K"), "SCR_PREFIX="+t.TempDir())
	for _, test := range []struct {
		text, want string
		ok         bool
	}{
		{"SCR_FLUSH", "10", true},
		{"SCR_MPI_BUF_SIZE", "64K", true},
		{"SCR_CURRENT", "", false},
		{"SCR_NONE", "", false},
		{"STORE", "/a /b", true},
		{"STORE=/b COUNT", "2", true},
		{"STORE=/b/ COUNT", "2", true},
		{"STORE=/c COUNT", "", false},
		{"CKPT=0 TYPE", "XOR", true},
		{"CKPT=x TYPE", "", false},
		{"GROUPS", "", false},
	} {
		got, ok, err := cfg.Query(test.text)
		if got != test.want || ok != test.ok || err != nil {
			t.Errorf("%s: %q %v %v, want %q %v", test.text, got, ok, err, test.want, test.ok)
		}
	}
	for _, text := range []string{"SCR_FLUSH=1", "SCR_FLUSH=", "CKPT=0 TYPE=XOR", "", `A="`} {
		if _, _, err := cfg.Query(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
