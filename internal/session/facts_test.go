package session

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goscr/goscr/internal/prefix/snapshot"
)

// How the job was started is recorded with each checkpoint, in the cache or flushed, and
// stored once.
func TestFacts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=3")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(checkpoint(s, rank, 1), checkpoint(s, rank, 2), output(s, rank, 3, Output))
	})
	list, err := snapshot.List(c.prefix(""))
	if err != nil || len(list) != 2 || !list[0].InPrefix || list[1].InPrefix {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, s := range list {
		r, err := snapshot.Read(c.prefix(""), s)
		if err != nil {
			t.Fatal(err)
		}
		if r.Ranks != 4 || len(r.Nodes) != 4 || r.Job != "job" || r.Prefix != filepath.Clean(c.prefix("")) || len(r.Programs) != 1 ||
			!slices.Equal(r.Programs[0].Argv, os.Args) || !r.Ended.After(r.Begun) {
			t.Errorf("%+v", r)
		}
	}
	if files, _ := filepath.Glob(c.prefix(".scr/records/*.scr")); len(files) != 2 {
		t.Errorf("%q", files)
	}
	more := newCluster(t, "SCR_RECORD_ENV=HOM? NOTHING_*")
	more.job(four, steps(1))
	if list, err = snapshot.List(more.prefix("")); err != nil {
		t.Fatal(err)
	}
	r, err := snapshot.Read(more.prefix(""), list[0])
	if err != nil {
		t.Fatal(err)
	}
	if home, ok := os.LookupEnv("HOME"); ok != slices.Contains(r.Programs[0].Environ, "HOME="+home) {
		t.Errorf("%q", r.Programs[0].Environ)
	}
	off := newCluster(t, "SCR_RECORD=0")
	off.job(four, steps(1))
	if _, err := os.Stat(off.prefix(".scr/records.scr")); !os.IsNotExist(err) {
		t.Error("SCR_RECORD=0 records")
	}
}
