package config

// FlushPolicy says which checkpoints are flushed when they are complete: another reason to flush is another field, and a
// case of On and Due. Due gets what a reason needs to know from Flusher.dueAlways in internal/lifecycle/flush; it has to be the same on all
// ranks, and at a later call. There is also what no parameter decides: outputs are always flushed, and the newest checkpoint is when the
// job ends. scr_status foretells flushes by Every alone (prefix.Every).
type FlushPolicy struct {
	Every int // SCR_FLUSH: every n-th checkpoint is flushed; 0: none
}

// FlushPolicy returns the policy that the parameters describe.
func (c *Config) FlushPolicy() FlushPolicy { return FlushPolicy{Every: c.Flush} }

// On reports whether checkpoints are flushed at all.
func (p FlushPolicy) On() bool { return p.Every > 0 }

// Due reports whether the checkpoint with this number, from 1, is flushed. A dataset that is no checkpoint has the number 0.
func (p FlushPolicy) Due(number int) bool { return p.Every > 0 && number > 0 && number%p.Every == 0 }
