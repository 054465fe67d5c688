package session

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix"
)

// later moves all times that goscr has recorded in the prefix directory and in the
// caches, and those of its files, into the future: that is how they look once the
// clock has been set back.
func (c *cluster) later(years int) {
	c.t.Helper()
	var move func(h *hash.Hash)
	move = func(h *hash.Hash) {
		for key, under := range h.All() {
			value, ok := h.Value(key)
			n, err := strconv.ParseInt(value, 10, 64)
			switch {
			case !ok:
			case key == "CREATED" && err == nil:
				h.SetInt(key, time.UnixMicro(n).AddDate(years, 0, 0).UnixMicro())
				continue
			case key == "STARTED" || key == "SEEN":
				h.SetInt(key, time.Unix(n, 0).AddDate(years, 0, 0).Unix())
				continue
			case key == "FLUSHED" || key == "FAILED":
				t, err := time.ParseInLocation("2006-01-02T15:04:05", value, time.Local)
				if err != nil {
					c.t.Fatal(err)
				}
				h.SetValue(key, t.AddDate(years, 0, 0).Format("2006-01-02T15:04:05"))
				continue
			}
			move(under)
		}
	}
	for _, dir := range []string{c.prefix(".scr"), c.node("")} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			then := time.Now().AddDate(years, 0, 0)
			if h, err := hash.ReadFile(path); err == nil {
				move(h)
				if err := hash.WriteFile(path, h); err != nil {
					return err
				}
				return os.Chtimes(path, then, then)
			}
			return nil
		})
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// The clock has gone back by ten years. What was written before counts as older all
// the same, and everything continues.
func TestClock_GoesBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_PREFIX_SIZE=2")
	c.job(four, steps(1, 2))
	c.later(10)
	before, err := prefix.ReadProgress(c.prefix(""))
	if err != nil || before.Latest.Before(time.Now().AddDate(9, 0, 0)) {
		t.Fatalf("%v, %v", before.Latest, err)
	}
	c.job(four, func(s *Session, rank int) error {
		if err := restartAt(s, rank, 2); err != nil {
			return err
		}
		if rank == 0 {
			for i := range 3 { // as a watchdog sees it
				s.numbers.latest = before.Latest.Add(time.Duration(i) * time.Hour)
				if next := s.numbers.timestamp(); !next.After(before.Latest) {
					return fmt.Errorf("dataset begun at %v, after one of %v", next, before.Latest)
				}
			}
			s.numbers.latest = before.Latest
		}
		for _, call := range []func() (bool, error){s.NeedCheckpoint, s.ShouldExit} {
			if yes, err := call(); yes || err != nil {
				return fmt.Errorf("%v, %v", yes, err)
			}
		}
		if err := checkpoint(s, rank, 3); err != nil {
			return err
		}
		return s.Finalize()
	})
	if after, err := prefix.ReadProgress(c.prefix("")); err != nil || !after.Latest.After(before.Latest) || after.Newest != 3 {
		t.Errorf("%+v, %v", after, err)
	}
	for name, want := range map[string]bool{"ckpt.1": false, "ckpt.2": true, "ckpt.3": true} {
		if e, ok := c.index()[name]; ok != want || ok && (!e.Complete || e.Current != (name == "ckpt.3")) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if regexp.MustCompile(` -[0-9]`).MatchString(c.said()) { // no time that has passed is negative
		t.Errorf("%s", c.said())
	}
	c.lose(four...)
	c.job(four, restarts(3))
	c.change(c.prefix("ckpt.3/rank_2"), flip)
	c.lose(four...)
	c.job(four, restarts(2))
	c.lose(four...)
	c.job(four, restarts(2))
}

// A time that no clock shows is not counted on from.
func TestClock_NoTime(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1))
	for _, created := range []int64{1<<63 - 1, -1 << 63, 253402300799 * 1e6} {
		for _, file := range []string{".scr/index.scr", ".scr/flush.scr"} {
			c.edit(c.prefix(file), func(h *hash.Hash) {
				for _, path := range [][]string{{"DSET", "1", "DSET"}, {"DATASET", "1", "DSETDESC"}} {
					if d := h.Get(path...); d != nil {
						d.SetInt("CREATED", created)
					}
				}
			})
		}
		c.job(four, steps(2))
		if e := c.index()["ckpt.2"]; !e.Complete || e.Created().Year() < 2000 {
			t.Errorf("after %d: %v", created, e.Created())
		}
	}
}
