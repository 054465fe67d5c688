package mpitest

import (
	"errors"

	"github.com/goscr/goscr/mpi"
)

var pointToPoint = []check{
	{"rank and size", rankAndSize},
	{"send and recv", sendRecv},
	{"messages arrive in order", order},
	{"tags tell messages apart", tags},
	{"recv from any source", anySource},
	{"truncated messages are errors", truncation},
	{"sendrecv around a ring", sendrecvRing},
	{"probe", probe},
	{"messages of 0 bytes", empty},
}

func rankAndSize(c mpi.Comm) error {
	var f failures
	n := []int64{1, int64(c.Rank())}
	c.Allreduce(n, mpi.Sum)
	size := int64(c.Size())
	f.expect(n[0] == size, "size is %d, but %d ranks took part", size, n[0])
	f.expect(n[1] == size*(size-1)/2, "ranks add up to %d in a communicator of %d", n[1], size)
	return f.err()
}

// sendRecv bounces messages between rank 0 and each other rank.
func sendRecv(c mpi.Comm) error {
	var f failures
	for peer := 1; peer < c.Size(); peer++ {
		for i, n := range sizes {
			seed := peer*100 + i
			there := func(src, dst, seed int) {
				if c.Rank() == src {
					c.Send(message(n, seed), dst, i)
				} else if c.Rank() == dst {
					buf := make([]byte, n+i) // a message may be shorter than its buffer
					s := c.Recv(buf, src, i)
					f.status(s, src, i, n)
					f.same(buf[:n], seed)
				}
			}
			there(0, peer, seed)
			there(peer, 0, -seed)
		}
	}
	return f.err()
}

// pair returns whether this rank is the first of two neighbours, and the
// other; ok is false for a rank that is left over.
func pair(c mpi.Comm) (first bool, other int, ok bool) {
	other = c.Rank() ^ 1
	return c.Rank()&1 == 0, other, other < c.Size()
}

func order(c mpi.Comm) error {
	var f failures
	first, other, ok := pair(c)
	if !ok {
		return nil
	}
	// Short and long messages take different ways through an MPI.
	for i := range 40 {
		n := sizes[i*5%len(sizes)]
		if first {
			c.Send(message(n, i), other, 3)
			continue
		}
		buf := make([]byte, 1<<18+1)
		s := c.Recv(buf, other, 3)
		f.status(s, other, 3, n)
		f.same(buf[:min(n, s.Count)], i)
	}
	return f.err()
}

func tags(c mpi.Comm) error {
	var f failures
	first, other, ok := pair(c)
	if !ok {
		return nil
	}
	list := []int{0, mpi.MaxTag, 1, 4711}
	const n = 100
	buf := mpi.Alloc(n * len(list))
	defer mpi.Free(buf)
	if !first {
		for i := len(list) - 1; i >= 0; i-- {
			s := c.Recv(buf[:n], other, list[i])
			f.status(s, other, list[i], n)
			f.same(buf[:n], list[i])
		}
		return f.err()
	}
	requests := make([]mpi.Request, len(list))
	for i, tag := range list {
		requests[i] = c.Isend(fill(buf[i*n:(i+1)*n], tag), other, tag)
	}
	for _, r := range requests {
		r.Wait()
	}
	return f.err()
}

func anySource(c mpi.Comm) error {
	var f failures
	const each = 3
	if c.Rank() != 0 {
		for i := range each {
			c.Send(message(c.Rank(), c.Rank()*each+i), 0, 9)
		}
		return f.err()
	}
	seen := make([]int, c.Size())
	for range each * (c.Size() - 1) {
		buf := make([]byte, c.Size())
		s := c.Recv(buf, mpi.AnySource, 9)
		if s.Source < 1 || s.Source >= c.Size() {
			f.expect(false, "message from rank %d", s.Source)
			continue
		}
		f.status(s, s.Source, 9, s.Source)
		f.same(buf[:s.Source], s.Source*each+seen[s.Source])
		seen[s.Source]++
	}
	return f.err()
}

// truncation also sees that the message after the one that was too long arrives.
func truncation(c mpi.Comm) error {
	var f failures
	first, other, ok := pair(c)
	if !ok {
		return nil
	}
	truncated := func(receive func()) {
		err := try(receive)
		f.expect(errors.Is(err, mpi.ErrTruncated), "error of a message that is too long: %v", err)
	}
	buf := mpi.Alloc(20)
	defer mpi.Free(buf)
	for i, n := range []int{11, 1 << 18} {
		if first {
			long := message(n, i)
			for range 2 {
				c.Send(long, other, 1)
			}
			c.Send(message(10, i), other, 1)
			continue
		}
		truncated(func() { c.Recv(make([]byte, 10), other, 1) })
		truncated(func() { c.Recv(nil, other, 1) })
		s := c.Recv(buf, other, 1)
		f.status(s, other, 1, 10)
		f.same(buf[:10], i)
	}
	// Irecv may write past its buffer, but up to here every MPI says that it did.
	if first {
		c.Send(message(20, 0), other, 3)
		c.Send(message(20, 0), other, 3)
	} else {
		truncated(func() { c.Irecv(buf[:10], other, 3).Wait() })
		truncated(func() { poll(c.Irecv(buf[:10], other, 3)) })
	}
	// Both at once: what is sent must arrive though what is received does not fit.
	got := make([]byte, 20)
	if first {
		s := c.Sendrecv(message(20, 1), other, 2, got, other, 2)
		f.status(s, other, 2, 10)
	} else {
		truncated(func() { c.Sendrecv(message(10, 2), other, 2, got[:10], other, 2) })
	}
	return f.err()
}

func sendrecvRing(c mpi.Comm) error {
	var f failures
	n, me := c.Size(), c.Rank()
	left, right := (me-1+n)%n, (me+1)%n
	for i, size := range sizes {
		buf := make([]byte, size+1)
		s := c.Sendrecv(message(size, me), right, i, buf, left, i)
		f.status(s, left, i, size)
		f.same(buf[:size], left)
	}
	buf := make([]byte, 8)
	s := c.Sendrecv(message(8, me), left, 5, buf, mpi.AnySource, 5)
	f.status(s, right, 5, 8)
	f.same(buf, right)
	return f.err()
}

func probe(c mpi.Comm) error {
	var f failures
	first, other, ok := pair(c)
	if !ok {
		return nil
	}
	if first {
		c.Send(nil, other, 1) // not what the other looks for first
		c.Recv(nil, other, 2)
		for i, n := range sizes {
			c.Send(message(n, i), other, 3)
		}
		return f.err()
	}
	s := c.Probe(mpi.AnySource, 1)
	f.status(s, other, 1, 0)
	_, found := c.Iprobe(other, 3)
	f.expect(!found, "Iprobe finds a message that was not sent")
	c.Recv(nil, other, 1)
	_, found = c.Iprobe(mpi.AnySource, 1)
	f.expect(!found, "Iprobe finds a message that was received")
	c.Send(nil, other, 2)
	for i, n := range sizes {
		var s mpi.Status
		if i%2 == 0 {
			s = c.Probe(other, 3)
		} else {
			for found := false; !found; {
				s, found = c.Iprobe(mpi.AnySource, 3)
			}
		}
		f.status(s, other, 3, n)
		buf := make([]byte, n)
		s = c.Recv(buf, other, 3)
		f.status(s, other, 3, n)
		f.same(buf, i)
	}
	return f.err()
}

func empty(c mpi.Comm) error {
	var f failures
	n, me := c.Size(), c.Rank()
	left, right := (me-1+n)%n, (me+1)%n
	s := c.Sendrecv(nil, right, 1, nil, left, 1)
	f.status(s, left, 1, 0)
	for i, start := range []func([]byte, int, int) mpi.Request{c.Isend, c.Issend} {
		in := c.Irecv(nil, left, 2)
		out := start([]byte{}, right, 2)
		if i == 0 {
			out.Wait()
		}
		f.wait(in, left, 2, 0)
		if i == 1 {
			out.Wait()
		}
	}
	first, other, ok := pair(c)
	if ok && first {
		c.Send(nil, other, 3)
		c.Send([]byte{}, other, 3)
	} else if ok {
		s := c.Recv(make([]byte, 4), other, 3)
		f.status(s, other, 3, 0)
		s = c.Recv(nil, other, 3)
		f.status(s, other, 3, 0)
	}
	c.Bcast(nil, n-1)
	c.Allreduce(nil, mpi.Max)
	c.Exscan(nil, mpi.Sum)
	c.Gather(nil, nil, n-1)
	data := mpi.BcastBytes(c, nil, 0)
	f.expect(len(data) == 0, "BcastBytes made %d bytes of none", len(data))
	return f.err()
}
