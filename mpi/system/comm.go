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
	c          C.goscr_comm
	family     *family // nil if the communicator cannot be revoked
	rank, size int
	background bool // another thread than the program's is to use it
	// status is written by C. It is a field so that calls need not allocate it.
	status C.goscr_status
}

// open completes a comm whose handle was made by a call that returned code.
func (c *comm) open(operation string, code C.int) (*comm, error) {
	if err := c.result(operation, code); err != nil {
		return nil, err
	}
	var rank, size C.int
	if err := failure("MPI_Comm_rank", C.goscr_place(c.c.mpi, &rank, &size)); err != nil {
		return nil, err
	}
	c.rank, c.size = int(rank), int(size)
	return c, nil
}

// asComm converts the result of open. Without it a nil *comm would become a Comm that is not
// nil.
func asComm(c *comm, err error) (mpi.Comm, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Concurrent is not nil if the program has initialized MPI with MPI_THREAD_MULTIPLE.
func (c *comm) Concurrent() mpi.Comm {
	var multiple C.int
	if failure("MPI_Query_thread", C.goscr_multiple(&multiple)) != nil || multiple == 0 {
		return nil
	}
	d := *c
	d.background = true
	return &d
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
	return c.result("MPI_Send", C.goscr_send(c.c, p, n, C.int(dst), C.int(tag)), unsafe.Pointer(p))
}

func (c *comm) Recv(buf []byte, src, tag int) (mpi.Status, error) {
	if err := c.source(src, tag); err != nil {
		return mpi.Status{}, err
	}
	p, n := bytes(buf)
	code := C.goscr_recv(c.c, p, n, C.int(src), C.int(tag), &c.status)
	err := c.result("MPI_Recv", code, unsafe.Pointer(p))
	return c.received(), err
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
	code := C.goscr_sendrecv(c.c, out, nout, C.int(dst), C.int(sendtag),
		in, nin, C.int(src), C.int(recvtag), &c.status)
	err := c.result("MPI_Sendrecv", code, unsafe.Pointer(out), unsafe.Pointer(in))
	return c.received(), err
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
	if err := c.result(operation, call(r)); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *request) result(code C.int) (mpi.Status, error) {
	if err := r.comm.result(r.operation, code); err != nil || r.receives == 0 {
		return mpi.Status{}, err
	}
	return r.comm.received(), nil
}

func (r *request) Wait() (mpi.Status, error) {
	return r.result(C.goscr_wait(r.comm.c.family, &r.handle, r.receives, &r.comm.status))
}

func (r *request) Test() (mpi.Status, bool, error) {
	code := C.goscr_test(r.comm.c.family, &r.handle, r.receives, &r.comm.status)
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
		return C.goscr_isend(c.c, p, n, C.int(dst), C.int(tag), synchronous, &r.handle)
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
		return C.goscr_irecv(c.c, p, n, C.int(src), C.int(tag), &r.handle)
	})
}

func (c *comm) Probe(src, tag int) (mpi.Status, error) {
	if err := c.source(src, tag); err != nil {
		return mpi.Status{}, err
	}
	code := C.goscr_probe(c.c, C.int(src), C.int(tag), &c.status)
	err := c.result("MPI_Probe", code)
	return c.received(), err
}

func (c *comm) Iprobe(src, tag int) (mpi.Status, bool, error) {
	if err := c.source(src, tag); err != nil {
		return mpi.Status{}, false, err
	}
	code := C.goscr_iprobe(c.c, C.int(src), C.int(tag), &c.status)
	if err := c.result("MPI_Iprobe", code); err != nil || c.status.flag == 0 {
		return mpi.Status{}, false, err
	}
	return c.received(), true, nil
}

func (c *comm) Barrier() error { return c.result("MPI_Barrier", C.goscr_barrier(c.c)) }

func (c *comm) Ibarrier() (mpi.Request, error) {
	return c.start("MPI_Ibarrier", 0, func(r *request) C.int { return C.goscr_ibarrier(c.c, &r.handle) })
}

func (c *comm) Bcast(buf []byte, root int) error {
	if err := c.target(root, 0); err != nil {
		return err
	}
	p, n := bytes(buf)
	return c.result("MPI_Bcast", C.goscr_bcast(c.c, p, n, C.int(root)), unsafe.Pointer(p))
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
	return c.result("MPI_Allreduce", C.goscr_allreduce(c.c, p, n, operation(op)), unsafe.Pointer(p))
}

func (c *comm) Exscan(values []int64, op mpi.Op) error {
	p, n := ints(values)
	err := c.result("MPI_Exscan", C.goscr_exscan(c.c, p, n, operation(op)), unsafe.Pointer(p))
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
		// The other ranks send, and would wait forever if this one did not receive.
		recv = make([]byte, c.size*len(send))
	}
	in, n := bytes(send)
	out, _ := bytes(recv)
	if err := c.result("MPI_Gather", C.goscr_gather(c.c, in, n, out, C.int(root)), unsafe.Pointer(in), unsafe.Pointer(out)); err != nil {
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
	part := &comm{c: C.goscr_comm{family: c.c.family}, family: c.family}
	var none C.int
	code := C.goscr_split(c.c, C.int(color), C.int(key), &part.c.mpi, &none)
	if code == C.MPI_SUCCESS && none != 0 {
		return nil, nil
	}
	return asComm(part.open("MPI_Comm_split", code))
}

// Dup is much cheaper than Split if ranks share cores, see the package comment.
func (c *comm) Dup() (mpi.Comm, error) {
	return asComm(c.dup())
}

func (c *comm) dup() (*comm, error) {
	d := &comm{c: C.goscr_comm{family: c.c.family}, family: c.family}
	return d.open("MPI_Comm_dup", C.goscr_dup(&c.c.mpi, c.c.family, &d.c.mpi))
}

func (c *comm) Free() error {
	if !Initialized() {
		return ErrInactive
	}
	return c.result("MPI_Comm_free", C.goscr_free(c.c))
}
