//go:build mpi

package system

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/goscr/goscr/mpi"
)

// Init initializes MPI for a program in Go, unless the program has done so. It
// locks the calling goroutine to its thread, the only one that may use MPI from
// then on: the goroutine that calls Init must make all other calls of this
// package, too.
func Init() error {
	runtime.LockOSThread()
	initialized, finalized, err := state()
	switch {
	case err != nil:
		return err
	case finalized:
		return errors.New("MPI_Init_thread: MPI has been finalized")
	case initialized:
		return nil
	}
	return failure("MPI_Init_thread", C.goscr_init())
}

// Finalize finalizes MPI; if MPI is not initialized it does nothing. It is collective.
func Finalize() error {
	if !Initialized() {
		return nil
	}
	return failure("MPI_Finalize", C.PMPI_Finalize())
}

// Initialized reports whether MPI can be used: after Init, before Finalize.
func Initialized() bool { return usable() == nil }

// usable returns nil if MPI can be used, else an error with the reason.
func usable() error {
	initialized, finalized, err := state()
	if err == nil && (!initialized || finalized) {
		err = ErrInactive
	}
	return err
}

// Rank returns the caller's rank in the job, or -1 if MPI cannot be used.
func Rank() int {
	var rank, size C.int
	if !Initialized() || failure("MPI_Comm_rank", C.goscr_world_place(&rank, &size)) != nil {
		return -1
	}
	return int(rank)
}

func state() (initialized, finalized bool, err error) {
	var name [80]C.char
	if C.goscr_other_mpi(&name[0], C.int(len(name))) != 0 {
		return false, false, fmt.Errorf("the program's MPI is %s, and goscr was built for another: "+
			"use the libscr.so of the program's MPI, in lib/goscr/<mpi> of the installation; ldd shows the one that the program finds", C.GoString(&name[0]))
	}
	var i, f C.int
	err = failure("MPI_Initialized", C.goscr_state(&i, &f))
	return i != 0, f != 0, err
}

// World returns a new communicator of all ranks of the job. It is collective. The error is an *ApartError if
// the launcher was that of another MPI.
func World() (mpi.Comm, error) { return asComm(world()) }

func world() (*comm, error) {
	if err := together(); err != nil {
		return nil, err
	}
	c := new(comm)
	return opened(c, C.goscr_world(&c.c.mpi))
}

// FromHandle returns a new communicator of the ranks of an intracommunicator of
// the program; handle points to its MPI_Comm. It is collective. The errors are those of World.
func FromHandle(handle unsafe.Pointer) (mpi.Comm, error) { return asComm(fromHandle(handle)) }

func fromHandle(handle unsafe.Pointer) (*comm, error) {
	if err := together(); err != nil {
		return nil, err
	}
	if handle == nil {
		return nil, errors.New("MPI_Comm_dup: no communicator")
	}
	c := new(comm)
	return opened(c, C.goscr_dup((*C.MPI_Comm)(handle), nil, &c.c.mpi))
}

// Revocable is FromHandle, or World if handle is nil, for a communicator that can be revoked. MPI makes one
// communicator for it, and two for FromHandle and mpi.Comm.Revocable.
func Revocable(handle unsafe.Pointer) (mpi.Revocable, error) {
	var c *comm
	var err error
	if handle != nil {
		c, err = fromHandle(handle)
	} else {
		c, err = world()
	}
	if err != nil {
		return nil, err
	}
	return c.found(false), nil
}

// opened returns a comm whose handle was made by a call of MPI_Comm_dup that returned code.
func opened(c *comm, code C.int) (*comm, error) {
	err := mpi.Try(func() error {
		c.open("MPI_Comm_dup", code)
		return nil
	})
	return c, err
}

// asComm keeps a nil *comm from becoming an mpi.Comm that is not nil.
func asComm(c *comm, err error) (mpi.Comm, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// ErrInactive is the error of a program that has not initialized MPI, or has finalized it.
var ErrInactive = errors.New("MPI is not initialized, or has been finalized: call MPI_Init or MPI_Init_thread before; a session of MPI is not enough")

// together returns nil if MPI can be used, and this process is not alone in it by mistake. Who was started by
// MPI_Comm_spawn has the variables of its parent's launcher.
func together() error {
	if err := usable(); err != nil {
		return err
	}
	var rank, size, spawned C.int
	if err := failure("MPI_Comm_size", C.goscr_world_place(&rank, &size)); err != nil || size > 1 {
		return err
	}
	var library [80]C.char
	if err := failure("MPI_Comm_get_parent", C.goscr_alone(&spawned, &library[0], C.int(len(library)))); err != nil || spawned != 0 {
		return err
	}
	return apart(variable, C.GoString(&library[0]))
}

// variable returns the value of a variable of C's environment, "" if there is none.
func variable(name string) string {
	key := C.CString(name)
	defer C.free(unsafe.Pointer(key))
	value := C.getenv(key)
	if value == nil {
		return ""
	}
	return C.GoString(value)
}

// failure turns an error code of MPI into an error; operation is the name of the
// MPI function.
func failure(operation string, code C.int) error {
	if code == C.MPI_SUCCESS {
		return nil
	}
	var text [C.MPI_MAX_ERROR_STRING + 1]C.char
	C.goscr_error_string(code, &text[0], C.int(len(text)))
	err := errors.New(C.GoString(&text[0]))
	if C.goscr_is_truncation(code) != 0 {
		err = fmt.Errorf("%w: %w", mpi.ErrTruncated, err)
	}
	return &mpi.OpError{Op: operation, Err: err}
}

// check panics if an operation of MPI has failed.
func check(operation string, code C.int) {
	if err := failure(operation, code); err != nil {
		panic(err)
	}
}
