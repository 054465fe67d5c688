package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/job/run/migration"
	"github.com/goscr/goscr/internal/job/run/recovery"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
)

// migrations carries out migrations, one at a time.
type migrations struct {
	job     *Job
	alloc   *allocation
	program *Program
	next    *placement
	move    *migrating     // the migration that is under way, nil: none
	costs   recovery.Costs // of a migration: assumed, until one has been measured
}

// migrating is a migration that is under way.
//
// It has three parts. The run continues until a checkpoint is complete that was asked for
// (advance), and is ended then. Meanwhile files of nodes that no rank will use any more are copied
// to the new nodes (startCopies, carry). The rung MIGRATE starts the program again, which ends the
// migration when SCR_Init has returned (arrived).
type migrating struct {
	id      int // of the request
	move    *recovery.Move
	asker   string // by which the checkpoint is asked for
	asked   int    // id of the request for the checkpoint
	asks    time.Time
	written time.Time // when the program had begun to write the checkpoint
	dataset int       // id of the checkpoint, 0 as long as it is not complete
	name    string    // ... its name
	ready   time.Time // when it was complete
	copies  *copies   // that have begun since, nil: none
	copied  time.Time // when the run had ended and the files were copied; zero: they are not
	cost    costs
}

// costs are the times of the parts of a migration, for the user.
type costs struct {
	lines []string
	sum   time.Duration
}

func (c *costs) add(took time.Duration, format string, args ...any) {
	took = max(took, 0) // of different clocks
	c.sum += took
	c.lines = append(c.lines, fmt.Sprintf(format, args...)+fmt.Sprintf(": %.2f s", took.Seconds()))
}

// copies are copies of files of ranks to their new nodes.
type copies struct {
	dataset int
	took    time.Duration
	bytes   map[int]int64 // of each rank
	err     error
	down    map[string]string // nodes that did not answer meanwhile
	downErr error
	done    chan struct{} // closed when the values above are valid
	cancel  context.CancelFunc
}

// quickly is how often a migration under way is looked at.
const quickly = 20 * time.Millisecond

// underWay reports whether a migration has begun and not ended.
func (g *migrations) underWay() bool { return g.move != nil }

// isBusy reports whether a migration is under way, or, if id is 0, somebody has asked for one.
func (g *migrations) isBusy(id int) bool {
	if g.underWay() || id != 0 {
		return g.underWay()
	}
	q, err := migration.Read(g.job.Prefix)
	return err == nil && q.State == migration.Requested
}

// begin plans a migration and asks for its checkpoint. id is that of its request; if it
// is 0 scr_run itself asks, and the request is entered here.
func (g *migrations) begin(id int, w recovery.Wish) error {
	if !g.next.ladder.Has("MIGRATE") {
		return errors.New("SCR_RECOVERY does not name MIGRATE")
	}
	if err := g.program.Launcher.CanAssign(g.program.Argv); err != nil {
		return err
	}
	s, err := g.next.situation()
	if err != nil {
		return err
	}
	hosts, err := g.alloc.hosts()
	if err != nil {
		return err
	}
	w.Off, w.Onto = g.alloc.named(w.Off), g.alloc.named(w.Onto)
	m, err := w.Plan(s, hosts)
	if err != nil {
		return err
	}
	if id == 0 {
		if id, err = migration.Ask(g.job.Prefix, migration.Request{Wish: w}); err != nil {
			return err
		}
	}
	next := &migrating{id: id, move: m, asker: request.NewAsker(), asks: time.Now()}
	if next.asked, err = request.Ask(g.job.Prefix, g.alloc.id, next.asker, request.Wish{}); err != nil {
		g.answer(id, migration.Failed, err.Error())
		return err
	}
	g.move = next
	g.job.Tell("migration: %s; waiting for a checkpoint", m)
	g.answer(id, migration.Checkpoint, "")
	return nil
}

// answer records how far the request for a migration is. What is done because of a prediction of
// scr_run itself has no request, and the id 0.
func (g *migrations) answer(id int, state migration.State, text string) {
	if id == 0 {
		return
	}
	g.job.warn(migration.Answer(g.job.Prefix, id, state, text))
}

// cancel ends a migration that cannot be completed.
func (g *migrations) cancel(why string) {
	if g.move == nil {
		return
	}
	if g.move.dataset == 0 {
		if _, err := request.TakeBack(g.job.Prefix, g.move.asked, g.move.asker); err != nil {
			g.job.Detail("%v", err)
		}
	}
	if c := g.move.copies; c != nil {
		c.cancel()
		<-c.done
	}
	g.job.Tell("migration: cancelled: %s", why)
	g.answer(g.move.id, migration.Failed, why)
	g.move = nil
}

// advance looks after the migration that is under way, in a run that began at that time. It returns true if
// the run is to be ended, because the checkpoint is complete. Then its files are copied while
// the run ends: launchers take a second for that, in which the nodes are idle.
func (g *migrations) advance(ctx context.Context, began time.Time) bool {
	m := g.move
	if !m.copied.IsZero() {
		g.arrived(began)
		return false
	}
	q, ok, err := request.Read(g.job.Prefix, m.asked)
	if ok && m.written.IsZero() && q.State.Order() >= request.Running.Order() {
		m.written = time.Now()
	}
	switch {
	case err != nil:
		g.job.Detail("%v", err)
	case !ok:
		// A run forgets in SCR_Init what was asked for before; it may just have begun.
		if m.asked, err = request.Ask(g.job.Prefix, g.alloc.id, m.asker, request.Wish{}); err != nil {
			g.cancel(err.Error())
		}
	case q.State == request.Failed:
		g.cancel("the checkpoint has failed: " + q.Reason)
	case q.State.Order() >= request.InCache.Order():
		if finalized, err := halt.WasFinalized(g.job.Prefix); err == nil && finalized {
			g.cancel("the job is over")
			return false
		}
		m.dataset, m.name, m.ready = q.Dataset, q.Name, time.Now()
		m.cost.add(m.written.Sub(m.asks), "program, until it writes")
		m.cost.add(m.ready.Sub(m.written), "checkpoint %s (%s)", m.name, report.Bytes(q.Size))
		g.job.Tell("migration: checkpoint %s is complete; the run is ended", m.name)
		g.answer(m.id, migration.Moving, "")
		m.copies = g.startCopies(ctx, m)
		return true
	}
	return false
}

// runEnded looks after a migration when a run has ended that began at that time. It returns true if the
// next run is on the new nodes.
func (g *migrations) runEnded(began time.Time) (moves bool) {
	switch m := g.move; {
	case m == nil:
	case m.copied.IsZero() && m.dataset > 0:
		return true
	case m.copied.IsZero():
		g.cancel("the run has ended before the checkpoint was complete")
	case g.arrived(began):
	default:
		g.cancel("the run on the new nodes has ended before SCR_Init has returned")
	}
	return false
}

// startCopies begins to copy the files of nodes that no rank will use any more to the new nodes of
// their ranks, and asks meanwhile which of the nodes of the next run are down. Those that receive
// files need not be asked.
func (g *migrations) startCopies(ctx context.Context, m *migrating) *copies {
	c := &copies{dataset: m.dataset, done: make(chan struct{})}
	ctx, c.cancel = context.WithCancel(ctx)
	known := maps.Clone(g.alloc.down)
	var receive []string
	for i, r := range m.move.Ranks {
		if slices.Contains(m.move.Left(), m.move.From[i]) {
			receive = append(receive, m.move.Hosts[r])
		}
	}
	ask := hostlist.Minus(hostlist.Union(m.move.Hosts), receive)
	go func() {
		defer close(c.done)
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			c.down, c.downErr = g.job.Down(ctx, ask, known, false)
		}()
		began := time.Now()
		c.bytes, c.err = g.handOver(ctx, m.move, c.dataset)
		c.took = time.Since(began)
		<-asked
	}()
	return c
}

// copied returns the migration for which the last run was ended and the files were copied, nil if
// there is none.
func (g *migrations) copied() *recovery.Move {
	if g.move == nil || g.move.copied.IsZero() {
		return nil
	}
	return g.move.move
}

// carry waits until the files are copied that startCopies copies, when the run has ended. It returns the
// nodes that are down.
func (g *migrations) carry(ctx context.Context) (down map[string]string, err error) {
	m, ended := g.move, time.Now()
	m.cost.add(ended.Sub(m.ready), "launcher, to end the run")
	c := m.copies
	<-c.done
	// The program may have written more checkpoints before it ended, and the cache may have
	// evicted the one that was asked for, also while it was copied.
	if p, err := prefix.ReadProgress(g.job.Prefix); err == nil && p.Newest > m.dataset {
		m.dataset, m.name = p.Newest, p.Name
	}
	if c.dataset != m.dataset || c.err != nil {
		if c.err != nil {
			g.job.Detail("the files are copied again: %v", c.err)
		}
		c.cancel()
		known, downErr := c.down, c.downErr
		c = g.startCopies(ctx, m)
		<-c.done
		c.down, c.downErr = known, downErr
	}
	c.cancel()
	m.copies = nil
	if c.err != nil {
		g.cancel(c.err.Error())
	} else {
		m.copied = time.Now()
		g.costs = recovery.Costs{Checkpoint: m.ready.Sub(m.asks), Move: m.copied.Sub(m.ready)}
		m.cost.add(m.copied.Sub(ended), "move, which took %.2f s%s, after that", c.took.Seconds(), m.moved(c.bytes))
		g.answer(m.id, migration.Restarting, "")
	}
	return g.askAgain(ctx, c)
}

// moved says what was copied of each rank that moves.
func (m *migrating) moved(bytes map[int]int64) (text string) {
	for _, r := range m.move.Ranks {
		if n, ok := bytes[r]; ok {
			text += fmt.Sprintf(", rank %d %s", r, report.Bytes(n))
		} else {
			text += fmt.Sprintf(", rank %d in SCR_Init", r)
		}
	}
	return text
}

// askAgain returns which nodes are down. If anything has not worked all are asked, now that the
// run has ended and nothing is copied: a node may have been too busy to answer.
func (g *migrations) askAgain(ctx context.Context, c *copies) (down map[string]string, err error) {
	if c.err == nil && c.downErr == nil && len(c.down) == len(g.alloc.down) {
		return c.down, nil
	}
	return g.job.Down(ctx, g.alloc.nodes, g.alloc.down, false)
}

// handOver runs scr_handover on all pairs of nodes between which files have to be copied,
// and returns the bytes of each rank.
func (g *migrations) handOver(ctx context.Context, m *recovery.Move, dataset int) (map[int]int64, error) {
	type pair struct{ from, to string }
	ranks := map[pair][]string{}
	for i, r := range m.Ranks {
		if p := (pair{m.From[i], m.Hosts[r]}); slices.Contains(m.Left(), p.from) {
			ranks[p] = append(ranks[p], strconv.Itoa(r))
		}
	}
	common, err := g.handoverCommand(ctx, dataset)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var failed error
	bytes := map[int]int64{}
	var wg sync.WaitGroup
	run := func(node string, argv ...string) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			a := g.job.OnNodes(ctx, []string{node}, copyTime, append(slices.Clone(common), argv...)...)[node]
			mu.Lock()
			defer mu.Unlock()
			if a.failed() {
				failed = errors.Join(failed, fmt.Errorf("%s: %s", node, a.lastLine()))
			}
			for line := range strings.Lines(a.Out) {
				var rank int
				var n int64
				if found, _ := fmt.Sscanf(line, HandedOver, &rank, &n); found == 2 {
					bytes[rank] = n
				}
			}
		}()
	}
	number := 0
	for p, list := range ranks {
		offer := "--offer=" + filepath.Join(g.job.Prefix, prefix.Metadata, fmt.Sprintf("handover.%d", number))
		number++
		run(p.from, offer, "--send="+strings.Join(list, ","))
		run(p.to, offer, "--receive")
	}
	wg.Wait()
	return bytes, failed
}

// HandedOver is the format of the lines of scr_handover: a rank and the bytes of its files.
const HandedOver = "rank %d: %d bytes"

// handoverCommand returns the command that copies files of a dataset from node to node.
func (g *migrations) handoverCommand(ctx context.Context, id int) ([]string, error) {
	var dirs []string
	for _, base := range append(g.job.ControlBases()[:1:1], g.job.CacheBases()...) {
		dir, err := g.job.Below(ctx, base, "", "")
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return []string{g.job.Tool, "handover", "--id", strconv.Itoa(id), "--cntldir", dirs[0], "--cache", strings.Join(dirs[1:], ",")}, nil
}

// arrived ends a migration if the program runs on its new nodes: SCR_Init has returned there.
func (g *migrations) arrived(began time.Time) bool {
	m := g.move
	q, err := migration.Read(g.job.Prefix)
	if err != nil {
		g.job.Detail("%v", err)
	}
	if err != nil || q.ID != m.id || q.Init == 0 {
		return false
	}
	m.cost.add(began.Sub(m.copied), "scr_run")
	m.cost.add(time.Since(began)-q.Init, "launcher and program, until SCR_Init")
	m.cost.add(q.Init, "SCR_Init")
	text := strings.Join(m.cost.lines, "; ")
	g.job.Tell("migration: done: %s", text)
	g.job.warn(migration.Finish(g.job.Prefix, m.id, text, m.cost.sum))
	g.move = nil
	return true
}
