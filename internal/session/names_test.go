package session

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/test/sample"
)

// again are the files of a rank, which have the same names in every step.
func again(step, rank int) []file {
	list := contents(step, rank)
	for i := range list {
		list[i].name = fmt.Sprintf("again/%d.%d", rank, i)
	}
	return list
}

func writesAgain(s *Session, rank, step int) error {
	if err := s.StartOutput(name(step), Checkpoint); err != nil {
		return err
	}
	if err := write(s, again(step, rank)); err != nil {
		return err
	}
	return s.CompleteOutput(true)
}

// readsAgain restarts from one of some steps.
func readsAgain(wanted ...int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		got, err := offered(s)
		if err != nil {
			return err
		}
		for _, step := range wanted {
			if got != name(step) {
				continue
			}
			if _, err := s.StartRestart(); err != nil {
				return err
			}
			for _, f := range again(step, rank) {
				path, err := s.Route(filepath.Join(s.prefix.Dir, f.name))
				if err != nil {
					return err
				}
				if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, f.data) {
					return fmt.Errorf("%s: other bytes than in step %d, %w", path, step, err)
				}
			}
			return s.CompleteRestart(true)
		}
		return fmt.Errorf("offered %q, want one of the steps %v", got, wanted)
	}
}

// completeAgain are the steps that the index has as complete. It fails the test if their
// files are not in the prefix directory.
func (c *cluster) completeAgain(most int) (steps []int) {
	c.t.Helper()
	entries := c.index()
	for step := 1; step <= most; step++ {
		if !entries[name(step)].Complete {
			continue
		}
		steps = append(steps, step)
		for rank := range four {
			for _, f := range again(step, rank) {
				if data, err := os.ReadFile(c.prefix(f.name)); err != nil || !bytes.Equal(data, f.data) {
					c.t.Errorf("%s is complete, but %s has other bytes (%v)", name(step), f.name, err)
				}
			}
		}
	}
	return steps
}

// manners are those in which a dataset is flushed.
func manners(t *testing.T, f func(t *testing.T, env []string)) {
	for _, how := range []string{"SYNC", "PTHREAD", "DAEMON"} {
		for _, metadata := range []string{"0", "1"} {
			t.Run(how+" "+metadata, func(t *testing.T) {
				t.Parallel()
				env := []string{"SCR_FLUSH=1", "SCR_COPY_METADATA=" + metadata}
				if how != "SYNC" {
					env = append(env, "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE="+how)
				}
				f(t, env)
			})
		}
	}
}

// A code that writes the same file names in every checkpoint: the newest is whole
// whatever happens to those before.
func TestNames_SameInEveryCheckpoint(t *testing.T) {
	t.Parallel()
	manners(t, func(t *testing.T, env []string) {
		c := newCluster(t, append(env, "SCR_PREFIX_SIZE=1")...)
		c.job(four, func(s *Session, rank int) error {
			for step := 1; step <= 3; step++ {
				if err := writesAgain(s, rank, step); err != nil {
					return err
				}
			}
			return s.Finalize()
		})
		if got := fmt.Sprint(c.completeAgain(3)); got != "[3]" || len(c.index()) != 1 {
			t.Errorf("complete: %s of %v\n%s", got, c.index(), c.said())
		}
		c.lose(four...)
		c.job(four, readsAgain(3))
		if left := c.leftovers(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// Deleting an older dataset deletes nothing of the newest.
func TestNames_DeleteTheOlder(t *testing.T) {
	t.Parallel()
	manners(t, func(t *testing.T, env []string) {
		c := newCluster(t, env...)
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(writesAgain(s, rank, 1), writesAgain(s, rank, 2), writesAgain(s, rank, 3), s.Finalize())
		})
		if why := c.index()[name(1)].Why(); why != "its files were replaced by ckpt.2" {
			t.Errorf("%q", why)
		}
		c.job(four, func(s *Session, rank int) error { return errors.Join(s.Delete(name(2)), s.Delete(name(1))) })
		if got := fmt.Sprint(c.completeAgain(3)); got != "[3]" {
			t.Errorf("complete: %s", got)
		}
		c.lose(four...)
		c.job(four, readsAgain(3))
	})
}

// Killed in the third flush, with the nodes lost.
func TestNames_KilledWhileFlushing(t *testing.T) {
	t.Parallel()
	for _, how := range sample.Of(t, []string{"SYNC", "PTHREAD", "DAEMON"}, 1, 3) {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "SCR_FLUSH=1", "SCR_PREFIX_SIZE=2", "SCR_FLUSH_TYPE="+how)
			if how != "SYNC" {
				c.set("SCR_FLUSH_ASYNC=1")
			}
			c.job(four, func(s *Session, rank int) error {
				return errors.Join(writesAgain(s, rank, 1), writesAgain(s, rank, 2), s.Finalize())
			})
			killsOf(t, c, 12, four, func(s *Session, rank int) error {
				if err := writesAgain(s, rank, 3); err != nil {
					return err
				}
				return s.Finalize()
			}, func(int64) {
				c.serving.Wait()
				c.completeAgain(3)
				c.lose(four...)
				if err := c.try(four, readsAgain(2, 3)); err != nil {
					t.Errorf("%v\n%s", err, c.said())
				}
				if got := c.completeAgain(3); len(got) != 1 {
					t.Errorf("complete: %v", got)
				}
			})
		})
	}
}

// What scr_index calls complete is whole, also when the program writes to the prefix
// directory itself: an older dataset is replaced when the newer one is complete.
func TestNames_Bypass(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error { return errors.Join(writesAgain(s, rank, 1), s.Finalize()) })
	c.set("SCR_CACHE_BYPASS=1")
	c.job(four, func(s *Session, rank int) error { return errors.Join(steps(2)(s, rank), writesAgain(s, rank, 3)) })
	if got := fmt.Sprint(c.completeAgain(1)); got != "[]" {
		t.Errorf("complete: %s", got)
	}
	if !c.index()[name(2)].Complete || !c.index()[name(3)].Complete {
		t.Errorf("%v", c.index())
	}
	c.job(four, func(s *Session, rank int) error { return s.Delete(name(1)) })
	c.lose(four...)
	c.job(four, readsAgain(3))
}

// A dataset that is in the cache too is not flushed again over the newer one.
func TestNames_NotFlushedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error {
		for step := 1; step <= 2; step++ {
			if err := s.StartOutput(name(step), Checkpoint|Output); err != nil {
				return err
			}
			if err := errors.Join(write(s, again(step, rank)), s.CompleteOutput(true)); err != nil {
				return err
			}
		}
		return nil
	})
	c.job(four, readsAgain(2))
	if got := fmt.Sprint(c.completeAgain(2)); got != "[2]" {
		t.Errorf("complete: %s\n%s", got, c.said())
	}
	x, err := prefix.ReadIndex(c.prefix(""))
	if err != nil || x.ByID(1).Replaced == nil {
		t.Errorf("%v, %+v", err, x.ByID(1))
	}
}

// An older checkpoint that is only in the cache does not replace the files of a newer one
// that is in the prefix directory.
func TestNames_FlushOnRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=2")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(writesAgain(s, rank, 1), writesAgain(s, rank, 2))
	})
	c.set("SCR_FLUSH_ON_RESTART=1")
	c.job(four, func(s *Session, rank int) error { return readsAgain(2)(s, rank) })
	if got := fmt.Sprint(c.completeAgain(2)); got != "[2]" {
		t.Errorf("complete: %s", got)
	}
	c.lose(four...)
	c.set("SCR_FLUSH_ON_RESTART=0")
	c.job(four, readsAgain(2))
}

// byWay are files of a rank in a directory, of the same names in every step.
func byWay(dir string, step, rank int) []file {
	list := contents(step, rank)
	for i := range list {
		list[i].name = fmt.Sprintf("%s/%d.%d", dir, rank, i)
	}
	return list
}

func writesFiles(s *Session, step int, list []file) error {
	return errors.Join(s.StartOutput(name(step), Checkpoint), write(s, list), s.CompleteOutput(true))
}

// A checkpoint whose files have other names, by a link, than those of the last one replaces it.
func TestNames_ByALink(t *testing.T) {
	t.Parallel()
	manners(t, func(t *testing.T, env []string) {
		c := newCluster(t, append(env, "SCR_PREFIX_SIZE=1")...)
		if err := errors.Join(os.MkdirAll(c.prefix("store"), 0o700), os.Symlink("store", c.prefix("cur"))); err != nil {
			t.Fatal(err)
		}
		for step, dir := range []string{"store", "cur", "store", "cur"} {
			c.job(four, func(s *Session, rank int) error {
				return errors.Join(writesFiles(s, step+1, byWay(dir, step+1, rank)), s.Finalize())
			})
		}
		for step := 1; step <= 4; step++ {
			if got := c.index()[name(step)]; got.Complete != (step == 4) {
				t.Errorf("step %d is complete: %t", step, got.Complete)
			}
		}
		c.lose(four...)
		c.job(four, func(s *Session, rank int) error {
			if got, err := offered(s); err != nil || got != name(4) {
				return fmt.Errorf("offered %q, %w", got, err)
			}
			if _, err := s.StartRestart(); err != nil {
				return err
			}
			for _, f := range byWay("cur", 4, rank) {
				path, err := s.Route(filepath.Join(s.prefix.Dir, f.name))
				if err != nil {
					return err
				}
				if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, f.data) {
					return fmt.Errorf("%s: other bytes than in step 4, %w", path, err)
				}
			}
			return s.CompleteRestart(true)
		})
	})
}

// Two ranks that mean one file by two names are told both. The checkpoint stays in the cache, and the directory of
// the user in the prefix directory.
func TestNames_TwoOfOneFile(t *testing.T) {
	t.Parallel()
	manners(t, func(t *testing.T, env []string) {
		c := newCluster(t, env...)
		if err := errors.Join(os.MkdirAll(c.prefix("store"), 0o700), os.Symlink("store", c.prefix("cur"))); err != nil {
			t.Fatal(err)
		}
		err := c.try(four, func(s *Session, rank int) error {
			list := contents(1, rank)[:1]
			list[0].name = []string{"store/x", "cur/x", "a/x", "b/x"}[rank]
			return errors.Join(writesFiles(s, 1, list), s.Finalize())
		})
		said := fmt.Sprint(err) + c.said()
		if !strings.Contains(said, "store/x and cur/x of rank 1 are two names of one file") {
			t.Errorf("%s", said)
		}
		if _, err := os.Stat(c.prefix("cur")); err != nil {
			t.Error(err)
		}
		if c.index()[name(1)].Complete {
			t.Error("the checkpoint is complete")
		}
	})
}
