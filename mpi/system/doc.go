// Package system carries mpi.Comm over the MPI that the program is built with.
//
// It needs cgo and the build tag mpi; the compiler wrapper of the MPI finds
// its headers and libraries:
//
//	CC=mpicc go build -tags mpi
//
// Without the tag the package is empty, so that the rest builds where there
// is no MPI.
//
// Jobs may have more ranks than cores, where the blocking calls of common MPIs
// keep a core busy that the rank they wait for needs. Here every operation is
// started without blocking and waited for by a loop that soon gives way and
// then sleeps. The exceptions are Split and Free, for which MPI has no other
// form: with MPICH and 8 ranks a core, a Split takes a quarter of a second.
package system
