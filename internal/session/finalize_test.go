package session

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// A program that forgets the last Complete loses what it had not completed, and
// nothing else.
func TestFinalize_WithinSomething(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name, says string
		begin      func(s *Session, rank int) error
	}{
		{"an output", "state OUTPUT", func(s *Session, rank int) error {
			return errors.Join(s.StartOutput("open", Checkpoint), write(s, contents(9, rank)))
		}},
		{"a checkpoint", "state CHECKPOINT", func(s *Session, rank int) error {
			return errors.Join(s.StartCheckpoint(), write(s, contents(9, rank)))
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=10")
			var each everyRank
			c.job(four, func(s *Session, rank int) error {
				err := errors.Join(checkpoint(s, rank, 1), kind.begin(s, rank))
				each.is(rank, s.Finalize())
				return err
			})
			each.failed(t, 4, kind.says)
			if got := c.index(); len(got) != 1 || !got["ckpt.1"].Complete {
				t.Errorf("flushed: %v", got)
			}
			if got := strings.Join(c.datasets("a"), " "); strings.Contains(got, "dataset.2") {
				t.Errorf("in the cache: %s", got)
			}
			c.job(four, restarts(1))
			c.lose(four...)
			c.job(four, restarts(1))
		})
	}
	t.Run("an output in the prefix directory", func(t *testing.T) {
		c := newLoggingCluster(t, "SCR_CACHE_BYPASS=1")
		var each everyRank
		c.job(four, func(s *Session, rank int) error {
			err := errors.Join(checkpoint(s, rank, 1), s.StartOutput("open", Checkpoint), write(s, contents(9, rank)))
			each.is(rank, s.Finalize())
			return err
		})
		each.failed(t, 4, "state OUTPUT")
		if got := c.index(); len(got) != 2 || !got["ckpt.1"].Complete || got["open"].Complete {
			t.Errorf("the index has %v", got)
		}
		c.logs([]string{"INIT_START", "INIT_END", "COMPUTE_START", "RESTART_NONE", "COMPUTE_END", "CHECKPOINT_START 1", "CHECKPOINT_END 1",
			"COMPUTE_START", "COMPUTE_END", "CHECKPOINT_START 2", "CHECKPOINT_FAIL 2", "FINALIZE_END"})
		c.job(four, restarts(1))
	})
	t.Run("a restart", func(t *testing.T) {
		c := newCluster(t)
		c.job(four, steps(1))
		var each everyRank
		c.job(four, func(s *Session, rank int) error {
			_, err := s.StartRestart()
			each.is(rank, s.Finalize())
			return err
		})
		each.failed(t, 4, "state RESTART")
		c.job(four, restarts(1))
	})
}

func TestStartCheckpoint(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error {
		if err := s.StartCheckpoint(); err != nil {
			return err
		}
		var wrong *StateError
		if err := s.CompleteOutput(true); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "CompleteCheckpoint") {
			return fmt.Errorf("CompleteOutput of a checkpoint: %v", err)
		}
		if err := errors.Join(write(s, contents(1, rank)), s.CompleteCheckpoint(true)); err != nil {
			return err
		}
		if err := s.StartOutput("x", None); err != nil {
			return err
		}
		if err := s.CompleteCheckpoint(true); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "CompleteOutput") {
			return fmt.Errorf("CompleteCheckpoint of an output: %v", err)
		}
		return s.CompleteOutput(true)
	})
	c.job(four, func(s *Session, rank int) error {
		if got, err := offered(s); got != "scr.dataset.1" || err != nil {
			return fmt.Errorf("offered %q, %v", got, err)
		}
		return nil
	})
}

// Programs of the first interface route their files and never say that they
// restart.
func TestRoute_WithoutSayingSo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error { return errors.Join(checkpoint(s, rank, 1), s.Finalize()) })
	look := func(there bool) func(s *Session, rank int) error {
		return func(s *Session, rank int) error {
			if rank != 0 {
				return nil
			}
			for name, in := range map[string]bool{
				c.prefix("ckpt.1/rank_0"): true, "rank_0": true, "/elsewhere/rank_0": true, "input.txt": false, c.prefix("ckpt.1/rank_1"): false,
			} {
				want := name
				if in && there {
					want = c.cached("a", 1, "ckpt.1/rank_0")
				}
				if got, err := s.Route(name); got != want || err != nil {
					return fmt.Errorf("Route(%s): %s, %v, want %s", name, got, err, want)
				}
			}
			return nil
		}
	}
	c.job(four, look(true))
	c.lose(four...)
	c.job(four, look(false)) // nobody has asked for a fetch
	c.set("SCR_FETCH_ON_INIT=1")
	c.job(four, look(true))
	c.job(four, func(s *Session, rank int) error { return errors.Join(checkpoint(s, rank, 2), look(false)(s, rank)) })
}

func TestCurrent(t *testing.T) {
	t.Parallel()
	offer := func(step int) func(s *Session, rank int) error {
		return func(s *Session, rank int) error {
			if got, err := offered(s); got != name(step) || err != nil {
				return fmt.Errorf("offered %q, %v, want %s", got, err, name(step))
			}
			return nil
		}
	}
	t.Run("in the cache", func(t *testing.T) {
		c := newCluster(t, "SCR_CACHE_SIZE=3")
		c.job(four, steps(1, 2, 3))
		c.job(four, func(s *Session, rank int) error {
			if err := s.Current(name(2)); err != nil {
				return err
			}
			if err := offer(2)(s, rank); err != nil {
				return err
			}
			return s.Current(name(1))
		})
		if got := c.datasets("b"); strings.Contains(strings.Join(got, " "), "dataset.2") {
			t.Errorf("in the cache: %v", got)
		}
		c.job(four, offer(1))
	})
	t.Run("to be fetched", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=2")
		c.job(four, steps(1, 2, 3))
		c.job(four, func(s *Session, rank int) error {
			if err := errors.Join(s.Current(name(1)), offer(1)(s, rank), read(s, rank, 1)); err != nil {
				return err
			}
			if err := checkpoint(s, rank, 4); err != nil { // the second after the first
				return err
			}
			if got := s.cache.List()[0]; got.ID() != 4 || got.Checkpoint() != 2 {
				return fmt.Errorf("dataset %d, checkpoint %d", got.ID(), got.Checkpoint())
			}
			return nil
		})
		c.job(four, restarts(4))
	})
	t.Run("in the prefix directory", func(t *testing.T) {
		c := newCluster(t, "SCR_CACHE_BYPASS=1")
		c.job(four, steps(1, 2, 3))
		c.job(four, func(s *Session, rank int) error { return errors.Join(s.Current(name(2)), offer(2)(s, rank)) })
		c.job(four, offer(2))
		c.job(four, func(s *Session, rank int) error { return errors.Join(read(s, rank, 2), checkpoint(s, rank, 4)) })
		c.job(four, restarts(4))
	})
	t.Run("before an older one in the prefix directory", func(t *testing.T) {
		c := newCluster(t, "SCR_CACHE_BYPASS=1")
		c.job(four, steps(1))
		c.set("SCR_CACHE_BYPASS=0", "SCR_FLUSH=1")
		c.job(four, steps(2, 3))
		c.lose(four...)
		c.job(four, offer(3))
		c.job(four, func(s *Session, rank int) error { return errors.Join(s.Current(name(2)), offer(2)(s, rank)) })
		c.lose(four...)
		c.job(four, restarts(2))
	})
	t.Run("without HaveRestart", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=2")
		c.job(four, steps(1, 2, 3))
		c.job(four, func(s *Session, rank int) error { return s.Current(name(1)) })
		c.job(four, restarts(1))
	})
}

func TestDropAndDelete_OfWhatIsInTheCache(t *testing.T) {
	t.Parallel()
	for what, do := range map[string]func(s *Session, name string) error{"Drop": (*Session).Drop, "Delete": (*Session).Delete} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=10")
			c.job(four, steps(1, 2))
			c.job(four, func(s *Session, rank int) error {
				if err := do(s, name(2)); err != nil {
					return err
				}
				if err := restartAt(s, rank, 1); err != nil {
					return err
				}
				return s.Finalize()
			})
			if got := c.index(); len(got) != 1 || !got["ckpt.1"].Complete {
				t.Errorf("flushed: %v", got)
			}
			c.job(four, restarts(1))
		})
	}
}

func TestDelete_LeavesNoEmptyDirectories(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error {
		if err := s.StartOutput("deep", Checkpoint); err != nil {
			return err
		}
		files := []file{{name: fmt.Sprintf("deep/er/%d/file", rank), mode: 0o600}, {name: fmt.Sprintf("kept/%d", rank), mode: 0o600}}
		if err := errors.Join(write(s, files), s.CompleteOutput(true)); err != nil {
			return err
		}
		if rank == 0 {
			if err := os.WriteFile(c.prefix("kept/mine"), nil, 0o600); err != nil {
				return err
			}
		}
		return errors.Join(meet(s.world), s.Delete("deep"), s.Finalize())
	})
	for name, want := range map[string]bool{"deep": false, "kept/0": false, "kept/mine": true, "": true, ".scr/scr.dataset.1": false} {
		if _, err := os.Stat(c.prefix(name)); (err == nil) != want {
			t.Errorf("%s: %v", c.prefix(name), err)
		}
	}
}

// A run that begins again has the names of the run before: Current means what it has
// written, not the older one of the name in the prefix directory.
func TestCurrent_NewerInTheCache(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1))
	c.lose(four...)
	c.set("SCR_FLUSH=0", "SCR_FETCH=0")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(restartAt(s, rank, 0), steps(1, 2)(s, rank), s.Current(name(1)))
	})
	if got := c.in("a", "cache"); got != "2" {
		t.Errorf("the cache has %q", got)
	}
	c.job(four, restarts(1))
}
