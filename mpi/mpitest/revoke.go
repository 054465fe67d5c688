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
	{"a communicator that was not revoked can be freed, and others go on", revokeNot},
}

// waits are all ways to wait for rank who, which does not take part.
var waits = []struct {
	name string
	wait func(c mpi.Comm, who int) error
}{
	{"Recv", func(c mpi.Comm, who int) error { _, err := c.Recv(make([]byte, 10), who, 1); return err }},
	{"Send", func(c mpi.Comm, who int) error { return c.Send(make([]byte, 1<<20), who, 1) }},
	{"Sendrecv", func(c mpi.Comm, who int) error {
		_, err := c.Sendrecv(make([]byte, 1<<20), who, 1, make([]byte, 10), who, 1)
		return err
	}},
	{"Issend", func(c mpi.Comm, who int) error {
		r, err := c.Issend(alloc(100), who, 1)
		if err == nil {
			_, err = r.Wait()
		}
		return err
	}},
	{"Irecv", func(c mpi.Comm, who int) error {
		r, err := c.Irecv(alloc(100), who, 1)
		for done := false; err == nil && !done; {
			_, done, err = r.Test()
		}
		return err
	}},
	{"Probe", func(c mpi.Comm, who int) error { _, err := c.Probe(who, 1); return err }},
	{"Iprobe", func(c mpi.Comm, who int) error {
		for {
			if _, found, err := c.Iprobe(mpi.AnySource, 1); err != nil || found {
				return err
			}
		}
	}},
	{"Barrier", func(c mpi.Comm, who int) error { return c.Barrier() }},
	{"Ibarrier", func(c mpi.Comm, who int) error {
		r, err := c.Ibarrier()
		if err == nil {
			_, err = r.Wait()
		}
		return err
	}},
	{"Bcast", func(c mpi.Comm, who int) error { return errors.Join(c.Bcast(make([]byte, 100000), who), c.Barrier()) }},
	{"Allreduce", func(c mpi.Comm, who int) error { return c.Allreduce(make([]int64, 10), mpi.Sum) }},
	{"Exscan", func(c mpi.Comm, who int) error { return errors.Join(c.Exscan(make([]int64, 10), mpi.Sum), c.Barrier()) }},
	{"Gather", func(c mpi.Comm, who int) error {
		return errors.Join(c.Gather(make([]byte, 10), make([]byte, 10*c.Size()), 0), c.Barrier())
	}},
	{"Split", func(c mpi.Comm, who int) error { _, err := c.Split(c.Rank()%2, 0); return err }},
	{"Dup", func(c mpi.Comm, who int) error { _, err := mpi.Dup(c); return err }},
	{"Revocable", func(c mpi.Comm, who int) error { _, err := c.Revocable(); return err }},
	{"Free", func(c mpi.Comm, who int) error { return c.Free() }},
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
		g, err := c.Revocable()
		if err != nil {
			return err
		}
		reason := "because of " + w.name
		if c.Rank() == who {
			g.Revoke(reason)
		} else {
			err = mpi.Guard(g, func() error { return w.wait(g, who) })
			f.is(w.name, err, who, reason)
		}
		f.is(w.name+", later", g.Revoked(), who, reason)
		for _, w := range waits {
			f.is("then "+w.name, guarded(g, func() error { return w.wait(g, who) }), who, reason)
		}
		runtime.GC()       // what MPI goes on using stays
		f.add(c.Barrier()) // the communicator that it was made from goes on
	}
	return f.err()
}

// guarded is Guard that calls f all the same.
func guarded(c mpi.Revocable, f func() error) (err error) {
	defer func() {
		if p, ok := recover().(error); ok {
			err = p
		}
	}()
	return f()
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
		g, err := c.Revocable()
		if err != nil {
			return err
		}
		// Rank 0, which revokes, is alone; so is rank 1, which does not take part either.
		part, err := g.Split(max(1, c.Rank()), 0)
		f.add(err)
		pair, err := g.Split(c.Rank()/2, 0) // ranks 2 and 3, ...
		f.add(err)
		f.add(c.Barrier()) // all have split
		switch {
		case c.Rank() == 0:
			g.Revoke("elsewhere")
		case pair.Size() == 1 || c.Rank() == 1:
			f.is("part", mpi.Guard(g, func() error { _, err := part.Probe(0, 7); return err }), 0, "elsewhere")
		case pair.Rank() == 1:
			f.is(w.name, mpi.Guard(g, func() error { return w.wait(pair, 0) }), 0, "elsewhere")
		default: // its partner waits for it
			f.is("part", mpi.Guard(g, func() error { _, err := part.Probe(0, 7); return err }), 0, "elsewhere")
		}
		f.add(c.Barrier())
	}
	return f.err()
}

// revokeAll has all ranks, and then every other, revoke at once: each names one of them.
func revokeAll(c mpi.Comm) error {
	var f failures
	for every := 1; every < 3; every++ {
		g, err := c.Revocable()
		if err != nil {
			return err
		}
		if c.Rank()%every == 0 {
			g.Revoke(fmt.Sprintf("rank %d", c.Rank()))
		}
		err = mpi.Guard(g, g.Barrier)
		var revoked *mpi.RevokedError
		f.expect(errors.As(err, &revoked) && revoked.Reason == fmt.Sprintf("rank %d", revoked.Rank) && revoked.Rank%every == 0,
			"%v, want one of the ranks that have revoked", err)
		f.add(c.Barrier())
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
			g, err := c.Revocable()
			if err != nil {
				return err
			}
			err = mpi.Guard(g, func() error {
				for i := range splits {
					if i == before && c.Rank() == who {
						panic("between splits")
					}
					if _, err := g.Split(c.Rank()%2, 0); err != nil {
						return err
					}
				}
				return nil
			})
			f.is(fmt.Sprintf("after %d splits", before), err, who, "between splits")
			f.add(c.Barrier())
		}
	}
	return f.err()
}

// revokePanic revokes by a panic, and by an operation that has failed.
func revokePanic(c mpi.Comm) error {
	var f failures
	who := c.Size() - 1
	for _, failed := range []bool{false, true} {
		g, err := c.Revocable()
		if err != nil {
			return err
		}
		err = mpi.Guard(g, func() error {
			if c.Rank() != who {
				return g.Barrier()
			}
			if failed {
				return &mpi.OpError{Op: "MPI_Barrier", Err: errors.New("the network is down")}
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
		f.add(c.Barrier())
	}
	return f.err()
}

// revokeNot uses, guards and frees communicators that nobody revokes.
func revokeNot(c mpi.Comm) error {
	var f failures
	for range 3 {
		g, err := c.Revocable()
		if err != nil {
			return err
		}
		f.add(g.Revoked())
		f.add(mpi.Guard(g, func() error {
			part, err := g.Split(c.Rank()%2, 0)
			if err != nil {
				return err
			}
			return errors.Join(part.Barrier(), part.Free(), g.Barrier())
		}))
		own := errors.New("own")
		f.expect(errors.Is(mpi.Guard(g, func() error { return own }), own), "Guard changes an error")
		f.add(g.Revoked())
		f.add(g.Free())
	}
	return f.err()
}
