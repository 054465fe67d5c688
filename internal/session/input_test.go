package session

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/test/sample"
)

// A checkpoint of another input is not offered, wherever it is, and a job says so; SCR_CURRENT
// restarts from it all the same.
func TestInput_OfCheckpoints(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"cache", "prefix", "bypass"} {
		t.Run(where, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=3", "SCR_CHECKPOINT_INTERVAL=1")
			if where == "bypass" {
				c.set("SCR_CACHE_BYPASS=1")
			}
			input, moved := c.root+"/input", c.root+"/moved"
			c.set("SCR_JOB_INPUT=" + input + " " + moved)
			content := func(path, text string) { c.must(os.WriteFile(path, []byte(text), 0o600)) }
			lose := func() {
				if where != "cache" {
					c.lose(four...)
				}
			}
			content(input, "mesh")
			content(moved, "model")
			c.job(four, steps(1, 2))
			lose()
			c.job(four, restarts(2))

			content(input, "other mesh")
			lose()
			c.job(four, restarts(0))
			c.says("checkpoint ckpt.2 is not offered: its job read other input")
			c.says("checkpoint ckpt.1 is not offered: its job read other input")
			c.set("SCR_CURRENT=ckpt.1")
			c.job(four, func(s *Session, rank int) error { return restartAt(s, rank, 1) })
			c.set("SCR_CURRENT=")

			// The same input at another place is the same.
			content(input, "mesh")
			c.must(os.Rename(moved, c.root+"/elsewhere"))
			c.set("SCR_JOB_INPUT=" + input + " " + c.root + "/elsewhere")
			lose()
			c.job(four, restarts(1))

			// A job that names no input restarts from any checkpoint.
			content(input, "other mesh")
			c.set("SCR_JOB_INPUT=")
			lose()
			c.job(four, restarts(1))
		})
	}
}

// reads gives the jobs of a cluster an input.
func (c *cluster) reads(text string) {
	c.t.Helper()
	c.must(os.WriteFile(c.root+"/input", []byte(text), 0o600))
	c.set("SCR_JOB_INPUT=" + c.root + "/input")
}

// saved returns the names of the datasets that are complete in the prefix directory.
func (c *cluster) saved() string {
	c.t.Helper()
	x, err := prefix.ReadIndex(c.prefix(""))
	c.must(err)
	var names []string
	for _, e := range x.Entries() {
		if e.Complete {
			names = append(names, e.Name)
		}
	}
	return strings.Join(names, " ")
}

// A run with another input loses no checkpoint of the cache, whatever SCR_FLUSH is: it flushes
// them, and scr_postrun still knows that they are in the cache.
func TestInput_IsWrongOnce(t *testing.T) {
	t.Parallel()
	for _, flags := range sample.Of(t, []Flags{Checkpoint, Checkpoint | Output}, 1, 2) {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			nodes := on(2, "a", "b", "c", "d")
			c := newCluster(t, "SCR_CACHE_SIZE=2", "SCR_PREFIX_SIZE=1")
			c.reads("mesh")
			c.job(nodes, func(s *Session, rank int) error {
				return errors.Join(output(s, rank, 1, flags), output(s, rank, 2, flags))
			})
			c.reads("wrong mesh")
			c.job(nodes, restarts(0))
			c.says("checkpoint ckpt.2 is not offered")
			if got := c.saved(); got != "ckpt.2 ckpt.1" {
				t.Errorf("in the prefix directory: %s\n%s", got, c.said())
			}
			located, err := prefix.Locations(c.prefix(""))
			c.must(err)
			for _, d := range located {
				if !d.Is(prefix.InCache) {
					t.Errorf("%s is not known as in the cache", d.Name)
				}
			}
			c.job(nodes, func(s *Session, rank int) error {
				return errors.Join(restartAt(s, rank, 0), steps(3, 4, 5)(s, rank))
			})
			if got := c.in("a", "cache"); got != "4 5" {
				t.Errorf("in the cache: %s", got)
			}
			c.reads("mesh")
			c.job(nodes, restarts(2))
			c.lose("a", "b", "c", "d")
			c.job(nodes, restarts(2))
		})
	}
}

// A checkpoint of another input that cannot be flushed stays in the cache: before this run has
// one of its own nothing takes its place, and Finalize flushes it.
func TestInput_IsWrongAndTheFlushFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=1")
	c.reads("mesh")
	c.job(four, steps(1))
	c.reads("wrong mesh")
	c.must(os.WriteFile(c.prefix(name(1)), nil, 0o600)) // in place of its directory
	var each everyRank
	c.job(four, func(s *Session, rank int) error {
		err := restartAt(s, rank, 0)
		each.is(rank, s.StartOutput(name(2), Checkpoint))
		return err
	})
	each.failed(t, len(four), "checkpoint ckpt.1 cannot leave the cache")
	c.says("checkpoint ckpt.1, which is not offered, stays in the cache until it is flushed")
	c.job(four, func(s *Session, rank int) error {
		err := s.Agree(nil)
		if rank == 0 {
			err = errors.Join(err, os.Remove(c.prefix(name(1))))
		}
		return errors.Join(s.Agree(err), s.Finalize())
	})
	if got := c.saved(); got != name(1) {
		t.Errorf("in the prefix directory: %s\n%s", got, c.said())
	}
	c.job(four, steps(2)) // now it may leave
	if got := c.in("a", "cache"); got != "2" {
		t.Errorf("in the cache: %s", got)
	}
	c.reads("mesh")
	c.job(four, restarts(1))
}

// Once a run has a checkpoint of its own, one of another input that cannot be flushed gives
// way to the next, with a warning.
func TestInput_IsOtherForGood(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=3")
	c.reads("mesh")
	c.job(four, steps(1, 2))
	c.reads("other mesh")
	for step := range 2 {
		c.must(os.WriteFile(c.prefix(name(step+1)), nil, 0o600))
	}
	caches := map[int]string{3: "1 2 3", 4: "2 3 4", 5: "3 4 5"}
	c.job(four, func(s *Session, rank int) error {
		err := restartAt(s, rank, 0)
		for step := 3; step <= 5 && err == nil; step++ {
			err = checkpoint(s, rank, step)
			if err == nil && rank == 0 && c.in("a", "cache") != caches[step] {
				err = fmt.Errorf("in the cache after step %d: %s", step, c.in("a", "cache"))
			}
			err = s.Agree(err)
		}
		return err
	})
	c.says("checkpoint ckpt.1, which is not offered, leaves the cache, where the next dataset needs its place, and is nowhere else")
	c.says("checkpoint ckpt.2, which is not offered, leaves the cache")
	if got := c.saved(); got != "" {
		t.Errorf("in the prefix directory: %s", got)
	}
}

// SCR_Current names a checkpoint of another input: it is offered, from the cache.
func TestInput_CurrentNamesOther(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.reads("mesh")
	c.job(four, steps(1, 2))
	c.reads("other mesh")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(restartAt(s, rank, 0), s.Current(name(2)), restartAt(s, rank, 2))
	})
	if strings.Contains(c.said(), "fetched") {
		t.Error(c.said())
	}
}

func TestInput_ThatIsNotThere(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.set("SCR_JOB_INPUT=" + c.root + "/none")
	if err := c.try(four, steps(1)); err == nil || !strings.Contains(err.Error(), "SCR_JOB_INPUT") || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
}
