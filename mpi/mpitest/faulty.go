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

func (r faultyRequest) Wait() (mpi.Status, error) {
	r.before("Wait")
	return r.Request.Wait()
}

func (c *faulty) started(r mpi.Request, err error) (mpi.Request, error) {
	if err != nil {
		return nil, err
	}
	return faultyRequest{r, c.before}, nil
}

func (c *faulty) Send(buf []byte, dst, tag int) error {
	c.before("Send")
	return c.Comm.Send(buf, dst, tag)
}

func (c *faulty) Recv(buf []byte, src, tag int) (mpi.Status, error) {
	c.before("Recv")
	return c.Comm.Recv(buf, src, tag)
}

func (c *faulty) Sendrecv(send []byte, dst, sendtag int, recv []byte, src, recvtag int) (mpi.Status, error) {
	c.before("Sendrecv")
	return c.Comm.Sendrecv(send, dst, sendtag, recv, src, recvtag)
}

func (c *faulty) Isend(buf []byte, dst, tag int) (mpi.Request, error) {
	c.before("Isend")
	return c.started(c.Comm.Isend(buf, dst, tag))
}

func (c *faulty) Issend(buf []byte, dst, tag int) (mpi.Request, error) {
	c.before("Issend")
	return c.started(c.Comm.Issend(buf, dst, tag))
}

func (c *faulty) Irecv(buf []byte, src, tag int) (mpi.Request, error) {
	c.before("Irecv")
	return c.started(c.Comm.Irecv(buf, src, tag))
}

func (c *faulty) Probe(src, tag int) (mpi.Status, error) {
	c.before("Probe")
	return c.Comm.Probe(src, tag)
}

func (c *faulty) Barrier() error {
	c.before("Barrier")
	return c.Comm.Barrier()
}

func (c *faulty) Ibarrier() (mpi.Request, error) {
	c.before("Ibarrier")
	return c.started(c.Comm.Ibarrier())
}

func (c *faulty) Bcast(buf []byte, root int) error {
	c.before("Bcast")
	return c.Comm.Bcast(buf, root)
}

func (c *faulty) Allreduce(values []int64, op mpi.Op) error {
	c.before("Allreduce")
	return c.Comm.Allreduce(values, op)
}

func (c *faulty) Exscan(values []int64, op mpi.Op) error {
	c.before("Exscan")
	return c.Comm.Exscan(values, op)
}

func (c *faulty) Gather(send, recv []byte, root int) error {
	c.before("Gather")
	return c.Comm.Gather(send, recv, root)
}

func (c *faulty) Split(color, key int) (mpi.Comm, error) {
	c.before("Split")
	part, err := c.Comm.Split(color, key)
	if part == nil || err != nil {
		return nil, err
	}
	return Faulty(part, c.before), nil
}

func (c *faulty) Free() error {
	c.before("Free")
	return c.Comm.Free()
}
