// Package scr lets an MPI program write its checkpoints to storage in its
// compute nodes. It protects them against the loss of nodes, copies some of them to the
// parallel file system, and offers the newest usable one when the program starts again.
//
// A program uses it in this way, on all ranks (the package's example is a complete
// program):
//
//	system.Init()
//	world, err := system.World()
//	s, err := scr.Init(world, scr.Options{})
//
//	if name, ok, err := s.HaveRestart(); ok {
//		s.StartRestart()
//		path, err := s.Route("state/" + name + "/rank_7")
//		… read path …
//		s.CompleteRestart(true)
//	}
//	for step := … {
//		… compute …
//		if need, _ := s.NeedCheckpoint(); need {
//			s.StartOutput("step-100", scr.Checkpoint)
//			path, err := s.Route("state/step-100/rank_7")
//			… write path …
//			err = s.CompleteOutput(true)
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
// The parameters are those of SCR. A value is taken from the first of these that has it:
// the environment, a configuration file in the prefix directory, the program
// ([Settings]), and a configuration file for all users.
//
// # Errors
//
// All methods that communicate are collective; Route is not. If a collective method
// fails on one rank, it returns an error on all ranks, so that all can react in the same
// way. The state of the session is then as before the call, with two exceptions: a
// dataset that could not be completed is deleted, and a checkpoint that could not be read
// is not offered again. With [Session.Agree], a program can agree on its own errors.
//
// # Other languages
//
// Programs in C, C++ and Python use the same library as libscr.so (cmd/libscr), and
// Fortran programs use libscrf.so (bindings/fortran).
//
// # Reading the source
//
// The state of the library is one Session. A checkpoint can be followed in
// output.go (StartOutput, Route, CompleteOutput), a restart in scr.go (Init)
// and restart.go.
package scr
