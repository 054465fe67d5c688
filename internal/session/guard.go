package session

import (
	"errors"

	"github.com/goscr/goscr/mpi"
)

// job is the part of a session that ends its calls on all ranks when one rank cannot continue.
type job struct {
	ranks  mpi.Revocable
	over   error   // what all calls return after a rank has given up; nil until then
	faults faults  // nil but in tests
	given  Options // to Init, for Recover
}

// faults lets tests inject panics into a session.
type faults interface {
	// Call is called at the beginning of each call of the program, with the call's name.
	Call(rank int, name string)
	// Wrap returns the communicator that the session uses in place of world.
	Wrap(world mpi.Comm) mpi.Comm
}

// builtIn is set if the library is built with the tag faults, for tests with real MPI.
var builtIn faults

// call runs f for a collective call of the program.
func (s *Session) call(name string, f func() error) error { return s.guard(mpi.Guard, name, f) }

// callIn runs f for a collective call that is possible in one state only.
func (s *Session) callIn(want state, name string, f func() error) error {
	return s.call(name, func() error {
		if err := s.state.expect(name, want); err != nil {
			return err
		}
		return f()
	})
}

// local runs f for a call of the program that is not collective.
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
	over := err
	if _, failed := err.(*mpi.OpError); failed { // the functions that it has left have not cleaned up
		over = s.job.ranks.Revoked()
	}
	var revoked *mpi.RevokedError
	if errors.As(over, &revoked) && s.job.over == nil {
		s.job.over = revoked
		s.stop()
	}
	return err
}

// stop ends the session's work in this process after a rank has given up. It leaves files
// on disk in the state in which they would be if the job had been killed.
func (s *Session) stop() {
	if s.writer.output != nil {
		s.writer.output.silence.end()
	}
	s.state, s.writer.output = finished, nil
	// A panic may have left any of these in a state in which closing it panics too.
	for _, end := range []func(){
		func() {
			if s.flusher != nil {
				s.flusher.Background.Abandon()
			}
		},
		func() {
			if s.cache != nil {
				_ = s.cache.Close() // no data depend on it
			}
		},
		s.events.Close,
		func() {
			if s.advisor != nil {
				s.advisor.Abandon()
			}
		},
	} {
		func() {
			defer func() { _ = recover() }()
			end()
		}()
	}
}
