package mpitest

import (
	"errors"

	"github.com/goscr/goscr/mpi"
)

var arguments = []check{
	{"bad arguments are refused", badArguments},
}

// badArguments makes only calls that must fail before they send anything, then
// sees that the communicator still works.
func badArguments(c mpi.Comm) error {
	var f failures
	n, buf := c.Size(), make([]byte, 4)
	out := mpi.Alloc(4)
	defer mpi.Free(out)
	refused := func(call string, rank, tag int, operation func()) {
		var failed *mpi.OpError
		f.expect(errors.As(try(operation), &failed), "%s takes rank %d of %d and tag %d", call, rank, n, tag)
	}
	bad := []struct{ rank, tag int }{{-2, 0}, {n, 0}, {1 << 32, 0}, {0, -1}, {0, mpi.MaxTag + 1}, {0, 1 << 32}}
	receive := func(rank, tag int) {
		refused("Recv", rank, tag, func() { c.Recv(buf, rank, tag) })
		refused("Irecv", rank, tag, func() { c.Irecv(out, rank, tag) })
		refused("Sendrecv", rank, tag, func() { c.Sendrecv(buf, 0, 0, buf, rank, tag) })
		refused("Probe", rank, tag, func() { c.Probe(rank, tag) })
		refused("Iprobe", rank, tag, func() { c.Iprobe(rank, tag) })
	}
	send := func(rank, tag int) {
		refused("Send", rank, tag, func() { c.Send(buf, rank, tag) })
		refused("Isend", rank, tag, func() { c.Isend(out, rank, tag) })
		refused("Issend", rank, tag, func() { c.Issend(out, rank, tag) })
		refused("Sendrecv", rank, tag, func() { c.Sendrecv(buf, rank, tag, buf, 0, 0) })
	}
	for _, b := range bad {
		send(b.rank, b.tag)
		receive(b.rank, b.tag)
	}
	send(mpi.AnySource, 0)
	receive(mpi.AnySource, -1)
	receive(mpi.AnySource, mpi.MaxTag+1)
	for _, root := range []int{-1, n, 1 << 32} {
		refused("Bcast", root, 0, func() { c.Bcast(buf, root) })
		refused("Gather", root, 0, func() { c.Gather(buf, make([]byte, 4*n), root) })
	}
	f.expect(try(func() { c.Split(-2, 0) }) != nil, "Split takes color -2")
	_, found := c.Iprobe(mpi.AnySource, 0)
	f.expect(!found, "a refused call has sent a message")
	c.Barrier()
	return f.err()
}
