package failures

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestMTBF(t *testing.T) {
	prefix := t.TempDir()
	if err := os.Mkdir(filepath.Join(prefix, ".scr"), 0o700); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_000_000, 0)
	estimate := func(want time.Duration) {
		t.Helper()
		if got, err := MTBF(prefix); got != want || err != nil {
			t.Errorf("%v %v, want %v", got, err, want)
		}
	}
	var r *Run
	run := func(id string, length time.Duration, ends bool) {
		t.Helper()
		var err error
		if r, err = Begin(prefix, id, now); err != nil {
			t.Fatal(err)
		}
		now = now.Add(length)
		if err := r.Alive(now); err != nil {
			t.Fatal(err)
		}
		if ends {
			if err := r.End(now); err != nil {
				t.Fatal(err)
			}
		}
	}
	estimate(0)
	run("a", 1000*time.Second, true)
	run("a", 500*time.Second, false)
	run("a", 600*time.Second, false)
	run("a", 900*time.Second, false)
	estimate(0) // two are known to have failed
	run("a", 100*time.Second, true)
	estimate((1000 + 500 + 600 + 900 + 100) * time.Second / 3)
	// Somebody asks two runs to end: they end by themselves, or not. Neither is a failure.
	run("a", 40*time.Second, false)
	if err := r.Asked(now); err != nil {
		t.Fatal(err)
	}
	run("a", 60*time.Second, false)
	if err := r.Asked(now); err != nil {
		t.Fatal(err)
	}
	if err := r.End(now); err != nil {
		t.Fatal(err)
	}
	if err := r.Asked(now); err != nil { // too late
		t.Fatal(err)
	}
	run("a", 0, true)
	estimate((1000 + 500 + 600 + 900 + 100 + 40 + 60) * time.Second / 3)
}

func TestMTBF_JobsSideBySide(t *testing.T) {
	prefix := t.TempDir()
	if err := os.Mkdir(filepath.Join(prefix, ".scr"), 0o700); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_000_000, 0)
	for _, id := range []string{"a", "b", "c", "d"} { // none of them is the end of another
		if _, err := Begin(prefix, id, now); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := MTBF(prefix); got != 0 || err != nil {
		t.Errorf("%v %v", got, err)
	}
	if _, err := Begin(prefix, "e", now.Add(gone+time.Second)); err != nil { // all of them have
		t.Fatal(err)
	}
	if got, err := MTBF(prefix); got != time.Second || err != nil {
		t.Errorf("%v %v", got, err)
	}
}
