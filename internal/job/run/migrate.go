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

	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/job/run/migration"
	"github.com/goscr/goscr/internal/job/run/recovery"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
)

// migrating is a migration that is under way.
//
// It has three parts. The run continues until a checkpoint is complete that was asked for
// (await), and is ended then. Meanwhile files of nodes that no rank will use any more are copied
// to the new nodes (begin, carry). The rung MIGRATE starts the program again, which ends the
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

// migrates looks for a request to migrate, or after the migration that is under way. It
// returns true if the run is to be ended for it.
func (l *Loop) migrates(ctx context.Context, r *running) bool {
	if l.move == nil {
		if l.canMigrate(r) {
			if l.takeRequest(ctx) {
				return true
			}
			l.foresee(ctx, time.Now())
		}
		return false
	}
	if !l.move.copied.IsZero() {
		l.arrived(r)
		return false
	}
	return l.await(ctx)
}

// canMigrate reports whether a run has come so far that its ranks can be moved: before that they
// have no nodes, and the job forgets what it is asked for.
func (l *Loop) canMigrate(r *running) bool { return r.initCalled.seen() && request.Alive(l.Prefix) }

// takeRequest begins a migration if somebody has asked for one. It returns true if the program has
// asked to be started again from another checkpoint: then the run is to be ended.
func (l *Loop) takeRequest(ctx context.Context) (end bool) {
	q, err := migration.Read(l.Prefix)
	if err != nil {
		l.Detail("%v", err)
		return false
	}
	if q.State != migration.Requested {
		return false
	}
	if q.Restart != "" {
		l.Tell("the program asks to be started again from checkpoint %s; the run is ended", q.Restart)
		l.acceptRestart(q)
		return true
	}
	if q.Predicted {
		l.react(ctx, q.ID, q.Wish.Off, batch.Prediction{Why: "scr_migrate --predicted", Within: q.Within, Assurance: q.Assurance}, time.Now())
		return false
	}
	if err := l.beginMigration(q.ID, q.Wish); err != nil {
		l.Tell("migration: not possible: %v", err)
		l.answer(q.ID, migration.Failed, err.Error())
	}
	return false
}

// acceptRestart records that the next run begins at the checkpoint for which the program has asked.
func (l *Loop) acceptRestart(q migration.Request) {
	l.past.asked = q.Restart
	l.answer(q.ID, migration.Done, "the run has been ended")
}

// takeLateRequest takes a request of the program to be started again, which a run has entered shortly
// before it ended: takeRequest has not seen it then. Left in the file, it would end the next run.
func (l *Loop) takeLateRequest() {
	q, err := migration.Read(l.Prefix)
	if err != nil {
		l.Tell("%v", err)
		return
	}
	if q.State != migration.Requested || q.Restart == "" {
		return
	}
	finalized, err := halt.WasFinalized(l.Prefix)
	if err != nil {
		l.Tell("%v", err)
		l.answer(q.ID, migration.Failed, err.Error())
		return
	}
	if finalized {
		l.answer(q.ID, migration.Failed, "the job is over")
		return
	}
	l.Tell("the program has asked to be started again from checkpoint %s", q.Restart)
	l.acceptRestart(q)
}

// isAsked reports whether somebody has asked for a migration that has not begun.
func (l *Loop) isAsked() bool {
	q, err := migration.Read(l.Prefix)
	return err == nil && q.State == migration.Requested
}

// beginMigration plans a migration and asks for its checkpoint. id is that of its request; if it
// is 0 scr_run itself asks, and the request is entered here.
func (l *Loop) beginMigration(id int, w recovery.Wish) error {
	if !l.next.ladder.Has("MIGRATE") {
		return errors.New("SCR_RECOVERY does not name MIGRATE")
	}
	if err := l.Program.Launcher.CanAssign(l.Program.Argv); err != nil {
		return err
	}
	s, err := l.next.situation()
	if err != nil {
		return err
	}
	hosts, err := l.alloc.hosts()
	if err != nil {
		return err
	}
	w.Off, w.Onto = l.alloc.named(w.Off), l.alloc.named(w.Onto)
	m, err := w.Plan(s, hosts)
	if err != nil {
		return err
	}
	if id == 0 {
		if id, err = migration.Ask(l.Prefix, migration.Request{Wish: w}); err != nil {
			return err
		}
	}
	next := &migrating{id: id, move: m, asker: request.NewAsker(), asks: time.Now()}
	if next.asked, err = request.Ask(l.Prefix, l.alloc.id, next.asker, request.Wish{}); err != nil {
		l.answer(id, migration.Failed, err.Error())
		return err
	}
	l.move = next
	l.Tell("migration: %s; waiting for a checkpoint", m)
	l.answer(id, migration.Checkpoint, "")
	return nil
}

// answer records how far the request for a migration is. What is done because of a prediction of
// scr_run itself has no request, and the id 0.
func (l *Loop) answer(id int, state migration.State, text string) {
	if id == 0 {
		return
	}
	if err := migration.Answer(l.Prefix, id, state, text); err != nil {
		l.Tell("%v", err)
	}
}

// cancelMigration ends a migration that cannot be completed.
func (l *Loop) cancelMigration(why string) {
	if l.move == nil {
		return
	}
	if l.move.dataset == 0 {
		if _, err := request.TakeBack(l.Prefix, l.move.asked, l.move.asker); err != nil {
			l.Detail("%v", err)
		}
	}
	if c := l.move.copies; c != nil {
		c.cancel()
		<-c.done
	}
	l.Tell("migration: cancelled: %s", why)
	l.answer(l.move.id, migration.Failed, why)
	l.move = nil
}

// await reports whether the checkpoint of a migration is complete. Then its files are copied while
// the run ends: launchers take a second for that, in which the nodes are idle.
func (l *Loop) await(ctx context.Context) bool {
	m := l.move
	q, ok, err := request.Read(l.Prefix, m.asked)
	if ok && m.written.IsZero() && q.State.Order() >= request.Running.Order() {
		m.written = time.Now()
	}
	switch {
	case err != nil:
		l.Detail("%v", err)
	case !ok:
		// A run forgets in SCR_Init what was asked for before; it may just have begun.
		if m.asked, err = request.Ask(l.Prefix, l.alloc.id, m.asker, request.Wish{}); err != nil {
			l.cancelMigration(err.Error())
		}
	case q.State == request.Failed:
		l.cancelMigration("the checkpoint has failed: " + q.Reason)
	case q.State.Order() >= request.InCache.Order():
		if finalized, err := halt.WasFinalized(l.Prefix); err == nil && finalized {
			l.cancelMigration("the job is over")
			return false
		}
		m.dataset, m.name, m.ready = q.Dataset, q.Name, time.Now()
		m.cost.add(m.written.Sub(m.asks), "program, until it writes")
		m.cost.add(m.ready.Sub(m.written), "checkpoint %s (%s)", m.name, report.Bytes(q.Size))
		l.Tell("migration: checkpoint %s is complete; the run is ended", m.name)
		l.answer(m.id, migration.Moving, "")
		m.copies = l.begin(ctx, m)
		return true
	}
	return false
}

// endedMeanwhile looks after a migration when a run has ended.
func (l *Loop) endedMeanwhile(a *attempt, r *running) {
	switch m := l.move; {
	case m.copied.IsZero() && m.dataset > 0:
		a.moves = true
	case m.copied.IsZero():
		l.cancelMigration("the run has ended before the checkpoint was complete")
	case l.arrived(r):
	default:
		l.cancelMigration("the run on the new nodes has ended before SCR_Init has returned")
	}
}

// begin begins to copy the files of nodes that no rank will use any more to the new nodes of
// their ranks, and asks meanwhile which of the nodes of the next run are down. Those that receive
// files need not be asked.
func (l *Loop) begin(ctx context.Context, m *migrating) *copies {
	c := &copies{dataset: m.dataset, done: make(chan struct{})}
	ctx, c.cancel = context.WithCancel(ctx)
	known := maps.Clone(l.alloc.down)
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
			c.down, c.downErr = l.Down(ctx, ask, known, false)
		}()
		began := time.Now()
		c.bytes, c.err = l.handOver(ctx, m.move, c.dataset)
		c.took = time.Since(began)
		<-asked
	}()
	return c
}

// moved returns the migration for which the last run was ended and the files were copied, nil if
// there is none.
func (l *Loop) moved() *recovery.Move {
	if l.move == nil || l.move.copied.IsZero() {
		return nil
	}
	return l.move.move
}

// carry waits until the files are copied that begin copies, when the run has ended. It returns the
// nodes that are down.
func (l *Loop) carry(ctx context.Context) (down map[string]string, err error) {
	m, ended := l.move, time.Now()
	m.cost.add(ended.Sub(m.ready), "launcher, to end the run")
	c := m.copies
	<-c.done
	// The program may have written more checkpoints before it ended, and the cache may have
	// evicted the one that was asked for, also while it was copied.
	if p, err := prefix.ReadProgress(l.Prefix); err == nil && p.Newest > m.dataset {
		m.dataset, m.name = p.Newest, p.Name
	}
	if c.dataset != m.dataset || c.err != nil {
		if c.err != nil {
			l.Detail("the files are copied again: %v", c.err)
		}
		c.cancel()
		known, downErr := c.down, c.downErr
		c = l.begin(ctx, m)
		<-c.done
		c.down, c.downErr = known, downErr
	}
	c.cancel()
	m.copies = nil
	if c.err != nil {
		l.cancelMigration(c.err.Error())
	} else {
		m.copied = time.Now()
		l.foresight.measured = recovery.Costs{Checkpoint: m.ready.Sub(m.asks), Move: m.copied.Sub(m.ready)}
		m.cost.add(m.copied.Sub(ended), "move, which took %.2f s%s, after that", c.took.Seconds(), m.moved(c.bytes))
		l.answer(m.id, migration.Restarting, "")
	}
	return l.askAgain(ctx, c)
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
func (l *Loop) askAgain(ctx context.Context, c *copies) (down map[string]string, err error) {
	if c.err == nil && c.downErr == nil && len(c.down) == len(l.alloc.down) {
		return c.down, nil
	}
	return l.Down(ctx, l.alloc.nodes, l.alloc.down, false)
}

// handOver runs scr_handover on all pairs of nodes between which files have to be copied,
// and returns the bytes of each rank.
func (l *Loop) handOver(ctx context.Context, m *recovery.Move, dataset int) (map[int]int64, error) {
	type pair struct{ from, to string }
	ranks := map[pair][]string{}
	for i, r := range m.Ranks {
		if p := (pair{m.From[i], m.Hosts[r]}); slices.Contains(m.Left(), p.from) {
			ranks[p] = append(ranks[p], strconv.Itoa(r))
		}
	}
	common, err := l.handoverCommand(ctx, dataset)
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
			a := l.OnNodes(ctx, []string{node}, copyTime, append(slices.Clone(common), argv...)...)[node]
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
		offer := "--offer=" + filepath.Join(l.Prefix, prefix.Metadata, fmt.Sprintf("handover.%d", number))
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
func (l *Loop) handoverCommand(ctx context.Context, id int) ([]string, error) {
	var dirs []string
	for _, base := range append(l.ControlBases()[:1:1], l.CacheBases()...) {
		dir, err := l.Below(ctx, base, "", "")
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return []string{l.Tool, "handover", "--id", strconv.Itoa(id), "--cntldir", dirs[0], "--cache", strings.Join(dirs[1:], ",")}, nil
}

// arrived ends a migration if the program runs on its new nodes: SCR_Init has returned there.
func (l *Loop) arrived(r *running) bool {
	m := l.move
	q, err := migration.Read(l.Prefix)
	if err != nil {
		l.Detail("%v", err)
	}
	if err != nil || q.ID != m.id || q.Init == 0 {
		return false
	}
	m.cost.add(r.start.began.Sub(m.copied), "scr_run")
	m.cost.add(time.Since(r.start.began)-q.Init, "launcher and program, until SCR_Init")
	m.cost.add(q.Init, "SCR_Init")
	text := strings.Join(m.cost.lines, "; ")
	l.Tell("migration: done: %s", text)
	if err := migration.Finish(l.Prefix, m.id, text, m.cost.sum); err != nil {
		l.Tell("%v", err)
	}
	l.move = nil
	return true
}
