package scr

// NeedCheckpoint advises whether to write a checkpoint now. The program calls it whenever
// it could write one. The result follows SCR_CHECKPOINT_INTERVAL,
// SCR_CHECKPOINT_SECONDS and SCR_CHECKPOINT_OVERHEAD; if none of them is set, the
// optimal interval for the time between failures, if that is known (SCR_MTBF_SECONDS).
// It is true if scr_checkpoint has asked for a checkpoint, and always while the job should
// stop.
func (s *Session) NeedCheckpoint() (yes bool, err error) {
	err = s.call("NeedCheckpoint", func() error {
		yes, err = s.needCheckpoint()
		return err
	})
	return yes && err == nil, err
}

func (s *Session) needCheckpoint() (bool, error) {
	if s.state == finished {
		return false, s.state.expect("NeedCheckpoint", idle)
	}
	need, poll, err := s.advisor.Need(s.flusher.PollDue)
	if err == nil && poll && !s.state.open() {
		err = s.poll()
	}
	return need && err == nil, err
}

// ShouldExit reports whether the job should stop now, because a user has asked for it
// with scr_halt, or because the allocation ends soon.
func (s *Session) ShouldExit() (yes bool, err error) {
	err = s.call("ShouldExit", func() error {
		yes, err = s.shouldExit()
		return err
	})
	return yes && err == nil, err
}

func (s *Session) shouldExit() (bool, error) {
	if s.state == finished {
		return false, s.state.expect("ShouldExit", idle)
	}
	reason, err := s.advisor.Stop()
	if reason != "" {
		s.log.WarnJobOnce("the program is told to stop: %s (scr_halt --list shows what was asked for, scr_halt --remove takes it back)", reason)
	}
	if err == nil && !s.state.open() {
		err = s.poll()
	}
	return reason != "", err
}
