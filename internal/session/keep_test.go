package session

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/test/sample"
)

// holds fails the test unless these nodes have exactly the datasets in their caches.
func (c *cluster) holds(want string, nodes ...string) {
	c.t.Helper()
	for _, node := range nodes {
		if got := c.in(node, "cache"); got != want {
			c.t.Errorf("node %s has %q in its cache, want %q\n%s", node, got, want, c.said())
		}
	}
}

// A run on nodes that have too little of the checkpoints, wherever their ranks run now, takes
// nothing away from a later run on the right ones.
func TestKeep_WrongNodes(t *testing.T) {
	t.Parallel()
	wrongs := map[string][]string{
		"two nodes":                on(2, "a", "b"),
		"every second":             on(1, "x", "a", "y", "c"), // each descriptor is on one of these two
		"others":                   on(1, "x", "y", "a", "b"),
		"others, moved":            on(1, "b", "x", "a", "y"),
		"one of them":              on(1, "x", "y", "z", "d"),
		"none of them":             on(1, "w", "x", "y", "z"),
		"another number of ranks":  on(1, "a", "b", "c"),
		"others, another number":   on(1, "x", "a", "b"),
		"one node, another number": on(3, "a"),
		"twice as many ranks":      on(2, "a", "b", "c", "d"),
	}
	for _, name := range sample.Of(t, slices.Sorted(maps.Keys(wrongs)), 3, 5) {
		wrong := wrongs[name]
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.job(four, steps(1, 2))
			for range 2 {
				c.job(wrong, restarts(0))
				c.holds("1 2", four...)
			}
			if len(wrong) == len(four) && !slices.Contains(wrong, "z") {
				c.says("dataset 2 (ckpt.2) in the cache is passed over: cannot be rebuilt: ")
				c.says("if its files are on other nodes, a run on those may use it")
			}
			c.job(four, restarts(2))
			c.says("as it was in the cache")
			c.set("SCR_CURRENT=ckpt.1")
			c.job(four, restarts(1))
			c.says("as it was in the cache")
		})
	}
}

// On storage that all nodes share no nodes are wrong.
func TestKeep_WrongNodesWithSharedStorage(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.configure("STORE=$SHARED GROUP=WORLD COUNT=2", "CKPT=0 STORE=$SHARED GROUP=NODE TYPE=XOR")
	c.job(four, steps(1, 2))
	c.job(on(1, "x", "y", "a", "b"), restarts(2))
	c.job(four, restarts(2))
	c.says("as it was in the cache")
}

// What is passed over stays until the first checkpoint is complete, and with it no more
// datasets are in the cache than SCR_CACHE_SIZE allows.
func TestKeep_UntilTheFirstCheckpointIsComplete(t *testing.T) {
	t.Parallel()
	wrong := on(1, "x", "y", "a", "b")
	for size, during := range map[int]string{1: "3", 2: "2 3", 3: "1 2 3", 4: "1 2 3"} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			c := newCluster(t)
			c.set("SCR_CACHE_SIZE=2")
			c.job(four, steps(1, 2))
			c.set(fmt.Sprintf("SCR_CACHE_SIZE=%d", size))
			c.job(wrong, func(s *Session, rank int) error {
				if err := restartAt(s, rank, 0); err != nil {
					return err
				}
				if err := s.StartOutput(name(3), Checkpoint); err != nil {
					return err
				}
				if rank == 0 {
					c.holds(during, "a", "b")
				}
				if err := errors.Join(meet(s.world), write(s, contents(3, rank))); err != nil {
					return err
				}
				return s.CompleteOutput(true)
			})
			c.holds("3", "a", "b", "x", "y")
			c.holds("1 2", "c", "d")
			c.job(wrong, restarts(3))
		})
	}
}

// A run on the wrong nodes that has begun its first checkpoint, and not completed it, can
// still be stopped without a loss.
func TestKeep_FirstCheckpointIsNotCompleted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	c.job(on(1, "x", "y", "a", "b"), func(s *Session, rank int) error { return s.StartOutput(name(3), Checkpoint) })
	c.job(four, restarts(2))
}

// A checkpoint that can be fetched again makes room before one that only other nodes can
// rebuild, and is newer.
func TestKeep_WhatWasFetchedMakesRoom(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=2")
	c.job(four, steps(1, 2, 3, 4))
	if err := prefix.UpdateIndex(c.prefix(""), func(x *prefix.Index) error { x.Remove(name(4)); return nil }); err != nil {
		t.Fatal(err)
	}
	wrong := on(1, "x", "y", "a", "b")
	c.job(wrong, func(s *Session, rank int) error {
		if err := restartAt(s, rank, 2); err != nil {
			return err
		}
		if rank == 0 {
			c.holds("2 4", "a", "b")
		}
		if err := errors.Join(meet(s.world), s.StartOutput(name(5), Checkpoint)); err != nil {
			return err
		}
		if rank == 0 {
			c.holds("4 5", "a", "b")
		}
		s.world.Barrier()
		return nil
	})
	c.job(four, restarts(4))
}

// ... but not if the next run must not fetch it: SCR_FETCH=0.
func TestKeep_WhatIsNotFetchedStays(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=2", "SCR_FETCH=0")
	c.job(four, steps(1, 2))
	c.must(errors.Join(os.RemoveAll(c.cached("c", 2, "")), os.RemoveAll(c.cached("d", 2, ""))))
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(restartAt(s, rank, 1), s.StartOutput(name(3), Checkpoint))
	})
	c.job(four, restarts(1))
}

// After a checkpoint that could not be completed, maybe for lack of room, the next has all
// of it.
func TestKeep_ACheckpointFailed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=4")
	c.job(four, steps(1, 2))
	c.job(on(1, "x", "y", "a", "b"), func(s *Session, rank int) error {
		if err := s.StartOutput(name(3), Checkpoint); err != nil {
			return err
		}
		if err := s.CompleteOutput(false); err == nil {
			return errors.New("no error")
		}
		if rank == 0 {
			c.holds("1 2", "a", "b")
		}
		if err := errors.Join(meet(s.world), s.StartOutput(name(4), Checkpoint)); err != nil {
			return err
		}
		if rank == 0 {
			c.holds("4", "a", "b")
		}
		s.world.Barrier()
		return nil
	})
}

// All checkpoints have the same file names, so the newest has replaced the one before in the
// prefix directory. If the program rejects the newest, the one before is in the cache only, and
// does not leave it for one that is not completed.
func TestKeep_ReplacedByTheRejected(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error { return errors.Join(writesAgain(s, rank, 1), writesAgain(s, rank, 2)) })
	c.job(four, func(s *Session, rank int) error {
		if got, err := offered(s); err != nil || got != name(2) {
			return fmt.Errorf("offered %q, %v", got, err)
		}
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		if err := s.CompleteRestart(false); err == nil {
			return errors.New("no error")
		}
		if err := readsAgain(1)(s, rank); err != nil {
			return err
		}
		if err := s.StartOutput(name(3), Checkpoint); err != nil {
			return err
		}
		if err := s.CompleteOutput(false); err == nil {
			return errors.New("no error")
		}
		return nil
	})
	c.job(four, readsAgain(1))
}

// What a job of another size has written stays for a run of that size, unless this run removes
// the dataset of its name: then no run is offered it.
func TestKeep_OfAnotherSize(t *testing.T) {
	t.Parallel()
	for what, remove := range map[string]func(s *Session, name string) error{"Drop": (*Session).Drop, "Delete": (*Session).Delete} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t)
			c.job(four, steps(1, 2))
			three := four[:3]
			c.job(three, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 0), remove(s, name(7))) })
			c.holds("1 2", three...)
			c.job(three, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 0), remove(s, name(2))) })
			c.holds("1", three...)
			c.job(four, restarts(1))
		})
	}
}

// A checkpoint that the program has rejected stays in the cache, is not flushed, and is not
// offered by a later run, unless the user names it.
func TestKeep_Rejected(t *testing.T) {
	t.Parallel()
	reject := func(s *Session, rank, step int) error {
		if got, err := offered(s); err != nil || got != name(step) {
			return fmt.Errorf("offered %q, %v", got, err)
		}
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		if err := s.CompleteRestart(rank != 1); err == nil {
			return errors.New("no error")
		}
		return nil
	}
	begin := func(t *testing.T) *cluster {
		c := newCluster(t, "SCR_CACHE_SIZE=3", "SCR_FLUSH=10")
		c.job(four, steps(1, 2))
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(reject(s, rank, 2), reject(s, rank, 1), restartAt(s, rank, 0))
		})
		c.says("the program could not restart from ckpt.2; it is not used again")
		c.says("unless SCR_CURRENT=ckpt.2 names it")
		c.holds("1 2", four...)
		return c
	}
	t.Run("not offered again", func(t *testing.T) {
		c := begin(t)
		for range 2 {
			c.job(four, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 0), s.Finalize()) })
			c.says("checkpoint ckpt.2 in the cache is passed over: the program could not restart from it; SCR_CURRENT=ckpt.2 tries it again")
			c.holds("1 2", four...)
		}
		if list := c.index(); len(list) > 0 {
			t.Errorf("flushed: %v", list)
		}
	})
	t.Run("named", func(t *testing.T) {
		c := begin(t)
		c.set("SCR_CURRENT=ckpt.2")
		c.job(four, restarts(2))
		c.set("SCR_CURRENT=")
		c.job(four, restarts(2)) // since the program can restart from it
		c.set("SCR_CURRENT=ckpt.1")
		c.job(four, restarts(1))
	})
	t.Run("until a checkpoint is complete", func(t *testing.T) {
		c := begin(t)
		c.job(four, steps(3))
		c.holds("3", four...)
		c.job(four, func(s *Session, rank int) error { return restartAt(s, rank, 3) })
		if list, err := prefix.Condemned(c.prefix("")); err != nil || len(list) > 0 {
			t.Errorf("still condemned: %v, %v", list, err)
		}
	})
	t.Run("another of its number", func(t *testing.T) {
		c := begin(t)
		c.lose(four...)
		c.job(four, steps(1, 2)) // the marks stay: nothing in this run's caches is marked
		c.job(four, restarts(2))
	})
	t.Run("deleted by the program", func(t *testing.T) {
		c := begin(t)
		c.job(four, func(s *Session, _ int) error { return s.Delete("ckpt.2") })
		c.holds("1", four...)
	})
}

// What the prefix directory has whole is fetched, although the cache has a part of it.
func TestKeep_FetchedOverWhatTheCacheHas(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=2")
	c.job(four, steps(1, 2))
	wrong := on(1, "x", "y", "a", "b")
	c.job(wrong, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 2), checkpoint(s, rank, 3)) })
	c.says("dataset 2 (ckpt.2) in the cache is passed over")
	c.says("checkpoint ckpt.2: fetched ")
	c.holds("2 3", wrong...) // what was fetched is not what was passed over
}

// ... also if some ranks have no files of it: whether there is room is found out by all.
func TestKeep_FetchedByRanksWithoutFiles(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=4")
	both := func(s *Session, rank int) error {
		for step := 1; step <= 2; step++ {
			if err := s.StartOutput(name(step), Checkpoint); err != nil {
				return err
			}
			if rank%2 == 0 {
				if err := write(s, contents(step, 5*rank)[:1]); err != nil {
					return err
				}
			}
			if err := s.CompleteOutput(true); err != nil {
				return err
			}
		}
		return nil
	}
	c.job(on(2, "a", "b", "c"), both)
	c.job(on(2, "x", "y", "a"), func(s *Session, rank int) error {
		if got, err := offered(s); err != nil || got != name(2) {
			return fmt.Errorf("offered %q, %v", got, err)
		}
		return nil
	})
	c.says("dataset 2 (ckpt.2) in the cache is passed over")
	c.says("checkpoint ckpt.2: fetched ")
}

// A checkpoint in the prefix directory is damaged: what other nodes can rebuild stays, though
// this run has to go back to an older one.
func TestKeep_DamagedInThePrefixDirectory(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=4")
	c.job(four, steps(1, 2, 3))
	c.must(prefix.UpdateIndex(c.prefix(""), func(x *prefix.Index) error { x.Remove(name(3)); return nil }))
	c.change(c.prefix("ckpt.2/rank_2"), flip)
	c.job(on(1, "x", "y", "a", "b"), restarts(1))
	c.says("checkpoint ckpt.2 cannot be fetched: ")
	c.holds("1 3", "a", "b")
	c.job(four, restarts(3))
}

// A run that found a checkpoint damaged in the prefix directory has marked it there. A later run
// that has it whole in the cache flushes it again.
func TestKeep_FlushedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	c.change(c.prefix("ckpt.2/rank_2"), flip)
	c.job(on(1, "w", "x", "y", "z"), restarts(1))
	c.says("checkpoint ckpt.2 cannot be fetched: ")
	c.job(four, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 2), s.Finalize()) })
	c.lose(four...)
	c.job(four, restarts(2))
	c.says("checkpoint ckpt.2: fetched ")
}

// Where storage is too full to restore an older checkpoint on these nodes, a newer one that
// they cannot rebuild makes room.
func TestKeep_MakesRoomToRestore(t *testing.T) {
	t.Parallel()
	c := mounted(t, "node")
	if c == nil {
		return
	}
	c.job(four, steps(1, 2))
	c.must(errors.Join(os.RemoveAll(c.cached("c", 2, "")), os.RemoveAll(c.cached("d", 2, ""))))
	c.fill(c.node(""), 0)
	c.job(on(1, "b", "a", "c", "d"), restarts(1))
	c.says("dataset 2 (ckpt.2) in the cache is passed over")
	c.says("dataset 2, which this run does not use, leaves the cache: its room is needed")
}

// Where storage has no room for the first checkpoint, what is passed over makes room.
func TestKeep_MakesRoomToWrite(t *testing.T) {
	t.Parallel()
	c := mounted(t, "node", "SCR_CACHE_SIZE=4")
	if c == nil {
		return
	}
	c.job(four, steps(1, 2))
	wrong := on(1, "x", "y", "a", "b")
	c.job(wrong, restarts(0)) // makes directories and filemaps
	c.fill(c.node(""), 8<<10)
	c.job(wrong, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 0), checkpoint(s, rank, 3)) })
	c.says("dataset 2, which this run does not use, leaves the cache: its room is needed")
	c.job(wrong, restarts(3))
}

// The reason for a NO in the list of datasets is in the index.
func TestKeep_WhyARestartFailed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	c.lose(four...)
	if err := os.Remove(c.prefix("ckpt.2/rank_2")); err != nil {
		t.Fatal(err)
	}
	c.job(four, func(s *Session, _ int) error {
		got, err := offered(s)
		if err != nil || got != name(1) {
			return fmt.Errorf("offered %q, %v", got, err)
		}
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		if err := s.CompleteRestart(false); err == nil {
			return errors.New("no error")
		}
		return nil
	})
	for step, want := range map[int]string{1: ": the program could not restart from it", 2: ": it could not be fetched: "} {
		why := c.index()[name(step)].Why()
		if !strings.HasPrefix(why, "a restart from it failed on 20") || !strings.Contains(why, want) {
			t.Errorf("%s: %q", name(step), why)
		}
	}
	if why := c.index()[name(2)].Why(); !strings.Contains(why, "ckpt.2/rank_2") {
		t.Error(why)
	}
}
