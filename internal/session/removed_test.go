package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/test/sample"
)

// The directories of a node are removed under a running job: control directory, cache, or both. The next
// Start makes them again, and what was in the cache; later runs find all.
func TestRemoved(t *testing.T) {
	t.Parallel()
	modes := [][]string{{"SCR_FLUSH=0"}, {"SCR_ENCODE_ASYNC=1"}, {"SCR_FLUSH=2"}, {"SCR_FLUSH=2", "SCR_FLUSH_ASYNC=1"}, {"SCR_COPY_TYPE=PARTNER", "SCR_CACHE_SIZE=4"}}
	for _, env := range sample.Of(t, modes, 2, len(modes)) {
		for _, what := range []string{"cntl", "cache", "*"} {
			t.Run(fmt.Sprint(env, what), func(t *testing.T) {
				c := newCluster(t, env...)
				remove := func(s *Session, rank int) error {
					if err := s.Agree(s.flusher.WaitForProtection()); err != nil || rank != 1 {
						return err
					}
					dirs, err := filepath.Glob(filepath.Join(c.node("b"), what))
					for _, dir := range dirs {
						err = errors.Join(err, os.RemoveAll(dir))
					}
					return err
				}
				c.job(four, func(s *Session, rank int) error {
					return errors.Join(steps(1, 2)(s, rank), remove(s, rank), steps(3, 4, 5)(s, rank))
				})
				c.says("directories of the running job were removed on node b")
				if n := strings.Count(c.said(), "were removed"); n != 1 {
					t.Errorf("%d lines: %s", n, c.said())
				}
				c.job(four, restarts(5))
				c.lose("b")
				again := []string{"a", "e", "c", "d"}
				c.job(again, restarts(5))
				// The job dies with the next dataset begun, and then another node is lost.
				c.job(four, func(s *Session, rank int) error {
					return errors.Join(restartAt(s, rank, 5), steps(6)(s, rank), remove(s, rank), s.StartOutput(name(7), Checkpoint))
				})
				c.lose("c")
				c.job([]string{"a", "b", "e", "d"}, restarts(6))
				c.job(four, func(s *Session, rank int) error { return s.Finalize() })
			})
		}
	}
}

// Without redundancy, what was in the cache is lost; the job continues.
func TestRemoved_Single(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_COPY_TYPE=SINGLE", "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error {
		err := steps(1, 2)(s, rank)
		if rank == 3 {
			err = errors.Join(err, os.RemoveAll(c.node("d")))
		}
		return errors.Join(err, steps(3)(s, rank))
	})
	c.says("is lost with the directories")
	c.job(four, restarts(3))
	if got := fmt.Sprint(c.flushed(4, 3)); got != "[1 2 3]" {
		t.Errorf("flushed: %s", got)
	}
}
