package recovery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/observe/report"
)

// Situation is what is known when a run has failed.
type Situation struct {
	Last    []string          // nodes of the last run, in the order in which the launcher got them
	Hosts   []string          // the node of each rank in the last run; nil: the launcher has decided
	Nodes   []string          // nodes of the allocation, in the manager's order
	Down    map[string]string // nodes that cannot be used, with the reason
	Suspect map[string]string // nodes that can be used but should not be if others can, with the reason
	Needed  int               // number of nodes that the program needs
	Why     string            // where Needed is from, for messages
	Fixed   bool              // Needed is a minimum that the user has set
	Move    *Move             // a migration for which the run was ended; nil: none
	Elastic bool              // the program can restart with another number of ranks
}

// Plan is how the job continues.
type Plan struct {
	Rung  string   // name of the rung that made the plan
	Did   string   // what the rung did, in one line
	Nodes []string // nodes of the next run in the launcher's order; nil: there is none
	Hosts []string // the node of each rank; nil: the launcher decides
	// Fewer is true if there are fewer nodes than the program needed so far. The caches of
	// the nodes have to be copied to the prefix directory then, where the program reads its
	// checkpoint with another number of ranks.
	Fewer bool
}

// Pass is a rung that could not take the job.
type Pass struct {
	Rung string
	Why  string
}

// up returns the nodes that can be used.
func (s Situation) up() []string { return without(s.Nodes, s.Down) }

// spares returns the nodes that can be used, are not suspect, and were not used by the
// last run.
func (s Situation) spares() []string {
	return hostlist.Minus(without(s.up(), s.Suspect), s.Last)
}

// without returns the nodes that are not in reasons.
func without(nodes []string, reasons map[string]string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { _, ok := reasons[n]; return ok })
}

// tooFew says how many nodes are left and needed.
func (s Situation) tooFew() string { return TooFew(len(s.up()), s.Needed, s.Why) }

// TooFew says in a message that left nodes are left where needed are needed; why says
// where that number is from.
func TooFew(left, needed int, why string) string {
	are := map[bool]string{true: "is", false: "are"}
	return fmt.Sprintf("%s %s left, and %d %s needed (%s)", report.Count(left, "node"), are[left == 1], needed, are[needed == 1], why)
}

// reasons joins nodes with the reason of each.
func reasons(nodes []string, why map[string]string) string {
	var list []string
	for _, n := range nodes {
		list = append(list, n+" ("+why[n]+")")
	}
	return strings.Join(list, ", ")
}
