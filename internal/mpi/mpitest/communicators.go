package mpitest

import (
	"errors"

	"github.com/goscr/goscr/mpi"
)

var communicators = []check{
	{"split by color", splitColors},
	{"split reorders by key", splitKeys},
	{"split with undefined color", splitUndefined},
	{"split of a split", splitTwice},
	{"message spaces are separate", spaces},
	{"dup and free, many times", dupFree},
}

// member checks that c has the given place and size and that messages get
// through it: every rank receives the ranks of its neighbours from them.
func (f *failures) member(c mpi.Comm, rank, size, me int, world func(rank int) int) {
	if c == nil {
		f.expect(false, "no communicator")
		return
	}
	f.expect(c.Rank() == rank && c.Size() == size, "rank %d of %d, want %d of %d", c.Rank(), c.Size(), rank, size)
	n := c.Size()
	left, right := (c.Rank()-1+n)%n, (c.Rank()+1)%n
	buf := make([]byte, 30)
	c.Sendrecv(message(30, me), right, 1, buf, left, 1)
	f.same(buf, world(left))
	sum, want := []int64{int64(me)}, int64(0)
	for r := range n {
		want += int64(world(r))
	}
	c.Allreduce(sum, mpi.Sum)
	f.expect(sum[0] == want, "ranks add up to %d, want %d", sum[0], want)
}

func (f *failures) free(c mpi.Comm) {
	if c != nil {
		c.Free()
	}
}

func splitColors(c mpi.Comm) error {
	var f failures
	me := c.Rank()
	color := me % 3
	size := (c.Size() - color + 2) / 3
	s := c.Split(color*1000, 0)
	f.member(s, me/3, size, me, func(r int) int { return color + 3*r })
	f.free(s)
	return f.err()
}

func splitKeys(c mpi.Comm) error {
	var f failures
	me, n := c.Rank(), c.Size()
	s := c.Split(7, -me)
	f.member(s, n-1-me, n, me, func(r int) int { return n - 1 - r })
	f.free(s)
	// Equal keys leave ranks in order: even ranks come first here.
	even := (n + 1) / 2
	s = c.Split(0, me%2)
	f.member(s, me%2*even+me/2, n, me, func(r int) int {
		if r < even {
			return 2 * r
		}
		return 2*(r-even) + 1
	})
	f.free(s)
	return f.err()
}

func splitUndefined(c mpi.Comm) error {
	var f failures
	me, n := c.Rank(), c.Size()
	color := mpi.Undefined
	if me%2 == 0 {
		color = 1
	}
	s := c.Split(color, me)
	if color == mpi.Undefined {
		f.expect(s == nil, "a communicator for color Undefined")
	} else {
		f.member(s, me/2, (n+1)/2, me, func(r int) int { return 2 * r })
	}
	f.free(s)
	s = c.Split(mpi.Undefined, 0)
	f.expect(s == nil, "a communicator for color Undefined on all ranks")
	return f.err()
}

func splitTwice(c mpi.Comm) error {
	var f failures
	me, n := c.Rank(), c.Size()
	half := c.Split(me%2, me)
	if half == nil {
		return errors.Join(f.err(), errors.New("no communicator"))
	}
	size := (n - me%2 + 1) / 2
	s := half.Split(0, size-half.Rank())
	f.member(s, size-1-me/2, size, me, func(r int) int { return 2*(size-1-r) + me%2 })
	f.free(half) // a part outlives the whole
	f.member(s, size-1-me/2, size, me, func(r int) int { return 2*(size-1-r) + me%2 })
	f.free(s)
	return f.err()
}

// spaces sends over a communicator, its dup and its split at once, and
// receives in the other order.
func spaces(c mpi.Comm) error {
	var f failures
	n, me := c.Size(), c.Rank()
	left, right := (me-1+n)%n, (me+1)%n
	d := mpi.Dup(c)
	s := c.Split(0, me)
	if d == nil || s == nil {
		return f.err()
	}
	f.expect(d.Rank() == me && d.Size() == n, "Dup gives rank %d of %d, want %d of %d", d.Rank(), d.Size(), me, n)
	comms := []mpi.Comm{c, d, s}
	const size = 20
	buf := mpi.Alloc(size * len(comms))
	defer mpi.Free(buf)
	var requests []mpi.Request
	for i, x := range comms {
		part := fill(buf[i*size:(i+1)*size], me*10+i)
		requests = append(requests, x.Isend(part, right, 1))
	}
	got := make([]byte, size)
	for i := len(comms) - 1; i >= 0; i-- {
		comms[i].Recv(got, mpi.AnySource, 1)
		f.same(got, left*10+i)
	}
	for _, r := range requests {
		r.Wait()
	}
	f.free(d)
	f.free(s)
	return f.err()
}

func dupFree(c mpi.Comm) error {
	var f failures
	n, me := c.Size(), c.Rank()
	for range 20 {
		d := mpi.Dup(c)
		f.member(d, me, n, me, func(r int) int { return r })
		f.free(d)
	}
	return f.err()
}
