package scr

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix"
)

// choose is what scr_index --current does.
func (c *cluster) choose(name string) {
	c.t.Helper()
	dir := c.prefix("")
	if err := prefix.UpdateIndex(dir, func(x *prefix.Index) error { return prefix.Choose(x, dir, name, time.Now()) }); err != nil {
		c.t.Fatal(err)
	}
}

// looks is a run that reads the checkpoint it is offered, and ends before it writes one.
func looks(step int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error { return resumes(s, rank, "right", step, 4) }
}

// What a user chooses with scr_index counts more than what the cache has, until a run goes on from it.
func TestChoice(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"all are flushed":        {"SCR_FLUSH=1"},
		"with the flush behind":  {"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1"},
		"newer are in the cache": {"SCR_FLUSH=2", "SCR_CACHE_SIZE=3"},
		"it is in the cache":     {"SCR_FLUSH=2", "SCR_CACHE_SIZE=5"},
		"in place":               {"SCR_FLUSH=1", "SCR_FETCH_BYPASS=1"},
		"never written there":    {"SCR_CACHE_BYPASS=1"},
		"restart where it is":    {"SCR_FLUSH=1", "SCR_GLOBAL_RESTART=1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, env...)
			end := func(s *Session) error { return nil } // killed
			if name == "with the flush behind" {
				end = (*Session).Finalize
			}
			c.job(four, func(s *Session, rank int) error { return errors.Join(computes("right", 1, 5)(s, rank), end(s)) })
			c.job(four, looks(5))
			c.choose("ckpt.2")
			c.job(four, looks(2))
			c.job(four, looks(2)) // it has written nothing
			c.job(four, goesOn("right", 2, 4, 4))
			c.job(four, looks(4))
			c.set("SCR_CURRENT=ckpt.2")
			c.choose("ckpt.4")
			c.job(four, goesOn("right", 2, 4, 3)) // what the run is told counts more
			c.set("SCR_CURRENT=")
			c.job(four, looks(3))
			c.wants(c.names())
		})
	}
	t.Run("the cache of the choice is lost", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1")
		c.job(four, computes("right", 1, 5))
		c.choose("ckpt.2")
		c.lose(four...)
		c.job(four, goesOn("right", 2, 4, 3))
		c.lose(four...)
		c.job(four, looks(3))
	})
	t.Run("while a job works", func(t *testing.T) {
		for _, every := range []string{"1", "10"} {
			c := newCluster(t, "SCR_FLUSH=1")
			c.job(four, computes("right", 1, 3))
			c.set("SCR_FLUSH=" + every)
			c.job(four, func(s *Session, rank int) error {
				if err := resumes(s, rank, "right", 3, 4); err != nil {
					return err
				}
				if rank == 0 {
					c.choose("ckpt.1")
				}
				return computes("right", 4, 5)(s, rank)
			})
			c.job(four, looks(5))
			if every == "10" { // the flush of a newer one ends a choice without a word
				c.says("scr_index --current has chosen ckpt.1, but a job has written another dataset since")
			}
			c.job(four, looks(5))
		}
	})
	t.Run("flushed late", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=2")
		c.job(four, computes("right", 1, 3))
		c.choose("ckpt.2")
		c.set("SCR_FLUSH=1") // ckpt.3 is flushed when the next run begins
		c.job(four, goesOn("right", 2, 4, 3))
		c.says("this run restarts from ckpt.2, which scr_index --current has chosen; what is newer leaves the cache: ckpt.3")
		c.job(four, looks(3))
	})
	t.Run("a run that begins anew", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=2")
		c.job(four, computes("right", 1, 3))
		c.choose("ckpt.2")
		c.set("SCR_RESTART=never")
		c.job(four, computes("right", 1, 1))
		c.set("SCR_RESTART=may")
		c.job(four, looks(1))
	})
	t.Run("it is damaged", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=1")
		c.job(four, computes("right", 1, 3))
		c.choose("ckpt.2")
		c.change(c.prefix("ckpt.2/rank_1"), func(data []byte) []byte { data[0] ^= 1; return data })
		c.job(four, looks(3))
		c.says("scr_index --current names ckpt.2, from which this run cannot restart")
	})
}

// The program cannot choose a checkpoint whose files a newer one has replaced: what is newer in the cache would leave for nothing.
// It was found by soak seed 1334269.
func TestCurrent_Replaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=1")
	same := func(s *Session, rank int, name string) error {
		if err := s.StartOutput(name, Checkpoint); err != nil {
			return err
		}
		failed := write(s, of("right", rank, 1))
		return errors.Join(failed, s.CompleteOutput(failed == nil))
	}
	c.job(four, func(s *Session, rank int) error {
		if err := errors.Join(same(s, rank, "one"), same(s, rank, "two")); err != nil {
			return err
		}
		if err := s.Current("one"); err == nil || !strings.Contains(err.Error(), "its files were replaced by two") {
			return fmt.Errorf("chosen: %w", err)
		}
		return nil
	})
	c.job(four, func(s *Session, rank int) error { return offers(s, "two") })
}
