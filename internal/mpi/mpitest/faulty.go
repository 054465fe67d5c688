package mpitest

import "github.com/goscr/goscr/mpi"

// Faulty returns a communicator that works like c, and so do all that are made from it,
// but calls before at the beginning of each operation, with its name. Operations that a
// rank repeats until something has happened (Iprobe, Test) are not among them.
func Faulty(c mpi.Comm, before func(op string)) mpi.Comm { return &faulty{c, before} }

type faulty struct {
	mpi.Comm
	before func(op string)
}

type faultyRequest struct {
	mpi.Request
	before func(op string)
}

func (r faultyRequest) Wait() mpi.Status {
	r.before("Wait")
	return r.Request.Wait()
}

func (c *faulty) Send(buf []byte, dst, tag int) {
	c.before("Send")
	c.Comm.Send(buf, dst, tag)
}

func (c *faulty) Recv(buf []byte, src, tag int) mpi.Status {
	c.before("Recv")
	return c.Comm.Recv(buf, src, tag)
}

func (c *faulty) Sendrecv(send []byte, dst, sendtag int, recv []byte, src, recvtag int) mpi.Status {
	c.before("Sendrecv")
	return c.Comm.Sendrecv(send, dst, sendtag, recv, src, recvtag)
}

func (c *faulty) Isend(buf []byte, dst, tag int) mpi.Request {
	c.before("Isend")
	return faultyRequest{c.Comm.Isend(buf, dst, tag), c.before}
}

func (c *faulty) Issend(buf []byte, dst, tag int) mpi.Request {
	c.before("Issend")
	return faultyRequest{c.Comm.Issend(buf, dst, tag), c.before}
}

func (c *faulty) Irecv(buf []byte, src, tag int) mpi.Request {
	c.before("Irecv")
	return faultyRequest{c.Comm.Irecv(buf, src, tag), c.before}
}

func (c *faulty) Probe(src, tag int) mpi.Status {
	c.before("Probe")
	return c.Comm.Probe(src, tag)
}

func (c *faulty) Barrier() {
	c.before("Barrier")
	c.Comm.Barrier()
}

func (c *faulty) Ibarrier() mpi.Request {
	c.before("Ibarrier")
	return faultyRequest{c.Comm.Ibarrier(), c.before}
}

func (c *faulty) Bcast(buf []byte, root int) {
	c.before("Bcast")
	c.Comm.Bcast(buf, root)
}

func (c *faulty) Allreduce(values []int64, op mpi.Op) {
	c.before("Allreduce")
	c.Comm.Allreduce(values, op)
}

func (c *faulty) Exscan(values []int64, op mpi.Op) {
	c.before("Exscan")
	c.Comm.Exscan(values, op)
}

func (c *faulty) Gather(send, recv []byte, root int) {
	c.before("Gather")
	c.Comm.Gather(send, recv, root)
}

func (c *faulty) Split(color, key int) mpi.Comm {
	c.before("Split")
	part := c.Comm.Split(color, key)
	if part == nil {
		return nil
	}
	return Faulty(part, c.before)
}

func (c *faulty) Free() {
	c.before("Free")
	c.Comm.Free()
}
