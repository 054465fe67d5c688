package restart

import (
	"fmt"

	"github.com/goscr/goscr/internal/prefix"
)

// refused are the checkpoints that are not offered.
type refused struct {
	useless map[int]bool // ids of those from which the program could not restart
	marked  bool         // one of the cache is in the list of restart.scr
	why     string       // ... the newest that was tried is not offered
}

// note keeps the first reason.
func (f *refused) note(format string, args ...any) {
	if f.why == "" {
		f.why = fmt.Sprintf(format, args...)
	}
}

// Missed describes the complete checkpoints of the prefix directory, if none of them is offered and the user
// has not asked for that; else it returns "". asked is whether the program has asked for a checkpoint. Rank 0 calls it.
func (r *Restart) Missed(asked bool) string {
	if r.offered != nil || r.Never || !r.Fetch {
		return ""
	}
	x, err := prefix.ReadIndex(r.Prefix.Dir)
	if err != nil {
		return ""
	}
	complete, newest := r.Prefix.Ours.Of(x).CompleteCheckpoints()
	if complete == 0 {
		return ""
	}
	why := r.refused.why
	switch {
	case why != "":
	case newest.Failed:
		why = "no restart from it was possible: " + newest.Fault
	case !asked:
		why = "the program has not asked for one (SCR_Have_restart)"
	default:
		why = "none of them can be used"
	}
	list := fmt.Sprintf("%d complete checkpoints, the newest %s", complete, newest.Name)
	if complete == 1 {
		list = "the complete checkpoint " + newest.Name
	}
	return fmt.Sprintf("%s has %s: %s", r.Prefix.Dir, list, why)
}
