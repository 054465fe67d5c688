package recovery

import (
	"slices"
	"strings"

	"github.com/goscr/goscr/internal/job/hostlist"
)

// spare puts spare nodes in the place of nodes that are down, and then of those that are
// suspect. The other nodes keep their places, so that their ranks find their files there.
// It leaves the decision to the next way if fewer nodes are up than the program needs.
func spare(s Situation, _ []Pass) (*Plan, string) {
	if len(s.up()) < max(s.Needed, 1) {
		return nil, s.tooFew()
	}
	spares := s.spares()
	other := map[string]string{} // the node in the place of another
	var did []string
	replace := func(nodes []string, what string, why map[string]string) {
		for _, n := range nodes {
			if len(spares) > 0 && why[n] != "" {
				other[n], spares = spares[0], spares[1:]
				did = append(did, other[n]+" in the place of "+n+" ("+what+": "+why[n]+")")
			}
		}
	}
	replace(s.Last, "down", s.Down)
	replace(without(s.Last, s.Down), "suspect", s.Suspect)
	var nodes []string
	for _, n := range s.Last {
		switch {
		case other[n] != "":
			nodes = append(nodes, other[n])
		case s.Down[n] == "":
			nodes = append(nodes, n)
		}
	}
	// More may be needed than the last run has used. A suspect node is better than none.
	for _, n := range append(spares, hostlist.Minus(s.up(), spares)...) {
		if len(nodes) < s.Needed && len(hostlist.Minus([]string{n}, nodes)) > 0 {
			nodes = append(nodes, n)
			did = append(did, n+" in addition")
		}
	}
	if len(did) == 0 {
		did = []string{"no node takes the place of another: start again on " + hostlist.Compress(nodes)}
	}
	return &Plan{Did: strings.Join(did, ", "), Nodes: nodes, Hosts: s.replaced(other)}, ""
}

// replaced returns the node of each rank after some nodes were replaced; nil if the
// launcher decides, or if a node that is down was not replaced.
func (s Situation) replaced(other map[string]string) []string {
	hosts := slices.Clone(s.Hosts)
	for i, n := range hosts {
		switch {
		case other[n] != "":
			hosts[i] = other[n]
		case s.Down[n] != "":
			return nil
		}
	}
	return hosts
}
