package mpitest

import (
	"time"

	"github.com/goscr/goscr/mpi"
)

var nonblocking = []check{
	{"several messages in flight", inFlight},
	{"waits in reverse order", reverse},
	{"test until done", polling},
	{"issend waits for the receiver", synchronous},
	{"messages to oneself", oneself},
}

func poll(r mpi.Request) mpi.Status {
	for {
		if s, done := r.Test(); done {
			return s
		}
	}
}

// exchange passes messages of all sizes, several of each, around the ring and
// finishes the requests in the order that finish chooses.
func exchange(c mpi.Comm, finish func(f *failures, in, out []mpi.Request, received func(i int, s mpi.Status))) error {
	var f failures
	n, me := c.Size(), c.Rank()
	left, right := (me-1+n)%n, (me+1)%n
	lengths := append(append([]int{}, sizes...), sizes...)
	total := 0
	for _, l := range lengths {
		total += l
	}
	send, recv := mpi.Alloc(total), mpi.Alloc(total)
	defer mpi.Free(send)
	defer mpi.Free(recv)

	in, out := make([]mpi.Request, len(lengths)), make([]mpi.Request, len(lengths))
	parts := make([][]byte, len(lengths))
	at := 0
	for i, l := range lengths {
		parts[i] = recv[at : at+l]
		in[i] = c.Irecv(parts[i], left, 1)
		part := fill(send[at:at+l], me*100+i)
		if i%2 == 0 {
			out[i] = c.Isend(part, right, 1)
		} else {
			out[i] = c.Issend(part, right, 1)
		}
		at += l
	}
	if len(f) == 0 {
		finish(&f, in, out, func(i int, s mpi.Status) {
			f.status(s, left, 1, lengths[i])
			f.same(parts[i], left*100+i)
		})
	}
	return f.err()
}

func inFlight(c mpi.Comm) error {
	return exchange(c, func(f *failures, in, out []mpi.Request, received func(int, mpi.Status)) {
		for i := range in {
			s := in[i].Wait()
			received(i, s)
			out[i].Wait()
		}
	})
}

func reverse(c mpi.Comm) error {
	return exchange(c, func(f *failures, in, out []mpi.Request, received func(int, mpi.Status)) {
		for i := len(in) - 1; i >= 0; i-- {
			out[i].Wait()
		}
		for i := len(in) - 1; i >= 0; i-- {
			s := in[i].Wait()
			received(i, s)
		}
	})
}

// polling tests all requests in turn, and sees that one whose message is not
// sent yet stays open.
func polling(c mpi.Comm) error {
	err := exchange(c, func(f *failures, in, out []mpi.Request, received func(int, mpi.Status)) {
		for open := len(in) + len(out); open > 0; {
			for i := range in {
				if in[i] != nil {
					if s, done := in[i].Test(); done {
						received(i, s)
						in[i] = nil
						open--
					}
				}
				if out[i] != nil {
					if _, done := out[i].Test(); done {
						out[i] = nil
						open--
					}
				}
			}
		}
	})
	var f failures
	f.add(err)
	first, other, ok := pair(c)
	if !ok {
		return f.err()
	}
	if first {
		c.Recv(nil, other, 2)
		c.Send(message(50, 1), other, 3)
		return f.err()
	}
	buf := mpi.Alloc(100)
	defer mpi.Free(buf)
	r := c.Irecv(buf, other, 3)
	for end := time.Now().Add(late); r != nil && time.Now().Before(end); {
		_, done := r.Test()
		if done {
			f.expect(false, "Test reports a message that was not sent")
			r = nil
		}
	}
	c.Send(nil, other, 2)
	if r != nil {
		f.status(poll(r), other, 3, 50)
		f.same(buf[:50], 1)
	}
	return f.err()
}

func synchronous(c mpi.Comm) error {
	var f failures
	first, other, ok := pair(c)
	if !ok {
		return nil
	}
	if !first {
		c.Recv(nil, other, 2)
		buf := make([]byte, 10)
		s := c.Recv(buf, other, 1)
		f.status(s, other, 1, 10)
		f.same(buf, 1)
		return f.err()
	}
	buf := mpi.Alloc(10)
	defer mpi.Free(buf)
	r := c.Issend(fill(buf, 1), other, 1)
	for end := time.Now().Add(late); r != nil && time.Now().Before(end); {
		_, done := r.Test()
		if done {
			f.expect(false, "Issend is done before the receiver began")
			r = nil
		}
	}
	c.Send(nil, other, 2)
	if r != nil {
		r.Wait()
	}
	return f.err()
}

func oneself(c mpi.Comm) error {
	var f failures
	me := c.Rank()
	for i, n := range sizes {
		recv, send := mpi.Alloc(n), mpi.Alloc(n)
		r := c.Irecv(recv, me, i)
		c.Send(message(n, i), me, i)
		f.wait(r, me, i, n)
		f.same(recv, i)

		w := c.Issend(fill(send, i+50), me, i)
		s := c.Probe(mpi.AnySource, i)
		f.status(s, me, i, n)
		s = c.Recv(recv, me, i)
		f.status(s, me, i, n)
		f.same(recv, i+50)
		w.Wait()
		mpi.Free(recv)
		mpi.Free(send)
	}
	return f.err()
}
