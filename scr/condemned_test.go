package scr

import (
	"errors"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix"
)

// A program that dies of a checkpoint is given the one before, once somebody has
// found that it was no node's fault.
func TestRestart_CondemnedCheckpointIsNotUsedAgain(t *testing.T) {
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
