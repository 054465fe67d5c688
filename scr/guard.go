package scr

import (
	"errors"

	"github.com/goscr/goscr/mpi"
)

// job is what a session has of its job.
type job struct {
	ranks  mpi.Revocable
	over   error  // one of the ranks has given up: what all calls return from then on
	faults faults // nil but in tests
}

// faults has a session panic, for tests.
type faults interface {
	// Call is called at the beginning of each call, with its name.
	Call(rank int, name string)
	// Wrap returns what the session is to use as the communicator of all ranks.
	Wrap(world mpi.Comm) mpi.Comm
}

// builtIn is for programs of tests, whose library is built with the tag faults.
var builtIn faults

// call is one call of the program, which is collective.
func (s *Session) call(name string, f func() error) error { return s.guard(mpi.Guard, name, f) }

// local is call for one that is not collective.
func (s *Session) local(name string, f func() error) error { return s.guard(mpi.GuardLocal, name, f) }

func (s *Session) guard(with func(mpi.Revocable, func() error) error, name string, f func() error) error {
	if s.job.over != nil {
		return s.job.over
	}
	err := with(s.job.ranks, func() error {
		if s.job.faults != nil {
			s.job.faults.Call(s.job.ranks.Rank(), name)
		}
		return f()
	})
	var revoked *mpi.RevokedError
	if errors.As(err, &revoked) && s.job.over == nil {
		s.job.over = revoked
		s.stop()
	}
	return err
}

// stop ends what the session does in this process, after a rank has given up. What is on
// disk is as if the job had been killed.
func (s *Session) stop() {
	s.state, s.output = finished, nil
	// After a panic anything may be in a state in which it cannot be closed.
	for _, end := range []func(){
		func() {
			if s.flusher != nil {
				s.flusher.Abandon()
			}
		},
		func() {
			if s.cache != nil {
				_ = s.cache.Close() // nothing was to be written
			}
		},
		s.events.Close,
	} {
		func() {
			defer func() { _ = recover() }()
			end()
		}()
	}
}
