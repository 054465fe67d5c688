// Package scr lets an MPI program write its checkpoints to storage inside its
// own compute nodes, protects them against the loss of nodes, copies one to the
// parallel file system now and then, and brings the newest usable one back when
// the program starts again.
//
// A program uses it like this, on all ranks (the package's example is a whole
// one):
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
//
// # Building
//
// Package mpi/system is the MPI of a compiler wrapper, and takes the build tag
// mpi:
//
//	CC=mpicc CGO_ENABLED=1 go build -tags mpi
//
// MPI is used on one thread alone, that of the goroutine that called
// system.Init, and so are the methods of a Session. Package mpi/local runs the
// ranks of a job as goroutines, for tests; it needs no MPI.
//
// # Parameters
//
// They are those of SCR: from the environment, a configuration file in the
// prefix directory, the program ([Settings]) and a file for all users, the first
// that has a parameter counting most.
//
// # Errors
//
// All methods but Route are collective. One that returns an error does so on all
// ranks, whichever met the cause, so that all can go on alike; the state of the
// session is then as if the call had not been made, except that a dataset that
// could not be completed is gone, and that a checkpoint that could not be read
// is not offered again. A program with files of its own to agree about has
// [Session.Agree].
//
// # Other languages
//
// The same library serves C, C++ and Python as libscr.so (cmd/libscr), and
// Fortran by way of libscrf.so (bindings/fortran).
//
// # Reading the source
//
// The state of the library is one Session. A checkpoint can be followed in
// output.go (StartOutput, Route, CompleteOutput), a restart in scr.go (Init)
// and restart.go.
package scr
