package protect

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/mpi/sockets"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Carrier is what carries the messages of protections while the program continues, a value of
// SCR_ENCODE_CARRIER.
type Carrier string

// The carriers.
const (
	Sockets Carrier = "SOCKETS" // TCP
	MPI     Carrier = "MPI"     // the program's MPI, if several threads may call it at a time
)

// carrier connects the members of a set.
type carrier struct {
	net *sockets.Comm // nil: by MPI
	// comm is for protections, one after the other. It is nil before the first, and after one has
	// failed: it may have been revoked, or have messages that nobody has received.
	comm mpi.Revocable
	old  mpi.Revocable // the one before, which is to be freed
}

func (x *carrier) close() {
	if x.net != nil {
		x.net.Close()
	}
}

// Over says how the last dataset was protected, as a part of a line: " over TCP", " over MPI", or " while the program waited".
func (p *Protector) Over() string {
	if p.waited {
		return " while the program waited"
	}
	for _, x := range p.carriers {
		if x.net != nil {
			return " over TCP"
		}
		return " over MPI"
	}
	return ""
}

// broken reports whether a new carrier is needed.
func (x *carrier) broken() bool { return x == nil || x.net != nil && x.net.Failed() != nil }

// carry returns the carrier of a set, with a communicator. The error is agreed by all ranks of
// the job. A failure of the program's MPI unwinds, and one of sockets is an error.
func (p *Protector) carry(set *redundancy.Set) (*carrier, error) {
	over := p.overMPI(set)
	x := p.carriers[set]
	var err error
	if mpi.Any(set.Comm, x.broken()) {
		p.drop(set)
		x = &carrier{}
		p.carriers[set] = x
		p.sets = append(p.sets, set)
		if over == nil {
			x.net, err = sockets.New(set.Comm, sockets.Options{Interface: p.Interface, Before: transfer.BehindProgram})
		}
	}
	switch {
	case err != nil || x.comm != nil:
	case over != nil:
		x.release(set.Comm)
		x.comm = over.Revocable()
	default:
		err = mpi.Try(func() error {
			x.comm = x.net.Revocable()
			if x.old != nil { // all members are here, so nobody uses it
				x.net.Forget(x.old)
				x.old = nil
			}
			return nil
		})
	}
	if agreed := new(mpi.AgreedError); errors.As(err, &agreed) {
		err = agreed.Err // one rank of the set reports it
	}
	if err != nil {
		err = fmt.Errorf("the members of a set cannot be connected: %v", err) // %v: MPI has not failed
	}
	if err := mpi.Agree(p.World, err); err != nil {
		p.drop(set)
		return nil, err
	}
	return x, nil
}

// overMPI returns the communicator of a set's members in another thread, nil if they are to be
// connected by sockets.
func (p *Protector) overMPI(set *redundancy.Set) mpi.Comm {
	if p.Carrier != MPI {
		return nil
	}
	c := concurrent(set)
	if mpi.Any(p.World, c == nil) {
		p.Carrier = Sockets
		p.Log.WarnJob("SCR_ENCODE_CARRIER=MPI has no effect: the program has to initialize MPI with MPI_THREAD_MULTIPLE; messages of protections go over TCP")
		return nil
	}
	return c
}

// concurrent returns the communicator of a set's members for another thread, nil if only one thread may call MPI.
func concurrent(set *redundancy.Set) mpi.Comm {
	if of, ok := set.Comm.(mpi.Concurrent); ok {
		return of.Concurrent()
	}
	return nil
}

// renew lets the next protection of a set have a new communicator.
func (x *carrier) renew() {
	if x.comm != nil {
		x.old = x.comm
	}
	x.comm = nil
}

// release frees the communicator of MPI that renew has put away, unless it was revoked: then no
// operation with it succeeds. It is collective over the set.
func (x *carrier) release(set mpi.Comm) {
	old := x.old
	x.old = nil
	if !mpi.Any(set, old == nil || old.Revoked() != nil) {
		old.Free()
	}
}

// drop ends the connections of a set.
func (p *Protector) drop(set *redundancy.Set) {
	if x := p.carriers[set]; x != nil {
		x.close()
		delete(p.carriers, set)
		p.sets = slices.DeleteFunc(p.sets, func(other *redundancy.Set) bool { return other == set })
	}
}

// Free frees the communicators of MPI, and ends connections to other ranks. Nothing is being
// protected any more.
func (p *Protector) Free() {
	for _, set := range slices.Clone(p.sets) {
		if x := p.carriers[set]; x.net == nil && x.comm != nil {
			x.comm.Free()
		} else if x.net == nil {
			x.release(set.Comm)
		}
		p.drop(set)
	}
}
