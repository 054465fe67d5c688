// Package system implements mpi.Comm with the MPI that the program is built with.
//
// It needs cgo and the build tag mpi; the compiler wrapper of the MPI finds
// its headers and libraries:
//
//	CC=mpicc go build -tags mpi
//
// Without the tag the package is empty, so that the rest builds where there
// is no MPI.
//
// Jobs may have more ranks than cores; then the blocking calls of common MPIs keep
// a core busy that the awaited rank needs. So the package starts every operation
// without blocking, and polls it in a loop that soon yields and then sleeps, and looks
// whether the communicator has been revoked. The
// exceptions are Split and Free, for which MPI has only blocking calls: with MPICH
// and 8 ranks a core, a Split takes a quarter of a second.
//
// Before a Split of a communicator that can be revoked all ranks meet in a barrier that
// can be left. For one of all ranks of the revocable communicator no rank waits then that
// should not; for a part of them it may, if a rank outside of the part revokes at that very
// moment.
package system
