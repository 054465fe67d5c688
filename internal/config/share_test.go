package config

import (
	"testing"

	"github.com/goscr/goscr/hash"
)

// decided is what rank 0 sends with these variables.
func decided(t *testing.T, vars ...string) decisions {
	t.Helper()
	d, err := decide(&Settings{}, env(vars...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return hash.As[decisions](hash.Marshal(d))
}

func TestDecide_SendsNoDefaults(t *testing.T) {
	useSystemFile(t, "SCR_FLUSH=7\nSCR_COPY_TYPE=XOR\n")
	vars := []string{"SCR_PREFIX=" + t.TempDir(), "SCR_JOB_ID=j", "SCR_USER_NAME=u", "SCR_FETCH_WIDTH=3"}
	sent := decided(t, vars...).Job
	for _, name := range []string{"SCR_PREFIX", "SCR_JOB_ID", "SCR_FETCH_WIDTH", "SCR_FLUSH", "SCR_COPY_TYPE"} {
		if _, ok := sent[name]; !ok {
			t.Errorf("%s is set and not sent", name)
		}
	}
	for name, s := range sent {
		v, known := find(Parameters, name).everywhere()
		if known && v.text == s.Text && s.Source == (Source{}) {
			t.Errorf("%s has its default and is sent", name)
		}
	}
}

// What a rank makes of the message is what rank 0 has found: text, number and source.
func TestComplete_FindsDefaultsThatAreNotSent(t *testing.T) {
	useSystemFile(t, "SCR_FLUSH=7\nSCR_DEBUG=0\n")
	vars := []string{"SCR_PREFIX=" + t.TempDir(), "SCR_CACHE_SIZE=2"}
	cfg, _, err := complete(decided(t, vars...), &Settings{}, env(vars...))
	if err != nil {
		t.Fatal(err)
	}
	r, prefix, file, err := readAll(&Settings{}, env(vars...))
	if err != nil {
		t.Fatal(err)
	}
	for i := range Parameters {
		p := &Parameters[i]
		want := map[string]value{"SCR_PREFIX": prefix, "SCR_CONF_FILE": file}[p.Name]
		if want == (value{}) {
			if want, err = r.resolve(p); err != nil {
				t.Fatal(err)
			}
		}
		if got := cfg.values[p.Name]; got != want {
			t.Errorf("%s is %+v, want %+v", p.Name, got, want)
		}
	}
	if got := cfg.Source(&cfg.Debug); got.Level != System {
		t.Errorf("SCR_DEBUG, set to its default in the system's file, comes from %v", got)
	}
}

// A message without a value that ranks cannot know is no message of decide.
func TestComplete_RefusesAMessageWithoutTheJobsValues(t *testing.T) {
	useSystemFile(t, "")
	d := decided(t, "SCR_PREFIX="+t.TempDir())
	delete(d.Job, "SCR_PREFIX")
	if _, _, err := complete(d, &Settings{}, env()); err == nil {
		t.Error("a message without SCR_PREFIX is accepted")
	}
}
