package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/batch"
	"github.com/goscr/goscr/internal/halt"
	"github.com/goscr/goscr/internal/hostlist"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/internal/request"
	"github.com/goscr/goscr/internal/run/migration"
	"github.com/goscr/goscr/internal/run/recovery"
)

// migrating is a migration that is under way.
//
// It has three parts. The run goes on until a checkpoint is complete that was asked for
// (await), and is ended then. Files of nodes that no rank will use any more are copied to
// the new nodes (carry). The rung MIGRATE starts the program again, which ends the
// migration when it calls SCR_Init (arrived).
type migrating struct {
	id      int // of the request
	move    *recovery.Move
	asker   string // by which the checkpoint is asked for
	asked   int    // id of the request for the checkpoint
	asks    time.Time
	dataset int       // id of the checkpoint, 0 as long as it is not complete
	name    string    // ... its name
	ready   time.Time // when it was complete
	ended   time.Time // when the run had ended
	copied  time.Time // when the files were copied; zero: they are not
	cost    []string  // what it has cost, for the user
}

// quickly is how often a migration under way is looked at.
const quickly = 20 * time.Millisecond

// migrates looks for a request to migrate, or after the migration that is under way. It
// returns true if the run is to be ended for it.
func (l *Loop) migrates(ctx context.Context, r *running) bool {
	if l.move == nil {
		if l.canMigrate(r) {
			l.takeRequest(ctx)
			l.foresee(ctx, time.Now())
		}
		return false
	}
	if !l.move.copied.IsZero() {
		if r.initCalled.seen() {
			l.arrived()
		}
		return false
	}
	return l.await()
}

// canMigrate reports whether a run has come so far that its ranks can be moved: before that they
// have no nodes, and the job forgets what it is asked for.
func (l *Loop) canMigrate(r *running) bool { return r.initCalled.seen() && request.Alive(l.Prefix) }

// takeRequest begins a migration if somebody has asked for one.
func (l *Loop) takeRequest(ctx context.Context) {
	q, err := migration.Read(l.Prefix)
	if err != nil {
		l.Detail("%v", err)
		return
	}
	if q.State != migration.Requested {
		return
	}
	if q.Predicted {
		l.react(ctx, q.ID, q.Wish.Off, batch.Prediction{Why: "scr_migrate --predicted", Within: q.Within, Assurance: q.Assurance}, time.Now())
		return
	}
	if err := l.beginMigration(q.ID, q.Wish); err != nil {
		l.Tell("migration: not possible: %v", err)
		l.answer(q.ID, migration.Failed, err.Error())
	}
}

// beginMigration plans a migration and asks for its checkpoint.
func (l *Loop) beginMigration(id int, w recovery.Wish) error {
	if !l.ladder.Has("MIGRATE") {
		return errors.New("SCR_RECOVERY does not name MIGRATE")
	}
	if err := l.Launcher.CanAssign(l.Argv); err != nil {
		return err
	}
	s, err := l.situation()
	if err != nil {
		return err
	}
	hosts, err := l.hosts()
	if err != nil {
		return err
	}
	m, err := w.Plan(s, hosts)
	if err != nil {
		return err
	}
	next := &migrating{id: id, move: m, asker: request.NewAsker(), asks: time.Now()}
	if next.asked, err = request.Ask(l.Prefix, l.alloc.id, next.asker, request.Wish{}); err != nil {
		return err
	}
	l.move = next
	l.Tell("migration: %s; waiting for a checkpoint", m)
	l.answer(id, migration.Checkpoint, "")
	return nil
}

// hosts returns the node of each rank of the run, by the names that the manager uses.
func (l *Loop) hosts() ([]string, error) {
	ranks, err := prefix.ReadRanks(prefix.RanksFile(l.Prefix))
	if err != nil {
		return nil, err
	}
	for i, name := range ranks {
		at := slices.IndexFunc(l.alloc.nodes, func(n string) bool { return here(n, name) })
		if at < 0 {
			return nil, fmt.Errorf("rank %d runs on %s, which is none of the nodes of the job: %s", i, name, hostlist.Compress(l.alloc.nodes))
		}
		ranks[i] = l.alloc.nodes[at]
	}
	return ranks, nil
}

// answer records how far the request for a migration is. A migration that nobody has asked
// for has the id 0.
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
	l.Tell("migration: cancelled: %s", why)
	l.answer(l.move.id, migration.Failed, why)
	l.move = nil
}

// await reports whether the checkpoint of a migration is complete.
func (l *Loop) await() bool {
	m := l.move
	q, ok, err := request.Read(l.Prefix, m.asked)
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
		m.tell("checkpoint %s (%s): %.2f s", m.name, report.Bytes(q.Size), m.ready.Sub(m.asks).Seconds())
		l.Tell("migration: checkpoint %s is complete; the run is ended", m.name)
		l.answer(m.id, migration.Moving, "")
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
	case r.initCalled.seen():
		l.arrived()
	default:
		l.cancelMigration("the run on the new nodes has ended before SCR_Init")
	}
}

func (m *migrating) tell(format string, args ...any) {
	m.cost = append(m.cost, fmt.Sprintf(format, args...))
}

// carry copies the files of nodes that no rank will use any more to the new nodes of their
// ranks. The run has ended.
func (l *Loop) carry(ctx context.Context) {
	m := l.move
	m.ended = time.Now()
	m.tell("end of the run: %.2f s", m.ended.Sub(m.ready).Seconds())
	// The program may have written more checkpoints before it ended, and the cache may have
	// evicted the one that was asked for.
	if p, err := prefix.ReadProgress(l.Prefix); err == nil && p.Newest > m.dataset {
		m.dataset, m.name = p.Newest, p.Name
	}
	bytes, err := l.handOver(ctx, m)
	if err != nil {
		l.cancelMigration(err.Error())
		return
	}
	m.copied = time.Now()
	l.foresight.measured = recovery.Costs{Checkpoint: m.ready.Sub(m.asks), Move: m.copied.Sub(m.ready)}
	text := fmt.Sprintf("move: %.2f s", m.copied.Sub(m.ended).Seconds())
	for _, r := range m.move.Ranks {
		if n, ok := bytes[r]; ok {
			text += fmt.Sprintf(", rank %d %s", r, report.Bytes(n))
		} else {
			text += fmt.Sprintf(", rank %d in SCR_Init", r)
		}
	}
	m.tell("%s", text)
	l.answer(m.id, migration.Restarting, "")
}

// handOver runs scr_handover on all pairs of nodes between which files have to be copied,
// and returns the bytes of each rank.
func (l *Loop) handOver(ctx context.Context, m *migrating) (map[int]int64, error) {
	type pair struct{ from, to string }
	ranks := map[pair][]string{}
	for i, r := range m.move.Ranks {
		if p := (pair{m.move.From[i], m.move.Hosts[r]}); slices.Contains(m.move.Left(), p.from) {
			ranks[p] = append(ranks[p], strconv.Itoa(r))
		}
	}
	common, err := l.handoverCommand(ctx, m.dataset)
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

// arrived ends a migration whose ranks run on their new nodes.
func (l *Loop) arrived() {
	m := l.move
	m.tell("restart: %.2f s", time.Since(m.copied).Seconds())
	text := strings.Join(m.cost, "; ")
	l.Tell("migration: done: %s", text)
	l.answer(m.id, migration.Done, text)
	l.move = nil
}
