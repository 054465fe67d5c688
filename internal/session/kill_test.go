package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// saved is what was below the root of a cluster at one time.
type saved struct {
	path string
	info fs.FileInfo
	data []byte
}

func (c *cluster) save() []saved {
	c.t.Helper()
	var list []saved
	err := filepath.WalkDir(c.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		s := saved{path: path}
		if s.info, err = d.Info(); err == nil && !d.IsDir() {
			s.data, err = os.ReadFile(path)
		}
		list = append(list, s)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return list
}

func (c *cluster) load(list []saved) {
	c.t.Helper()
	entries, err := os.ReadDir(c.root)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(c.root, e.Name())))
	}
	for _, s := range list {
		if s.info.IsDir() {
			err = errors.Join(err, os.MkdirAll(s.path, s.info.Mode().Perm()))
			continue
		}
		err = errors.Join(err, os.WriteFile(s.path, s.data, 0o600), os.Chtimes(s.path, s.info.ModTime(), s.info.ModTime()),
			os.Chmod(s.path, s.info.Mode()))
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// kills runs a job again and again from the same beginning, killed in place of
// one message each time, and calls check after it: at a sample of the messages, or at all.
func kills(t *testing.T, c *cluster, nodes []string, f func(s *Session, rank int) error, check func(at int64)) {
	most := int64(12) // at all messages it would take minutes
	if sample.Now() == sample.Campaign {
		most = 1 << 30
	}
	killsOf(t, c, most, nodes, f, check)
}

// fewer is how many of so many kills a run of the tests tries.
func fewer(most int64) int64 {
	switch sample.Now() {
	case sample.Quick:
		return max(most/6, 2)
	case sample.Drawn:
		return max(most/2, 2)
	}
	return most
}

// killsOf is kills at so many of the messages, or at a part of them.
func killsOf(t *testing.T, c *cluster, most int64, nodes []string, f func(s *Session, rank int) error, check func(at int64)) {
	killsAfter(t, c, 0, most, nodes, f, check)
}

// loseDataset removes a dataset from the caches of nodes.
func (c *cluster) loseDataset(id int, nodes ...string) {
	c.t.Helper()
	for _, node := range nodes {
		if err := os.RemoveAll(c.cached(node, id, "")); err != nil {
			c.t.Fatal(err)
		}
	}
}

// killsAfter is kills at so many of the messages that follow the first ones.
func killsAfter(t *testing.T, c *cluster, first, most int64, nodes []string, f func(s *Session, rank int) error, check func(at int64)) {
	most = fewer(most)
	random := sample.Rand(t)
	begin := c.save()
	run := func() (messages int64, err error) {
		stats, err := c.count(nodes, f)
		for _, s := range stats {
			messages += s.Messages
		}
		return messages, err
	}
	total, err := run()
	if err != nil {
		t.Fatalf("%v\n%s", err, c.said())
	}
	step, n := max((total-first)/most, 1), int64(0)
	for at := first + 1 + random.Int64N(step); at <= total; at += step {
		c.load(begin)
		c.opt.KillAt = at
		messages, err := run()
		c.opt.KillAt = 0
		if err != nil && !errors.Is(err, local.ErrKilled) {
			t.Fatalf("TEST_SEED=%d, killed at message %d: %v\n%s", sample.Seed(t), at, err, c.said())
		}
		if err == nil { // a run that is slower polls more often, and has more messages: the rest of the kills are at fewer
			total = min(messages, at-1)
			if step = max((total-first)/most, 1); enough(n, most, total-first) || total <= first {
				break
			}
			at = first + random.Int64N(step) + 1 - step
			continue
		}
		check(at)
		if t.Failed() {
			t.Fatalf("TEST_SEED=%d, killed at message %d of %d", sample.Seed(t), at, total)
		}
		n++
	}
	if !enough(n, most, total-first) {
		t.Errorf("only %d kills in %d messages", n, total-first)
	}
	t.Logf("killed at %d of %d messages", n, total-first)
}

// enough reports whether there were so many kills as most of those that are wanted, or as there are messages.
func enough(n, most, messages int64) bool { return n >= min(most, messages)*3/4 }

// after runs a job that has to find one of the checkpoints of some steps whole
// and be able to write another, and does so again with that one.
func after(t *testing.T, c *cluster, nodes []string, wanted ...int) {
	t.Helper()
	found := make([]string, len(nodes))
	err := c.try(nodes, func(s *Session, rank int) error {
		got, err := offered(s)
		if err != nil {
			return err
		}
		found[rank] = got
		for _, step := range wanted {
			if got == name(step) {
				return read(s, rank, step)
			}
		}
		return fmt.Errorf("offered %q to restart from, want one of %v", got, wanted)
	})
	if err == nil {
		if err = c.try(nodes, steps(9)); err == nil {
			err = c.try(nodes, restarts(9))
		}
	}
	if err != nil {
		t.Errorf("%v\n%s", err, c.said())
	}
}

func TestKilled_WhileWritingACheckpoint(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	kills(t, c, four, steps(3), func(int64) { after(t, c, four, 2, 3) })
}

func TestKilled_WhileWritingAndANodeLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=3")
	c.job(four, steps(1, 2))
	kills(t, c, four, steps(3), func(at int64) {
		c.lose(four[at%4])
		after(t, c, four, 2, 3)
	})
}

func TestKilled_WhileFlushing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	kills(t, c, four, steps(3), func(at int64) {
		x, err := prefix.ReadIndex(c.prefix(""))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range x.Entries() {
			if e.ID < 3 && !e.Complete {
				t.Errorf("dataset %d in the prefix directory is incomplete now", e.ID)
			}
			for rank := range four {
				for _, f := range contents(e.ID, rank) {
					if err := same(c.prefix(f.name), f); e.Complete && err != nil {
						t.Errorf("the index has dataset %d as complete: %v", e.ID, err)
					}
				}
			}
		}
		if at%2 == 0 { // all nodes are lost: what was flushed has to do
			c.lose(four...)
		}
		after(t, c, four, 2, 3)
	})
}

func TestKilled_WhileRebuilding(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	c.lose("b")
	nodes := []string{"a", "spare", "c", "d"}
	kills(t, c, nodes, restarts(2), func(int64) { after(t, c, nodes, 2) })
}

// The node that has the files of a rank is not the one it now runs on.
func TestKilled_WhileMovingFilesAndRebuilding(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	c.lose("b")
	nodes := []string{"c", "a", "d", "spare"}
	kills(t, c, nodes, restarts(2), func(at int64) {
		if at%2 == 0 {
			after(t, c, nodes, 2)
		} else {
			after(t, c, []string{"d", "spare", "a", "c"}, 2)
		}
	})
}

func TestKilled_WhileFetching(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	c.lose(four...)
	kills(t, c, four, restarts(2), func(at int64) {
		if at%2 == 0 {
			c.lose("a", "c")
		}
		after(t, c, four, 2)
	})
}

func TestKilled_WhileWritingToThePrefixDirectory(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_BYPASS=1", "SCR_PREFIX_SIZE=2")
	c.job(four, steps(1, 2))
	kills(t, c, four, steps(3), func(int64) { after(t, c, four, 2, 3) })
}

// What is left of the cache is not an older checkpoint than the prefix directory has.
func TestKilled_WhilePurgingTheCache(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	c.set("SCR_CACHE_PURGE=1")
	kills(t, c, four, func(*Session, int) error { return nil }, func(int64) {
		c.set("SCR_CACHE_PURGE=0")
		after(t, c, four, 2)
		c.set("SCR_CACHE_PURGE=1")
	})
}

// Files on storage that all nodes share are not deleted by those who had them.
func TestKilled_WhileRanksMoveOnSharedStorage(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.configure("STORE=$SHARED VIEW=GLOBAL", "CKPT=0 STORE=$SHARED")
	moved := []string{"b", "c", "d", "a"}
	c.job(four, steps(1, 2))
	kills(t, c, moved, restarts(2), func(at int64) {
		after(t, c, [][]string{four, moved, {"d", "c", "b", "a"}}[at%3], 2)
	})
}

// What a job of another size flushes stays in the cache until it is used.
func TestKilled_WhileFlushingForAJobOfAnotherSize(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	c.set("SCR_GLOBAL_RESTART=1")
	kills(t, c, []string{"a", "b", "c", "d", "e", "f"}, func(s *Session, rank int) error {
		got, err := offered(s)
		if err == nil && got != name(2) {
			err = fmt.Errorf("offered %q", got)
		}
		return err
	}, func(at int64) {
		c.set("SCR_GLOBAL_RESTART=0")
		after(t, c, four, 2)
		c.set("SCR_GLOBAL_RESTART=1")
	})
}

func TestKilled_WhileGoingBackToAnotherCheckpoint(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_CURRENT=ckpt.1")
	c.job(four, steps(1, 2, 3))
	c.job(four, restarts(1)) // without a kill
	d := newCluster(t, "SCR_FLUSH=1")
	d.job(four, steps(1, 2, 3))
	d.set("SCR_CURRENT=ckpt.1")
	kills(t, d, four, restarts(1), func(int64) {
		d.set("SCR_CURRENT=")
		after(t, d, four, 1, 2, 3)
		d.set("SCR_CURRENT=ckpt.1")
	})
}

// A job is killed while the program chooses another checkpoint than the newest, or drops the
// newest: the next run restarts from what was the newest, or from what is the newest then, and
// not from another that has not been deleted yet.
func TestKilled_WhileChoosing(t *testing.T) {
	t.Parallel()
	chain := func(list ...func(s *Session, rank int) error) func(s *Session, rank int) error {
		return func(s *Session, rank int) error {
			for _, f := range list {
				if err := f(s, rank); err != nil {
					return err
				}
			}
			return nil
		}
	}
	nothing := func(*Session) error { return nil }
	for what, test := range map[string]struct {
		before func(c *cluster)
		call   func(s *Session) error
		ids    []int  // of the datasets any of which may be offered then; 0: none
		chosen string // SCR_CURRENT of the job that is killed; "": the program chooses
	}{
		"Current, in the cache": {func(c *cluster) {
			c.set("SCR_FLUSH=0", "SCR_CACHE_SIZE=4")
			c.job(four, steps(1, 2, 3, 4))
		}, func(s *Session) error { return s.Current(name(1)) }, []int{1, 4}, ""},
		"Current, to be fetched": {func(c *cluster) {
			c.set("SCR_FLUSH=3", "SCR_CACHE_SIZE=2")
			c.job(four, steps(1, 2, 3, 4, 5))
		}, func(s *Session) error { return s.Current(name(3)) }, []int{3, 5}, ""},
		"Current, and the newest is in the prefix directory": {func(c *cluster) {
			c.set("SCR_FLUSH=2", "SCR_CACHE_SIZE=4")
			c.job(four, steps(1, 2, 3))
			c.set("SCR_CACHE_BYPASS=1")
			c.job(four, steps(4))
			c.set("SCR_CACHE_BYPASS=0")
		}, func(s *Session) error { return s.Current(name(2)) }, []int{2, 4}, ""},
		"Drop, two of a name in the cache": {func(c *cluster) {
			c.set("SCR_FLUSH=0", "SCR_CACHE_SIZE=4")
			c.job(four, chain(steps(1), steps(2), steps(2)))
		}, func(s *Session) error { return s.Drop(name(2)) }, []int{1, 3}, ""},
		"Delete, and an older one of the name is in the prefix directory": {func(c *cluster) {
			c.set("SCR_FLUSH=1", "SCR_CACHE_SIZE=1")
			c.job(four, steps(2))
			c.set("SCR_FLUSH=0")
			c.job(four, steps(2))
		}, func(s *Session) error { return s.Delete(name(2)) }, []int{2, 0}, ""},
		// The newest was flushed, and one after it cannot be rebuilt: the newest leaves, and an older one stays.
		"SCR_CURRENT, for which the newest makes room": {func(c *cluster) {
			c.set("SCR_FLUSH=3", "SCR_CACHE_SIZE=3")
			c.job(four, steps(1, 2, 3, 4, 5, 6, 7))
			c.loseDataset(7, "a", "b")
		}, nothing, []int{3, 6}, name(3)},
		"SCR_CURRENT of another job, for which the newest makes room": {func(c *cluster) {
			c.set("SCR_FLUSH=2", "SCR_CACHE_SIZE=3")
			c.job(four, steps(1, 2, 3))
			c.set("SCR_JOB_ID=other", "SCR_FLUSH=1")
			c.job(four, steps(4, 5)) // datasets 3 and 4
			c.set("SCR_JOB_ID=job", "SCR_FLUSH=2")
			c.loseDataset(3, "a", "b")
		}, nothing, []int{2, 4}, name(5)},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			test.before(c)
			seen := map[int]bool{}
			begin := c.save()
			stats, err := c.count(four, func(*Session, int) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			c.load(begin)
			first, most := int64(0), int64(24)
			for _, s := range stats {
				first += s.Messages
			}
			if test.chosen != "" { // in Init
				first, most = 0, 80
			}
			c.set("SCR_CURRENT=" + test.chosen)
			killsAfter(t, c, first, most, four, func(s *Session, _ int) error { return test.call(s) }, func(int64) {
				c.set("SCR_CURRENT=")
				defer c.set("SCR_CURRENT=" + test.chosen)
				ids := make([]int, len(four))
				err := c.try(four, func(s *Session, rank int) error {
					_, err := offered(s)
					if o := s.restart.Offered(); o != nil {
						ids[rank] = o.ID()
					}
					return err
				})
				if err != nil || !slices.Contains(test.ids, ids[0]) {
					t.Errorf("dataset %d is offered, want one of %v: %v\n%s", ids[0], test.ids, err, c.said())
				}
				seen[ids[0]] = true
				if x, err := prefix.ReadIndex(c.prefix("")); err != nil || x.Leaving("job") {
					t.Errorf("the index still lists what leaves the cache: %v", err)
				}
			})
			if sample.Now() >= sample.All && len(seen) < len(test.ids) { // fewer kills may miss one
				t.Errorf("offered: %v, want each of %v", seen, test.ids)
			}
		})
	}
}

// The newest has left the cache for the checkpoint that SCR_CURRENT names, and that cannot be fetched:
// nothing else leaves.
func TestCurrent_CannotBeFetchedAndTheNewestHasLeft(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=3", "SCR_CACHE_SIZE=3")
	c.job(four, steps(1, 2, 3, 4, 5, 6, 7))
	c.loseDataset(7, "a", "b")
	if err := os.WriteFile(c.prefix(contents(3, 1)[0].name), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, chosen := range []string{name(3), ""} {
		c.set("SCR_CURRENT=" + chosen)
		if err := c.try(four, restarts(6)); err != nil {
			t.Fatalf("SCR_CURRENT=%s: %v\n%s", chosen, err, c.said())
		}
		x, err := prefix.ReadIndex(c.prefix(""))
		if err != nil || x.Leaving("job") {
			t.Errorf("the index still lists what leaves the cache: %v", err)
		}
		if _, err := os.Stat(c.cached("a", 5, "")); err != nil {
			t.Errorf("SCR_CURRENT=%s: %v", chosen, err)
		}
	}
}
