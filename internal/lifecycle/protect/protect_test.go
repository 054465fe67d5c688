package protect

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/background"
	"github.com/goscr/goscr/internal/mpi/buffer"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/redundancy/xor"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// In these tests a protection begins when somebody waits for it or cancels it.
func init() { background.Delay = time.Hour }

const ranks = 4

// rank is a rank of a job whose datasets are protected in the background.
type rank struct {
	*Protector
	set     *redundancy.Set
	next    int           // id of the next dataset
	entered chan struct{} // has an element for each reduction that the thread has begun over MPI
}

// watched is a communicator of which the revocable ones report reductions in another thread.
type watched struct {
	mpi.Comm
	reduces func()
}

func (w watched) Concurrent() mpi.Comm { return w }

func (w watched) Revocable() mpi.Revocable { return reported{w.Comm.Revocable(), w.reduces} }

type revocable = mpi.Revocable // an embedded field of the other name would hide the method

type reported struct {
	revocable
	reduces func()
}

func (r reported) Allreduce(values []int64, op mpi.Op) {
	r.reduces()
	r.revocable.Allreduce(values, op)
}

// job runs f on all ranks, over a communicator that no other uses. The rest of what a session does is left out.
func job(t *testing.T, carrier Carrier, f func(r *rank) error) {
	t.Helper()
	dir := t.TempDir()
	_, err := local.Run(ranks, local.Options{}, func(world mpi.Comm) error {
		node := world.Split(world.Rank(), 0)
		base := filepath.Join(dir, fmt.Sprint(world.Rank()))
		log := &report.Logger{Rank: world.Rank(), Node: fmt.Sprint("node", world.Rank())}
		k, err := cache.Open(cache.Config{
			World: world, Node: node, NodeRanks: []int{world.Rank()}, Control: cache.Base{Dir: filepath.Join(base, "control")},
			User: "u", JobID: "1", Prefix: "/prefix", Stores: []*reddesc.Store{{Name: "store", Base: filepath.Join(base, "cache"), Comm: node, Count: 2}},
			Piece: 1000, Log: log,
		}, "test", nil)
		if err != nil {
			return err
		}
		defer k.Close()
		set := redundancy.NewSet(world, world.Rank())
		p := New(Config{
			World: world, Node: node, Cache: k, Queue: &background.Queue{}, Log: log, Async: true, Carrier: carrier,
			Done: func(*cache.Cached, time.Time) error { return nil }, SizeName: func(string) string { return "SCR_CACHE_SIZE" },
		})
		r := &rank{Protector: p, set: set, next: 1, entered: make(chan struct{}, 1000)}
		set.Comm = watched{set.Comm, func() { r.entered <- struct{}{} }}
		return f(r)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// complete writes a dataset, whose protection it starts.
func (r *rank) complete() (*cache.Cached, error) {
	desc := &reddesc.Descriptor{Params: reddesc.Params{Store: "store", Type: "XOR", SetSize: ranks}, Scheme: xor.Scheme(), Set: r.set}
	c, err := r.Cache.Create(dataset.New(r.next, fmt.Sprint("ckpt.", r.next), dataset.Checkpoint, r.next, dataset.Owner{}, time.Unix(1, 0)), desc)
	if err != nil {
		return nil, err
	}
	r.next++
	path, err := r.Cache.Add(c, meta.New(fmt.Sprint("file.", r.World.Rank()), meta.Full, ranks))
	if err == nil {
		err = os.WriteFile(path, bytes.Repeat([]byte{byte(r.World.Rank())}, 100_000), 0o600)
	}
	return c, r.Complete(c, err, false)
}

// work has the thread of the caller begin, if it is to, and returns when the threads of all ranks that are to have begun
// take part in the first exchange of the set.
func (r *rank) work(begin bool) {
	if begin {
		r.Begin()
		task := r.current.task
		go func() { _ = task.Wait() }()
		<-r.entered
	}
	r.World.Barrier()
}

// A protection that is cancelled ends on all ranks, though the threads of some are in their exchange, and those
// of others have not begun. The next dataset is protected.
func TestCancel_SomeHaveBegun(t *testing.T) {
	for begun := range 1 << ranks {
		job(t, MPI, func(r *rank) error {
			c, err := r.complete()
			if err != nil {
				return err
			}
			r.work(begun&(1<<r.World.Rank()) != 0)
			r.Begin()
			r.Cancel(c)
			if r.Dataset() != nil {
				return errors.New("it is still being protected")
			}
			r.Cache.Delete(c.ID())
			if c, err = r.complete(); err == nil {
				err = r.Wait()
			}
			if err == nil && !c.Protected() {
				err = errors.New("the next dataset is not protected")
			}
			r.Free()
			return err
		})
	}
}

// A session that ends on all ranks after a failure does not wait for the threads of others, some of which have not begun; the
// last rank has failed before it had a task.
func TestClose_SomeHaveBegun(t *testing.T) {
	for begun := range 1 << ranks {
		job(t, MPI, func(r *rank) error {
			if _, err := r.complete(); err != nil {
				return err
			}
			mine := begun&(1<<r.World.Rank()) != 0
			r.work(mine)
			if r.World.Rank() == ranks-1 && !mine {
				r.current = nil
			}
			r.Close()
			return nil
		})
	}
}

// hurry has the thread of the caller begin at once.
func (r *rank) hurry() {
	r.Begin()
	task := r.current.task
	go func() { _ = task.Wait() }()
}

// computes returns when a condition holds for the caller's thread, on all ranks.
func (r *rank) computes(until func() bool) {
	for !until() {
		time.Sleep(time.Millisecond)
	}
	r.World.Barrier()
}

// protects completes a dataset, whose thread does all of it before the program waits.
func (r *rank) protects() error {
	c, err := r.complete()
	if err != nil {
		return err
	}
	r.hurry()
	r.computes(r.Ended)
	if err := r.Wait(); err != nil {
		return err
	}
	if !c.Protected() || r.Over() != " over TCP" || r.failures != 0 {
		return fmt.Errorf("%s is protected: %v%s, after %d failures", c.Name(), c.Protected(), r.Over(), r.failures)
	}
	r.Cache.Delete(c.ID())
	return nil
}

// A call ends threads that are in the middle of their exchange, and protects the dataset. Threads protect the next one, over the
// same connections, and the buffers are used again.
func TestWait_TakesOver(t *testing.T) {
	const times = 10
	var made atomic.Int64
	job(t, Sockets, func(r *rank) error {
		net := (*carrier)(nil)
		for n := range times {
			r.Limits.Bandwidth = 1000 // of 100,000
			c, err := r.complete()
			if err != nil {
				return err
			}
			r.hurry()
			r.computes(func() bool { return r.current.spent.Load() > 0 })
			if n == 3 && r.World.Rank() == 0 {
				made.Store(int64(buffer.Made()))
			}
			if err := r.Wait(); err != nil {
				return err
			}
			if !c.Protected() || r.Over() != " while the program waited" {
				return fmt.Errorf("%s is protected: %v%s", c.Name(), c.Protected(), r.Over())
			}
			r.Cache.Delete(c.ID())
			r.Limits.Bandwidth = 0
			if err := r.protects(); err != nil {
				return err
			}
			if x := r.carriers[r.set]; n == 0 {
				net = x
			} else if x != net || x.old != nil {
				return fmt.Errorf("other connections, or a communicator that is kept: %v", x.old)
			}
		}
		r.World.Barrier()
		if more := buffer.Made() - int(made.Load()); more >= ranks*(times-3) {
			return fmt.Errorf("%d buffers were made for %d datasets", more, times-3)
		}
		r.Free()
		return nil
	})
}

// ending is a communicator that does something after its second reduction.
type ending struct {
	mpi.Comm
	reductions int
	then       func()
}

func (e *ending) Allreduce(values []int64, op mpi.Op) {
	e.Comm.Allreduce(values, op)
	if e.reductions++; e.reductions == 2 {
		e.then()
	}
}

// All threads end when the call has decided to end them: the dataset is theirs, and the next one is protected, too.
func TestWait_AllEndMeanwhile(t *testing.T) {
	job(t, Sockets, func(r *rank) error {
		c, err := r.complete()
		if err != nil {
			return err
		}
		r.Begin()
		world := r.World
		r.World = &ending{Comm: world, then: func() {
			r.hurry()
			for !r.Ended() {
				time.Sleep(time.Millisecond)
			}
			world.Barrier()
		}}
		if err := r.Wait(); err != nil {
			return err
		}
		r.World = world
		if !c.Protected() || r.Over() != " over TCP" {
			return fmt.Errorf("the first is protected: %v%s", c.Protected(), r.Over())
		}
		r.Cache.Delete(c.ID())
		if err := r.protects(); err != nil {
			return err
		}
		r.Free()
		return nil
	})
}
