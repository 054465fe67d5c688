// Package mpi defines the part of MPI that goscr uses as one small interface.
//
// Schemes, the cache and the exchange of hashes use Comm, whatever implements
// it. Package mpi/system implements it with the MPI that the program was built
// with; package mpi/local runs the ranks
// of a job as goroutines of one process, for tests and for programs without a
// launcher.
//
// All byte counts are in bytes, ranks count from 0, and a message may hold 0
// bytes or more than 2 GiB. A collective operation must be called by all
// ranks of the communicator in the same order.
//
// A failure of MPI is not an error value: an operation that fails panics with an
// *OpError, and Guard or Try turns that into an error. So the error of a collective
// function is always one on which the ranks have agreed.
package mpi

import (
	"encoding/binary"
	"errors"
	"math"
)

// AnySource lets Probe, Iprobe and Recv match a message from any rank.
const AnySource = -1

// Undefined, as the color of Split, asks for no communicator.
const Undefined = -1

// Op is the operation of a reduction.
type Op int

// The operations goscr uses.
const (
	Sum Op = iota
	Min
	Max
)

// Combine folds in into inout, element by element.
func (op Op) Combine(inout, in []int64) {
	for i, v := range in {
		switch op {
		case Sum:
			inout[i] += v
		case Min:
			inout[i] = min(inout[i], v)
		case Max:
			inout[i] = max(inout[i], v)
		}
	}
}

// Status describes a message that has arrived.
type Status struct {
	Source int // rank that sent it
	Tag    int
	Count  int // bytes
}

// ErrTruncated is wrapped by the *OpError of a receive whose buffer was smaller
// than the message. The communicator can be used after it.
var ErrTruncated = errors.New("message longer than the buffer given for it")

// Comm is a group of ranks that exchange messages, as an MPI intracommunicator.
//
// Messages between two ranks with the same tag arrive in the order in which
// they were sent. Tags are from 0 to MaxTag.
//
// An operation that fails, or that has a wrong argument, panics with an *OpError. Other
// ranks may wait for this one then, so the job cannot continue over this communicator:
// Guard revokes it. Deferred functions run, as with any panic.
//
// Only the goroutine (for mpi/system: the operating system thread) that
// entered goscr may call a Comm.
type Comm interface {
	Rank() int
	Size() int

	// Send returns when buf may be used again.
	Send(buf []byte, dst, tag int)
	// Recv waits for a message of at most len(buf) bytes.
	Recv(buf []byte, src, tag int) Status
	// Sendrecv sends and receives at once, so that a ring of ranks cannot block.
	Sendrecv(send []byte, dst, sendtag int, recv []byte, src, recvtag int) Status

	// Isend, Issend and Irecv return at once. The buffer must come from Alloc
	// and must not be touched until the request is done. Issend is done only
	// when the receiver has begun to receive. A message must fit the buffer of
	// Irecv: some MPIs write past it otherwise.
	Isend(buf []byte, dst, tag int) Request
	Issend(buf []byte, dst, tag int) Request
	Irecv(buf []byte, src, tag int) Request

	// Probe waits until a message can be received and describes it; Iprobe
	// reports whether there is one now.
	Probe(src, tag int) Status
	Iprobe(src, tag int) (Status, bool)

	Barrier()
	Ibarrier() Request
	// Bcast copies buf of root, which has the same length everywhere, to all ranks.
	Bcast(buf []byte, root int)
	// Allreduce replaces values by their reduction over all ranks.
	Allreduce(values []int64, op Op)
	// Exscan replaces values by their reduction over all lower ranks. On rank
	// 0 it sets them to 0.
	Exscan(values []int64, op Op)
	// Gather collects send, which has the same length everywhere, in rank
	// order in recv of root; recv is ignored elsewhere.
	Gather(send, recv []byte, root int)

	// Split divides the ranks into communicators of equal color, ordered by
	// key, then by rank. A color of Undefined gives a nil Comm.
	Split(color, key int) Comm
	// Revocable returns a communicator with the same ranks and its own message space,
	// which can be revoked, and with it all that are made from it. It is collective.
	Revocable() Revocable
	// Free releases the communicator. It is collective.
	Free()
}

// Concurrent is a Comm that another thread may be able to use while the program uses its MPI.
type Concurrent interface {
	// Concurrent returns the communicator for that thread, of which no other thread may use it or
	// what is made from it at the same time; nil if there is none.
	Concurrent() Comm
}

// Request is a nonblocking operation that was started.
type Request interface {
	// Wait returns when the operation is done. It must be called once, unless
	// Test has reported the operation done.
	Wait() Status
	// Test reports whether the operation is done.
	Test() (Status, bool)
}

// Dup returns a communicator with the same ranks and its own message space.
func Dup(c Comm) Comm {
	if d, ok := c.(interface{ Dup() Comm }); ok { // it has a faster way
		return d.Dup()
	}
	return c.Split(0, c.Rank())
}

// BcastBytes returns root's data on all ranks, which need not know its length. Short
// data is sent in one message with its length.
func BcastBytes(c Comm, data []byte, root int) []byte {
	const short = 248
	data, _ = bcastBytes(c, data, false, root, short)
	return data
}

// BytesFromRoot runs f on rank 0, and returns its bytes on all ranks, or an AgreedError if
// it fails. It is collective, and costs no more than BcastBytes if there is no error. Unlike
// after OnRoot, rank 0 does not know then that the other ranks have called it.
func BytesFromRoot(c Comm, f func() ([]byte, error)) ([]byte, error) {
	var data []byte
	var err error
	if c.Rank() == 0 {
		data, err = f()
	}
	const short = 2040 // the configuration of a run has about 1300 bytes
	data, failed := bcastBytes(c, data, err != nil, 0, short)
	if failed {
		return nil, Agree(c, err)
	}
	return data, nil
}

// bcastBytes sends root's data to all ranks, or, if it failed, only that. Up to short bytes are sent in one message: they
// take hardly more time than none, and a second message as much as the first.
func bcastBytes(c Comm, data []byte, failed bool, root, short int) ([]byte, bool) {
	const failure = math.MaxUint64
	head := make([]byte, 8+short)
	if c.Rank() == root {
		n := uint64(len(data))
		if failed {
			n = failure
		}
		binary.LittleEndian.PutUint64(head, n)
		copy(head[8:], data)
	}
	c.Bcast(head, root)
	length := binary.LittleEndian.Uint64(head)
	if length == failure {
		return nil, true
	}
	n := int(length)
	if n <= short {
		return head[8 : 8+n : 8+n], false
	}
	if c.Rank() != root {
		data = make([]byte, n)
		copy(data, head[8:])
	}
	c.Bcast(data[short:], root)
	return data, false
}
