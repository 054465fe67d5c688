package protect

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/background"
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
func job(t *testing.T, f func(r *rank) error) {
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
		}, "test", ranks)
		if err != nil {
			return err
		}
		defer k.Close()
		set := redundancy.NewSet(world, world.Rank())
		p := New(Config{
			World: world, Node: node, Cache: k, Queue: &background.Queue{}, Log: log, Async: true, Carrier: MPI,
			Protected: func(*cache.Cached, time.Time) error { return nil }, SizeName: func(string) string { return "SCR_CACHE_SIZE" },
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
		job(t, func(r *rank) error {
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
		job(t, func(r *rank) error {
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
