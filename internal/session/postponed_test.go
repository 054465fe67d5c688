package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/test/sample"
)

// On a restart only the newest checkpoint is checked and rebuilt. Older ones stay as they are until
// they are needed.

// rejects is a program that cannot restart from a step, and is then given another, which it can use.
func rejects(step, then int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		if got, err := offered(s); err != nil || got != name(step) {
			return fmt.Errorf("offered %q to restart from, want %q: %w", got, name(step), err)
		}
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		var refused *ReturnedError
		if err := s.CompleteRestart(false); !errors.As(err, &refused) {
			return fmt.Errorf("CompleteRestart(false): %w", err)
		}
		return restartAt(s, rank, then)
	}
}

// located returns what flush.scr says of a dataset.
func (c *cluster) located(id int) prefix.Located {
	c.t.Helper()
	list, err := prefix.Locations(c.prefix(""))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, l := range list {
		if l.ID == id {
			return l
		}
	}
	return prefix.Located{}
}

func TestSession_OlderCheckpointStaysAsItIs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=3")
	c.job(four, steps(1, 2, 3))
	read := c.located(1).Verified
	c.lose("b")
	nodes := []string{"a", "x", "d", "c"}
	c.job(nodes, restarts(3))
	c.says("dataset 2 (ckpt.2): older than the checkpoint that is used")
	for node, want := range map[string]string{"a": "1 2 3", "x": "3", "c": "1 2 3", "d": "1 2 3"} {
		if got := c.in(node, "cache"); got != want {
			t.Errorf("node %s has datasets %s, want %s", node, got, want)
		}
	}
	if _, err := os.Stat(c.cached("c", 1, contents(1, 2)[0].name)); err != nil {
		t.Errorf("a file of an older checkpoint was moved: %v", err)
	}
	if _, err := os.Stat(c.cached("d", 3, contents(3, 2)[0].name)); err != nil {
		t.Errorf("a file of the newest was not moved: %v", err)
	}
	// The commands know that the newest tolerates the loss of another node, and the older ones do not.
	if l := c.located(3); l.Is(prefix.Exposed) || !l.Verified.After(read) {
		t.Errorf("the newest: %+v", l)
	}
	if l := c.located(1); !l.Is(prefix.Exposed) || !l.Is(prefix.InCache) || !l.Verified.Equal(read) {
		t.Errorf("an older one: %+v", l)
	}
	// An older one is as good as it was for a run that needs it, on other nodes, too.
	c.lose("x")
	c.job([]string{"a", "b", "c", "d"}, rejects(3, 2))
	c.says("dataset 2 (ckpt.2): rebuilt from redundancy, 1 of 4 ranks had lost files")
	if l := c.located(2); l.Is(prefix.Exposed) || !l.Verified.After(read) {
		t.Errorf("what was rebuilt: %+v", l)
	}
	// 2 is protected again, and 1 lacks two members, now.
	c.lose("a")
	c.job([]string{"y", "b", "c", "d"}, restarts(2))
	c.says("dataset 1 (ckpt.1) in the cache is passed over")
}

// An older checkpoint leaves the cache as it is, oldest first, when its place is needed.
func TestSession_OlderCheckpointLeavesFirst(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=3", "SCR_CRC_ON_DELETE=1")
	c.job(four, steps(1, 2, 3))
	c.lose("b")
	nodes := []string{"a", "x", "d", "c"}
	c.job(nodes, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 3), steps(4)(s, rank)) })
	if strings.Contains(c.said(), "which leaves the cache: ") {
		t.Errorf("lost files are reported as corrupt:\n%s", c.said())
	}
	if got := c.in("a", "cache") + "/" + c.in("x", "cache"); got != "2 3 4/3 4" {
		t.Errorf("after one checkpoint: %s", got)
	}
	c.job(nodes, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 4), steps(5)(s, rank)) })
	if got := c.in("a", "cache") + "/" + c.in("x", "cache"); got != "3 4 5/3 4 5" {
		t.Errorf("after two: %s", got)
	}
	c.lose("c")
	c.job(nodes, rejects(5, 4))
	c.job(nodes, restarts(4))
	c.says("checkpoint ckpt.5 in the cache is passed over")
}

// What has to be in the prefix directory is rebuilt before it is flushed.
func TestSession_OlderCheckpointIsFlushed(t *testing.T) {
	t.Parallel()
	for _, when := range []struct{ name, env string }{
		{"asked for", "SCR_FLUSH_ON_RESTART=1"},
		{"read there", "SCR_GLOBAL_RESTART=1"},
		{"output", "SCR_FLUSH=0"},
		{"of other input", "SCR_FLUSH=0"},
	} {
		t.Run(when.name, func(t *testing.T) {
			c := newCluster(t)
			c.reads("input")
			c.job(four, func(s *Session, rank int) error {
				if when.name != "output" {
					return steps(1, 2)(s, rank)
				}
				if rank == 0 {
					c.block(name(1))
				}
				if err := s.Agree(nil); err != nil {
					return err
				}
				if err := output(s, rank, 1, Checkpoint|Output); err == nil {
					return errors.New("an output was flushed to a file that is no directory")
				}
				return steps(2)(s, rank)
			})
			switch when.name {
			case "output":
				c.must(os.Remove(c.prefix(name(1))))
			case "of other input":
				c.reads("other input")
			}
			c.lose("d")
			c.set(when.env)
			c.job([]string{"b", "a", "spare", "c"}, func(s *Session, rank int) error {
				_, err := offered(s)
				return err
			})
			if got := c.flushed(4, 2); !slices.Contains(got, 1) {
				t.Errorf("in the prefix directory: %v\n%s", got, c.said())
			}
		})
	}
}

// If a flush finds that too much of the newest checkpoint is corrupt, that one leaves, and the older one is rebuilt: another
// lost node does not lose it.
func TestFlush_NewestIsLost(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"SYNC", "PTHREAD"} {
		c := newCluster(t, "SCR_FLUSH=0", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE="+kind)
		c.inMode(waiting)
		c.job(four, steps(1, 2))
		c.lose("d")
		nodes := []string{"a", "b", "c", "spare"}
		c.job(nodes, func(s *Session, rank int) error {
			if err := restartAt(s, rank, 2); err != nil {
				return err
			}
			if rank == 1 || rank == 2 {
				c.change(c.cached(nodes[rank], 2, contents(2, rank)[0].name), flip)
			}
			newest, err := s.cache.Find(2), mpi.Agree(s.world, nil)
			if kind != "SYNC" {
				err = errors.Join(err, s.flusher.Start(newest))
			}
			flushed := s.flusher.Flush(newest)
			if flushed == nil || s.cache.Find(2) != nil {
				err = fmt.Errorf("%s: a corrupt dataset was flushed, or stays: %w", kind, flushed)
			}
			if older := s.cache.Find(1); older == nil || older.Postponed() {
				err = errors.Join(err, fmt.Errorf("%s: the older checkpoint is not rebuilt", kind))
			}
			return mpi.Agree(s.world, err)
		})
		if c.located(2).Is(prefix.InCache) {
			t.Errorf("%s: flush.scr says that dataset 2 is in the cache", kind)
		}
		c.lose("a")
		c.job([]string{"x", "b", "c", "spare"}, restarts(1))
	}
}

// Finalize flushes the older checkpoint then.
func TestFlush_NewestIsLostInFinalize(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=10")
	c.inMode(waiting)
	c.dies = true
	c.job(four, steps(1, 2))
	c.dies = false
	c.lose("d")
	nodes := []string{"a", "b", "c", "spare"}
	err := c.try(nodes, func(s *Session, rank int) error {
		if err := restartAt(s, rank, 2); err != nil {
			return err
		}
		if rank == 1 || rank == 2 {
			c.change(c.cached(nodes[rank], 2, contents(2, rank)[0].name), flip)
		}
		if err := mpi.Agree(s.world, nil); err != nil {
			return err
		}
		if s.Finalize() == nil {
			return errors.New("Finalize does not say that a checkpoint is lost")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if got := c.flushed(4, 2); !slices.Equal(got, []int{1}) {
		t.Errorf("in the prefix directory: %v\n%s", got, c.said())
	}
}

// A flush that a run has not finished is finished by the next, which has to rebuild the dataset first.
func TestSession_OlderCheckpointWasBeingFlushed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=0", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=PTHREAD")
	c.dies = true
	c.job(four, func(s *Session, rank int) error {
		err := errors.Join(steps(1, 2)(s, rank), s.flusher.WaitForProtection(), s.flusher.Start(s.cache.Find(1)))
		s.flusher.Background.Abandon()
		return err
	})
	c.lose("d")
	c.job([]string{"b", "a", "spare", "c"}, func(s *Session, rank int) error {
		return errors.Join(restartAt(s, rank, 2), s.Finalize())
	})
	c.says("dataset 1 (ckpt.1): rebuilt from redundancy")
	if got := c.flushed(4, 2); !slices.Equal(got, []int{1}) {
		t.Errorf("in the prefix directory: %v\n%s", got, c.said())
	}
}

// However an older checkpoint comes to be needed, it is rebuilt then, whatever has happened to
// files meanwhile that its scheme tolerates.
func TestSession_OlderCheckpointIsNeeded(t *testing.T) {
	t.Parallel()
	ways := []struct {
		name  string
		needs func(c *cluster) func(s *Session, rank int) error
	}{
		{"rejected", func(*cluster) func(*Session, int) error { return rejects(2, 1) }},
		{"named", func(c *cluster) func(*Session, int) error {
			c.set("SCR_CURRENT=ckpt.1")
			return restarts(1)
		}},
		{"made current", func(*cluster) func(*Session, int) error {
			return func(s *Session, rank int) error { return errors.Join(s.Current(name(1)), restartAt(s, rank, 1)) }
		}},
		{"newest dropped", func(*cluster) func(*Session, int) error {
			return func(s *Session, rank int) error { return errors.Join(s.Drop(name(2)), restartAt(s, rank, 1)) }
		}},
		{"newest corrupt", func(c *cluster) func(*Session, int) error {
			c.change(c.cached("c", 2, contents(2, 2)[0].name), flip)
			c.change(c.cached("d", 2, contents(2, 3)[0].name), flip)
			return restarts(1)
		}},
		{"newest condemned", func(c *cluster) func(*Session, int) error {
			c.must(prefix.Reject(c.prefix(""), c.located(2).Dataset, "for a test"))
			return restarts(1)
		}},
	}
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			for _, n := range sample.Of(t, []int{0, 1, 2, 3, 4, 5}, 1, 2) {
				random := rand.New(rand.NewPCG(sample.Seed(t), uint64(6*i+n)))
				c := newCluster(t)
				c.inMode([]mode{waiting, sockets}[n%2])
				c.job(four, steps(1, 2))
				all := []string{"a", "b", "c", "d", "spare"}
				lost := all[random.IntN(4)]
				corrupt := random.IntN(2) == 0
				if way.name == "newest corrupt" {
					lost = all[random.IntN(2)]
				}
				if corrupt { // then no node is lost
					rank := slices.Index(all, lost)
					c.change(c.cached(lost, 1, contents(1, rank)[0].name), flip)
				} else {
					c.lose(lost)
				}
				nodes := slices.DeleteFunc(slices.Clone(all), func(node string) bool { return node == lost })
				random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
				if corrupt {
					nodes = []string{"a", "b", "c", "d"}
					random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
				}
				if random.IntN(2) == 0 && way.name != "newest corrupt" { // a run in between, to which it is of no use
					c.job(nodes, restarts(2))
				}
				if err := c.try(nodes, way.needs(c)); err != nil {
					t.Fatalf("TEST_SEED=%d, case %d: lost %s, corrupt %t, on %v: %v\n%s", sample.Seed(t), n, lost, corrupt, nodes, err, c.said())
				}
				c.set("SCR_CURRENT=")
				// Now it is protected again.
				c.lose(nodes[random.IntN(4)])
				if err := c.try(nodes, restarts(1)); err != nil {
					t.Fatalf("TEST_SEED=%d, case %d: lost %s, corrupt %t, on %v, and another node: %v\n%s", sample.Seed(t), n, lost, corrupt, nodes, err, c.said())
				}
				after(t, c, nodes, 1)
			}
		})
	}
}

// A kill at any message while an older checkpoint is moved and rebuilt loses neither.
func TestKilled_WhileAnOlderCheckpointIsNeeded(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	c.lose("b")
	nodes := []string{"c", "a", "d", "spare"}
	kills(t, c, nodes, rejects(2, 1), func(at int64) {
		if at%2 == 0 {
			after(t, c, nodes, 1, 2)
		} else {
			after(t, c, []string{"d", "spare", "a", "c"}, 1, 2)
		}
	})
}
