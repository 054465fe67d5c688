package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/prefix"
)

// allocation is the nodes of the job: which there are, which are down, and which are suspect.
type allocation struct {
	job     *Job
	id      string            // of the job
	nodes   []string          // all nodes
	slots   map[string]int    // slots of nodes, from the host file
	end     time.Time         // zero: not known
	down    map[string]string // nodes that are no longer used, with the reason; nil: not known yet
	suspect map[string]string // nodes that should not be used if others can, with the reason
	failed  string            // the node on which the first process of the last run died; "": not known
}

// openAllocation finds out the properties of the allocation, which are the same for all runs.
func openAllocation(ctx context.Context, job *Job) (a *allocation, err error) {
	a = &allocation{job: job, suspect: map[string]string{}}
	if a.nodes, err = job.Nodes(ctx); err != nil {
		return nil, err
	}
	if a.id, err = job.ID(ctx); err != nil {
		return nil, err
	}
	if file := job.Config.HostFile; file != "" {
		if _, a.slots, err = batch.Hosts(file); err != nil {
			return nil, err
		}
	}
	a.end = job.End(ctx)
	return a, nil
}

// variables returns what the environment of all runs says about the job.
func (a *allocation) variables() []string {
	env := []string{"SCR_JOB_ID=" + a.id, "SCR_PREFIX=" + a.job.Prefix}
	if !a.end.IsZero() {
		env = append(env, fmt.Sprintf("SCR_END_TIME=%d", a.end.Unix()))
	}
	return env
}

// up returns the nodes of the allocation that are not down.
func (a *allocation) up() []string { return hostlist.Minus(a.nodes, keys(a.down)) }

// used returns the nodes on which the next run starts, as far as goscr decides that.
func (a *allocation) used() []string {
	up := a.up()
	if needed, _, err := a.job.Needed(a.nodes); err == nil && needed < len(up) {
		up = up[:needed]
	}
	return up
}

// hosts returns the node of each rank of the run, by the names that the manager uses.
func (a *allocation) hosts() ([]string, error) {
	ranks, err := prefix.ReadRanks(prefix.RanksFile(a.job.Prefix))
	if err != nil {
		return nil, err
	}
	nodes := a.named(ranks)
	for i, name := range nodes {
		if !slices.Contains(a.nodes, name) {
			return nil, fmt.Errorf("rank %d runs on %s, which is none of the nodes of the job: %s", i, name, hostlist.Compress(a.nodes))
		}
	}
	return nodes, nil
}

// named returns nodes by the names that the manager uses: those that nodes have for themselves, and that
// users and programs know, may be with a domain or without. A name of no node of the job stays as it is.
func (a *allocation) named(nodes []string) (list []string) {
	for _, name := range nodes {
		if !slices.Contains(a.nodes, name) {
			if at := slices.IndexFunc(a.nodes, func(n string) bool { return here(n, name) }); at >= 0 {
				name = a.nodes[at]
			}
		}
		list = append(list, name)
	}
	return list
}

// nodeCheck is a check of nodes in the background.
type nodeCheck struct {
	down  map[string]string
	err   error
	ended time.Time
	done  chan struct{} // closed when the values above are valid
}

// stale is the age of a check of nodes after which they are asked again; for tests it can be
// changed.
var stale = 5 * time.Second

// check begins to ask the nodes whether they are up.
func (a *allocation) check(ctx context.Context) *nodeCheck {
	c := &nodeCheck{done: make(chan struct{})}
	known := maps.Clone(a.down)
	go func() {
		defer close(c.done)
		c.down, c.err = a.job.Down(ctx, a.nodes, known, false)
		c.ended = time.Now()
	}()
	return c
}

// findLost checks the nodes of the allocation, adds those that cannot be used any more to
// a.down, and returns them. first is a check that has begun already, nil if there is none.
func (a *allocation) findLost(ctx context.Context, first *nodeCheck) (lost []string, err error) {
	if first == nil {
		first = a.check(ctx)
	}
	<-first.done
	if first.err != nil || time.Since(first.ended) > stale {
		first = a.check(ctx)
		<-first.done
	}
	if first.err != nil {
		return nil, first.err
	}
	return a.lose(ctx, first.down), nil
}

// lose adds the nodes of down that are new to a.down, and returns them.
func (a *allocation) lose(ctx context.Context, down map[string]string) (lost []string) {
	for node := range a.down {
		delete(down, node)
	}
	for _, line := range Reasons(down) {
		a.job.Tell("node %s", line)
	}
	a.job.LogDown(ctx, down, 0)
	if a.down == nil {
		a.down = map[string]string{}
	}
	for node, why := range down {
		a.down[node] = why
		lost = append(lost, node)
	}
	return lost
}

// suspectNode records on which node the first process of a failed run died, "" if that is
// not known. A node on which this happens in two runs in a row is suspect for the rest of
// the job. Once is no reason: most processes that die do so because of the program.
func (a *allocation) suspectNode(node string) {
	before := a.failed
	a.failed = node
	if node == "" || node != before || a.suspect[node] != "" {
		return
	}
	if len(hostlist.Intersection([]string{node}, a.nodes)) == 0 {
		return
	}
	a.suspectBecause(node, "processes died there in two runs in a row")
}

// suspectBecause makes a node suspect for the rest of the job.
func (a *allocation) suspectBecause(node, why string) {
	if a.suspect[node] != "" {
		return
	}
	a.suspect[node] = why
	a.job.Tell("node %s is suspect: %s", node, why)
}
