package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/prefix"
)

// writesAs writes the files of a step, whose names are those of every step, as a dataset with
// some flags.
func writesAs(s *Session, rank, step int, flags Flags) error {
	if err := s.StartOutput(name(step), flags); err != nil {
		return err
	}
	if err := write(s, again(step, rank)); err != nil {
		return errors.Join(err, s.CompleteOutput(false))
	}
	return s.CompleteOutput(true)
}

// block puts a file where a directory of the program's files has to be, so that no flush
// succeeds until the function that it returns is called.
func (c *cluster) block(dir string) (unblock func()) {
	c.t.Helper()
	path := c.prefix(dir)
	c.must(errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.RemoveAll(path), os.WriteFile(path, nil, 0o600)))
	return func() { c.must(os.Remove(path)) }
}

// An output that could not be flushed is flushed by Finalize, after a newer one with files of
// the same names: the newer one stays as it is.
func TestLate_FlushedByFinalize(t *testing.T) {
	t.Parallel()
	for _, async := range []string{"0", "1"} {
		t.Run(async, func(t *testing.T) {
			c := newCluster(t, "SCR_CACHE_SIZE=3", "SCR_FLUSH=1", "SCR_FLUSH_ASYNC="+async, "SCR_FLUSH_TYPE=PTHREAD")
			c.job(four, func(s *Session, rank int) error {
				once := func(f func()) error {
					if rank == 0 {
						f()
					}
					return s.Agree(nil)
				}
				var unblock func()
				if err := once(func() { unblock = c.block("again") }); err != nil {
					return err
				}
				err := writesAs(s, rank, 1, Output)
				if async == "1" {
					for err == nil && s.flusher.Running() > 0 {
						_, err = s.NeedCheckpoint()
					}
				} else if err == nil {
					return errors.New("flushed to a file")
				} else {
					err = nil
				}
				return errors.Join(err, once(func() { unblock() }), writesAs(s, rank, 2, Checkpoint), s.Finalize())
			})
			if got := fmt.Sprint(c.completeAgain(2)); got != "[2]" {
				t.Errorf("complete: %s\n%s", got, c.said())
			}
			if why := c.index()[name(1)].Why(); why != "its files were replaced by ckpt.2" {
				t.Errorf("%q", why)
			}
			c.lose(four...)
			c.job(four, readsAgain(2))
			if left := c.leftovers(); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// A dataset that the program writes to the prefix directory itself, while an older one with
// files of the same names is flushed in the background: the newer one stays as it is.
func TestLate_BesideBypass(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=PTHREAD")
	c.beforeFlushed(func() bool {
		c.configure("CKPT=0 INTERVAL=1", "CKPT=1 INTERVAL=2 BYPASS=1")
		var ended atomic.Bool
		c.job(four, func(s *Session, rank int) error {
			if err := writesAs(s, rank, 1, Checkpoint); err != nil {
				return err
			}
			if s.flusher.Running() != 1 {
				ended.Store(true)
			}
			if err := writesAs(s, rank, 2, Checkpoint); err != nil {
				return err
			}
			return s.Finalize()
		})
		return !ended.Load()
	})
	if got := fmt.Sprint(c.completeAgain(2)); got != "[2]" {
		t.Errorf("complete: %s\n%s", got, c.said())
	}
	c.lose(four...)
	c.job(four, readsAgain(2))
	c.says("read where they are")
}

// The cache has step 1, the program has written step 2 to the prefix directory, and step 3 was flushed, and is lost with a
// node. Step 3 is fetched, and made current only if it is; where it cannot be, step 2 is offered.
func TestFetch_NewerThanWhatBypassedTheCache(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		before func(c *cluster)
		run    func(s *Session, rank int) error
		says   string
		now    int // current afterwards
	}{
		"it is whole":   {func(*cluster) {}, restarts(3), "ckpt.3: fetched", 3},
		"it is damaged": {func(c *cluster) { c.change(c.prefix(contents(3, 0)[0].name), flip) }, restarts(2), "ckpt.2: ", 2},
		"another job's is newer": {func(c *cluster) {
			c.set("SCR_JOB_ID=other")
			c.job(on(1, "e", "f", "g", "h"), steps(4, 5))
			c.set("SCR_JOB_ID=job")
		}, restarts(3), "set SCR_CURRENT=ckpt.5", 3},
		"nobody asks before the restart begins": {func(*cluster) {}, func(s *Session, rank int) error { return read(s, rank, 2) }, "ckpt.2: ", 2},
		"nobody restarts":                       {func(*cluster) {}, func(*Session, int) error { return nil }, "ckpt.2: ", 3},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=0", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=3")
			c.job(four, steps(1))
			c.set("SCR_CACHE_BYPASS=1")
			c.job(four, steps(2))
			c.set("SCR_CACHE_BYPASS=0", "SCR_COPY_TYPE=SINGLE", "SCR_FLUSH=1")
			c.job(four, steps(3))
			test.before(c)
			c.lose("b")
			c.job(four, test.run)
			c.says("ckpt.1): rebuilt from redundancy")
			c.says(test.says)
			if !c.index()[name(test.now)].Current {
				t.Errorf("current is not %d: %+v", test.now, c.index())
			}
		})
	}
}

// refuses refuses steps in turn: on all ranks, or on one.
func refuses(onAll bool, list ...int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		for _, step := range list {
			if got, err := offered(s); err != nil || got != name(step) {
				return fmt.Errorf("offered %q, want step %d: %w", got, step, err)
			}
			if _, err := s.StartRestart(); err != nil {
				return err
			}
			if s.CompleteRestart(!onAll && rank != 0) == nil {
				return errors.New("a refusal is no error")
			}
		}
		return nil
	}
}

// The cache has step 3, which the program refuses, and too little of step 2, which is fetched in its place: step 3 stays, in case a user
// chooses it.
func TestFetch_InPlaceOfALostOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=0", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=3")
	c.job(four, steps(1))
	c.set("SCR_COPY_TYPE=SINGLE", "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 1), checkpoint(s, rank, 2)) })
	c.set("SCR_COPY_TYPE=XOR", "SCR_FLUSH=10")
	c.job(four, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 2), checkpoint(s, rank, 3)) })
	c.lose("b")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(refuses(false, 3)(s, rank), restarts(2)(s, rank))
	})
	c.set("SCR_CURRENT=" + name(3))
	c.job(four, restarts(3))
}

// The program has refused two on all ranks, so that both may be used again: what can be fetched leaves before them.
func TestFetch_RefusedTwo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=3")
	c.job(four, steps(1))
	c.set("SCR_FLUSH=0")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(restartAt(s, rank, 1), checkpoint(s, rank, 2), checkpoint(s, rank, 3))
	})
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(refuses(true, 3, 2)(s, rank), s.StartOutput(name(4), Checkpoint))
	})
	if got := fmt.Sprint(c.datasets("a")); !strings.Contains(got, "2") || !strings.Contains(got, "3") || strings.Contains(got, "1") {
		t.Errorf("the cache has %s", got)
	}
	c.job(four, restarts(3))
}

// A background flush was interrupted, and all nodes are lost: the next run removes parts of
// files. Whole files stay for scr_index --build, until the dataset is deleted.
func TestLate_LitterOfALostDataset(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=PTHREAD")
	c.job(four, func(s *Session, rank int) error { return errors.Join(checkpoint(s, rank, 1), s.Finalize()) })
	c.set("SCR_FLUSH=0")
	c.job(four, sent(2)) // killed; what copies continues to the end
	unlist := func() { c.must(os.Remove(c.prefix(".scr/scr.dataset.2/0.scrfilemap"))) }
	unlist() // as if rank 0 had been killed before
	var parts, whole int
	count := func() {
		parts, whole = 0, 0
		for rank := range four {
			for _, f := range contents(2, rank) {
				if _, err := os.Stat(prefix.Aside(c.prefix(f.name), 2, prefix.ByFlush)); err != nil {
					continue
				}
				if rank == 0 {
					parts++
				} else {
					whole++
				}
			}
		}
	}
	count()
	before := whole
	if parts == 0 || whole == 0 {
		t.Fatalf("%d and %d files are being copied", parts, whole)
	}
	c.job(four, restarts(2)) // from the cache, where it is flushed again when that is due
	if count(); parts == 0 {
		t.Error("what the flush can continue was removed")
	}
	unlist()
	c.lose(four...)
	c.job(four, restarts(1))
	if count(); parts != 0 || whole != before {
		t.Errorf("%d parts of files, and %d of %d whole ones are left", parts, whole, before)
	}
	c.job(four, func(s *Session, _ int) error { return s.Delete(name(2)) })
	if left := c.leftovers(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A dataset that cannot be created in the cache: no other has left for it.
func TestCreate_FailsBeforeOthersLeave(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=1")
	c.job(four, steps(1))
	c.job(four, func(s *Session, rank int) error {
		if err := restartAt(s, rank, 1); err != nil {
			return err
		}
		inTheWay := filepath.Join(c.node("c"), "cntl/user/scr.job/filemap_0.scrinfo.tmp")
		if rank == 2 {
			if err := os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700); err != nil {
				return err
			}
		}
		if err := s.Agree(nil); err != nil {
			return err
		}
		before := s.cache.Find(1)
		if err := s.StartOutput(name(2), Checkpoint); err == nil {
			return errors.New("begun")
		}
		if before == nil || s.cache.Find(1) == nil {
			return errors.New("the checkpoint before has left the cache for nothing")
		}
		if err := s.Agree(nil); err != nil {
			return err
		}
		if rank == 2 {
			return os.RemoveAll(inTheWay)
		}
		return nil
	})
	c.job(four, restarts(1))
}

// A checkpoint that is only in the cache is made current: the next run takes it, although
// the prefix directory has a newer one.
func TestCurrent_OlderThanThePrefixDirectory(t *testing.T) {
	t.Parallel()
	for how, choose := range map[string]func(c *cluster){
		"SCR_Current": func(c *cluster) { c.job(four, func(s *Session, _ int) error { return s.Current(name(1)) }) },
		"SCR_CURRENT": func(c *cluster) {
			c.set("SCR_CURRENT=" + name(1))
			c.job(four, restarts(1))
			c.set("SCR_CURRENT=")
		},
	} {
		t.Run(how, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=2")
			c.job(four, steps(1, 2))
			choose(c)
			c.job(four, restarts(1))
			c.lose(four...)
			c.job(four, restarts(2))
		})
	}
}

// A full prefix directory, and a cache with room for two: the newest checkpoint does not
// leave for a dataset that cannot be begun, and an output not for a checkpoint. With room
// all continues.
func TestFull_OutputAndNewestCheckpoint(t *testing.T) {
	t.Parallel()
	c := mounted(t, "prefix", "SCR_HALT_SECONDS=1")
	if c == nil {
		return
	}
	var empty func()
	c.job(four, func(s *Session, rank int) error {
		once := func(f func()) error {
			if rank == 0 {
				f()
			}
			return s.Agree(nil)
		}
		if err := errors.Join(checkpoint(s, rank, 1), once(func() { empty = c.fill(c.prefix(""), 0) })); err != nil {
			return err
		}
		if err := output(s, rank, 2, Output); err == nil {
			return errors.New("the output is in a full directory")
		}
		for range 2 {
			err := s.StartOutput(name(3), Checkpoint)
			if err == nil || !strings.Contains(err.Error(), "output ckpt.2 cannot leave the cache") || !strings.Contains(err.Error(), unix.ENOSPC.Error()) {
				return fmt.Errorf("the third has begun, or cannot for another reason: %w", err)
			}
			if s.cache.Find(1) == nil || s.cache.Find(2) == nil {
				return errors.New("one of the two is gone")
			}
		}
		if err := once(func() { empty() }); err != nil {
			return err
		}
		return checkpoint(s, rank, 3)
	})
	if !c.index()[name(2)].Complete {
		t.Error("the output is not in the prefix directory")
	}
	c.job(four, restarts(3))
}

// Route has failed to make a directory: it tries again in the next call, and does not return a path
// in a directory that is not there.
func TestRoute_AfterAnError(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(on(1, "a"), func(s *Session, _ int) error {
		if err := s.StartOutput(name(1), Checkpoint); err != nil {
			return err
		}
		block := c.cached("a", 1, "sub")
		if err := os.WriteFile(block, nil, 0o600); err != nil {
			return err
		}
		file := filepath.Join(c.prefix("sub"), "file")
		if _, err := s.Route(file); err == nil {
			return errors.New("a file is where the directory should be, and Route succeeds")
		}
		if err := os.Remove(block); err != nil {
			return err
		}
		path, err := s.Route(file)
		if err != nil {
			return err
		}
		return os.WriteFile(path, nil, 0o600)
	})
}

// The first of two that are refused on all ranks does not leave for the second.
func TestFetch_RefusedTwoOfThree(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=3")
	c.job(four, steps(1))
	c.set("SCR_COPY_TYPE=SINGLE")
	c.job(four, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 1), checkpoint(s, rank, 2)) })
	c.set("SCR_COPY_TYPE=XOR", "SCR_FLUSH=0")
	c.job(four, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 2), checkpoint(s, rank, 3)) })
	c.lose("b")
	c.set("SCR_CACHE_SIZE=2")
	c.job(four, func(s *Session, rank int) error {
		if err := refuses(true, 3, 2)(s, rank); err != nil {
			return err
		}
		if _, _, err := s.HaveRestart(); err == nil || !strings.Contains(err.Error(), "a run with the right input restarts from ckpt.3") {
			return fmt.Errorf("said %v", err)
		}
		return nil
	})
	c.job(four, restarts(3))
}

// What one rank has refused leaves first, also if two others that all ranks have refused may be used again.
func TestRefused_OnlyTwoAreUsedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=0", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=3")
	c.job(four, steps(1, 2, 3))
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(refuses(false, 3)(s, rank), refuses(true, 2, 1)(s, rank), s.StartOutput(name(4), Checkpoint))
	})
	if got := fmt.Sprint(c.datasets("a")); strings.Contains(got, "3") || !strings.Contains(got, "1") || !strings.Contains(got, "2") {
		t.Errorf("the cache has %s", got)
	}
}

// One that all ranks have refused leaves first once the program has restarted from another.
func TestRefused_OneThenAccepted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=2")
	c.job(four, steps(1, 2))
	c.set("SCR_FLUSH=0")
	c.job(four, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 2), checkpoint(s, rank, 3)) })
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(refuses(true, 3)(s, rank), restartAt(s, rank, 2), s.StartOutput(name(4), Checkpoint))
	})
	if got := fmt.Sprint(c.datasets("a")); strings.Contains(got, "3") || !strings.Contains(got, "2") {
		t.Errorf("the cache has %s", got)
	}
}

// What the program has refused where it is in the prefix directory is not offered from the cache.
func TestRefused_WithGlobalRestart(t *testing.T) {
	t.Parallel()
	for _, inRun := range []bool{false, true} {
		t.Run(fmt.Sprint(inRun), func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=1", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=3")
			c.job(four, steps(1, 2))
			c.set("SCR_GLOBAL_RESTART=1")
			c.job(four, func(s *Session, rank int) error {
				if err := refuses(false, 2)(s, rank); err != nil || !inRun {
					return err
				}
				if err := s.StartOutput(name(3), Checkpoint); err != nil {
					return err
				}
				if s.CompleteOutput(false) == nil {
					return errors.New("complete")
				}
				if got, _, err := s.HaveRestart(); got != name(1) || err != nil {
					return fmt.Errorf("offered %q, %v", got, err)
				}
				return nil
			})
			c.set("SCR_GLOBAL_RESTART=0")
			c.job(four, restarts(1))
		})
	}
}

// What the cache has stays until a newer one is fetched, also if a third one is offered that is read where it is.
func TestFetch_FallbackOfInPlace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=0", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=1")
	c.job(four, steps(1))
	c.set("SCR_CACHE_BYPASS=1")
	c.job(four, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 1), checkpoint(s, rank, 2)) })
	c.set("SCR_CACHE_BYPASS=0", "SCR_FLUSH=1")
	c.job(on(1, "e", "f", "g", "h"), steps(3))
	c.change(c.prefix(contents(3, 0)[0].name), flip)
	c.job(four, func(s *Session, rank int) error { return errors.Join(refuses(false, 2)(s, rank), restarts(1)(s, rank)) })
}

// A choice that a user makes while a run starts stays, though the run restarts from another.
func TestFetch_ChoiceAfterInit(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=3")
	c.job(four, steps(1))
	c.set("SCR_CACHE_BYPASS=1")
	c.job(four, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 1), checkpoint(s, rank, 2)) })
	c.set("SCR_CACHE_BYPASS=0")
	c.job(four, func(s *Session, rank int) error {
		var err error
		if rank == 0 {
			err = prefix.UpdateIndex(s.prefix.Dir, func(x *prefix.Index) error { return prefix.Choose(x, s.prefix.Dir, name(1), time.Now()) })
		}
		return errors.Join(s.Agree(err), read(s, rank, 2))
	})
	c.job(four, restarts(1))
}

// A checkpoint of the cache that the program has refused is not flushed, and offered, by a run of another size.
func TestRefused_OfAnotherSize(t *testing.T) {
	t.Parallel()
	for _, onAll := range []bool{false, true} {
		t.Run(fmt.Sprint(onAll), func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=0", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=3")
			c.job(four, steps(1))
			c.job(four, refuses(onAll, 1))
			c.set("SCR_FLUSH=1", "SCR_CACHE_BYPASS=1")
			offersNone := func(s *Session, _ int) error {
				if got, ok, err := s.HaveRestart(); ok || err != nil {
					return fmt.Errorf("offered %q, %v", got, err)
				}
				return nil
			}
			c.job(on(1, "a", "b", "c", "d", "e"), offersNone)
			c.says("checkpoint ckpt.1 in the cache is passed over: the program could not restart from it")
			c.lose(four...)
			c.job(four, offersNone)
		})
	}
}

// Two checkpoints that all ranks have refused, and that can be used again, can be scavenged when the job ends, also with SCR_FLUSH=0; but not
// once the run goes on, since they leave the cache then.
func TestRefused_TwoAreScavenged(t *testing.T) {
	t.Parallel()
	fails := func(s *Session, rank int) error {
		err := errors.Join(refuses(true, 3, 2)(s, rank), s.StartOutput(name(4), Checkpoint))
		if s.CompleteOutput(false) == nil {
			return errors.New("an output that is not valid is no error")
		}
		return err
	}
	succeeds := func(s *Session, rank int) error {
		return errors.Join(refuses(true, 3, 2)(s, rank), checkpoint(s, rank, 4))
	}
	for want, test := range map[string]struct {
		size int // of the cache
		run  func(s *Session, rank int) error
	}{
		"[1 2 3]":         {3, refuses(true, 3, 2)},
		"[1 4]":           {3, succeeds},
		"[1 2 3], failed": {4, fails},
		"[1 3]":           {3, fails}, // one leaves for it
	} {
		t.Run(want, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=0", "SCR_COPY_TYPE=XOR", fmt.Sprint("SCR_CACHE_SIZE=", test.size))
			c.job(four, steps(1, 2, 3))
			c.job(four, test.run)
			list, err := prefix.OnlyInCache(c.prefix(""))
			c.must(err)
			var ids []int
			for _, d := range list {
				ids = append(ids, d.ID)
			}
			if got := fmt.Sprint(ids); !strings.HasPrefix(want, got) {
				t.Errorf("only in the cache: %s, want %s", got, want)
			}
		})
	}
}

// Of two that all ranks have refused the cache has only the older one. The newer one is offered, also if a job of another size has written
// the newest checkpoint of the prefix directory.
func TestRefused_NewerOneHasLeftTheCache(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=1")
	c.job(four, steps(1, 2, 3))
	c.job(on(1, "a", "b", "c", "d", "e"), steps(4))
	c.lose(four...)
	c.job(four, refuses(true, 3, 2))
	c.holds("2", four...)
	c.job(four, restarts(3))
}

// A run of another size refuses a checkpoint, which it reads where it is: later runs are not offered what the cache has of it.
func TestRefused_ReadWhereItIs(t *testing.T) {
	t.Parallel()
	for _, onAll := range []bool{true, false} {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=2")
		c.job(four, steps(1, 2))
		c.set("SCR_CACHE_BYPASS=1")
		c.job(on(1, "a", "b", "c", "d", "e"), refuses(onAll, 2))
		c.set("SCR_CACHE_BYPASS=0")
		c.holds("1 2", four...)
		c.job(four, restarts(1))
	}
}

// Of two that all ranks have refused the newer one was only in the cache, and is lost with it: the other one is offered, and none older.
func TestRefused_NewerOneOfTwoIsLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=3")
	c.job(four, steps(1, 2))
	c.set("SCR_FLUSH=0")
	c.job(four, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 2), checkpoint(s, rank, 3)) })
	c.job(four, refuses(true, 3, 2))
	c.lose(four...)
	c.job(four, restarts(2))
}
