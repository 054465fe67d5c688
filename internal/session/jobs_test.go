package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/job/request"
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
			defer s.advisor.Abandon()
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
	c := newCluster(t, "SCR_FLUSH=1", "SCR_PREFIX_SHARED=1")
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
	c.set("SCR_PREFIX_SHARED=0")
	c.job(four, restarts(3))
}

// A job is refused while another one works in its prefix directory, unless both are parts of one launch.
func TestTwoJobs_Refused(t *testing.T) {
	t.Parallel()
	first := request.Job{ID: "17", User: "anna", Since: time.Now().Add(-time.Hour), Launch: "step 4"}
	since := "since " + first.Since.Format(time.DateTime)
	for what, test := range map[string]struct {
		run  func(c *cluster) error
		says []string // DIRECTORY is the prefix directory; nothing: it may run
	}{
		"an earlier run": {func(c *cluster) error { return c.part("17", "step 5") },
			[]string{"is still running, as a rank of an earlier run of job 17, which has to be ended (kill it), or of another job of anna with this id"}},
		"another job":       {func(c *cluster) error { return c.try(four, steps(2)) }, []string{"job 17 of anna (process ", since, "DIRECTORY", "SCR_PREFIX_SHARED=1"}},
		"of another launch": {func(c *cluster) error { return c.part("18", "step 5") }, []string{"job 17 of anna (process ", since, "DIRECTORY", "SCR_PREFIX_SHARED=1"}},
		"of this launch":    {func(c *cluster) error { return c.part("18", "step 4") }, nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // a job that is refused has waited for a sign of life
			c := newCluster(t, "SCR_FLUSH=1")
			c.job(four, steps(1))
			held, err := request.Begin(c.prefix(""), first, false)
			c.must(err)
			defer held.Close()
			err = test.run(c)
			if test.says == nil {
				c.must(err)
			}
			for _, text := range test.says {
				if text = strings.ReplaceAll(text, "DIRECTORY", filepath.Dir(c.prefix("x"))); err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%q is missing: %v", text, err)
				}
			}
			held.Close()
			c.job(four, restarts(1))
		})
	}
}

// part runs a job to which the program gives an id, in a launch.
func (c *cluster) part(id, launch string) error {
	return c.settles(func(int) []string { return []string{"SCR_JOB_ID=" + id} }, func(name string) (string, bool, bool) {
		switch name {
		case "SCR_JOB_ID":
			return "", false, true
		case "PMIX_NAMESPACE":
			return launch, true, true
		}
		return "", false, false
	})
}

// Jobs that share a prefix directory take, replace and delete nothing of each other.
func TestTwoJobs_Apart(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"SCR_FLUSH=1", "SCR_CACHE_BYPASS=1"} {
		t.Run(way, func(t *testing.T) {
			c := newCluster(t, way, "SCR_PREFIX_SHARED=1", "SCR_JOB_ID=first")
			c.job(four, steps(1, 2))
			c.lose(four...)
			as := func(id string, more ...string) { c.lose(four...); c.set(append(more, "SCR_JOB_ID="+id)...) }
			as("second", "SCR_PREFIX_SIZE=1")
			c.job(four, steps(5, 6)) // deletes 5
			if got := fmt.Sprint(c.flushed(4, 6)); got != "[1 2 6]" {
				t.Errorf("%s are there", got)
			}
			as("second")
			c.job(four, restarts(6))
			as("third")
			c.job(four, restarts(0))
			if strings.Contains(c.said(), "THE RUN STARTS") {
				t.Errorf("checkpoints of others are missed:\n%s", c.said())
			}
			as("first")
			c.job(four, restarts(2))
			as("first", "SCR_CURRENT=ckpt.6")
			c.job(four, restarts(2))
			as("first", "SCR_CURRENT=", "SCR_JOB_NAME=named")
			c.job(four, restarts(0))
			as("first", "SCR_JOB_NAME=")
			// Names of the other one, and files of the other one in a dataset of another name.
			err := c.try(four, steps(6))
			if said := fmt.Sprint(err, c.said()); !strings.Contains(said, "a dataset of this name") || !strings.Contains(said, "belongs to job second") {
				t.Errorf("%s", said)
			}
			as("first")
			err = c.try(four, func(s *Session, rank int) error {
				if err := s.StartOutput("mine", Checkpoint); err != nil {
					return err
				}
				return errors.Join(write(s, contents(6, rank)), s.CompleteOutput(true))
			})
			if said := fmt.Sprint(err, c.said()); !strings.Contains(said, "(ckpt.6), which has files of the same names,") {
				t.Errorf("%s", said)
			}
			as("second")
			if way == "SCR_CACHE_BYPASS=1" { // the program has written over its files
				return
			}
			c.job(four, restarts(6))
		})
	}
}

// The same where the program writes to the prefix directory: one of two that are
// being written at the same time is completed, and it is whole.
func TestTwoJobs_Bypass(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_BYPASS=1", "SCR_PREFIX_SHARED=1")
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
