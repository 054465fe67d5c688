//go:build mpi

package main

import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/goscr/goscr/mpi/system"
)

// go_recover takes the session over to a communicator of the program.
//
// Nothing is freed that has to do with the session before: MPI_Comm_free is collective, and would wait
// for processes that have died, and for ranks that have left a collective operation because of that.
// These are job and the communicators that are made from it: those of the node, the groups and the sets, and those
// of the cache. MPI keeps them, with operations that will never be done and their buffers, until the process ends;
// their numbers are not used again.
//
//export go_recover
func go_recover(comm unsafe.Pointer) C.int {
	return call("SCR_Recover", func() error {
		if current == nil {
			return absent
		}
		return recoverIn(comm)
	})
}

// recoverIn does the work of go_recover, within a call.
func recoverIn(comm unsafe.Pointer) error {
	if err := system.CanReplace(job, comm); err != nil {
		// The session continues as it was.
		if unfit := (*system.UnfitError)(nil); errors.As(err, &unfit) && unfit.Missing > 0 {
			err = fmt.Errorf("%w. If processes have died, end the job: under scr_run it starts again; "+
				"if they only leave it, call SCR_Finalize on all ranks, and then SCR_Init_comm", err)
		}
		return err
	}
	// A rank that is in a call of the session must leave it before it can take part in the next one.
	job.Revoke("the program has called SCR_Recover")
	var err error
	if attempt, err = system.Revocable(comm); err != nil {
		return err
	}
	return guarded(func() error {
		next, err := current.Recover(attempt)
		if err != nil {
			return ending(err) // the session is over, and SCR_Recover can be called again
		}
		job, attempt, current, saidRevoked = attempt, nil, next, false
		if vars != nil {
			vars.Continue(current, job.Rank())
		}
		introduce()
		return nil
	})
}
