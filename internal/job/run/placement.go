package run

import (
	"path/filepath"

	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/job/run/recovery"
	"github.com/goscr/goscr/internal/prefix"
)

// placement decides on which nodes of the allocation the next run is started.
type placement struct {
	alloc  *allocation
	ladder recovery.Ladder
	nodes  []string // in the launcher's order; more than are needed are spares
	hosts  []string // the node of each rank; nil: the launcher decides
	usual  int      // number of nodes for which the command line was written; 0: as many as are needed
}

// forLauncher describes the placement to the launcher.
func (p *placement) forLauncher() (batch.Placement, error) {
	job, all := p.alloc.job, p.alloc.nodes
	needed, _, err := job.Needed(all)
	return batch.Placement{
		Nodes: p.nodes, Down: hostlist.Minus(all, p.nodes), Needed: min(needed, len(p.nodes)), Usual: p.usual, Hosts: p.hosts,
		Slots: p.alloc.slots, Dir: filepath.Join(job.Prefix, prefix.Metadata),
		Listed: job.Config.HostFile != "" || job.Config.Nodelist != "",
	}, err
}

// first places the first run: on all nodes that are up.
func (p *placement) first() { p.nodes = p.alloc.up() }

// follow places the run that follows one that has failed, by the plan that it returns. If the
// plan names no node, there is no such run. move is a migration for which the run was ended, nil
// if there is none.
func (p *placement) follow(move *recovery.Move) (recovery.Plan, error) {
	s, err := p.situation()
	if err != nil {
		return recovery.Plan{}, err
	}
	s.Move = move
	plan, passed := p.ladder.Decide(s)
	for _, pass := range passed {
		p.alloc.job.Tell("recovery: %s passes on: %s", pass.Rung, pass.Why)
	}
	if plan.Nodes == nil {
		return plan, nil
	}
	p.hosts = plan.Hosts
	if plan.Fewer {
		p.usual = max(p.usual, s.Needed)
	}
	// Other nodes that are up are spares, for launchers that choose among more.
	p.nodes = hostlist.Union(plan.Nodes, hostlist.Minus(p.alloc.up(), keys(p.alloc.suspect)))
	return plan, nil
}

// situation describes the job for the ladder.
func (p *placement) situation() (recovery.Situation, error) {
	job := p.alloc.job
	needed, why, err := job.Needed(p.alloc.nodes)
	if err != nil {
		return recovery.Situation{}, err
	}
	used, err := job.NodesUsed()
	if err != nil {
		return recovery.Situation{}, err
	}
	if used == 0 { // the program has not come to SCR_Init
		used = needed
	}
	return recovery.Situation{
		Hosts: p.hosts,
		Last:  p.nodes[:min(used, len(p.nodes))], Nodes: p.alloc.nodes, Down: p.alloc.down, Suspect: p.alloc.suspect,
		Needed: needed, Why: why, Fixed: job.Config.MinNodes > 0, Elastic: job.Config.GlobalRestart,
	}, nil
}
