package session

import (
	"cmp"
	"errors"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/internal/mpi/buffer"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// Finalize ends the session in any state. It flushes outputs that are not in the prefix
// directory yet, and the newest checkpoint, unless flushing is turned off. If the program
// has begun a restart or a dataset and not completed it, Finalize deletes the dataset and
// returns a *StateError.
func (s *Session) Finalize() error { return s.call("Finalize", s.finalize) }

func (s *Session) finalize() error {
	if s.state == finished {
		return s.state.expect("Finalize", idle)
	}
	if !s.state.open() {
		s.computed()
	}
	var unfinished error
	if s.state != idle {
		unfinished = s.state.expect("Finalize", idle)
		s.abandon(unfinished)
	}
	s.advisor.Sum()
	err := s.end(s.advisor.Finalized, unfinished == nil)
	return errors.Join(unfinished, returned(err))
}

// abandon ends the restart or the dataset that was begun and not completed. Files that
// the program wrote directly to the prefix directory stay there, and the index lists
// their dataset as incomplete.
func (s *Session) abandon(why error) {
	o := s.output
	s.state, s.output = idle, nil
	if o == nil {
		s.events.Result(eventlog.RestartSuccess, eventlog.RestartFail, s.restart.Offered().Dataset, s.began, why)
		return
	}
	o.silence.end()
	if o.cached != nil {
		_ = s.cache.Complete(o.cached, why) // returns why, or the error of a rank that could not delete the dataset
	}
	s.advisor.Failed(o.ID(), why)
	types := writingEventsOf(o.Dataset)
	s.events.Result(types.end, types.fail, o.Dataset, o.began, why)
}

// haltIfAsked ends the session, and returns ErrHalted, if SCR_HALT_EXIT=1 and there is a
// reason for the job to stop.
func (s *Session) haltIfAsked() error {
	if !s.config.HaltExit {
		return nil
	}
	reason := s.advisor.Stop()
	if reason == "" {
		return nil
	}
	s.log.WarnJob("the job ends here, since SCR_HALT_EXIT=1 and %s (scr_halt --list shows what was asked for, scr_halt --remove takes it back)", reason)
	// The job ends even if MPI fails.
	if err := mpi.Try(func() error { return s.end(s.advisor.Halted, false) }); err != nil {
		s.log.WarnJob("%v", err)
	}
	return ErrHalted
}

// end flushes datasets, calls record on rank 0, which records how the run has ended, and
// closes the session. finalized is whether the program has called Finalize, and completed
// what it had begun. end continues after an error, and returns the first.
func (s *Session) end(record func() error, finalized bool) error {
	start := time.Now()
	flushed := s.flusher.Finish(s.numbers.written)
	recorded := mpi.OnRoot(s.world, func() error {
		report.Forget(filepath.Join(s.prefix.Dir, prefix.Metadata))
		return record()
	})
	s.events.Result(eventlog.FinalizeEnd, eventlog.FinalizeFail, dataset.Dataset{}, start, flushed)
	s.settle()
	s.advisor.StopAnswering("the program has ended without another checkpoint")
	s.state = finished
	closed := mpi.Agree(s.world, s.cache.Close())
	if finalized && flushed == nil && recorded == nil && closed == nil {
		s.leaveCache()
	}
	s.free()
	return cmp.Or(flushed, recorded, closed)
}

// free frees the communicators of the session and the buffers that are kept for messages, also after Init has failed. It is
// collective.
func (s *Session) free() {
	s.events.Close()
	if s.flusher != nil {
		s.flusher.Protector.Free()
	}
	if s.cache != nil {
		s.cache.Free()
	}
	if s.protection != nil {
		s.protection.free()
	}
	if !s.job.given.Exclusive {
		s.world.Free()
	}
	buffer.Release()
}
