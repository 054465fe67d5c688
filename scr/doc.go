// Package scr lets an MPI program write its checkpoints to storage in its
// compute nodes. It protects them against the loss of nodes, copies some of them to the
// parallel file system, and offers the newest usable one when the program starts again.
//
// A program uses it in this way, on all ranks (the package's example is a complete
// program):
//
//	system.Init()
//	world, err := system.World()
//	s, err := scr.Init(world, scr.Options{CheckpointInterval: 10})
//
//	if in, err := s.Restart(); in != nil {
//		path, err := in.Path("rank_7")
//		… read path …
//		err = in.Complete(err == nil)
//	}
//	for step := … {
//		… compute …
//		if need, _ := s.NeedCheckpoint(); need {
//			out, err := s.Begin("step-100", scr.Checkpoint)
//			path, err := out.Path("rank_7")
//			… write path …
//			err = out.Complete(err == nil)
//		}
//	}
//	s.Finalize()
//	world.Free()
//	system.Finalize()
//
// A program that ends without system.Finalize is an error for most launchers.
//
// # Building
//
// Package mpi/system uses the MPI library of a compiler wrapper. It needs the build tag
// mpi:
//
//	CC=mpicc CGO_ENABLED=1 go build -tags mpi
//
// Without the tag the package is empty, and the compiler says "undefined: system.Init".
// MPI, and so the methods of a Session, must be called only by the goroutine that called
// system.Init, which stays on its thread. Package mpi/local runs the ranks of a job as
// goroutines, for tests; it needs no MPI library.
//
// # Parameters
//
// [Options] has those that programs set most; Options.Parameters takes all of them, which are those of
// SCR. A value is taken from the first of these that has it: the environment, a configuration file in the prefix
// directory, the program, and a configuration file for all users.
//
// # Errors
//
// All methods that communicate are collective, and say so. If one fails on one rank, it
// returns an error on all ranks, so that all can react in the same way. The state of the session is
// then as before the call, with two exceptions: a dataset that could not be completed is
// deleted, and a checkpoint that could not be read is not offered again. With
// [Session.Agree], a program can agree on its own errors.
//
// If a rank cannot continue, because of a bug in goscr or a failure of MPI, its call returns an error.
// Each of the other ranks gets an error from the call that it is in, or from its next call: a
// *mpi.RevokedError, which names the rank that failed. The session is then over, as if the job had
// been killed at that instant, and all further calls return that error.
//
// # Other languages
//
// Programs in C, C++ and Python use the same library as libscr.so (cmd/libscr), and
// Fortran programs use libscrf.so (bindings/fortran).
package scr
