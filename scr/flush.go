package scr

import (
	"errors"
	"time"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/mover"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// flushIfDue flushes a dataset that has just been completed, if it is its turn,
// it is output, or the job is about to stop. A checkpoint is safe in the cache
// all the same, so that it could not be flushed is no error of its own.
func (s *Session) flushIfDue(c *cache.Cached) error {
	every := s.config.Flush
	due := c.Flags().Has(Output) || every > 0 && c.Checkpoint()%every == 0
	if !due && every > 0 {
		reason, err := s.haltReason()
		if err != nil {
			return err
		}
		due = reason != ""
	}
	if !due {
		return nil
	}
	waits, err := s.waits(c)
	if err != nil {
		return err
	}
	if !waits {
		if err = s.depart(c); err == nil {
			return nil
		}
		if s.world.Rank() == 0 {
			s.log.Warn("%v; dataset %s is flushed while the program waits", err, c.Name())
		}
	}
	if err = s.flush(c); err == nil {
		return s.leave(c)
	}
	if !c.Flags().Has(Output) {
		if s.world.Rank() == 0 {
			s.log.Warn("%v; dataset %s stays in the cache", err, c.Name())
		}
		return nil
	}
	return err
}

// waits reports whether the program is to wait while a dataset is flushed. When the
// job should stop it does: nobody knows how long there are processes.
func (s *Session) waits(c *cache.Cached) (bool, error) {
	if s.moverOf(c) == mover.Sync {
		return true, nil
	}
	reason, err := s.haltReason()
	return reason != "", err
}

// flush copies a dataset to the prefix directory, unless it is there. If a file
// in the cache turns out to be corrupt it is rebuilt first.
func (s *Session) flush(c *cache.Cached) error {
	if f := s.flightOf(c); f != nil {
		if err := s.arriveOrWarn(f); err != nil {
			return err
		}
	}
	if s.flushed[c.ID()] || s.cache.Find(c.ID()) == nil {
		return nil
	}
	if err := s.clearWay(c.Name(), s.names(c)); err != nil {
		return err
	}
	start := time.Now()
	s.event("FLUSH_START", c.Dataset, eventlog.Record{Note: s.prefix.Dir})
	err := s.copyToPrefix(c)
	s.result("FLUSH", "SUCCESS", c.Dataset, start, err)
	if err != nil {
		s.passOver(err)
		return err
	}
	s.moved("FLUSH", c.Dataset, c.Desc.Store, s.prefix.Dir, start)
	s.flushed[c.ID()] = true
	return s.window(c.Dataset)
}

// passOver goes on counting above what another job has entered in the index, if that
// is why a dataset could not be. It is collective.
func (s *Session) passOver(err error) {
	var taken *prefix.TakenError
	if !s.anywhere(err, func(err error) bool { return errors.As(err, &taken) }) {
		return
	}
	highest := []int64{int64(s.id)}
	if taken != nil {
		highest[0] = max(highest[0], int64(taken.Highest))
	}
	if err := s.world.Allreduce(highest, mpi.Max); err == nil { // it is an error of the next call, too
		s.id = int(highest[0])
	}
}

// copyToPrefix is flush for a dataset that is not there.
func (s *Session) copyToPrefix(c *cache.Cached) error {
	copy := func() error {
		own, _ := redundancy.Split(s.cache.Files(c.ID()))
		return s.prefix.Flush(c.Dataset, s.world.Size(), prefix.Parts{s.world.Rank(): own})
	}
	err := copy()
	if s.corrupt(err) {
		if err := s.cache.Repair(c); err != nil {
			return err
		}
		err = copy()
	}
	return err
}

// leave takes an output that is in the prefix directory, and that nobody restarts
// from, out of the cache, where it would be in the way of checkpoints.
func (s *Session) leave(c *cache.Cached) error {
	if c.Flags().Has(Checkpoint) || !s.flushed[c.ID()] || s.cache.Find(c.ID()) == nil {
		return nil
	}
	return s.forget(c)
}

// corrupt reports whether an error, on any rank, is a file that does not hold
// what was written.
func (s *Session) corrupt(err error) bool {
	var c *redundancy.CorruptError
	return s.anywhere(err, func(err error) bool { return errors.As(err, &c) })
}

// anywhere reports whether an error that all ranks have agreed on is, on the
// rank that met it, of a certain kind.
func (s *Session) anywhere(err error, is func(error) bool) bool {
	if err == nil {
		return false
	}
	found := []int64{0}
	if is(err) {
		found[0] = 1
	}
	if err := s.world.Allreduce(found, mpi.Max); err != nil {
		return false
	}
	return found[0] == 1
}
