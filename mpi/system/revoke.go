//go:build mpi

package system

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/goscr/goscr/mpi"
)

// family is the state that a revocable communicator shares with all communicators that are
// made from it.
type family struct{ c *C.goscr_family }

// abandoned keeps the buffers on the Go heap whose operations will never be done because of
// a revocation: MPI may use these buffers until the process ends.
var abandoned runtime.Pinner

// revocable is a communicator that can be revoked.
type revocable struct{ *comm }

func (c *comm) Revocable() mpi.Revocable { return c.dup().found(c.background) }

// found makes a new communicator, which nobody has used, one that can be revoked. background says whether another
// thread than the program's is to use it.
func (c *comm) found(background bool) revocable {
	c.family = &family{(*C.goscr_family)(C.malloc(C.sizeof_goscr_family))}
	C.goscr_found(c.family.c, c.c.mpi, C.int(c.rank), C.int(c.size))
	c.c.family = c.family.c
	if background {
		c.c.family.background = 1
	}
	runtime.AddCleanup(c.family, func(c *C.goscr_family) { C.free(unsafe.Pointer(c)) }, c.family.c)
	return revocable{c}
}

func (r revocable) Revoke(reason string) {
	text := C.CString(mpi.Reason(reason))
	defer C.free(unsafe.Pointer(text))
	C.goscr_revoke(r.family.c, text)
}

func (r revocable) Revoked() error {
	if C.goscr_revoked(r.family.c) == 0 {
		return nil
	}
	return r.family.why()
}

// why returns the error about the revocation, with the rank and its reason.
func (f *family) why() *mpi.RevokedError {
	return &mpi.RevokedError{Rank: int(f.c.revoker), Reason: C.GoString(&f.c.reason[0])}
}

// result panics if an operation, which has returned code, has failed, or the communicator
// has been revoked. buffers are those on the Go heap that MPI has been given.
func (c *comm) result(operation string, code C.int, buffers ...unsafe.Pointer) {
	c.family.result(operation, code, buffers...)
}

func (f *family) result(operation string, code C.int, buffers ...unsafe.Pointer) {
	if code == C.GOSCR_REVOKED {
		for _, b := range buffers {
			abandoned.Pin(b)
		}
		panic(f.why())
	}
	check(operation, code)
}
