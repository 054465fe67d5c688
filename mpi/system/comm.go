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
func (c *comm) open(operation string, code C.int) *comm {
	c.result(operation, code)
	var rank, size C.int
	check("MPI_Comm_rank", C.goscr_place(c.c.mpi, &rank, &size))
	c.rank, c.size = int(rank), int(size)
	return c
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

func (c *comm) target(dst, tag int) { mpi.CheckTarget(c.size, dst, tag) }
func (c *comm) source(src, tag int) { mpi.CheckSource(c.size, src, tag) }

func (c *comm) Send(buf []byte, dst, tag int) {
	c.target(dst, tag)
	p, n := bytes(buf)
	c.result("MPI_Send", C.goscr_send(c.c, p, n, C.int(dst), C.int(tag)), unsafe.Pointer(p))
}

func (c *comm) Recv(buf []byte, src, tag int) mpi.Status {
	c.source(src, tag)
	p, n := bytes(buf)
	code := C.goscr_recv(c.c, p, n, C.int(src), C.int(tag), &c.status)
	c.result("MPI_Recv", code, unsafe.Pointer(p))
	return c.received()
}

func (c *comm) Sendrecv(send []byte, dst, sendtag int, recv []byte, src, recvtag int) mpi.Status {
	c.target(dst, sendtag)
	c.source(src, recvtag)
	out, nout := bytes(send)
	in, nin := bytes(recv)
	code := C.goscr_sendrecv(c.c, out, nout, C.int(dst), C.int(sendtag),
		in, nin, C.int(src), C.int(recvtag), &c.status)
	c.result("MPI_Sendrecv", code, unsafe.Pointer(out), unsafe.Pointer(in))
	return c.received()
}

// request is an operation that was started. The handle is a plain value, which MPI
// sees only during a call.
type request struct {
	comm      *comm
	handle    C.MPI_Request
	operation string
	receives  C.int
}

func (c *comm) start(operation string, receives C.int, call func(r *request) C.int) mpi.Request {
	r := &request{comm: c, operation: operation, receives: receives}
	c.result(operation, call(r))
	return r
}

func (r *request) result(code C.int) mpi.Status {
	r.comm.result(r.operation, code)
	if r.receives == 0 {
		return mpi.Status{}
	}
	return r.comm.received()
}

func (r *request) Wait() mpi.Status {
	return r.result(C.goscr_wait(r.comm.c.family, &r.handle, r.receives, &r.comm.status))
}

func (r *request) Test() (mpi.Status, bool) {
	code := C.goscr_test(r.comm.c.family, &r.handle, r.receives, &r.comm.status)
	if code == C.MPI_SUCCESS && r.comm.status.flag == 0 {
		return mpi.Status{}, false
	}
	return r.result(code), true
}

func (c *comm) isend(operation string, synchronous C.int, buf []byte, dst, tag int) mpi.Request {
	c.target(dst, tag)
	return c.start(operation, 0, func(r *request) C.int {
		p, n := bytes(buf)
		return C.goscr_isend(c.c, p, n, C.int(dst), C.int(tag), synchronous, &r.handle)
	})
}

func (c *comm) Isend(buf []byte, dst, tag int) mpi.Request {
	return c.isend("MPI_Isend", 0, buf, dst, tag)
}

func (c *comm) Issend(buf []byte, dst, tag int) mpi.Request {
	return c.isend("MPI_Issend", 1, buf, dst, tag)
}

func (c *comm) Irecv(buf []byte, src, tag int) mpi.Request {
	c.source(src, tag)
	return c.start("MPI_Irecv", 1, func(r *request) C.int {
		p, n := bytes(buf)
		return C.goscr_irecv(c.c, p, n, C.int(src), C.int(tag), &r.handle)
	})
}

func (c *comm) Probe(src, tag int) mpi.Status {
	c.source(src, tag)
	code := C.goscr_probe(c.c, C.int(src), C.int(tag), &c.status)
	c.result("MPI_Probe", code)
	return c.received()
}

func (c *comm) Iprobe(src, tag int) (mpi.Status, bool) {
	c.source(src, tag)
	code := C.goscr_iprobe(c.c, C.int(src), C.int(tag), &c.status)
	c.result("MPI_Iprobe", code)
	if c.status.flag == 0 {
		return mpi.Status{}, false
	}
	return c.received(), true
}

func (c *comm) Barrier() { c.result("MPI_Barrier", C.goscr_barrier(c.c)) }

func (c *comm) Ibarrier() mpi.Request {
	return c.start("MPI_Ibarrier", 0, func(r *request) C.int { return C.goscr_ibarrier(c.c, &r.handle) })
}

func (c *comm) Bcast(buf []byte, root int) {
	c.target(root, 0)
	p, n := bytes(buf)
	c.result("MPI_Bcast", C.goscr_bcast(c.c, p, n, C.int(root)), unsafe.Pointer(p))
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

func (c *comm) Allreduce(values []int64, op mpi.Op) {
	p, n := ints(values)
	c.result("MPI_Allreduce", C.goscr_allreduce(c.c, p, n, operation(op)), unsafe.Pointer(p))
}

func (c *comm) Exscan(values []int64, op mpi.Op) {
	p, n := ints(values)
	c.result("MPI_Exscan", C.goscr_exscan(c.c, p, n, operation(op)), unsafe.Pointer(p))
	if c.rank == 0 {
		clear(values) // MPI leaves them undefined
	}
}

func (c *comm) Gather(send, recv []byte, root int) {
	c.target(root, 0)
	room := len(recv)
	short := c.rank == root && room < c.size*len(send)
	if short { // the other ranks send, and would wait forever if this one did not receive
		recv = make([]byte, c.size*len(send))
	}
	in, n := bytes(send)
	out, _ := bytes(recv)
	c.result("MPI_Gather", C.goscr_gather(c.c, in, n, out, C.int(root)), unsafe.Pointer(in), unsafe.Pointer(out))
	if short {
		panic(&mpi.OpError{Op: "MPI_Gather", Err: fmt.Errorf("%w: %d × %d bytes into %d", mpi.ErrTruncated, c.size, len(send), room)})
	}
}

func (c *comm) Split(color, key int) mpi.Comm {
	mpi.CheckColor(color)
	if key < math.MinInt32 || key > math.MaxInt32 {
		panic(&mpi.OpError{Op: "MPI_Comm_split", Err: fmt.Errorf("key %d does not fit into 32 bits", key)})
	}
	part := &comm{c: C.goscr_comm{family: c.c.family}, family: c.family}
	var none C.int
	code := C.goscr_split(c.c, C.int(color), C.int(key), &part.c.mpi, &none)
	if code == C.MPI_SUCCESS && none != 0 {
		return nil
	}
	return part.open("MPI_Comm_split", code)
}

// Dup is much cheaper than Split if ranks share cores, see the package comment.
func (c *comm) Dup() mpi.Comm { return c.dup() }

func (c *comm) dup() *comm {
	d := &comm{c: C.goscr_comm{family: c.c.family}, family: c.family}
	return d.open("MPI_Comm_dup", C.goscr_dup(&c.c.mpi, c.c.family, &d.c.mpi))
}

func (c *comm) Free() {
	if !Initialized() {
		panic(&mpi.OpError{Op: "MPI_Comm_free", Err: ErrInactive})
	}
	c.result("MPI_Comm_free", C.goscr_free(c.c))
}
