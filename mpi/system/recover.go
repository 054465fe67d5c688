//go:build mpi

package system

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/goscr/goscr/mpi"
)

// UnfitError says that a communicator cannot replace another one. All ranks of the new communicator get it,
// if they have called with the same.
type UnfitError struct {
	First   bool // the caller is rank 0 of the new communicator, or there is none
	Missing int  // processes that are not in the new communicator, and would have to be; 0: there is none
	Why     string
}

func (e *UnfitError) Error() string { return e.Why }

// CanReplace returns nil if what the ranks of before have done together can continue over an
// intracommunicator of the program, to whose MPI_Comm handle points, and else an *UnfitError. before is a
// communicator of this package. CanReplace does not communicate, so that it returns also if processes have died.
//
// On any MPI the new communicator may have all processes of the old one, and more. If processes are missing
// in it, the MPI has to continue without them: that is taken to be so for Open MPI 5 and newer,
// with the calls of ULFM, in a run that mpirun --with-ft ulfm has started. Other MPIs have
// these calls and hang in them, and a program without them cannot be sure to come to its end.
func CanReplace(before mpi.Comm, handle unsafe.Pointer) error {
	var old *comm
	switch c := before.(type) {
	case revocable:
		old = c.comm
	case *comm:
		old = c
	default:
		return fmt.Errorf("a communicator of type %T is not one of the MPI", before)
	}
	if err := usable(); err != nil {
		return err
	}
	if handle == nil {
		return errors.New("MPI_Comm_group: no communicator")
	}
	var lacks, rank C.int
	if err := failure("MPI_Comm_group", C.goscr_compare(old.c.mpi, (*C.MPI_Comm)(handle), &lacks, &rank)); err != nil {
		return &UnfitError{First: true, Why: err.Error()}
	}
	if lacks == 0 {
		return nil
	}
	var why [200]C.char
	if C.goscr_goes_on(&why[0], C.int(len(why))) != 0 {
		return nil
	}
	return &UnfitError{First: rank == 0, Missing: int(lacks), Why: fmt.Sprintf("the new communicator lacks %d of the job's %d processes, "+
		"and only Open MPI 5 continues without processes, if mpirun was called with --with-ft ulfm: %s",
		lacks, old.size, strings.Join(strings.Fields(C.GoString(&why[0])), " "))}
}
