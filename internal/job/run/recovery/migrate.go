package recovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/observe/report"
)

// migrate starts the program again with some ranks on other nodes, as a migration has
// planned that is ready: its checkpoint is complete, and the run has ended because of it.
// It leaves the decision to the next way if a node that it needs has gone down since.
func migrate(s Situation, _ []Pass) (*Plan, string) {
	if s.Move == nil {
		return nil, ""
	}
	var down []string
	nodes := hostlist.Union(s.Move.Hosts)
	for _, n := range nodes {
		if s.Down[n] != "" {
			down = append(down, n)
		}
	}
	if len(down) > 0 {
		return nil, "down: " + reasons(down, s.Down)
	}
	return &Plan{Did: "start again with " + s.Move.String(), Nodes: nodes, Hosts: s.Move.Hosts}, ""
}

// Wish is a migration that somebody asks for.
type Wish struct {
	Off   []string // nodes that no rank may use any more
	Onto  []string // nodes to use; none: spares
	Ranks []int    // ranks to move; none: all ranks on the nodes in Off
}

// Move is a migration that is planned.
type Move struct {
	Hosts []string // the node of each rank, by rank
	Ranks []int    // the ranks that move
	From  []string // the nodes that they leave, by index of Ranks
}

// String says which ranks move where.
func (m Move) String() string {
	var list []string
	for i, r := range m.Ranks {
		list = append(list, fmt.Sprintf("%d from %s to %s", r, m.From[i], m.Hosts[r]))
	}
	const most = 8
	if n := len(list); n > most {
		list = append(list[:most], fmt.Sprintf("%d more", n-most))
	}
	return report.Count(len(m.Ranks), "rank") + " on another node: " + strings.Join(list, ", ")
}

// Plan returns where ranks go, as few of them as possible. hosts is the node of each rank
// now. Ranks that share a node stay together: those of one node go to one other node,
// unless there are as many nodes in Onto as ranks in Ranks, which go there one by one.
// Spares are nodes that no rank uses.
func (w Wish) Plan(s Situation, hosts []string) (*Move, error) {
	if err := w.check(s, hosts); err != nil {
		return nil, err
	}
	ranks := w.ranks(hosts)
	onto := w.Onto
	if len(onto) == 0 {
		onto = hostlist.Minus(hostlist.Minus(s.spares(), hosts), w.Off)
	}
	m := &Move{Hosts: slices.Clone(hosts)}
	if len(w.Ranks) > 0 && len(w.Onto) == len(w.Ranks) {
		for i, r := range w.Ranks {
			m.put(r, onto[i])
		}
		return m.some()
	}
	sources := hostlist.Union(pick(hosts, ranks))
	if len(w.Onto) == 0 && len(onto) < len(sources) {
		return nil, fmt.Errorf("%s must be left, and there are %s that can take the ranks; --onto names nodes of the job that can take more",
			report.Count(len(sources), "node"), report.Count(len(onto), "spare"))
	}
	for _, r := range ranks {
		m.put(r, onto[slices.Index(sources, hosts[r])%len(onto)])
	}
	return m.some()
}

// ranks returns the ranks that have to move.
func (w Wish) ranks(hosts []string) []int {
	if len(w.Ranks) > 0 {
		return slices.Sorted(slices.Values(w.Ranks))
	}
	var ranks []int
	for r, n := range hosts {
		if slices.Contains(w.Off, n) {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// check returns an error if the wish cannot be fulfilled on the nodes of the job.
func (w Wish) check(s Situation, hosts []string) error {
	if len(w.Off) == 0 && len(w.Ranks) == 0 {
		return errors.New("neither nodes to leave (--off) nor ranks to move (--ranks) are named")
	}
	for _, n := range slices.Concat(w.Off, w.Onto) {
		if !slices.Contains(s.Nodes, n) {
			return fmt.Errorf("%s is not a node of the job, whose nodes are %s", n, hostlist.Compress(s.Nodes))
		}
	}
	for _, n := range w.Onto {
		if s.Down[n] != "" {
			return fmt.Errorf("%s is down: %s", n, s.Down[n])
		}
		if slices.Contains(w.Off, n) {
			return fmt.Errorf("%s is to be left and to be used", n)
		}
	}
	for i, r := range w.Ranks {
		switch {
		case r < 0 || r >= len(hosts):
			return fmt.Errorf("the job has no rank %d: it has %s", r, report.Count(len(hosts), "rank"))
		case slices.Contains(w.Ranks[:i], r):
			return fmt.Errorf("rank %d is named twice", r)
		case len(w.Off) > 0 && !slices.Contains(w.Off, hosts[r]):
			return fmt.Errorf("rank %d runs on %s, which is not to be left", r, hosts[r])
		}
	}
	return nil
}

// put moves a rank, unless it is on the node already.
func (m *Move) put(rank int, node string) {
	if m.Hosts[rank] == node {
		return
	}
	m.Ranks = append(m.Ranks, rank)
	m.From = append(m.From, m.Hosts[rank])
	m.Hosts[rank] = node
}

// some returns the move, or an error if it moves nothing.
func (m *Move) some() (*Move, error) {
	if len(m.Ranks) == 0 {
		return nil, errors.New("all ranks are where they are to be: nothing moves")
	}
	return m, nil
}

// Left returns the nodes of the ranks that move on which no rank stays. Their files have
// to be copied by commands: the ranks cannot fetch them by MPI.
func (m *Move) Left() []string { return hostlist.Minus(hostlist.Union(m.From), m.Hosts) }

func pick(hosts []string, ranks []int) (list []string) {
	for _, r := range ranks {
		list = append(list, hosts[r])
	}
	return list
}
