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
// without blocking, and polls it in a loop that soon yields and then sleeps. The
// exceptions are Split and Free, for which MPI has only blocking calls: with MPICH
// and 8 ranks a core, a Split takes a quarter of a second.
package system
