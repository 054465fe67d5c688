//go:build mpi

package system

// #include "shim.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/goscr/goscr/mpi"
)

type comm struct {
	handle     C.MPI_Comm
	rank, size int
	// C writes status; as a field it is not allocated for every call.
	status C.goscr_status
}

// open completes a comm whose handle was made by a call that returned code.
func (c *comm) open(operation string, code C.int) (mpi.Comm, error) {
	if err := failure(operation, code); err != nil {
		return nil, err
	}
	var rank, size C.int
	if err := failure("MPI_Comm_rank", C.goscr_place(c.handle, &rank, &size)); err != nil {
		return nil, err
	}
	c.rank, c.size = int(rank), int(size)
	return c, nil
}

func (c *comm) Rank() int { return c.rank }
func (c *comm) Size() int { return c.size }

func bytes(buf []byte) (*C.char, C.int64_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(buf))), C.int64_t(len(buf))
}

func (c *comm) received() mpi.Status {
	return mpi.Status{Source: int(c.status.source), Tag: int(c.status.tag), Count: int(c.status.count)}
}

func (c *comm) target(dst, tag int) error { return mpi.CheckTarget(c.size, dst, tag) }
func (c *comm) source(src, tag int) error { return mpi.CheckSource(c.size, src, tag) }

func (c *comm) Send(buf []byte, dst, tag int) error {
	if err := c.target(dst, tag); err != nil {
		return err
	}
	p, n := bytes(buf)
	return failure("MPI_Send", C.goscr_send(c.handle, p, n, C.int(dst), C.int(tag)))
}

func (c *comm) Recv(buf []byte, src, tag int) (mpi.Status, error) {
	if err := c.source(src, tag); err != nil {
		return mpi.Status{}, err
	}
	p, n := bytes(buf)
	code := C.goscr_recv(c.handle, p, n, C.int(src), C.int(tag), &c.status)
	return c.received(), failure("MPI_Recv", code)
}

func (c *comm) Sendrecv(send []byte, dst, sendtag int, recv []byte, src, recvtag int) (mpi.Status, error) {
	if err := c.target(dst, sendtag); err != nil {
		return mpi.Status{}, err
	}
	if err := c.source(src, recvtag); err != nil {
		return mpi.Status{}, err
	}
	out, nout := bytes(send)
	in, nin := bytes(recv)
	code := C.goscr_sendrecv(c.handle, out, nout, C.int(dst), C.int(sendtag),
		in, nin, C.int(src), C.int(recvtag), &c.status)
	return c.received(), failure("MPI_Sendrecv", code)
}

// request is an operation that was started. The handle is a plain value, which MPI
// sees only during a call.
type request struct {
	comm      *comm
	handle    C.MPI_Request
	operation string
	receives  C.int
}

func (c *comm) start(operation string, receives C.int, call func(r *request) C.int) (mpi.Request, error) {
	r := &request{comm: c, operation: operation, receives: receives}
	if err := failure(operation, call(r)); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *request) result(code C.int) (mpi.Status, error) {
	if err := failure(r.operation, code); err != nil || r.receives == 0 {
		return mpi.Status{}, err
	}
	return r.comm.received(), nil
}

func (r *request) Wait() (mpi.Status, error) {
	return r.result(C.goscr_wait(&r.handle, r.receives, &r.comm.status))
}

func (r *request) Test() (mpi.Status, bool, error) {
	code := C.goscr_test(&r.handle, r.receives, &r.comm.status)
	if code == C.MPI_SUCCESS && r.comm.status.flag == 0 {
		return mpi.Status{}, false, nil
	}
	s, err := r.result(code)
	return s, true, err
}

func (c *comm) isend(operation string, synchronous C.int, buf []byte, dst, tag int) (mpi.Request, error) {
	if err := c.target(dst, tag); err != nil {
		return nil, err
	}
	return c.start(operation, 0, func(r *request) C.int {
		p, n := bytes(buf)
		return C.goscr_isend(c.handle, p, n, C.int(dst), C.int(tag), synchronous, &r.handle)
	})
}

func (c *comm) Isend(buf []byte, dst, tag int) (mpi.Request, error) {
	return c.isend("MPI_Isend", 0, buf, dst, tag)
}

func (c *comm) Issend(buf []byte, dst, tag int) (mpi.Request, error) {
	return c.isend("MPI_Issend", 1, buf, dst, tag)
}

func (c *comm) Irecv(buf []byte, src, tag int) (mpi.Request, error) {
	if err := c.source(src, tag); err != nil {
		return nil, err
	}
	return c.start("MPI_Irecv", 1, func(r *request) C.int {
		p, n := bytes(buf)
		return C.goscr_irecv(c.handle, p, n, C.int(src), C.int(tag), &r.handle)
	})
}

func (c *comm) Probe(src, tag int) (mpi.Status, error) {
	if err := c.source(src, tag); err != nil {
		return mpi.Status{}, err
	}
	code := C.goscr_probe(c.handle, C.int(src), C.int(tag), &c.status)
	return c.received(), failure("MPI_Probe", code)
}

func (c *comm) Iprobe(src, tag int) (mpi.Status, bool, error) {
	if err := c.source(src, tag); err != nil {
		return mpi.Status{}, false, err
	}
	code := C.goscr_iprobe(c.handle, C.int(src), C.int(tag), &c.status)
	if err := failure("MPI_Iprobe", code); err != nil || c.status.flag == 0 {
		return mpi.Status{}, false, err
	}
	return c.received(), true, nil
}

func (c *comm) Barrier() error { return failure("MPI_Barrier", C.goscr_barrier(c.handle)) }

func (c *comm) Ibarrier() (mpi.Request, error) {
	return c.start("MPI_Ibarrier", 0, func(r *request) C.int { return C.goscr_ibarrier(c.handle, &r.handle) })
}

func (c *comm) Bcast(buf []byte, root int) error {
	if err := c.target(root, 0); err != nil {
		return err
	}
	p, n := bytes(buf)
	return failure("MPI_Bcast", C.goscr_bcast(c.handle, p, n, C.int(root)))
}

func ints(values []int64) (*C.int64_t, C.int64_t) {
	return (*C.int64_t)(unsafe.SliceData(values)), C.int64_t(len(values))
}

func operation(op mpi.Op) C.int {
	switch op {
	case mpi.Min:
		return C.GOSCR_MIN
	case mpi.Max:
		return C.GOSCR_MAX
	}
	return C.GOSCR_SUM
}

func (c *comm) Allreduce(values []int64, op mpi.Op) error {
	p, n := ints(values)
	return failure("MPI_Allreduce", C.goscr_allreduce(c.handle, p, n, operation(op)))
}

func (c *comm) Exscan(values []int64, op mpi.Op) error {
	p, n := ints(values)
	err := failure("MPI_Exscan", C.goscr_exscan(c.handle, p, n, operation(op)))
	if c.rank == 0 {
		clear(values) // MPI leaves them undefined
	}
	return err
}

func (c *comm) Gather(send, recv []byte, root int) error {
	if err := c.target(root, 0); err != nil {
		return err
	}
	var short error
	if c.rank == root && len(recv) < c.size*len(send) {
		short = fmt.Errorf("MPI_Gather: %w: %d × %d bytes into %d", mpi.ErrTruncated, c.size, len(send), len(recv))
		// The other ranks will send, and must not wait for ever.
		recv = make([]byte, c.size*len(send))
	}
	in, n := bytes(send)
	out, _ := bytes(recv)
	if err := failure("MPI_Gather", C.goscr_gather(c.handle, in, n, out, C.int(root))); err != nil {
		return err
	}
	return short
}

func (c *comm) Split(color, key int) (mpi.Comm, error) {
	if err := mpi.CheckColor(color); err != nil {
		return nil, err
	}
	if key < math.MinInt32 || key > math.MaxInt32 {
		return nil, fmt.Errorf("key %d of a split does not fit into 32 bits", key)
	}
	part := new(comm)
	var none C.int
	code := C.goscr_split(c.handle, C.int(color), C.int(key), &part.handle, &none)
	if code == C.MPI_SUCCESS && none != 0 {
		return nil, nil
	}
	return part.open("MPI_Comm_split", code)
}

// Dup is much cheaper than Split where ranks share cores, see the package comment.
func (c *comm) Dup() (mpi.Comm, error) {
	d := new(comm)
	return d.open("MPI_Comm_dup", C.goscr_dup(&c.handle, &d.handle))
}

func (c *comm) Free() error {
	if !Initialized() {
		return errInactive
	}
	return failure("MPI_Comm_free", C.goscr_free(&c.handle))
}
