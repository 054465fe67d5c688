//go:build faults

package session

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/goscr/goscr/internal/mpi/mpitest"
	"github.com/goscr/goscr/mpi"
)

// For test/scripts/43-panics.sh, which builds a library with the tag faults: GOSCR_FAULT names a call in which a rank
// panics, once: with "RANK CALL" at its beginning, by a fault of memory, and with "RANK CALL FUNCTION" in the first
// operation of a communicator within this function.
func init() {
	var f fault
	if _, err := fmt.Sscan(os.Getenv("GOSCR_FAULT"), &f.rank, &f.call); err != nil {
		return
	}
	if words := strings.Fields(os.Getenv("GOSCR_FAULT")); len(words) > 2 {
		f.function = words[2]
	}
	builtIn = &f
}

type fault struct {
	rank           int
	call, function string
	in             string // the call that is made
	done           bool
	nothing        *string // is nil
}

func (f *fault) Call(rank int, name string) {
	f.in = name
	if rank == f.rank && name == f.call && f.function == "" && !f.done {
		f.done = true
		defer func() { panic(fmt.Sprintf("injected in %s: %v", name, recover())) }()
		f.in = *f.nothing
	}
}

func (f *fault) Wrap(world mpi.Comm) mpi.Comm {
	if world.Rank() != f.rank || f.function == "" {
		return world
	}
	return mpitest.Faulty(world, func(op string) {
		if f.in == f.call && !f.done && f.within() {
			f.done = true
			panic(fmt.Sprintf("injected in %s, at %s in %s", f.in, op, f.function))
		}
	})
}

func (f *fault) within() bool {
	callers := make([]uintptr, 100)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, f.function) {
			return true
		}
		if !more {
			return false
		}
	}
}
