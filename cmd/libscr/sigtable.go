//go:build mpi

package main

import _ "unsafe" // for go:linkname

// sigtable is what the runtime does with each signal.
//
//go:linkname sigtable runtime.sigtable
var sigtable [65]struct {
	flags int32
	name  string
}

// unblock is the flag of signals that the runtime unblocks in each of its threads.
const unblock = 1 << 7

// keptUnblocked are signals that have to reach a thread of Go's: faults of its own, and
// those by which the C library reaches all threads.
var keptUnblocked = map[int]bool{7: true, 11: true, 32: true, 33: true} // SIGBUS, SIGSEGV

// leaveSignals has the runtime leave all other signals to the program. On its threads
// their handlers would run on the stack of a goroutine, which is small; and a signal that
// the program has blocked everywhere, to wait for it, would arrive there. Threads that
// were there before have them blocked by goscr_start.
func leaveSignals() {
	for sig := range sigtable {
		if !keptUnblocked[sig] {
			sigtable[sig].flags &^= unblock
		}
	}
}
