package mpitest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/goscr/goscr/mpi"
)

var revocation = []check{
	{"a revoked communicator ends every wait", revokeWaits},
	{"what other ranks of the job wait for ends, too", revokeParts},
	{"all ranks may revoke at once", revokeAll},
	{"a rank may revoke at any step of a row of splits", revokeSplits},
	{"a panic revokes", revokePanic},
	{"a communicator that was not revoked can be freed, and others continue", revokeNot},
}

// waits are all ways to wait for rank who, which does not take part.
var waits = []struct {
	name string
	wait func(c mpi.Comm, who int)
}{
	{"Recv", func(c mpi.Comm, who int) { c.Recv(make([]byte, 10), who, 1) }},
	{"Send", func(c mpi.Comm, who int) { c.Send(make([]byte, 1<<20), who, 1) }},
	{"Sendrecv", func(c mpi.Comm, who int) { c.Sendrecv(make([]byte, 1<<20), who, 1, make([]byte, 10), who, 1) }},
	{"Issend", func(c mpi.Comm, who int) { c.Issend(mpi.Alloc(100), who, 1).Wait() }},
	{"Irecv", func(c mpi.Comm, who int) { poll(c.Irecv(mpi.Alloc(100), who, 1)) }},
	{"Probe", func(c mpi.Comm, who int) { c.Probe(who, 1) }},
	{"Iprobe", func(c mpi.Comm, who int) {
		for found := false; !found; {
			_, found = c.Iprobe(mpi.AnySource, 1)
		}
	}},
	{"Barrier", func(c mpi.Comm, who int) { c.Barrier() }},
	{"Ibarrier", func(c mpi.Comm, who int) { c.Ibarrier().Wait() }},
	{"Bcast", func(c mpi.Comm, who int) { c.Bcast(make([]byte, 100000), who); c.Barrier() }},
	{"Allreduce", func(c mpi.Comm, who int) { c.Allreduce(make([]int64, 10), mpi.Sum) }},
	{"Exscan", func(c mpi.Comm, who int) { c.Exscan(make([]int64, 10), mpi.Sum); c.Barrier() }},
	{"Gather", func(c mpi.Comm, who int) { c.Gather(make([]byte, 10), make([]byte, 10*c.Size()), 0); c.Barrier() }},
	{"Split", func(c mpi.Comm, who int) { c.Split(c.Rank()%2, 0) }},
	{"Dup", func(c mpi.Comm, who int) { mpi.Dup(c) }},
	{"Revocable", func(c mpi.Comm, who int) { c.Revocable() }},
	{"Free", func(c mpi.Comm, who int) { c.Free() }},
}

// waiting returns the error of Guard for an operation that waits.
func waiting(g mpi.Revocable, operation func()) error {
	return mpi.Guard(g, func() error {
		operation()
		return nil
	})
}

// is checks that an error says that rank who has revoked, for this reason.
func (f *failures) is(what string, err error, who int, reason string) {
	var revoked *mpi.RevokedError
	f.expect(errors.As(err, &revoked) && revoked.Rank == who && strings.Contains(revoked.Reason, reason),
		"%s: %v, want rank %d to have revoked: %s", what, err, who, reason)
}

// revokeWaits has each rank in turn revoke while the others wait in each way.
func revokeWaits(c mpi.Comm) error {
	var f failures
	for i, w := range waits {
		who := (i + 1) % c.Size()
		g := c.Revocable()
		reason := "because of " + w.name
		if c.Rank() == who {
			g.Revoke(reason)
		} else {
			f.is(w.name, waiting(g, func() { w.wait(g, who) }), who, reason)
		}
		f.is(w.name+", later", g.Revoked(), who, reason)
		for _, w := range waits {
			f.is("then "+w.name, guarded(func() { w.wait(g, who) }), who, reason)
		}
		runtime.GC() // what MPI continues using stays
		c.Barrier()  // the communicator that it was made from continues
	}
	return f.err()
}

// guarded is Guard that calls f all the same.
func guarded(f func()) (err error) {
	defer func() {
		if p, ok := recover().(error); ok {
			err = p
		}
	}()
	f()
	return nil
}

// revokeParts revokes while others wait in parts that the revoker is no member of.
func revokeParts(c mpi.Comm) error {
	var f failures
	n := c.Size()
	if n < 3 {
		return nil
	}
	for _, w := range waits {
		if w.name == "Split" || w.name == "Free" {
			continue // goscr splits the communicator of all only; to free a part a rank need not wait
		}
		g := c.Revocable()
		// Rank 0, which revokes, is alone; so is rank 1, which does not take part either.
		part := g.Split(max(1, c.Rank()), 0)
		pair := g.Split(c.Rank()/2, 0) // ranks 2 and 3, ...
		c.Barrier()                    // all have split
		switch {
		case c.Rank() == 0:
			g.Revoke("elsewhere")
		case pair.Size() == 1 || c.Rank() == 1:
			f.is("part", waiting(g, func() { part.Probe(0, 7) }), 0, "elsewhere")
		case pair.Rank() == 1:
			f.is(w.name, waiting(g, func() { w.wait(pair, 0) }), 0, "elsewhere")
		default: // its partner waits for it
			f.is("part", waiting(g, func() { part.Probe(0, 7) }), 0, "elsewhere")
		}
		c.Barrier()
	}
	return f.err()
}

// revokeAll has all ranks, and then every other, revoke at once: each names one of them.
func revokeAll(c mpi.Comm) error {
	var f failures
	for every := 1; every < 3; every++ {
		g := c.Revocable()
		if c.Rank()%every == 0 {
			g.Revoke(fmt.Sprintf("rank %d", c.Rank()))
		}
		err := waiting(g, g.Barrier)
		var revoked *mpi.RevokedError
		f.expect(errors.As(err, &revoked) && revoked.Reason == fmt.Sprintf("rank %d", revoked.Rank) && revoked.Rank%every == 0,
			"%v, want one of the ranks that have revoked", err)
		c.Barrier()
	}
	return f.err()
}

// revokeSplits revokes after any number of splits, for which an MPI may have blocking
// calls only.
func revokeSplits(c mpi.Comm) error {
	var f failures
	const splits = 4
	for before := range splits {
		for _, who := range []int{0, c.Size() - 1} {
			g := c.Revocable()
			err := mpi.Guard(g, func() error {
				for i := range splits {
					if i == before && c.Rank() == who {
						panic("between splits")
					}
					g.Split(c.Rank()%2, 0)
				}
				return nil
			})
			f.is(fmt.Sprintf("after %d splits", before), err, who, "between splits")
			c.Barrier()
		}
	}
	return f.err()
}

// revokePanic revokes by a panic, by an operation that fails, and by its error.
func revokePanic(c mpi.Comm) error {
	var f failures
	who := c.Size() - 1
	down := &mpi.OpError{Op: "MPI_Barrier", Err: errors.New("the network is down")}
	for _, how := range []string{"panic", "fails", "error"} {
		failed := how != "panic"
		g := c.Revocable()
		err := mpi.Guard(g, func() error {
			if c.Rank() != who {
				g.Barrier()
				return nil
			}
			switch how {
			case "fails":
				panic(down)
			case "error":
				return down
			}
			var nothing []int
			return fmt.Errorf("%d", nothing[c.Rank()])
		})
		reason := "index out of range"
		if failed {
			reason = "the network is down"
		}
		if c.Rank() != who {
			f.is("a rank that waits", err, who, reason)
		}
		f.expect(err != nil && strings.Contains(err.Error(), reason), "%v, want %q", err, reason)
		var p *mpi.PanicError
		f.expect(errors.As(err, &p) == (c.Rank() == who && !failed), "%v is a panic, or is not", err)
		f.is("later", g.Revoked(), who, reason)
		c.Barrier()
	}
	return f.err()
}

// revokeNot uses, guards and frees communicators that nobody revokes.
func revokeNot(c mpi.Comm) error {
	var f failures
	for range 3 {
		g := c.Revocable()
		f.add(g.Revoked())
		f.add(mpi.Guard(g, func() error {
			part := g.Split(c.Rank()%2, 0)
			part.Barrier()
			part.Free()
			g.Barrier()
			return nil
		}))
		own := errors.New("own")
		f.expect(errors.Is(mpi.Guard(g, func() error { return own }), own), "Guard changes an error")
		f.add(g.Revoked())
		g.Free()
	}
	return f.err()
}
