// Package scr lets an MPI program write its checkpoints to storage inside its
// own compute nodes, protects them against the loss of nodes, copies one to the
// parallel file system now and then, and brings the newest usable one back when
// the program starts again.
//
// A program uses it like this, on all ranks:
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
// The state of the library is one Session. A checkpoint can be followed in
// output.go (StartOutput, Route, CompleteOutput), a restart in scr.go (Init)
// and restart.go.
//
// The same library serves C, C++ and Fortran as libscr.so (cmd/libscr).
package scr
