package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A run that starts from the beginning although there are complete checkpoints says why, and what to do. With
// SCR_RESTART=must it fails; with SCR_RESTART=never and with SCR_FETCH=0 it says nothing.
func TestBeginning(t *testing.T) {
	t.Parallel()
	reject := func(s *Session, rank int) error {
		for {
			_, ok, err := s.HaveRestart()
			if err != nil || !ok {
				return err
			}
			if _, err := s.StartRestart(); err != nil {
				return err
			}
			_ = s.CompleteRestart(rank > 0)
		}
	}
	ask := func(s *Session, rank int) error {
		_, _, err := s.HaveRestart()
		return err
	}
	for name, test := range map[string]struct {
		nodes []string
		env   string
		run   func(s *Session, rank int) error
		why   string // "": nothing is said
	}{
		"another number of ranks":           {four[:2], "SCR_RESTART=may", ask, "ckpt.2 cannot be fetched: checkpoint ckpt.2 was written by 4 ranks, this run has 2"},
		"all are rejected":                  {four, "SCR_RESTART=may", reject, "the program could not restart from ckpt.2; its input may be another"},
		"the program does not ask":          {four, "SCR_RESTART=may", steps(3), "the program has not asked for one"},
		"the user wants it":                 {four, "SCR_RESTART=never", ask, ""},
		"the user wants none to be fetched": {four, "SCR_FETCH=0", ask, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=1", test.env)
			again := func() { // without the caches, and what has been rejected
				c.lose(four...)
				c.job(four, steps(1, 2))
				c.lose(four...)
			}
			again()
			c.job(test.nodes, test.run)
			if test.why == "" {
				if strings.Contains(c.said(), "THE RUN STARTS") {
					t.Errorf("%s", c.said())
				}
				return
			}
			c.says("THE RUN STARTS FROM THE BEGINNING, although ")
			c.says(" has 2 complete checkpoints, the newest ckpt.2: " + test.why)
			if again(); name != "the program does not ask" {
				c.set("SCR_RESTART=must")
				if err := c.try(test.nodes, test.run); err == nil || !strings.Contains(err.Error(), "SCR_RESTART=must") {
					t.Errorf("must: %v", err)
				}
			}
		})
	}
	t.Run("never, with checkpoints in the cache", func(t *testing.T) {
		c := newCluster(t)
		c.job(four, steps(1))
		c.set("SCR_RESTART=never")
		c.job(four, restarts(0))
		c.set("SCR_RESTART=may")
		c.job(four, restarts(1))
	})
	c := newCluster(t, "SCR_RESTART=must")
	if err := c.try(four, ask); err == nil || !strings.Contains(err.Error(), "there is no checkpoint from which the program can restart") {
		t.Errorf("%v", err)
	}
	c.set("SCR_FETCH_ON_INIT=1")
	if err := c.try(four, func(*Session, int) error { return nil }); err == nil || !strings.Contains(err.Error(), "Init: ") {
		t.Errorf("%v", err)
	}
	c.set("SCR_RESTART=may")
	c.job(four, steps(1))
	c.set("SCR_RESTART=must")
	c.job(four, restarts(1))
}

// offers is nil if a checkpoint is offered.
func offers(s *Session, want string) error {
	if got, err := offered(s); err != nil || got != want {
		return fmt.Errorf("offered %q, want %q (%w)", got, want, err)
	}
	return nil
}

// refused is nil if a checkpoint is offered, which all ranks then refuse.
func refused(s *Session, want string) error {
	if err := offers(s, want); err != nil {
		return err
	}
	if _, err := s.StartRestart(); err != nil {
		return err
	}
	if err := s.CompleteRestart(false); err == nil {
		return errors.New("no error")
	}
	return nil
}

// A program that refuses two checkpoints on all ranks has another input, as a rule: it is offered nothing older and
// gets an error, and the next run finds all as it was. What it writes all the same is its own.
func TestBeginning_OtherInput(t *testing.T) {
	t.Parallel()
	const says = "has refused ckpt.3 and ckpt.2 on all ranks"
	refuse := func(names ...string) func(s *Session, rank int) error {
		return func(s *Session, rank int) error {
			for _, want := range names {
				if err := refused(s, want); err != nil {
					return err
				}
			}
			return nil
		}
	}
	stopped := func(s *Session, rank int) error {
		for range 2 {
			if name, err := offered(s); err == nil || !strings.Contains(err.Error(), says) {
				return fmt.Errorf("offered %q (%w)", name, err)
			}
		}
		return nil
	}
	for _, env := range []string{"SCR_CACHE_SIZE=3", "SCR_CACHE_SIZE=1", "SCR_CACHE_BYPASS=1"} {
		t.Run(env, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=1", env)
			c.job(four, steps(1, 2, 3))
			wrong := func(s *Session, rank int) error {
				return errors.Join(refuse("ckpt.3", "ckpt.2")(s, rank), stopped(s, rank))
			}
			c.job(four, wrong)
			c.job(four, restarts(3))
			c.job(four, wrong)
			c.lose(four...)
			c.job(four, wrong)
			c.lose(four...)
			c.job(four, restarts(3))
			c.set("SCR_CURRENT=ckpt.1")
			c.job(four, refuse("ckpt.1"))
			c.set("SCR_CURRENT=")
			c.job(four, restarts(3))
			// A program that continues reads what it writes itself.
			c.job(four, func(s *Session, rank int) error {
				err := errors.Join(wrong(s, rank), steps(4)(s, rank))
				if got, e := offered(s); e != nil || got != "ckpt.4" {
					err = errors.Join(err, fmt.Errorf("offered %q (%w)", got, e))
				}
				return err
			})
			c.says("THE RUN STARTS FROM THE BEGINNING")
			c.lose(four...)
			c.job(four, restarts(4))
			if got := fmt.Sprint(c.flushed(4, 4)); got != "[1 2 3 4]" {
				t.Errorf("flushed: %s", got)
			}
		})
	}
}

// A run that cannot restart from the newest checkpoint, because it was only in caches that are lost, says so: once, whether there
// is an older one or none. A run says nothing if the user wants an older one, or nothing of the caches.
func TestBeginning_NewestIsLost(t *testing.T) {
	t.Parallel()
	const lost = ", and these nodes have too little of it, or this run cannot use it"
	for name, test := range map[string]struct {
		first, then, want string // the flush of steps 1 and 2, a setting of the last run, and what that is offered
		says              string // "": nothing
	}{
		"there is none":                {"SCR_FLUSH=0", "SCR_FLUSH=0", "", "THE RUN STARTS FROM THE BEGINNING, although ckpt.3 was complete in the caches of an earlier run, and was not flushed: " + lost[len(", and "):]},
		"there is an older one":        {"SCR_FLUSH=2", "SCR_FLUSH=0", "ckpt.2", "this run restarts from ckpt.2: ckpt.3 is newer, but was only in the caches of an earlier run" + lost},
		"the user wants the older one": {"SCR_FLUSH=2", "SCR_CURRENT=ckpt.2", "ckpt.2", ""},
		"the user wants no cache":      {"SCR_FLUSH=2", "SCR_CACHE_PURGE=1", "ckpt.2", ""},
		"the user wants neither":       {"SCR_FLUSH=0", "SCR_CACHE_PURGE=1", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, test.first)
			c.job(four, steps(1, 2))
			c.set("SCR_FLUSH=0")
			c.job(four, steps(3))
			if test.then != "SCR_CACHE_PURGE=1" {
				c.lose(four...)
			}
			c.set(test.then)
			c.job(four, func(s *Session, rank int) error {
				for range 2 {
					if got, _, err := s.HaveRestart(); err != nil || got != test.want {
						return fmt.Errorf("offered %q, %w", got, err)
					}
				}
				return nil
			})
			said, times := c.said(), 1
			if test.says == "" {
				times = 0
			}
			if n := strings.Count(said, "earlier run"); n != times || !strings.Contains(said, test.says) {
				t.Errorf("%d times: %s", n, said)
			}
		})
	}
}

// Refusals count together only before the program has accepted a checkpoint, chosen one, or begun a dataset.
func TestBeginning_RefusalsApart(t *testing.T) {
	t.Parallel()
	t.Run("of what the run has written", func(t *testing.T) {
		c := newCluster(t, "SCR_CACHE_SIZE=3")
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(steps(1, 2, 3)(s, rank), refused(s, "ckpt.3"), refused(s, "ckpt.2"), offers(s, "ckpt.1"))
		})
	})
	t.Run("with a restart in between", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=3")
		c.job(four, steps(1, 2, 3))
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(refused(s, "ckpt.3"), restartAt(s, rank, 2), steps(4, 5, 6)(s, rank), refused(s, "ckpt.6"), offers(s, "ckpt.5"))
		})
		c.lose(four...)
		c.job(four, restarts(5))
	})
	t.Run("with a choice", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=3")
		c.job(four, steps(1, 2, 3))
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(refused(s, "ckpt.3"), refused(s, "ckpt.2"), s.Current("ckpt.1"), offers(s, "ckpt.1"))
		})
	})
}
