//go:build mpi && ulfm

package main

// #include <mpi.h>
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/system"
	"github.com/goscr/goscr/scr"
)

// session is the one that a repaired communicator takes over, nil in a process that has none yet.
var session *scr.Session

// compute computes to the end, and returns 0 as soon as something fails, for instance because a rank has died: then repair.h repairs the
// communicator, and calls it again.
//
//export compute
func compute(ranks C.MPI_Comm, repairs C.int) C.int {
	if err := mpi.Try(func() error { return run(unsafe.Pointer(&ranks), int(repairs)) }); err != nil {
		fmt.Fprintf(os.Stderr, "online-go: rank %d: %v\n", rank(), err)
		return 0
	}
	return 1
}

// run has the communicator of the program, whose MPI_Comm ranks points to.
func run(ranks unsafe.Pointer, repairs int) error {
	begin(ranks)
	say("all ranks are there after repairs:", int64(repairs))
	if err := open(ranks); err != nil {
		return err
	}
	say("SCR is ready after repairs:", int64(repairs))
	if err := restart(ranks); err != nil {
		return err
	}
	say("computing from step", step())
	for step() < last() {
		if !advance(ranks) {
			return fmt.Errorf("a rank has died in step %d", step())
		}
		if isDue() {
			if err := checkpoint(); err != nil {
				return err
			}
		}
		mayDie(repairs)
	}
	if !result(ranks) {
		return fmt.Errorf("a rank has died after the last step")
	}
	err := session.Finalize()
	session = nil
	return err
}

// open begins a session, or takes it over to the repaired communicator.
func open(ranks unsafe.Pointer) error {
	if dir := nodes(); dir != "" { // simulated ones, of which each rank has one
		node := fmt.Sprintf("node%d", rank())
		for name, value := range map[string]string{"SCR_NODE_NAME": node, "SCR_CACHE_BASE": filepath.Join(dir, node), "SCR_CNTL_BASE": filepath.Join(dir, node)} {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	world, err := system.FromHandle(ranks)
	if err != nil {
		return err
	}
	if session == nil {
		session, err = scr.Init(world, scr.Options{})
		return err
	}
	repaired, err := session.Recover(world)
	if err == nil {
		session = repaired
	}
	return err
}

func file() string { return fmt.Sprintf("rank_%d", rank()) }

// restart sets the rod to the newest checkpoint that all ranks can read, if there is one.
func restart(ranks unsafe.Pointer) error {
	for {
		in, err := session.Restart()
		if err != nil || in == nil {
			return err
		}
		path, err := in.Path(file())
		if err == nil {
			err = load(path)
		}
		if in.Complete(err == nil) == nil {
			var number int64
			if _, err := fmt.Sscanf(in.Name(), "step.%d", &number); err != nil {
				return err
			}
			continueAt(number)
			return nil
		}
		begin(ranks) // some ranks may have read what others could not
	}
}

func checkpoint() error {
	out, err := session.Begin(fmt.Sprintf("step.%d", step()), scr.Checkpoint)
	if err != nil {
		return err
	}
	path, err := out.Path(file())
	if err == nil {
		err = save(path)
	}
	return out.Complete(err == nil)
}
