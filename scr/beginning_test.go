package scr

import (
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
			_ = s.CompleteRestart(false)
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
		"all are rejected":                  {four, "SCR_RESTART=may", reject, "the program could not restart from ckpt.2: is its input another"},
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
