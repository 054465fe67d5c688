package run

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/job/failures"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/job/run/migration"
	"github.com/goscr/goscr/internal/job/run/recovery"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/metrics"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/sys/lock"
)

// Loop starts a program repeatedly, until it has finished or there is a reason to stop.
type Loop struct {
	Job     *Job
	Program Program
	Signals <-chan os.Signal // signals that this process receives
	Poll    time.Duration    // interval at which the prefix directory is read; 0: 1 s
	Grace   time.Duration    // time a run has to end after SIGTERM; 0: 10 s

	alloc    *allocation
	origin   origin
	next     *placement
	moves    *migrations
	requests *requests

	status       int           // exit status of the last run; 1 before the first
	migrations   int           // number of runs that were ended for a migration
	fruitless    []attempt     // the latest runs, as far as they have failed without a new checkpoint
	longestStart time.Duration // the longest time that a run has taken to call SCR_Init
}

// attempt is how a run has ended.
type attempt struct {
	number     int
	status     int
	what       string   // how it ended, for messages
	gained     bool     // it has completed a checkpoint
	hung       bool     // the watchdog has ended it
	lost       []string // nodes that went down during the run
	began      time.Time
	ended      time.Time  // when the launcher had ended
	node       string     // the node on which the first process died, "": not known
	rejects    string     // what the launcher says of its options, if it has not understood them, "": it has
	moves      bool       // it was ended for a migration
	signal     os.Signal  // signal that has asked to end the job
	haltAtOnce bool       // scr_halt --immediate has asked to end it
	check      *nodeCheck // of the nodes, which has begun before it ended; nil: none has
	how        string     // it has ended, for metrics: one of the constants below
}

// How runs end.
const (
	finished  = "finished"  // the program has ended by itself
	halted    = "halted"    // a user, a signal or the resource manager has asked it to end
	migrated  = "migrated"  // it continues on other nodes
	restarted = "restarted" // the program has asked to start again from a checkpoint
	died      = "died"
)

// maxFruitless is the number of consecutive runs without a new checkpoint that end the
// job.
const maxFruitless = 3

// stop says why the program is not started again. A nil *stop means that it is.
type stop struct {
	why    string
	status int  // exit status of the job
	done   bool // the program has finished its computation
}

// Run prepares the prefix directory, runs the program, and afterwards copies datasets to
// the prefix directory that are only in the caches of nodes. It returns the exit status
// of the last run, or 1 if there was none.
func (l *Loop) Run(ctx context.Context) (int, error) {
	if l.Poll == 0 {
		l.Poll = time.Second
	}
	if l.Grace == 0 {
		l.Grace = 10 * time.Second
	}
	if !l.Job.Config.Enable {
		return l.Program.runDisabled(l.Signals)
	}
	ladder, err := recovery.New(l.Job.Config.Recovery)
	if err != nil {
		return 1, err
	}
	if err := l.prepare(ctx); err != nil {
		return 1, err
	}
	l.next = &placement{alloc: l.alloc, ladder: ladder}
	l.moves = &migrations{job: l.Job, alloc: l.alloc, program: &l.Program, next: l.next, costs: recovery.Assumed}
	l.requests = &requests{job: l.Job, moves: l.moves, foresight: &foresight{job: l.Job, alloc: l.alloc, moves: l.moves}}
	// Commands see by this lock that another run may follow. It does not matter who has it
	// if there are two.
	held, err := lock.Try(request.LoopPath(l.Job.Prefix), lock.Exclusive)
	l.Job.warn(err)
	defer held.Release()
	if held != nil {
		l.Job.warn(migration.Begin(l.Job.Prefix))
	}
	stopMovers, err := l.Job.startMovers(ctx, l.alloc.up())
	if err != nil {
		return 1, err
	}
	last, err := l.runs(ctx)
	l.Job.warn(halt.Obeyed(l.Job.Prefix, l.alloc.id))
	l.moves.cancel("the job is over")
	stopMovers()
	if err != nil {
		return 1, err
	}
	status, err := l.finish(ctx, last)
	l.summarize()
	return status, err
}

// prepare opens the allocation and prepares the prefix directory.
func (l *Loop) prepare(ctx context.Context) error {
	var err error
	if l.alloc, err = openAllocation(ctx, l.Job); err != nil {
		return err
	}
	ends := "without a known end"
	if !l.alloc.end.IsZero() {
		ends = "until " + l.alloc.end.Format(time.DateTime)
	}
	l.Job.Tell("job %s (%s), %s: %s, %s; prefix directory %s", l.alloc.id, l.Job.Manager.Name(), report.Count(len(l.alloc.nodes), "node"),
		hostlist.Compress(l.alloc.nodes), ends, l.Job.Prefix)
	if dir := l.Job.Config.MetricsDir; dir != "" {
		of := eventlog.JobOf(l.Job.Config)
		of.ID, of.Prefix = l.alloc.id, l.Job.Prefix
		l.Job.Metrics = metrics.Open(dir, "run_", of)
	}
	return l.Job.Prerun()
}

// runs runs the program until there is a reason to stop.
func (l *Loop) runs(ctx context.Context) (*stop, error) {
	l.status = 1
	for number := 1; ; number++ {
		if s := l.before(ctx, number); s != nil {
			return s, nil
		}
		a, err := l.once(ctx, number)
		if err != nil {
			return nil, err
		}
		l.status = a.status
		s := l.after(ctx, &a)
		l.logEnd(ctx, a, s)
		if s != nil {
			return s, nil
		}
	}
}

// finish copies datasets to the prefix directory, and returns the exit status of the job.
func (l *Loop) finish(ctx context.Context, last *stop) (int, error) {
	l.Job.Tell("the job is over: %s", last.why)
	if last.done && !l.Job.Config.FlushPolicy().On() {
		l.Job.Detail("checkpoints stay in the cache: the program has finished, and SCR_FLUSH=0")
		return last.status, l.Job.postrunOutput(ctx, l.alloc.nodes, l.alloc.down)
	}
	if err := l.Job.Postrun(ctx, l.alloc.down); err != nil {
		l.Job.Tell("%v", err)
		return max(last.status, 1), nil
	}
	return last.status, nil
}

// ---------------------------------------------------------------- before a run

// before decides whether to start another run.
func (l *Loop) before(ctx context.Context, number int) *stop {
	if most, from := l.Job.Config.RunLimit(); most >= 0 && number-l.migrations > most {
		return &stop{why: fmt.Sprintf("the limit of %s is reached", from), status: l.status}
	}
	if number > 1 { // after has asked the nodes
		if s := l.pendingSignal(); s != nil {
			return s
		}
		return l.recover(ctx)
	}
	if _, err := l.alloc.findLost(ctx, nil); err != nil {
		return &stop{why: err.Error(), status: 1}
	}
	if s := l.pendingSignal(); s != nil {
		return s
	}
	why, err := l.Job.ShouldStop(l.alloc.nodes, l.alloc.down, l.alloc.end, time.Now())
	if err != nil {
		return &stop{why: err.Error(), status: 1}
	}
	if why != "" {
		return &stop{why: why, status: l.status}
	}
	l.next.first()
	return nil
}

// recover places the run that follows one that has failed.
func (l *Loop) recover(ctx context.Context) *stop {
	why, err := l.Job.timeIsUp(l.alloc.end, time.Now())
	if err != nil {
		return &stop{why: err.Error(), status: 1}
	}
	if why != "" {
		return &stop{why: why, status: l.status}
	}
	plan, err := l.next.follow(l.moves.copied())
	if err != nil {
		return &stop{why: err.Error(), status: 1}
	}
	if plan.Nodes == nil {
		return &stop{why: plan.Did, status: l.status}
	}
	l.Job.Tell("recovery: %s: %s", plan.Rung, plan.Did)
	l.Job.meter(eventlog.Record{Type: eventlog.Recovery, Note: plan.Rung})
	if plan.Rung != "MIGRATE" {
		l.moves.cancel("the job continues in another way")
	}
	if plan.Fewer {
		if err := l.Job.Postrun(ctx, l.alloc.down); err != nil {
			l.Job.Tell("%v; the program restarts from an older checkpoint, if the prefix directory has one", err)
		}
	}
	return nil
}

// pendingSignal returns a stop if one of the signals that were received while no program
// ran asks to end the job.
func (l *Loop) pendingSignal() *stop {
	for len(l.Signals) > 0 {
		if s := <-l.Signals; endsJob(s) {
			return &stop{why: fmt.Sprintf("signal %v", s), status: l.status}
		}
	}
	return nil
}

// askBeforeBlame asks the nodes again if the run has died while it read a checkpoint. All were up when
// the launcher began to end the run, but one may have failed since: then the checkpoint is good.
func (l *Loop) askBeforeBlame(ctx context.Context) (lost []string, err error) {
	reading, err := prefix.Reading(l.Job.Prefix)
	l.Job.warn(err)
	if err == nil && !reading {
		return nil, nil
	}
	return l.alloc.findLost(ctx, nil)
}

// ------------------------------------------------------------------------ a run

// once runs the program once.
func (l *Loop) once(ctx context.Context, number int) (attempt, error) {
	progress, err := prefix.ReadProgress(l.Job.Prefix)
	if err != nil {
		return attempt{}, err
	}
	// An earlier run may have ended while it read a checkpoint. That says nothing about
	// this run.
	if err := prefix.EndRestart(l.Job.Prefix); err != nil {
		return attempt{}, err
	}
	where, err := l.next.forLauncher()
	if err != nil {
		return attempt{}, err
	}
	var env []string
	progress.Name, env = l.origin.choose(l.Job.Config, progress)
	command, err := l.Program.command(where, append(l.alloc.variables(), env...), progress)
	if err != nil {
		return attempt{}, err
	}
	l.logStart(ctx, number, l.alloc.used())
	r, err := l.launch(ctx, number, command, progress.Latest)
	if err != nil {
		return attempt{}, err
	}
	r.watch(ctx, l.Poll, l.Signals)
	a := r.outcome
	a.status, a.began, a.ended = r.status(), r.start.began, time.Now()
	l.requests.takeLate()
	a.haltAtOnce = a.haltAtOnce || r.isHaltedAtOnce() // the program may have read the halt file before watch did
	a.gained = l.hasGained(progress.Latest)
	l.longestStart = max(l.longestStart, r.start.took)
	a.node, a.rejects = r.messages.result()
	if number > 1 || r.initCalled.seen() { // some run has begun with the options of the user
		a.rejects = ""
	}
	a.moves = l.moves.runEnded(a.began)
	a.what = fmt.Sprintf("exit status %d after %v", a.status, a.ended.Sub(a.began).Round(100*time.Millisecond))
	l.Job.Tell("run %d: %s", number, a.what)
	return a, nil
}

// hasGained reports whether there is a checkpoint that was begun after since. Ids cannot
// be compared instead, because a run that restarts from an older checkpoint uses later
// ids again.
func (l *Loop) hasGained(since time.Time) bool {
	now, err := prefix.ReadProgress(l.Job.Prefix)
	l.Job.warn(err)
	return err == nil && now.Latest.After(since)
}

// ----------------------------------------------------------------- after a run

// after decides, when a run has ended, whether the program is started again. It enters in a
// how the run has ended.
func (l *Loop) after(ctx context.Context, a *attempt) *stop {
	a.how = died
	if a.gained {
		l.origin.gained()
	}
	if s := a.wasAsked(); s != nil {
		a.how = halted
		l.isNoFailure(ctx, *a, s.why)
		return s
	}
	if from := l.requests.takeRestart(); from != "" {
		a.how, l.origin.from = restarted, from
		l.isNoFailure(ctx, *a, "the program has asked for a restart")
		var err error
		if a.lost, err = l.alloc.findLost(ctx, a.check); err != nil { // it may have asked because of a node
			return &stop{why: err.Error(), status: max(a.status, 1)}
		}
		return l.countFruitless(*a)
	}
	if a.moves {
		if finalized, err := halt.WasFinalized(l.Job.Prefix); err == nil && !finalized {
			a.how = migrated
			l.migrations++
			l.isNoFailure(ctx, *a, "ranks move to other nodes")
			down, err := l.moves.carry(ctx)
			if err != nil {
				return &stop{why: err.Error(), status: max(a.status, 1)} // the program may have ended with 0 by SIGTERM
			}
			a.lost = l.alloc.lose(ctx, down)
			return nil
		}
	}
	if s := l.hasFinished(*a); s != nil {
		if a.how = finished; a.status == 0 && !s.done {
			a.how = halted
		}
		return s
	}
	if a.rejects != "" {
		return &stop{why: fmt.Sprintf("%s does not understand its options, and a further run would end in the same way: %s", l.Program.Launcher.Name(), a.rejects), status: a.status}
	}
	var err error
	if a.lost, err = l.alloc.findLost(ctx, a.check); err == nil && a.check != nil && len(a.lost) == 0 {
		a.lost, err = l.askBeforeBlame(ctx)
	}
	if err != nil {
		return &stop{why: err.Error(), status: a.status}
	}
	l.alloc.suspectNode(a.node)
	if s := l.blameProgram(ctx, *a); s != nil {
		a.how = halted
		return s
	}
	return l.countFruitless(*a)
}

// isNoFailure records that the last run has ended because somebody has asked for it, also in
// the log: reports must not count it among the failures.
func (l *Loop) isNoFailure(ctx context.Context, a attempt, why string) {
	l.Job.addToLog(ctx, eventlog.Record{Type: eventlog.Halt, Note: why, Time: a.ended})
	l.Job.warn(failures.Asked(l.Job.Prefix, l.alloc.id, time.Now()))
}

// wasAsked returns a stop if scr_halt --immediate or a signal has asked to end the job.
func (a attempt) wasAsked() *stop {
	switch {
	case a.haltAtOnce:
		return &stop{why: "stopped by scr_halt --immediate", status: a.status}
	case a.signal != nil:
		return &stop{why: fmt.Sprintf("stopped by signal %v", a.signal), status: a.status}
	}
	return nil
}

// hasFinished returns a stop if the program has ended with status 0, or has called
// SCR_Finalize.
func (l *Loop) hasFinished(a attempt) *stop {
	if a.status == 0 { // the program may have ended because it was told to halt
		why, err := l.Job.haltReason(time.Now())
		return &stop{why: "the program has ended by itself", done: err == nil && why == ""}
	}
	finalized, err := halt.WasFinalized(l.Job.Prefix)
	l.Job.warn(err)
	if finalized {
		return &stop{why: "the program has called SCR_Finalize", status: a.status}
	}
	return nil
}

// terminated is the exit status of a program that was ended by SIGTERM.
const terminated = 128 + int(unix.SIGTERM)

// lateSignal is the time before the end of the allocation in which a SIGTERM to the
// program, which we have not sent, is assumed to come from the resource manager. Slurm's
// --signal=TERM@60, without B:, signals only the program, and up to a minute early.
const lateSignal = 6 * time.Minute

// blameProgram handles a run that has failed although all nodes are up. It returns a stop
// if the resource manager has ended the run. If the program was reading a checkpoint, this
// checkpoint is assumed to be the reason, and no run restarts from it again.
func (l *Loop) blameProgram(ctx context.Context, a attempt) *stop {
	if len(a.lost) > 0 || a.hung {
		return nil
	}
	if left := time.Until(l.alloc.end); a.status == terminated && left < lateSignal && !l.alloc.end.IsZero() {
		why := fmt.Sprintf("the program was ended by SIGTERM, %v before the end of the allocation", left.Round(time.Second))
		l.isNoFailure(ctx, a, why)
		return &stop{why: why, status: a.status}
	}
	name, err := prefix.Condemn(l.Job.Prefix, time.Now())
	l.Job.warn(err)
	if name != "" {
		l.Job.Tell("the program died while it read checkpoint %s, with all nodes up; the next run restarts from an older one", name)
		l.origin.condemned(name, l.Job.Config.Current)
	}
	return nil
}

// countFruitless returns a stop if the last maxFruitless runs have failed without
// completing a checkpoint.
func (l *Loop) countFruitless(a attempt) *stop {
	if a.gained {
		l.fruitless = nil
		return nil
	}
	l.fruitless = append(l.fruitless, a)
	if len(l.fruitless) < maxFruitless {
		return nil
	}
	var runs []string
	lost := 0
	for _, a := range l.fruitless {
		runs = append(runs, fmt.Sprintf("run %d: %s", a.number, a.what))
		if len(a.lost) > 0 {
			lost++
		}
	}
	advice := "no node was lost, so look for the reason in the output of the program"
	if lost > 0 {
		advice = fmt.Sprintf("%d of them lost a node before their first checkpoint; checkpoint more often, or have the nodes checked", lost)
	}
	return &stop{why: fmt.Sprintf("%d runs in a row have failed without completing a checkpoint (%s): %s", len(runs), strings.Join(runs, ", "), advice), status: a.status}
}
