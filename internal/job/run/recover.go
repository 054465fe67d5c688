package run

import (
	"context"
	"time"

	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/job/run/recovery"
	"github.com/goscr/goscr/internal/observe/eventlog"
)

// recover decides where the next run is started after one that has failed.
func (l *Loop) recover(ctx context.Context) *stop {
	why, err := l.timeIsUp(l.alloc.end, time.Now())
	if err != nil {
		return &stop{why: err.Error(), status: 1}
	}
	if why != "" {
		return &stop{why: why, status: l.past.status}
	}
	s, err := l.situation()
	if err != nil {
		return &stop{why: err.Error(), status: 1}
	}
	plan, passed := l.ladder.Decide(s)
	for _, p := range passed {
		l.Tell("recovery: %s passes on: %s", p.Rung, p.Why)
	}
	if plan.Nodes == nil {
		return &stop{why: plan.Did, status: l.past.status}
	}
	l.Tell("recovery: %s: %s", plan.Rung, plan.Did)
	l.meter(eventlog.Record{Type: eventlog.Recovery, Note: plan.Rung})
	if plan.Rung != "MIGRATE" {
		l.cancelMigration("the job continues in another way")
	}
	l.next.hosts = plan.Hosts
	if plan.Fewer {
		l.next.usual = max(l.next.usual, s.Needed)
		if err := l.Postrun(ctx, l.alloc.down); err != nil {
			l.Tell("%v; the program restarts from an older checkpoint, if the prefix directory has one", err)
		}
	}
	// Other nodes that are up are spares, for launchers that choose among more.
	l.next.nodes = hostlist.Union(plan.Nodes, hostlist.Minus(l.alloc.nodes, append(keys(l.alloc.down), keys(l.alloc.suspect)...)))
	return nil
}

// situation describes the job for the ladder.
func (l *Loop) situation() (recovery.Situation, error) {
	needed, why, err := l.Needed(l.alloc.nodes)
	if err != nil {
		return recovery.Situation{}, err
	}
	used, err := l.NodesUsed()
	if err != nil {
		return recovery.Situation{}, err
	}
	if used == 0 { // the program has not come to SCR_Init
		used = needed
	}
	var move *recovery.Move
	if l.move != nil && !l.move.copied.IsZero() {
		move = l.move.move
	}
	return recovery.Situation{
		Move: move, Hosts: l.next.hosts,
		Last: l.next.nodes[:min(used, len(l.next.nodes))], Nodes: l.alloc.nodes, Down: l.alloc.down, Suspect: l.alloc.suspect,
		Needed: needed, Why: why, Fixed: l.Config.MinNodes > 0, Elastic: l.Config.GlobalRestart,
	}, nil
}
