package probe

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestProbe(t *testing.T) {
	patience = 0
	dir := t.TempDir()
	run, other := NewRun(), NewRun()
	for _, rank := range []int{12, 3} {
		if err := run.Put(dir, rank); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Put(dir, 5); err != nil {
		t.Fatal(err)
	}
	if err := run.Put(dir, 3); !os.IsExist(err) {
		t.Errorf("%v", err)
	}
	if ranks, err := run.Seen(dir); err != nil || !slices.Equal(ranks, []int{3, 12}) {
		t.Errorf("%v, %v", ranks, err)
	}
	if err := run.Sees(dir, 12); err != nil {
		t.Error(err)
	}
	if err := run.Sees(dir, 5); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	run.Remove(dir, 12)
	run.Remove(dir, 12)
	if err := run.Sees(dir, 12); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}

// What a killed run has left goes after an hour; links and the probes of other jobs stay.
func TestPut_Removes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "scr.17[3]") // of an array job: no pattern
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	long, short := NewRun(), NewRun()
	for _, run := range []Run{long, short} {
		if err := run.Put(dir, 0); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * old)
	if err := os.Chtimes(long.path(dir, 0), past, past); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "probe.link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	if err := NewRun().Put(dir, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(long.path(dir, 0)); !os.IsNotExist(err) {
		t.Errorf("the old one is there: %v", err)
	}
	for _, path := range []string{short.path(dir, 0), link} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}
