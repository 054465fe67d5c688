package session

// NeedCheckpoint advises whether to write a checkpoint now. The program calls it whenever
// it could write one. The result follows SCR_CHECKPOINT_INTERVAL,
// SCR_CHECKPOINT_SECONDS and SCR_CHECKPOINT_OVERHEAD; if none of them is set, the
// optimal interval for the time between failures, if that is known (SCR_MTBF_SECONDS).
// It is true if scr_checkpoint has asked for a checkpoint, and always while the job should
// stop.
func (s *Session) NeedCheckpoint() (yes bool, err error) {
	err = s.call("NeedCheckpoint", func() error {
		if s.state == finished {
			return s.state.expect("NeedCheckpoint", idle)
		}
		var poll bool
		if yes, poll = s.advisor.Need(s.flusher.PollDue); poll && !s.state.open() {
			return s.requests.poll()
		}
		return nil
	})
	return yes && err == nil, err
}

// ShouldExit reports whether the job should stop now, because a user has asked for it
// with scr_halt, or because the allocation ends soon.
func (s *Session) ShouldExit() (yes bool, err error) {
	err = s.call("ShouldExit", func() error {
		if s.state == finished {
			return s.state.expect("ShouldExit", idle)
		}
		reason := s.advisor.Stop()
		if yes = reason != ""; yes {
			s.log.WarnJobOnce("the program is told to stop: %s (scr_halt --list shows what was asked for, scr_halt --remove takes it back)", reason)
		}
		if !s.state.open() {
			return s.requests.poll()
		}
		return nil
	})
	return yes && err == nil, err
}

// Due reports, on rank 0, whether NeedCheckpoint would say yes, or has other work to do: a caller
// that asks by itself, and not where the program says, need not have all ranks call NeedCheckpoint
// before that. On other ranks, and while a dataset is open, it is false. It is not collective, and
// costs rank 0 some reads of small files.
func (s *Session) Due() (yes bool, err error) {
	err = s.local("Due", func() error {
		yes = s.state != finished && !s.state.open() && (s.advisor.Due() || s.world.Rank() == 0 && s.flusher.PollDue())
		return nil
	})
	return yes && err == nil, err
}

// Declined says that a checkpoint which was needed has not been written, and why: a command that
// has asked for it gets the reason, and by SCR_CHECKPOINT_SECONDS and the like it is needed again as
// late as after one. Rank 0 has to call it; on other ranks it does nothing.
func (s *Session) Declined(why error) error {
	return s.local("Declined", func() error {
		s.advisor.Declined(why)
		return nil
	})
}
