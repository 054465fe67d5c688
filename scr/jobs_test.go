package scr

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// twoJobs runs two jobs at the same time in one prefix directory. Both begin to
// count datasets from the same number.
func (c *cluster) twoJobs(f func(a, b *Session, rank int) error) {
	c.t.Helper()
	_, err := local.Run(4, c.opt, func(world mpi.Comm) error {
		var jobs []*Session
		for _, id := range []string{"first", "second"} {
			opt := c.options(four[world.Rank()])
			environ := opt.Environ
			opt.Environ = func(name string) (string, bool) {
				if name == "SCR_JOB_ID" {
					return id, true
				}
				return environ(name)
			}
			s, err := Init(world, opt)
			if err != nil {
				return err
			}
			defer s.cache.Close()
			defer s.events.Close()
			jobs = append(jobs, s)
		}
		return f(jobs[0], jobs[1], world.Rank())
	})
	if err != nil {
		c.t.Fatalf("%v\n%s", err, c.said())
	}
}

// What one job has flushed, another that counts alike does not take out of the
// index; it says so, and its next datasets have numbers that are free.
func TestTwoJobs_OnePrefix(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.twoJobs(func(a, b *Session, rank int) error {
		for _, next := range []struct {
			s    *Session
			step int
		}{{a, 1}, {b, 2}, {b, 3}, {a, 4}} {
			if err := checkpoint(next.s, rank, next.step); err != nil {
				return fmt.Errorf("step %d: %w", next.step, err)
			}
		}
		return nil
	})
	c.says(`has "ckpt.1" of job first as dataset 1, so "ckpt.2" of the same number cannot be entered`)
	c.says("dataset ckpt.2 stays in the cache")
	if got := fmt.Sprint(c.flushed(4, 4)); got != "[1 3]" {
		t.Errorf("%s are flushed", got) // 2 and 4 came second with their numbers
	}
	c.lose(four...)
	c.job(four, restarts(3))
}

// The same where the program writes to the prefix directory: one of two that are
// being written at the same time is completed, and it is whole.
func TestTwoJobs_Bypass(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_BYPASS=1")
	var each everyRank
	begin := func(s *Session, rank, step int) error {
		if err := s.StartOutput(name(step), Checkpoint); err != nil {
			return err
		}
		for _, f := range contents(step, rank) {
			path, err := s.Route(c.prefix(f.name))
			if err == nil {
				err = os.WriteFile(path, f.data, 0o600)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	c.twoJobs(func(a, b *Session, rank int) error {
		if err := begin(a, rank, 1); err != nil {
			return err
		}
		if err := begin(b, rank, 2); err != nil { // nothing says that the first is still at it
			return err
		}
		each.is(rank, a.CompleteOutput(true))
		if err := b.CompleteOutput(true); err != nil {
			return err
		}
		if err := begin(b, rank, 3); err != nil {
			return err
		}
		if err := b.CompleteOutput(true); err != nil {
			return err
		}
		if err := begin(a, rank, 4); err == nil || !strings.Contains(err.Error(), "prefix directories of their own") {
			return fmt.Errorf("a number that is taken: %v", err)
		}
		if err := begin(a, rank, 5); err != nil {
			return err
		}
		return a.CompleteOutput(true)
	})
	each.failed(t, 4, `has "ckpt.2" of job second as dataset 1`)
	for step, want := range map[int]bool{1: false, 2: true, 3: true, 4: false, 5: true} {
		if got := c.index()[name(step)].Complete; got != want {
			t.Errorf("%s is complete: %v, want %v", name(step), got, want)
		}
	}
}
