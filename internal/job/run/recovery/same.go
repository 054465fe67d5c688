package recovery

import (
	"slices"

	"github.com/goscr/goscr/internal/job/hostlist"
)

// same starts the program again on the nodes of the last run, where all files are. It
// leaves the decision to the next way if one of them is down, or is suspect and could be replaced.
func same(s Situation, _ []Pass) (*Plan, string) {
	var down, suspect []string
	for _, n := range s.Last {
		switch {
		case s.Down[n] != "":
			down = append(down, n)
		case s.Suspect[n] != "":
			suspect = append(suspect, n)
		}
	}
	switch {
	case len(down) > 0:
		return nil, "down: " + reasons(down, s.Down)
	case len(suspect) > 0 && len(s.spares()) > 0:
		return nil, "suspect, and there is a spare: " + reasons(suspect, s.Suspect)
	case len(s.Last) < max(s.Needed, 1):
		return nil, TooFew(len(s.Last), s.Needed, s.Why)
	}
	did := "start again on " + hostlist.Compress(s.Last)
	if len(suspect) > 0 {
		did += ", although suspect, because there is no spare: " + reasons(suspect, s.Suspect)
	}
	return &Plan{Did: did, Nodes: slices.Clone(s.Last), Hosts: slices.Clone(s.Hosts)}, ""
}
