package config

// FlushPolicy says which checkpoints are flushed when they are complete. This is its only place: who has to know whether
// checkpoints are flushed, or this one, asks it, so that another reason to flush is another field and a case of Due.
// What it cannot know is in internal/lifecycle/flush: outputs are always flushed, and the newest checkpoint is when the job ends.
type FlushPolicy struct {
	Every int // SCR_FLUSH: every n-th checkpoint is flushed; 0: none
}

// FlushPolicy returns the policy that the parameters describe.
func (c *Config) FlushPolicy() FlushPolicy { return FlushPolicy{Every: c.Flush} }

// On reports whether checkpoints are flushed at all.
func (p FlushPolicy) On() bool { return p.Every > 0 }

// Due reports whether the checkpoint with this number, from 1, is flushed. A dataset that is no checkpoint has the number 0.
func (p FlushPolicy) Due(number int) bool { return p.On() && number > 0 && number%p.Every == 0 }
