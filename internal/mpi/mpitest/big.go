package mpitest

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/mpi"
)

func big(size int) []check {
	return []check{
		{fmt.Sprintf("send and recv of %d bytes", size), onTwo(size, bigSend)},
		{fmt.Sprintf("isend and irecv of %d bytes", size), onTwo(size, bigIsend)},
		{fmt.Sprintf("bcast of %d bytes", size), onTwo(size, bigBcast)},
	}
}

// onTwo runs a check on ranks 0 and 1 with a buffer that holds the message on
// rank 0, is empty on rank 1, and must hold the message on both at the end.
func onTwo(size int, run func(c mpi.Comm, buf []byte) error) func(c mpi.Comm) error {
	return func(c mpi.Comm) error {
		color := 0
		if c.Rank() > 1 {
			color = mpi.Undefined
		}
		two := c.Split(color, 0)
		if two == nil {
			return nil
		}
		var f failures
		if two.Size() == 2 {
			buf := mpi.Alloc(size)
			_ = unix.Madvise(buf, unix.MADV_HUGEPAGE) // most of the time would go into page faults
			if two.Rank() == 0 {
				fill(buf, 1)
			}
			f.add(run(two, buf))
			f.same(buf, 1)
			mpi.Free(buf)
		}
		f.free(two)
		return f.err()
	}
}

func bigSend(c mpi.Comm, buf []byte) error {
	var f failures
	if c.Rank() == 0 {
		c.Send(buf, 1, 1)
		return nil
	}
	s := c.Probe(0, 1)
	f.status(s, 0, 1, len(buf))
	s = c.Recv(buf, mpi.AnySource, 1)
	f.status(s, 0, 1, len(buf))
	return f.err()
}

func bigIsend(c mpi.Comm, buf []byte) error {
	var f failures
	if c.Rank() == 0 {
		c.Isend(buf, 1, 1).Wait()
	} else {
		f.wait(c.Irecv(buf, 0, 1), 0, 1, len(buf))
	}
	return f.err()
}

func bigBcast(c mpi.Comm, buf []byte) error {
	c.Bcast(buf, 0)
	return nil
}
