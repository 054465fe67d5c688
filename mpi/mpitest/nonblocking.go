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

func poll(r mpi.Request) (mpi.Status, error) {
	for {
		if s, done, err := r.Test(); done || err != nil {
			return s, err
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
	send, recv := alloc(total), alloc(total)
	defer mpi.Free(send)
	defer mpi.Free(recv)

	in, out := make([]mpi.Request, len(lengths)), make([]mpi.Request, len(lengths))
	parts := make([][]byte, len(lengths))
	at := 0
	for i, l := range lengths {
		parts[i] = recv[at : at+l]
		in[i] = f.started(c.Irecv(parts[i], left, 1))
		part := fill(send[at:at+l], me*100+i)
		if i%2 == 0 {
			out[i] = f.started(c.Isend(part, right, 1))
		} else {
			out[i] = f.started(c.Issend(part, right, 1))
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
			s, err := in[i].Wait()
			f.add(err)
			received(i, s)
			f.done(out[i])
		}
	})
}

func reverse(c mpi.Comm) error {
	return exchange(c, func(f *failures, in, out []mpi.Request, received func(int, mpi.Status)) {
		for i := len(in) - 1; i >= 0; i-- {
			f.done(out[i])
		}
		for i := len(in) - 1; i >= 0; i-- {
			s, err := in[i].Wait()
			f.add(err)
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
					if s, done, err := in[i].Test(); done || err != nil {
						f.add(err)
						received(i, s)
						in[i] = nil
						open--
					}
				}
				if out[i] != nil {
					if _, done, err := out[i].Test(); done || err != nil {
						f.add(err)
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
		_, err := c.Recv(nil, other, 2)
		f.add(err)
		f.add(c.Send(message(50, 1), other, 3))
		return f.err()
	}
	buf := alloc(100)
	defer mpi.Free(buf)
	r := f.started(c.Irecv(buf, other, 3))
	for end := time.Now().Add(late); r != nil && time.Now().Before(end); {
		_, done, err := r.Test()
		f.add(err)
		if done {
			f.expect(false, "Test reports a message that was not sent")
			r = nil
		}
	}
	f.add(c.Send(nil, other, 2))
	if r != nil {
		s, err := poll(r)
		f.add(err)
		f.status(s, other, 3, 50)
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
		_, err := c.Recv(nil, other, 2)
		f.add(err)
		buf := make([]byte, 10)
		s, err := c.Recv(buf, other, 1)
		f.add(err)
		f.status(s, other, 1, 10)
		f.same(buf, 1)
		return f.err()
	}
	buf := alloc(10)
	defer mpi.Free(buf)
	r := f.started(c.Issend(fill(buf, 1), other, 1))
	for end := time.Now().Add(late); r != nil && time.Now().Before(end); {
		_, done, err := r.Test()
		f.add(err)
		if done {
			f.expect(false, "Issend is done before the receiver began")
			r = nil
		}
	}
	f.add(c.Send(nil, other, 2))
	f.done(r)
	return f.err()
}

func oneself(c mpi.Comm) error {
	var f failures
	me := c.Rank()
	for i, n := range sizes {
		recv, send := alloc(n), alloc(n)
		r := f.started(c.Irecv(recv, me, i))
		f.add(c.Send(message(n, i), me, i))
		f.wait(r, me, i, n)
		f.same(recv, i)

		w := f.started(c.Issend(fill(send, i+50), me, i))
		s, err := c.Probe(mpi.AnySource, i)
		f.add(err)
		f.status(s, me, i, n)
		s, err = c.Recv(recv, me, i)
		f.add(err)
		f.status(s, me, i, n)
		f.same(recv, i+50)
		f.done(w)
		mpi.Free(recv)
		mpi.Free(send)
	}
	return f.err()
}
