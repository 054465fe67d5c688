// Package collective makes the collective operations of mpi.Comm out of messages, for
// implementations of it that have no operations of their own.
package collective

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/goscr/goscr/mpi"
)

// Messages sends messages between the ranks of a communicator, in a message space that
// nothing but the operations of this package uses.
type Messages interface {
	Rank() int
	Size() int
	// Send returns when buf may be used again.
	Send(buf []byte, dst int)
	// Recv waits for a message of at most len(buf) bytes.
	Recv(buf []byte, src int)
	// Start begins to send buf, which may be used again when wait has returned.
	Start(buf []byte, dst int) (wait func())
}

// Bcast sends down a binomial tree.
func Bcast(m Messages, buf []byte, root int) {
	n := m.Size()
	mpi.CheckTarget(n, root, 0)
	me := (m.Rank() - root + n) % n
	bit := 1
	for ; bit < n; bit *= 2 {
		if me&bit != 0 {
			m.Recv(buf, (me-bit+root)%n)
			break
		}
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if me+bit < n {
			m.Send(buf, (me+bit+root)%n)
		}
	}
}

// Allreduce reduces up a binomial tree to rank 0 and sends the result down again.
func Allreduce(m Messages, values []int64, op mpi.Op) {
	buf := make([]byte, 8*len(values))
	other := make([]int64, len(values))
	for bit := 1; bit < m.Size(); bit *= 2 {
		if m.Rank()&bit != 0 {
			m.Send(pack(buf, values), m.Rank()-bit)
			break
		}
		if m.Rank()+bit < m.Size() {
			m.Recv(buf, m.Rank()+bit)
			unpack(other, buf)
			op.Combine(values, other)
		}
	}
	Bcast(m, pack(buf, values), 0)
	unpack(values, buf)
}

// Exscan doubles the distance between partners in every round.
func Exscan(m Messages, values []int64, op mpi.Op) {
	n := m.Size()
	total := slices.Clone(values) // over the ranks (rank-step, rank]
	var before []int64            // over the ranks (rank-step, rank)
	other := make([]int64, len(values))
	for step := 1; step < n; step *= 2 {
		sent := func() {}
		if m.Rank()+step < n {
			sent = m.Start(pack(make([]byte, 8*len(values)), total), m.Rank()+step)
		}
		if m.Rank() >= step {
			buf := make([]byte, 8*len(values))
			m.Recv(buf, m.Rank()-step)
			unpack(other, buf)
			op.Combine(total, other)
			if before == nil {
				before = slices.Clone(other)
			} else {
				op.Combine(before, other)
			}
		}
		sent()
	}
	clear(values)
	copy(values, before)
}

// Gather collects up a binomial tree.
func Gather(m Messages, send, recv []byte, root int) {
	n, size := m.Size(), len(send)
	mpi.CheckTarget(n, root, 0)
	me := (m.Rank() - root + n) % n
	mine := slices.Clone(send) // of ranks me, me+1, ... as far as they are known
	for bit := 1; bit < n; bit *= 2 {
		if me&bit != 0 {
			m.Send(mine, (me-bit+root)%n)
			return
		}
		if me+bit < n {
			part := make([]byte, size*(min(me+2*bit, n)-(me+bit)))
			m.Recv(part, (me+bit+root)%n)
			mine = append(mine, part...)
		}
	}
	if len(recv) < n*size {
		panic(&mpi.OpError{Op: "gather", Err: fmt.Errorf("%w: %d × %d bytes into %d", mpi.ErrTruncated, n, size, len(recv))})
	}
	for i := range n {
		copy(recv[(i+root)%n*size:], mine[i*size:(i+1)*size])
	}
}

func pack(buf []byte, values []int64) []byte {
	for i, v := range values {
		binary.LittleEndian.PutUint64(buf[8*i:], uint64(v))
	}
	return buf
}

func unpack(values []int64, buf []byte) {
	for i := range values {
		values[i] = int64(binary.LittleEndian.Uint64(buf[8*i:]))
	}
}
