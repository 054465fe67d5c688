package session

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/goscr/goscr/internal/mpi/mpitest"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// bug is a bug of the library: rank panics at the n-th of its steps, where every call of
// the session and every operation of its communicators is one. If mpi is set, it is a failure
// of MPI in place of a panic, unless the step is a call.
type bug struct {
	rank int
	at   int64
	mpi  bool

	steps atomic.Int64
	where atomic.Value // the call, and the operation, at which it has panicked
	call  atomic.Value // in which it is
	seen  map[string]bool
}

func (b *bug) Call(rank int, name string) {
	if rank == b.rank {
		b.call.Store(name)
		b.step("")
	}
}

func (b *bug) Wrap(world mpi.Comm) mpi.Comm {
	rank := world.Rank()
	return mpitest.Faulty(world, func(op string) {
		if rank == b.rank {
			b.step(op)
		}
	})
}

func (b *bug) step(op string) {
	call, _ := b.call.Load().(string)
	b.seen[call] = true // by one goroutine
	if b.steps.Add(1) == b.at {
		where := strings.TrimSpace(call + " " + op)
		b.where.Store(where)
		if b.mpi = b.mpi && op != ""; b.mpi {
			panic(&mpi.OpError{Op: op, Err: errors.New("injected in " + where)})
		}
		panic("injected in " + where)
	}
}

// everyCall makes all calls of a session once, and stops at the first error.
func everyCall(s *Session, rank int) error {
	if _, err := s.NeedCheckpoint(); err != nil {
		return err
	}
	name, ok, err := s.HaveRestart()
	if err != nil {
		return err
	}
	if ok {
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		path, err := s.Route(filepath.Join(s.prefix.Dir, fmt.Sprintf("%s/rank_%d", name, rank)))
		if err != nil {
			return err
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != name {
			return fmt.Errorf("checkpoint %s is offered, and its file has %q: %v", name, data, err)
		}
		if err := s.CompleteRestart(true); err != nil {
			return err
		}
	}
	for i := range 3 {
		if err := writeFile(s, rank, fmt.Sprintf("new.%d", i)); err != nil {
			return err
		}
	}
	if _, err := s.ShouldExit(); err != nil {
		return err
	}
	return s.Delete("new.0")
}

// writeFile makes a checkpoint of one file a rank.
func writeFile(s *Session, rank int, name string) error {
	if err := s.StartOutput(name, Checkpoint); err != nil {
		return err
	}
	path, err := s.Route(filepath.Join(s.prefix.Dir, fmt.Sprintf("%s/rank_%d", name, rank)))
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
		return err
	}
	return s.CompleteOutput(true)
}

// stride is how many steps TestPanic_AtEveryStep continues at a time; every rank and setup
// begins with another.
var stride = flag.Int64("stride", 0, "every how many steps a rank panics; 0: 61, and twice that where a part is tried")

// A panic or a failure of MPI on one rank, at any step of any call: every rank gets an error that names the
// rank and the panic, in this call or in the next, and so it does from all calls after
// that; no rank waits for ever. The next job continues from a checkpoint.
func TestPanic_AtEveryStep(t *testing.T) {
	t.Parallel()
	setups := []struct {
		name   string
		set    []string
		before func(c *cluster)
	}{
		{"flush", []string{"SCR_FLUSH=1", "SCR_CACHE_SIZE=2"}, func(*cluster) {}},
		{"rebuild", []string{"SCR_FLUSH=0"}, func(c *cluster) { c.lose("b") }},
		{"fetch", []string{"SCR_FLUSH=1"}, func(c *cluster) { c.lose("a", "b", "c", "d") }},
		{"async", []string{"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1"}, func(*cluster) {}},
	}
	every := *stride
	if every == 0 {
		every = 61
		if sample.Now() < sample.All {
			every = 122
		}
	}
	for _, setup := range sample.Of(t, setups, 1, 4) {
		t.Run(setup.name, func(t *testing.T) {
			t.Parallel()
			random := sample.Rand(t)
			c := newCluster(t, append(setup.set, "SCR_COPY_TYPE=XOR")...)
			fresh := func() {
				if err := errors.Join(os.RemoveAll(c.prefix("")), os.RemoveAll(filepath.Join(c.root, "node"))); err != nil {
					t.Fatal(err)
				}
				c.job(four, func(s *Session, rank int) error {
					if err := errors.Join(writeFile(s, rank, "old.1"), writeFile(s, rank, "old.2")); err != nil {
						return err
					}
					return s.Finalize()
				})
				setup.before(c)
			}
			total := map[int]int64{} // steps of ranks that are tried
			for _, rank := range []int{0, 2} {
				fresh()
				b := &bug{rank: rank, seen: map[string]bool{}}
				if err := c.broken(b, nil); err != nil {
					t.Fatalf("without a panic: %v\n%s", err, c.said())
				}
				total[rank] = b.steps.Load()
				for _, call := range []string{"Init", "NeedCheckpoint", "HaveRestart", "StartRestart", "Route", "CompleteRestart",
					"StartOutput", "CompleteOutput", "ShouldExit", "Delete", "Finalize"} {
					if !b.seen[call] {
						t.Fatalf("rank %d has no step in %s", rank, call)
					}
				}
			}
			for _, rank := range []int{0, 2} {
				steps := total[rank]
				for at := 1 + random.Int64N(every); at <= steps; at += every {
					fresh()
					b := &bug{rank: rank, at: at, mpi: random.IntN(2) == 0, seen: map[string]bool{}}
					results := make([]error, len(four))
					if err := c.broken(b, results); err != nil {
						t.Fatalf("TEST_SEED=%d, rank %d panics at step %d of %d: %v\n%s", sample.Seed(t), rank, at, steps, err, c.said())
					}
					where, _ := b.where.Load().(string)
					if where == "" {
						continue // a step that depends on what comes first
					}
					b.check(t, results)
					c.unlocked()
					c.job(four, func(s *Session, rank int) error {
						if err := everyCall(s, rank); err != nil {
							return err
						}
						return s.Finalize()
					})
				}
			}
		})
	}
}

// broken runs everyCall and Finalize with a bug. results gets the error of each rank.
func (c *cluster) broken(b *bug, results []error) error {
	_, err := local.Run(len(four), c.opt, func(world mpi.Comm) error {
		me := world.Rank()
		opt := c.options(four[me])
		opt.faults = b
		s, err := Init(world, opt)
		if err == nil {
			err = everyCall(s, me)
			again := s.Finalize()
			if err == nil {
				err = again
			} else if results != nil && (again == nil || !strings.Contains(again.Error(), "injected")) {
				return fmt.Errorf("%w, and then Finalize: %v", err, again)
			}
		}
		if results == nil {
			return err
		}
		results[me] = err
		world.Barrier()
		return nil // the program's own communicator continues
	})
	return err
}

// unlocked checks that the process holds no lock of a job.
func (c *cluster) unlocked() {
	c.t.Helper()
	err := filepath.WalkDir(filepath.Join(c.root, "node"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == cache.LockFile && lock.Held(path) {
			c.t.Errorf("%s is locked", path)
		}
		return err
	})
	if err != nil {
		c.t.Error(err)
	}
}

// check checks that each rank got the error, but for those whose last call was over.
func (b *bug) check(t *testing.T, results []error) {
	t.Helper()
	where := b.where.Load().(string)
	for rank, err := range results {
		var revoked *mpi.RevokedError
		var failed *mpi.OpError
		switch {
		case rank == b.rank && b.mpi && errors.As(err, &failed) && strings.Contains(err.Error(), "injected in "+where):
		case errors.As(err, &revoked) && revoked.Rank == b.rank && strings.Contains(revoked.Reason, "injected in "+where):
		case err == nil && rank != b.rank && strings.HasPrefix(where, "Finalize"): // it was done before
		default:
			t.Errorf("rank %d panics in %s; rank %d: %v", b.rank, where, rank, err)
		}
		var p *mpi.PanicError
		if errors.As(err, &p) != (rank == b.rank && !b.mpi) {
			t.Errorf("rank %d panics in %s; rank %d gets a stack, or none: %v", b.rank, where, rank, err)
		}
	}
}
