package recovery

import (
	"fmt"

	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/observe/report"
)

// fewer uses all nodes that are left. It leaves the decision to the next way if the program cannot restart with
// another number of ranks, or the user has set how many nodes it needs.
func fewer(s Situation, _ []Pass) (*Plan, string) {
	up := s.up()
	switch {
	case !s.Elastic:
		return nil, "SCR_GLOBAL_RESTART is not set, so the program needs as many ranks as before"
	case len(up) == 0:
		return nil, "no node is left"
	case len(up) < s.Needed && s.Fixed:
		return nil, s.tooFew()
	}
	nodes := append(hostlist.Intersection(s.Last, up), hostlist.Minus(up, s.Last)...)
	nodes = nodes[:min(len(nodes), max(s.Needed, 1))]
	return &Plan{Did: fmt.Sprintf("continue with %s instead of %d: %s", report.Count(len(nodes), "node"), s.Needed, hostlist.Compress(nodes)),
		Nodes: nodes, Fewer: len(nodes) < s.Needed}, ""
}
