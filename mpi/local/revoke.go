package local

import (
	"sync"
	"sync/atomic"

	"github.com/goscr/goscr/mpi"
)

// family is what a revocable communicator and all that are made from it share.
type family struct {
	revoked atomic.Bool
	once    sync.Once         // of wake
	mu      sync.Mutex        // guards why
	why     *mpi.RevokedError // the first
	world   *world
}

// revocable is a rank's view of a communicator that can be revoked.
type revocable struct{ *comm }

func (c *comm) Revocable() mpi.Revocable {
	d := c.Split(0, c.rank).(*comm)
	x := d.context
	x.mu.Lock()
	if x.family == c.context.family {
		x.family = &family{world: c.world}
	}
	x.mu.Unlock()
	c.Barrier() // nobody uses it before it has its family on all ranks
	return revocable{d}
}

func (r revocable) Revoke(reason string) {
	f := r.context.family
	f.mu.Lock()
	if f.why == nil {
		f.why = &mpi.RevokedError{Rank: r.rank, Reason: mpi.Reason(reason)}
	}
	f.mu.Unlock()
	f.wake()
}

func (r revocable) Revoked() error {
	r.world.alive()
	f := r.context.family
	if !f.revoked.Load() {
		return nil
	}
	f.wake() // waits for the rank that does it
	return f.why
}

// wake wakes every rank that waits. When it returns, no message is being copied or will
// be, as with kill.
func (f *family) wake() {
	f.once.Do(func() {
		f.revoked.Store(true)
		f.world.wake()
	})
}

// over reports whether the communicator must not be used any more.
func (c *comm) over() bool {
	f := c.context.family
	return c.killed.Load() || f != nil && f.revoked.Load()
}

// alive ends the calling rank if the job has been killed, and its call if the
// communicator has been revoked.
func (c *comm) alive() {
	c.world.alive()
	if f := c.context.family; f != nil && f.revoked.Load() {
		f.wake() // waits for the rank that does it
		panic(f.why)
	}
}
