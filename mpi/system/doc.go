// Package system implements mpi.Comm with the MPI that the program is built with.
//
// It needs cgo and the build tag mpi; the compiler wrapper of the MPI finds
// its headers and libraries:
//
//	CC=mpicc go build -tags mpi
//
// Without the tag the package has only what reads the variables of launchers, so that the other packages can be built
// without MPI.
//
// Jobs may have more ranks than cores; then the blocking calls of common MPIs keep
// a core busy that the awaited rank needs. So the package starts every operation
// without blocking, and polls it in a loop that first yields and later sleeps, and that
// checks whether the communicator has been revoked. The exceptions are Split and Free,
// for which MPI has only blocking calls: with MPICH and 8 ranks a core, a Split takes a
// quarter of a second.
//
// Before a Split of a communicator that can be revoked, its ranks meet in a barrier that a
// revocation interrupts. If the communicator has all ranks of the revocable one, no rank
// then waits forever in the Split. If it has some of them only, a rank may, in case a rank
// outside of these revokes at that very moment.
package system
