package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goscr/goscr/internal/mpi/mpitest"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// deaths are the ranks that die for good, one after the other: each at one of its steps, which are the calls
// of its session and the operations of its communicators. The other ranks see what they see of a rank that has
// died where MPI continues after that: that a rank has revoked the communicators.
type deaths struct {
	mu    sync.Mutex
	list  []death
	dead  int
	steps int64 // of the next to die, since the last death

	ending [4]bool // ranks in Finalize
}

type death struct {
	rank int
	at   int64
}

// Call counts a call. Nobody dies in Finalize: a rank that has returned from it would be missed.
func (d *deaths) Call(rank int, name string) {
	d.mu.Lock()
	d.ending[rank] = name == "Finalize"
	d.mu.Unlock()
	d.step(rank)
}

func (d *deaths) Wrap(world mpi.Comm) mpi.Comm {
	rank := world.Rank()
	return mpitest.Faulty(world, func(string) { d.step(rank) })
}

func (d *deaths) step(rank int) {
	d.mu.Lock()
	dies := false
	if len(d.list) > 0 && d.list[0].rank == rank && !d.ending[rank] {
		d.steps++
		if dies = d.steps == d.list[0].at; dies {
			d.list, d.steps = d.list[1:], 0
			d.dead++
		}
	}
	d.mu.Unlock()
	if dies {
		panic("dead")
	}
}

// came returns how many deaths there were.
func (d *deaths) came() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// survivor is a program that continues after deaths: it writes checkpoints new.0 to new.5.
type survivor struct {
	c     *cluster
	d     *deaths
	loses int // so many of the first deaths are of a node, too, and the new rank has a new node

	mu       sync.Mutex
	complete int // the highest checkpoint that a rank knows to be complete
	nodes    []string
}

const lastStep = 5

// run is the program on one rank; comms are the communicators after each death.
func (l *survivor) run(rank int, world mpi.Comm, comms []mpi.Comm) error {
	options := func() Options {
		l.mu.Lock()
		defer l.mu.Unlock()
		opt := l.c.options(l.nodes[rank])
		opt.faults = l.d
		return opt
	}
	s, err := Init(world, options())
	for {
		if err == nil {
			if err = l.compute(s, rank); err == nil {
				return nil
			}
		}
		var revoked *mpi.RevokedError
		if !errors.As(err, &revoked) || len(comms) == 0 {
			return err
		}
		world, comms = comms[0], comms[1:]
		var dead *mpi.PanicError
		if errors.As(err, &dead) && l.d.came() <= l.loses {
			l.mu.Lock()
			old := l.nodes[rank]
			l.nodes[rank] = fmt.Sprintf("new%d.%d", rank, len(comms))
			l.mu.Unlock()
			l.c.lose(old)
		}
		if dead != nil || s == nil { // a new process takes its place; or Init has failed because another rank has died
			s, err = Init(world, options())
		} else {
			s, err = s.Recover(world)
		}
	}
}

// compute restarts and writes the checkpoints that are missing.
func (l *survivor) compute(s *Session, rank int) error {
	name, ok, err := s.HaveRestart()
	if err != nil {
		return err
	}
	l.mu.Lock()
	complete := l.complete
	l.mu.Unlock()
	next := 0
	if ok {
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		path, err := s.Route(filepath.Join(s.prefix.Dir, fmt.Sprintf("%s/rank_%d", name, rank)))
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || string(data) != name {
			return fmt.Errorf("checkpoint %s is offered, and its file has %q: %v", name, data, err)
		}
		if _, err := fmt.Sscanf(name, "new.%d", &next); err != nil {
			return err
		}
		if next < complete {
			return fmt.Errorf("%s is offered, and new.%d was complete", name, complete)
		}
		if err := s.CompleteRestart(true); err != nil {
			return err
		}
		next++
	} else if complete >= 0 {
		return fmt.Errorf("no checkpoint is offered, and new.%d was complete", complete)
	}
	for ; next <= lastStep; next++ {
		if _, err := s.NeedCheckpoint(); err != nil {
			return err
		}
		if err := writeFile(s, rank, fmt.Sprintf("new.%d", next)); err != nil {
			return err
		}
		l.mu.Lock()
		l.complete = max(l.complete, next)
		l.mu.Unlock()
	}
	return s.Finalize()
}

// live runs a program with deaths and returns how many have come.
func live(t *testing.T, c *cluster, loses int, list ...death) int {
	t.Helper()
	l := &survivor{c: c, d: &deaths{list: slices.Clone(list)}, loses: loses, complete: -1, nodes: slices.Clone(four)}
	_, err := local.Run(len(four), c.opt, func(world mpi.Comm) error {
		var comms []mpi.Comm
		for range list {
			repaired := mpi.Dup(world)
			comms = append(comms, repaired)
		}
		return l.run(world.Rank(), world, comms)
	})
	if err != nil {
		t.Fatalf("deaths %v: %v\n%s", list, err, c.said())
	}
	if l.complete != lastStep {
		t.Fatalf("deaths %v: the program has come to new.%d", list, l.complete)
	}
	return l.d.came()
}

// Ranks die for good, at any step, and with them their nodes; the others continue with new ones in their
// place, in the same run, from the newest checkpoint.
func TestRecover(t *testing.T) {
	t.Parallel()
	const seed, tries = 16, 8
	for i, setup := range []struct {
		name  string
		set   []string
		loses int
	}{
		{"SINGLE", []string{"SCR_COPY_TYPE=SINGLE"}, 0},
		{"PARTNER", []string{"SCR_COPY_TYPE=PARTNER"}, 1},
		{"XOR", []string{"SCR_COPY_TYPE=XOR"}, 1},
		{"RS", []string{"SCR_COPY_TYPE=RS", "SCR_SET_FAILURES=2"}, 2},
		{"flush", []string{"SCR_COPY_TYPE=XOR", "SCR_FLUSH=2", "SCR_FLUSH_ASYNC=1"}, 1},
		{"async", []string{"SCR_COPY_TYPE=XOR", "SCR_ENCODE_ASYNC=1", "SCR_ENCODE_CARRIER=sockets"}, 0},
	} {
		t.Run(setup.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			came := 0
			for range tries {
				c := newCluster(t, setup.set...)
				first := death{random.IntN(4), 1 + random.Int64N(190)}
				second := death{random.IntN(4), 1 + random.Int64N(110)}
				came += live(t, c, setup.loses, first, second)
				if t.Failed() {
					t.Fatalf("seed %d: %v, then %v", seed, first, second)
				}
			}
			if came < tries*3/2 {
				t.Errorf("only %d of %d deaths came", came, 2*tries)
			}
			t.Logf("%d of %d deaths came", came, 2*tries)
		})
	}
}

// Without new ranks there are fewer, with which only a program can continue that says so.
func TestRecover_FewerRanks(t *testing.T) {
	t.Parallel()
	for _, can := range []bool{false, true} {
		t.Run(fmt.Sprint(can), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "SCR_COPY_TYPE=XOR", "SCR_FLUSH=1", fmt.Sprintf("SCR_GLOBAL_RESTART=%d", map[bool]int{true: 1}[can]))
			const victim = 2
			_, err := local.Run(len(four), c.opt, func(world mpi.Comm) error {
				rank := world.Rank()
				fewer := world.Split(map[bool]int{true: 1}[rank == victim], rank)
				opt := c.options(four[rank])
				d := &deaths{}
				opt.faults = d
				s, err := Init(world, opt)
				if err != nil {
					return err
				}
				if err := errors.Join(writeFile(s, rank, "new.0"), meet(world)); err != nil {
					return err
				}
				if rank == victim {
					d.list = []death{{victim, 3}}
				}
				err = writeFile(s, rank, "new.1")
				var revoked *mpi.RevokedError
				if !errors.As(err, &revoked) {
					return fmt.Errorf("a rank has died, and another one gets %v", err)
				}
				if rank == victim {
					return nil
				}
				next, err := s.Recover(fewer)
				if !can {
					if !errors.Is(err, ErrRanks) || next != nil {
						return fmt.Errorf("Recover with fewer ranks: %v", err)
					}
					return nil
				}
				if err != nil {
					return err
				}
				if name, ok, err := next.HaveRestart(); err != nil || !ok || name != "new.0" {
					return fmt.Errorf("offered %q, %v, %v", name, ok, err)
				}
				if _, err := next.StartRestart(); err != nil {
					return err
				}
				for old := range four { // each reads the files of all
					path, err := next.Route(filepath.Join(next.prefix.Dir, fmt.Sprintf("new.0/rank_%d", old)))
					if err != nil {
						return err
					}
					if data, err := os.ReadFile(path); err != nil || string(data) != "new.0" {
						return fmt.Errorf("rank %d's file: %q, %v", old, data, err)
					}
				}
				if err := next.CompleteRestart(true); err != nil {
					return err
				}
				return errors.Join(writeFile(next, next.world.Rank(), "new.2"), next.Finalize())
			})
			if err != nil {
				t.Fatalf("%v\n%s", err, c.said())
			}
		})
	}
}

// A session that nothing has happened to can be taken over, too; one that has been finalized cannot.
func TestRecover_Whole(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_COPY_TYPE=XOR")
	_, err := local.Run(len(four), c.opt, func(world mpi.Comm) error {
		rank := world.Rank()
		s, err := Init(world, c.options(four[rank]))
		if err != nil {
			return err
		}
		if err := errors.Join(writeFile(s, rank, "new.0"), s.StartOutput("new.1", Checkpoint), meet(world)); err != nil {
			return err
		}
		next, err := s.Recover(world)
		if err != nil {
			return err
		}
		var revoked *mpi.RevokedError
		if _, err := s.NeedCheckpoint(); !errors.As(err, &revoked) || !strings.Contains(err.Error(), "the program has called Recover") {
			return fmt.Errorf("the session before: %v", err)
		}
		if name, ok, err := next.HaveRestart(); err != nil || !ok || name != "new.0" {
			return fmt.Errorf("offered %q, %v, %v", name, ok, err)
		}
		if err := next.Finalize(); err != nil {
			return err
		}
		var state *StateError
		if _, err := next.Recover(world); !errors.As(err, &state) || state.Call != "Recover" {
			return fmt.Errorf("after Finalize: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, c.said())
	}
}

// If there are more ranks, the new ones get an error, too, and do not wait in Init for those that Recover has refused.
func TestRecover_MoreRanks(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} { // whether the repaired communicator is Revocable already
		c := newCluster(t, "SCR_COPY_TYPE=SINGLE")
		_, err := local.Run(len(four), c.opt, func(world mpi.Comm) error {
			rank := world.Rank()
			fewer := world.Split(rank/3, rank)
			if own {
				world = world.Revocable()
			}
			if rank == 3 {
				var revoked *mpi.RevokedError
				if _, err := Init(world, c.options(four[rank])); !errors.As(err, &revoked) || !strings.Contains(err.Error(), ErrRanks.Error()) {
					return fmt.Errorf("a new rank gets %v", err)
				}
				return nil
			}
			s, err := Init(fewer, c.options(four[rank]))
			if err != nil {
				return err
			}
			if err := errors.Join(writeFile(s, rank, "new.0"), meet(fewer)); err != nil {
				return err
			}
			if _, err := s.Recover(world); !errors.Is(err, ErrRanks) {
				return fmt.Errorf("Recover with more ranks: %v", err)
			}
			next, err := s.Recover(fewer)
			if err != nil {
				return err
			}
			if name, ok, err := next.HaveRestart(); err != nil || !ok || name != "new.0" {
				return fmt.Errorf("offered %q, %v, %v", name, ok, err)
			}
			return next.Finalize()
		})
		if err != nil {
			t.Fatalf("Revocable: %v: %v\n%s", own, err, c.said())
		}
	}
}
