package scr

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/batch"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/failures"
	"github.com/goscr/goscr/internal/halt"
	"github.com/goscr/goscr/internal/interval"
	"github.com/goscr/goscr/mpi"
)

// ErrHalted is returned, with SCR_HALT_EXIT=1, by a call that has found that the
// job is to halt, and that has finalized the session. The program should end.
var ErrHalted = errors.New("the job halts here, as SCR_HALT_EXIT=1 says")

// watch is what rank 0 keeps in view to give advice.
type watch struct {
	policy   interval.Policy
	observed interval.Observed
	last     time.Time // end of the last checkpoint, else start of the run
	environ  func(name string) (string, bool)
	end      func() time.Time // of the allocation; the zero time if that is not known
	run      *failures.Run    // nil if it could not be entered
}

// beginWatch readies the files of the prefix directory that tell when to stop
// and how often jobs fail. Rank 0 calls it.
func (s *Session) beginWatch() error {
	w := &s.watch
	w.last = time.Now()
	w.policy = interval.Policy{
		Calls: s.config.CheckpointInterval, Every: s.config.CheckpointSeconds,
		Overhead: s.config.CheckpointOverhead, MTBF: s.config.MTBFSeconds,
	}
	w.end = sync.OnceValue(s.endOfAllocation)
	s.note(func() (err error) {
		w.run, err = failures.Begin(s.prefix.Dir, s.config.JobID, time.Now())
		return err
	})
	if !w.policy.Advises() {
		s.note(func() (err error) {
			w.policy.MTBF, err = failures.MTBF(s.prefix.Dir)
			return err
		})
		if w.policy.MTBF > 0 {
			s.log.Info("earlier runs have failed every %.0f s of their time; SCR_Need_checkpoint advises accordingly", w.policy.MTBF.Seconds())
		}
	}
	return halt.Begin(s.prefix.Dir, int64(s.config.HaltSeconds.Seconds()))
}

// endOfAllocation is when the job has to be gone, the zero time if that is not
// known.
func (s *Session) endOfAllocation() time.Time {
	var end time.Time
	manager, err := batch.Of(s.config, s.watch.environ)
	if err == nil {
		end, err = manager.End(context.Background())
	}
	switch {
	case err != nil:
		s.log.Warn("when the allocation ends cannot be found out, so SCR_HALT_SECONDS has no effect (SCR_END_TIME can say it): %v", err)
	case end.IsZero():
		s.log.Warn("when the allocation ends is not known, so SCR_HALT_SECONDS has no effect; SCR_END_TIME can say it, in seconds since 1970")
	default:
		s.log.Info("the allocation ends at %s", end.Format(time.DateTime))
	}
	return end
}

// completed takes note of a dataset that the program has written: if it is a
// checkpoint, of what it has cost from its start to now.
func (s *Session) completed(d dataset.Dataset) {
	if s.world.Rank() != 0 || !d.Flags().Has(Checkpoint) {
		return
	}
	w := &s.watch
	w.last = time.Now()
	w.observed.Count++
	w.observed.Cost += w.last.Sub(s.began)
	if w.run != nil {
		s.note(func() error { return w.run.Alive(w.last) })
	}
}

// endWatch records that the run ends by itself. Rank 0 calls it.
func (s *Session) endWatch() error {
	if s.watch.run == nil {
		return nil
	}
	return s.watch.run.End(time.Now())
}

// NeedCheckpoint advises whether to write a checkpoint now. The program calls
// it whenever it could. It says yes as SCR_CHECKPOINT_INTERVAL, _SECONDS and
// _OVERHEAD tell it; where none of them is set, at the interval that is best for
// SCR_MTBF_SECONDS; and always while the job should stop.
func (s *Session) NeedCheckpoint() (bool, error) {
	if s.state == finished {
		return false, s.expect("NeedCheckpoint", idle)
	}
	yes := make([]byte, 1)
	if s.world.Rank() == 0 {
		o := &s.watch.observed
		o.Calls++
		o.Since = time.Since(s.watch.last)
		if s.watch.policy.Need(*o) || s.reason() != "" {
			yes[0] |= 1
		}
		if s.worthALook() {
			yes[0] |= 2
		}
	}
	if err := s.world.Bcast(yes, 0); err != nil {
		return false, err
	}
	if yes[0]&2 != 0 && !s.open() {
		if err := s.look(); err != nil {
			return false, err
		}
	}
	return yes[0]&1 != 0, nil
}

// ShouldExit reports whether the job should stop now, because somebody asked
// for it or its time ends.
func (s *Session) ShouldExit() (bool, error) {
	if s.state == finished {
		return false, s.expect("ShouldExit", idle)
	}
	reason, err := s.haltReason()
	if reason != "" && s.world.Rank() == 0 {
		s.log.WarnOnce("the program is told to stop: %s (scr_halt --list shows what was asked for, scr_halt --remove takes it back)", reason)
	}
	if err == nil && !s.open() {
		err = s.look()
	}
	return reason != "", err
}

// haltReason returns why the job should stop, the same on all ranks. It costs a
// broadcast, and on rank 0 a look at a file.
func (s *Session) haltReason() (string, error) {
	var reason string
	if s.world.Rank() == 0 {
		reason = s.reason()
	}
	text, err := mpi.BcastBytes(s.world, []byte(reason), 0)
	return string(text), err
}

// reason is haltReason on rank 0.
func (s *Session) reason() string {
	reason, err := halt.Reason(s.prefix.Dir, s.watch.end, time.Now())
	if err != nil {
		s.log.WarnOnce("halt file: %v; conditions in it are not observed", err)
	}
	s.tellHalt(reason)
	return reason
}

// haltIfAsked ends the session if the user wants jobs to end by themselves and
// there is a reason for this one to.
func (s *Session) haltIfAsked() error {
	if !s.config.HaltExit {
		return nil
	}
	reason, err := s.haltReason()
	if err != nil || reason == "" {
		return err
	}
	if s.world.Rank() == 0 {
		s.log.Warn("the job ends here, since SCR_HALT_EXIT=1 and %s (scr_halt --list shows what was asked for, scr_halt --remove takes it back)", reason)
	}
	if err := s.end(s.endWatch); err != nil && s.world.Rank() == 0 {
		s.log.Warn("%v", err)
	}
	return ErrHalted
}
