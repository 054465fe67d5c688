package session

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix"
)

// A program that dies of a checkpoint is given the one before, once somebody has
// found that it was no node's fault.
func TestRestart_CondemnedCheckpointIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	for _, flush := range []string{"SCR_FLUSH=0", "SCR_FLUSH=1"} {
		t.Run(flush, func(t *testing.T) {
			c := newCluster(t, flush, "SCR_CACHE_SIZE=3")
			// Without Finalize, which would flush and end the story.
			gone := errors.New("the program dies")
			if err := c.try(four, func(s *Session, rank int) error { return errors.Join(steps(1, 2)(s, rank), gone) }); !errors.Is(err, gone) {
				t.Fatal(err)
			}
			dies := func(s *Session, rank int) error {
				if _, ok, err := s.HaveRestart(); err != nil || !ok {
					return errors.Join(err, errors.New("nothing is offered"))
				}
				_, err := s.StartRestart()
				return errors.Join(err, gone)
			}
			if err := c.try(four, dies); !errors.Is(err, gone) {
				t.Fatal(err)
			}
			dir := c.prefix("")
			if got, err := prefix.Condemn(dir, time.Now()); err != nil || got != name(2) {
				t.Fatalf("condemned %q, %v", got, err)
			}
			for range 2 { // also after a run that has not completed a checkpoint
				c.job(four, restarts(1))
				c.says("checkpoint ckpt.2 in the cache is passed over: the program died while it read it")
			}
			c.job(four, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 1), checkpoint(s, rank, 3)) })
			if got := c.in("a", "cache"); got != "1 3" {
				t.Errorf("in the cache: %s", got)
			}
			if list, err := prefix.Condemned(dir); err != nil || len(list) > 0 {
				t.Errorf("still condemned: %v, %v", list, err)
			}
			// A restart that ends leaves nothing to be condemned.
			if got, err := prefix.Condemn(dir, time.Now()); err != nil || got != "" {
				t.Errorf("condemned %q, %v", got, err)
			}
		})
	}
}

// A job cannot restart from a checkpoint in its cache. Another job, which uses the same prefix
// directory, has a checkpoint of the same number and name there: that stays as it is.
func TestRestart_FailedCheckpointOfAnotherJob(t *testing.T) {
	t.Parallel()
	dies := errors.New("the program dies")
	for how, read := range map[string]func(s *Session) error{
		"rejected": func(s *Session) error {
			if err := s.CompleteRestart(false); err == nil {
				return errors.New("no error")
			}
			return dies
		},
		"died": func(*Session) error { return dies },
	} {
		t.Run(how, func(t *testing.T) {
			c := newCluster(t)
			c.job(four, steps(1))
			c.set("SCR_JOB_ID=other", "SCR_FLUSH=1")
			c.job(four, steps(1))
			c.set("SCR_JOB_ID=job", "SCR_FLUSH=0")
			err := c.try(four, func(s *Session, _ int) error {
				if got, err := offered(s); err != nil || got != name(1) {
					return fmt.Errorf("offered %q, %v", got, err)
				}
				if _, err := s.StartRestart(); err != nil {
					return err
				}
				return read(s)
			})
			if !errors.Is(err, dies) {
				t.Fatal(err)
			}
			if _, err := prefix.Condemn(c.prefix(""), time.Now()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if why := c.index()[name(1)].Why(); why != "" {
					t.Errorf("%s\n%s", why, c.said())
				}
				c.job(four, func(s *Session, _ int) error { _, err := offered(s); return err }) // passes over what is condemned
			}
		})
	}
}
