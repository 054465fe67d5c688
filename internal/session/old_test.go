package session

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/test/oldtest"
)

// restartsOld is a program that restarts from a checkpoint that SCR 1.1 wrote.
func restartsOld(dir string, id int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		got, err := offered(s)
		if err != nil || got != dir {
			return fmt.Errorf("offered %q, want %q (%v)", got, dir, err)
		}
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		path, err := s.Route(oldtest.Name(rank))
		if err == nil {
			var data []byte
			if data, err = os.ReadFile(path); err == nil && !bytes.Equal(data, oldtest.Data(id, rank)) {
				err = fmt.Errorf("%s: other bytes than were written", path)
			}
		}
		if err := s.Agree(err); err != nil {
			return err
		}
		return s.CompleteRestart(true)
	}
}

// A job continues from where one with SCR 1.1 ended, and then writes on its own.
func TestFetch_WhatSCR11Wrote(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	oldtest.Write(t, c.prefix(""))
	newest := oldtest.Dirs[18][0]
	c.job(four, func(s *Session, rank int) error {
		if err := restartsOld(newest, 18)(s, rank); err != nil {
			return err
		}
		return checkpoint(s, rank, 19)
	})
	x, err := prefix.ReadIndex(c.prefix(""))
	if err != nil || len(x.Entries()) != 4 || x.Entries()[0].ID != 19 || x.Current() != name(19) {
		t.Errorf("%v, %+v", err, x.Entries())
	}
	c.lose("a", "b", "c", "d")
	c.job(four, restarts(19))
}

// One that is not what was written is marked, and the one before is used.
func TestFetch_SCR11FallsBack(t *testing.T) {
	t.Parallel()
	for what, damage := range map[string]func(dir string) error{
		"a bit flipped": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, oldtest.Name(2)), bytes.Repeat([]byte{1}, 526), 0o600)
		},
		"a file is lost": func(dir string) error { return os.Remove(filepath.Join(dir, oldtest.Name(1))) },
		"no summary":     func(dir string) error { return os.Remove(filepath.Join(dir, "summary.scr")) },
	} {
		c := newCluster(t)
		oldtest.Write(t, c.prefix(""))
		if err := damage(c.prefix(oldtest.Dirs[18][0])); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			c.job(four, restartsOld(oldtest.Dirs[12][0], 12))
			c.lose("a", "b", "c", "d")
		}
		x, err := prefix.ReadIndex(c.prefix(""))
		if err != nil || !x.Entries()[0].Failed {
			t.Errorf("%s: %v, %+v", what, err, x.Entries())
		}
	}
}

// A run of another size leaves all as it is.
func TestFetch_SCR11OfAnotherSize(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	oldtest.Write(t, c.prefix(""))
	c.job(four[:3], restarts(0))
	c.says("start again with 4 ranks")
	c.lose("a", "b", "c")
	c.job(four, restartsOld(oldtest.Dirs[18][0], 18))
}

func TestDelete_WhatSCR11Wrote(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	oldtest.Write(t, c.prefix(""))
	dir := oldtest.Dirs[18][0]
	c.job(four, func(s *Session, rank int) error { return s.Delete(dir) })
	if _, err := os.Stat(c.prefix(dir)); !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", dir, err)
	}
	c.job(four, restartsOld(oldtest.Dirs[12][0], 12))
}
