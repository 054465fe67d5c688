package session

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
)

// A program reads in the run what it has written, in the cache, with bypass and with a cache of one dataset; and
// what it writes then has the next number.
func TestInRun_ReadsWhatItHasWritten(t *testing.T) {
	t.Parallel()
	for _, set := range [][]string{nil, {"SCR_CACHE_SIZE=1"}, {"SCR_CACHE_BYPASS=1"}, {"SCR_FETCH=0"}, {"SCR_GLOBAL_RESTART=1", "SCR_FLUSH=0"},
		{"SCR_ENCODE_ASYNC=1", "SCR_CACHE_SIZE=3"}, {"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1"}} {
		c := newCluster(t, set...)
		c.job(four, func(s *Session, rank int) error {
			for step := 1; step <= 4; step++ {
				if err := checkpoint(s, rank, step); err != nil {
					return err
				}
				for range 2 { // as often as it likes
					if err := restartAt(s, rank, step); err != nil {
						return fmt.Errorf("%v: %w", set, err)
					}
				}
				if s.numbers.id != step || s.numbers.checkpoint[""] != step {
					return fmt.Errorf("%v: dataset %d, checkpoint %d in step %d", set, s.numbers.id, s.numbers.checkpoint[""], step)
				}
				// Only a restart finds the files: elsewhere the name stays as it is.
				if _, err := offered(s); err != nil {
					return err
				}
				name := contents(step, rank)[0].name
				if got, err := s.Route(filepath.Join(s.prefix.Dir, name)); err != nil || got != filepath.Join(s.prefix.Dir, name) {
					return fmt.Errorf("Route outside a restart: %s, %v", got, err)
				}
			}
			return nil
		})
		if set == nil {
			c.job(four, restarts(4))
		}
	}
}

// An output is nothing to restart from, nor is what was not completed: the checkpoint before is offered.
func TestInRun_OffersCheckpointsOnly(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=3")
	c.job(four, func(s *Session, rank int) error {
		err := errors.Join(s.StartOutput("out", Output), write(s, contents(1, rank)), s.CompleteOutput(true))
		if name, e := offered(s); name != "" || e != nil {
			return fmt.Errorf("offered %q, %v, %w", name, e, err)
		}
		err = errors.Join(err, checkpoint(s, rank, 2), s.StartOutput("bad", Checkpoint), write(s, contents(3, rank)))
		if s.CompleteOutput(rank != 1) == nil {
			return errors.New("an output that is not valid")
		}
		err = errors.Join(err, restartAt(s, rank, 2))
		err = errors.Join(err, s.StartOutput("out.4", Output), write(s, contents(4, rank)), s.CompleteOutput(true))
		return errors.Join(err, restartAt(s, rank, 2), checkpoint(s, rank, 5), restartAt(s, rank, 5))
	})
	c.job(four, restarts(5))
}

// If the program cannot use what it has written, it is offered the one before, and from the prefix directory if the
// cache has none; and the next run is not offered it either.
func TestInRun_OneThatFails(t *testing.T) {
	t.Parallel()
	for _, set := range [][]string{{"SCR_CACHE_SIZE=2"}, {"SCR_CACHE_SIZE=1", "SCR_FLUSH=1"}} {
		c := newCluster(t, set...)
		c.job(four, func(s *Session, rank int) error {
			if err := errors.Join(checkpoint(s, rank, 1), checkpoint(s, rank, 2)); err != nil {
				return err
			}
			if got, err := offered(s); got != name(2) || err != nil {
				return fmt.Errorf("offered %q, %v", got, err)
			}
			if _, err := s.StartRestart(); err != nil {
				return err
			}
			if s.CompleteRestart(rank != 2) == nil {
				return errors.New("a restart that failed")
			}
			return restartAt(s, rank, 1)
		})
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(restartAt(s, rank, 1), checkpoint(s, rank, 3), restartAt(s, rank, 3))
		})
		c.job(four, restarts(3))
	}
}

// What is offered does not outlive what the program says of it.
func TestInRun_Removed(t *testing.T) {
	t.Parallel()
	for what, remove := range map[string]func(s *Session) error{
		"Drop":    func(s *Session) error { return s.Drop(name(3)) },
		"Delete":  func(s *Session) error { return s.Delete(name(3)) },
		"Current": func(s *Session) error { return s.Current(name(2)) },
	} {
		c := newCluster(t, "SCR_CACHE_SIZE=3", "SCR_FLUSH=1")
		c.job(four, func(s *Session, rank int) error {
			for step := 1; step <= 3; step++ {
				if err := checkpoint(s, rank, step); err != nil {
					return err
				}
			}
			got, err := offered(s)
			if err != nil || got != name(3) {
				return fmt.Errorf("%s: offered %q, %v", what, got, err)
			}
			if err := remove(s); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			if err := restartAt(s, rank, 2); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			return errors.Join(checkpoint(s, rank, 4), restartAt(s, rank, 4))
		})
		c.job(four, restarts(4))
	}
}

// A checkpoint that was flushed, and is lost from the cache, is offered in a run, too, in place of an older one of the cache.
func TestInRun_NewerInThePrefix(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=0", "SCR_COPY_TYPE=XOR", "SCR_CACHE_SIZE=3")
	c.job(four, steps(1))
	c.set("SCR_COPY_TYPE=SINGLE", "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 1), checkpoint(s, rank, 2)) })
	c.lose("b")
	c.job(four, func(s *Session, rank int) error {
		if err := s.StartOutput(name(3), Checkpoint); err != nil {
			return err
		}
		if s.CompleteOutput(false) == nil {
			return errors.New("complete")
		}
		if got, ok, err := s.HaveRestart(); got != name(2) || err != nil {
			return fmt.Errorf("offered %q, %v, %v", got, ok, err)
		}
		return nil
	})
}
