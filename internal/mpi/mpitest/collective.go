package mpitest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/goscr/goscr/mpi"
)

var collective = []check{
	{"barrier", barrier},
	{"ibarrier", ibarrier},
	{"several ibarriers at once", ibarriers},
	{"bcast from every root", bcast},
	{"allreduce", allreduce},
	{"exscan", exscan},
	{"gather to every root", gather},
	{"gather into too little room", gatherShort},
	{"agree", agree},
	{"bcast of bytes of unknown length", bcastBytes},
}

// barrier has one rank enter late, after the receives of its messages have begun,
// so that a rank which leaves the barrier must find them.
func barrier(c mpi.Comm) error {
	var f failures
	n, me := c.Size(), c.Rank()
	buf := mpi.Alloc(n)
	defer mpi.Free(buf)
	for last := range min(n, 4) {
		if me != last {
			r := c.Irecv(buf[:1], last, last)
			c.Barrier()
			done := false
			for i := 0; i < 10 && !done; i++ {
				_, done = r.Test()
			}
			f.expect(done, "left the barrier before rank %d entered it", last)
			if !done {
				r.Wait()
			}
			continue
		}
		time.Sleep(late)
		var requests []mpi.Request
		for r := range n {
			if r != me {
				requests = append(requests, c.Issend(buf[r:r+1], r, last))
			}
		}
		for _, r := range requests {
			r.Wait()
		}
		c.Barrier()
	}
	return f.err()
}

// ibarrier has one rank enter only when all others have seen that their
// barrier is not done.
func ibarrier(c mpi.Comm) error {
	var f failures
	n, me := c.Size(), c.Rank()
	for last := range min(n, 4) {
		if me == last {
			for range n - 1 {
				c.Recv(nil, mpi.AnySource, last)
			}
			c.Ibarrier().Wait()
			continue
		}
		r := c.Ibarrier()
		for range 20 {
			if _, done := r.Test(); done {
				f.expect(false, "Ibarrier is done before rank %d entered it", last)
				r = nil
				break
			}
		}
		c.Send(nil, last, last)
		if r != nil {
			poll(r)
		}
	}
	return f.err()
}

func ibarriers(c mpi.Comm) error {
	var f failures
	if c.Size() == 1 {
		for range 3 {
			c.Ibarrier().Wait()
		}
		return f.err()
	}
	last := c.Size() - 1
	if c.Rank() == last {
		c.Recv(nil, 0, 1)
	}
	one := c.Ibarrier()
	two := c.Ibarrier()
	if c.Rank() == 0 {
		for range 20 {
			if _, done := one.Test(); done {
				f.expect(false, "the first of two Ibarriers is done before all ranks entered it")
				one = nil
				break
			}
		}
		c.Send(nil, last, 1)
	}
	sum := []int64{1}
	c.Allreduce(sum, mpi.Sum) // other operations continue meanwhile
	f.expect(sum[0] == int64(c.Size()), "Allreduce between Ibarriers gives %d", sum[0])
	two.Wait()
	if one != nil {
		one.Wait()
	}
	return f.err()
}

func bcast(c mpi.Comm) error {
	var f failures
	for root := range c.Size() {
		for i, n := range sizes {
			if n > 5000 && root > 1 {
				continue
			}
			seed := root*10 + i
			buf := make([]byte, n)
			if c.Rank() == root {
				fill(buf, seed)
			}
			c.Bcast(buf, root)
			f.same(buf, seed)
		}
	}
	return f.err()
}

// lengths of the vectors that are reduced.
var lengths = []int{0, 1, 5, 100, 3000}

// value is element i of a rank's values in a reduction.
func value(rank, i int) int64 {
	if i == 1 && rank == 0 {
		return math.MinInt64
	}
	return int64((rank*7+i*13)%31) - 15 + int64(i)<<33
}

// reduced is the reduction of element i over the first n ranks, n > 0.
func reduced(n, i int, op mpi.Op) int64 {
	v := value(0, i)
	for r := 1; r < n; r++ {
		switch w := value(r, i); op {
		case mpi.Sum:
			v += w
		case mpi.Min:
			v = min(v, w)
		case mpi.Max:
			v = max(v, w)
		}
	}
	return v
}

func reduction(c mpi.Comm, call func([]int64, mpi.Op), want func(i int, op mpi.Op) int64) error {
	var f failures
	for _, op := range []mpi.Op{mpi.Sum, mpi.Min, mpi.Max} {
		for _, n := range lengths {
			values := make([]int64, n)
			for i := range values {
				values[i] = value(c.Rank(), i)
			}
			call(values, op)
			for i := 0; i < n; i += 1 + i/20 {
				if v, w := values[i], want(i, op); v != w {
					f.expect(false, "operation %d: value %d of %d is %d, want %d", op, i, n, v, w)
					break
				}
			}
		}
	}
	return f.err()
}

func allreduce(c mpi.Comm) error {
	return reduction(c, c.Allreduce, func(i int, op mpi.Op) int64 { return reduced(c.Size(), i, op) })
}

func exscan(c mpi.Comm) error {
	return reduction(c, c.Exscan, func(i int, op mpi.Op) int64 {
		if c.Rank() == 0 {
			return 0
		}
		return reduced(c.Rank(), i, op)
	})
}

func gather(c mpi.Comm) error {
	var f failures
	for root := range c.Size() {
		for _, n := range []int{0, 1, 300, 70000} {
			if n > 1000 && root > 1 {
				continue
			}
			const spare = 3
			var recv []byte
			if c.Rank() == root {
				recv = make([]byte, n*c.Size()+spare)
			}
			c.Gather(message(n, c.Rank()), recv, root)
			if c.Rank() != root {
				continue
			}
			for r := range c.Size() {
				f.same(recv[r*n:(r+1)*n], r)
			}
			f.expect(string(recv[n*c.Size():]) == string(make([]byte, spare)), "Gather wrote past its result")
		}
	}
	return f.err()
}

func gatherShort(c mpi.Comm) error {
	var f failures
	root := c.Size() - 1
	err := try(func() { c.Gather(make([]byte, 10), make([]byte, 10*c.Size()-1), root) })
	if c.Rank() == root {
		f.expect(errors.Is(err, mpi.ErrTruncated), "error at the root: %v", err)
	} else {
		f.add(err)
	}
	return f.err()
}

func agree(c mpi.Comm) error {
	var f failures
	n, me := c.Size(), c.Rank()
	f.add(mpi.Agree(c, nil))
	for bad := range n {
		mine := fmt.Errorf("trouble on %d%s", me, strings.Repeat("!", me))
		var err error
		if me >= bad {
			err = mpi.Agree(c, mine)
		} else {
			err = mpi.Agree(c, nil)
		}
		var agreed *mpi.AgreedError
		if !errors.As(err, &agreed) {
			f.expect(false, "Agree returns %v", err)
			continue
		}
		text := fmt.Sprintf("trouble on %d%s", bad, strings.Repeat("!", bad))
		f.expect(agreed.Rank == bad && agreed.Text == text, "Agree returns %q, want that of rank %d", err, bad)
		f.expect(errors.Is(err, mine) == (me == bad), "the error itself is to be had on its rank only")
	}
	return f.err()
}

func bcastBytes(c mpi.Comm) error {
	var f failures
	for root := range c.Size() {
		n := []int{0, 1, 247, 248, 249, 2000, 5000, 100000}[root%8]
		var data []byte
		if c.Rank() == root {
			data = message(n, root)
		}
		data = mpi.BcastBytes(c, data, root)
		f.expect(len(data) == n, "%d bytes arrive, want %d", len(data), n)
		f.same(data, root)
	}
	return f.err()
}
