package protect

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/transfer"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/sockets"
)

// Carrier is what carries the messages of protections while the program goes on, a value of
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
	old  mpi.Revocable // of MPI, the one before, which is to be freed
}

func (x *carrier) close() {
	if x.net != nil {
		x.net.Close()
	}
}

// Over names what the messages of protections go over, " over TCP" or " over MPI", and is empty if there
// have been none.
func (p *Protector) Over() string {
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
// the job, or MPI has failed.
func (p *Protector) carry(set *redundancy.Set) (*carrier, error) {
	over, err := p.overMPI(set)
	if err != nil {
		return nil, err
	}
	x := p.carriers[set]
	again, err := mpi.Any(set.Comm, x.broken())
	if err != nil {
		return nil, err
	}
	if again {
		p.drop(set)
		x = &carrier{}
		p.carriers[set] = x
		p.sets = append(p.sets, set)
		if over == nil {
			x.net, err = sockets.New(set.Comm, sockets.Options{Interface: p.Interface, Before: transfer.BehindProgram})
			if err != nil && !errors.As(err, new(*mpi.AgreedError)) {
				return nil, err
			}
		}
	}
	switch {
	case err != nil || x.comm != nil:
	case over != nil:
		if err = x.release(set.Comm); err != nil {
			return nil, err
		}
		if x.comm, err = over.Revocable(); err != nil {
			return nil, err
		}
	default:
		x.comm, err = x.net.Revocable()
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
func (p *Protector) overMPI(set *redundancy.Set) (c mpi.Comm, err error) {
	if p.Carrier != MPI {
		return nil, nil
	}
	c = concurrent(set)
	missing, err := mpi.Any(p.World, c == nil)
	if err != nil {
		return nil, err
	}
	if missing {
		p.Carrier = Sockets
		p.Log.WarnJob("SCR_ENCODE_CARRIER=MPI has no effect: the program has to initialize MPI with MPI_THREAD_MULTIPLE; messages of protections go over TCP")
		return nil, nil
	}
	return c, nil
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
	if x.net == nil && x.comm != nil {
		x.old = x.comm
	}
	x.comm = nil
}

// release frees the communicator of MPI that renew has put away, unless it was revoked: then no
// operation with it succeeds. It is collective over the set.
func (x *carrier) release(set mpi.Comm) error {
	old := x.old
	x.old = nil
	revoked, err := mpi.Any(set, old == nil || old.Revoked() != nil)
	if err != nil || revoked {
		return err
	}
	return old.Free()
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
func (p *Protector) Free() error {
	var err error
	for _, set := range slices.Clone(p.sets) {
		if x := p.carriers[set]; x.net == nil && x.comm != nil {
			err = errors.Join(err, x.comm.Free())
		} else if x.net == nil {
			err = errors.Join(err, x.release(set.Comm))
		}
		p.drop(set)
	}
	return err
}
