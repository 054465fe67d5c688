package mpi

// Traffic counts what a rank has sent and received point to point, without
// collective operations of MPI.
type Traffic struct {
	Messages       int64 // sent
	Sent, Received int64 // bytes
}

// Count returns a communicator that works like c and adds its traffic to t, as do
// all communicators made from it.
func Count(c Comm, t *Traffic) Comm { return &counted{c, t} }

type counted struct {
	Comm
	traffic *Traffic
}

func (c *counted) sent(buf []byte) {
	c.traffic.Messages++
	c.traffic.Sent += int64(len(buf))
}

func (c *counted) Send(buf []byte, dst, tag int) {
	c.sent(buf)
	c.Comm.Send(buf, dst, tag)
}

func (c *counted) Recv(buf []byte, src, tag int) Status {
	s := c.Comm.Recv(buf, src, tag)
	c.traffic.Received += int64(s.Count)
	return s
}

func (c *counted) Sendrecv(send []byte, dst, sendtag int, recv []byte, src, recvtag int) Status {
	c.sent(send)
	s := c.Comm.Sendrecv(send, dst, sendtag, recv, src, recvtag)
	c.traffic.Received += int64(s.Count)
	return s
}

func (c *counted) Isend(buf []byte, dst, tag int) Request {
	c.sent(buf)
	return c.Comm.Isend(buf, dst, tag)
}

func (c *counted) Issend(buf []byte, dst, tag int) Request {
	c.sent(buf)
	return c.Comm.Issend(buf, dst, tag)
}

// Irecv counts the buffer, which goscr always makes as long as the message.
func (c *counted) Irecv(buf []byte, src, tag int) Request {
	c.traffic.Received += int64(len(buf))
	return c.Comm.Irecv(buf, src, tag)
}

// Concurrent returns a communicator that does not count, since the counters are those of the
// program's thread.
func (c *counted) Concurrent() Comm {
	if of, ok := c.Comm.(Concurrent); ok {
		return of.Concurrent()
	}
	return nil
}

func (c *counted) Split(color, key int) Comm {
	part := c.Comm.Split(color, key)
	if part == nil {
		return nil
	}
	return Count(part, c.traffic)
}
