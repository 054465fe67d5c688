package mpitest

import (
	"github.com/goscr/goscr/mpi"
)

var arguments = []check{
	{"bad arguments are errors", badArguments},
}

// badArguments makes only calls that must fail before they send anything, then
// sees that the communicator still works.
func badArguments(c mpi.Comm) error {
	var f failures
	n, buf := c.Size(), make([]byte, 4)
	out := alloc(4)
	defer mpi.Free(out)
	refused := func(call string, rank, tag int, err error) {
		f.expect(err != nil, "%s takes rank %d of %d and tag %d", call, rank, n, tag)
	}
	started := func(call string, rank, tag int, r mpi.Request, err error) {
		refused(call, rank, tag, err)
		f.expect(r == nil, "%s returns a request with its error", call)
	}
	bad := []struct{ rank, tag int }{{-2, 0}, {n, 0}, {1 << 32, 0}, {0, -1}, {0, mpi.MaxTag + 1}, {0, 1 << 32}}
	receive := func(rank, tag int) {
		_, err := c.Recv(buf, rank, tag)
		refused("Recv", rank, tag, err)
		r, err := c.Irecv(out, rank, tag)
		started("Irecv", rank, tag, r, err)
		_, err = c.Sendrecv(buf, 0, 0, buf, rank, tag)
		refused("Sendrecv", rank, tag, err)
		_, err = c.Probe(rank, tag)
		refused("Probe", rank, tag, err)
		_, _, err = c.Iprobe(rank, tag)
		refused("Iprobe", rank, tag, err)
	}
	send := func(rank, tag int) {
		refused("Send", rank, tag, c.Send(buf, rank, tag))
		r, err := c.Isend(out, rank, tag)
		started("Isend", rank, tag, r, err)
		r, err = c.Issend(out, rank, tag)
		started("Issend", rank, tag, r, err)
		_, err = c.Sendrecv(buf, rank, tag, buf, 0, 0)
		refused("Sendrecv", rank, tag, err)
	}
	for _, b := range bad {
		send(b.rank, b.tag)
		receive(b.rank, b.tag)
	}
	send(mpi.AnySource, 0)
	receive(mpi.AnySource, -1)
	receive(mpi.AnySource, mpi.MaxTag+1)
	for _, root := range []int{-1, n, 1 << 32} {
		refused("Bcast", root, 0, c.Bcast(buf, root))
		refused("Gather", root, 0, c.Gather(buf, make([]byte, 4*n), root))
	}
	_, err := c.Split(-2, 0)
	f.expect(err != nil, "Split takes color -2")
	_, found, err := c.Iprobe(mpi.AnySource, 0)
	f.add(err)
	f.expect(!found, "a refused call has sent a message")
	f.add(c.Barrier())
	return f.err()
}
