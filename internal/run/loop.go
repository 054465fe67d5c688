package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/batch"
	"github.com/goscr/goscr/internal/halt"
	"github.com/goscr/goscr/internal/hostlist"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/report"
)

// Loop starts a program again and again until it is done or a reason to stop comes up.
type Loop struct {
	*Job
	Launcher batch.Launcher
	Argv     []string // the launcher with its arguments
	First    []string // program to start where there is no checkpoint, after Argv; nil if Argv has it
	Again    []string // ... and where there is one; nil for First

	In      io.Reader // of the program
	Stdout  io.Writer
	Stderr  io.Writer
	Signals <-chan os.Signal
	Poll    time.Duration // how often the prefix directory is read; 0: a second
	Grace   time.Duration // what a run may take to end when told to; 0: 10 s

	alloc allocation
	past  history
}

// allocation is what the job may use.
type allocation struct {
	id    string
	nodes []string
	slots map[string]int    // of the host file
	end   time.Time         // zero: not known
	down  map[string]string // nodes that are not used any more, and why
}

// history is what has happened since the loop began.
type history struct {
	status       int           // of the last run; 1 before the first
	fruitless    []attempt     // the last runs, if all have failed without a new checkpoint
	longestStart time.Duration // that a run has taken to SCR_Init
	signal       os.Signal     // that asks for the end of the job
	haltAtOnce   bool          // scr_halt --immediate asks for it
}

// attempt is a run that has ended.
type attempt struct {
	number int
	status int
	what   string   // how it ended, in words
	gained bool     // it has completed a checkpoint
	hung   bool     // the watchdog has ended it
	lost   []string // nodes that went down with it
}

// maxFruitless runs in a row without a new checkpoint end the job.
const maxFruitless = 3

// stop says why the program is not started again. A nil *stop is none.
type stop struct {
	why    string
	status int
	done   bool // there is nothing left to compute
}

// Run prepares the prefix directory, runs the program, and afterwards copies datasets to
// the prefix directory that only the nodes have. It returns the exit status of the last
// run, or 1 if there was none.
func (l *Loop) Run(ctx context.Context) (int, error) {
	if l.Poll == 0 {
		l.Poll = time.Second
	}
	if l.Grace == 0 {
		l.Grace = 10 * time.Second
	}
	if !l.Config.Enable {
		return l.runDisabled()
	}
	if err := l.prepare(ctx); err != nil {
		return 1, err
	}
	stopMovers, err := l.startMovers(ctx, hostlist.Minus(l.alloc.nodes, keys(l.alloc.down)))
	if err != nil {
		return 1, err
	}
	last, err := l.runs(ctx)
	stopMovers()
	if err != nil {
		return 1, err
	}
	return l.finish(ctx, last)
}

// runDisabled is Run for SCR_ENABLE=0: one run, of which only signals are passed on.
func (l *Loop) runDisabled() (int, error) {
	p, err := start(batch.Launch{Argv: append(slices.Clone(l.Argv), l.First...)}, l.In, l.Stdout, l.Stderr)
	if err != nil {
		return 1, err
	}
	for {
		select {
		case s := <-l.Signals:
			p.signal(s)
		case <-p.done:
			return p.status(), nil
		}
	}
}

// prepare finds out all that does not change from run to run.
func (l *Loop) prepare(ctx context.Context) error {
	var err error
	if l.alloc.nodes, err = l.Nodes(ctx); err != nil {
		return err
	}
	if l.alloc.id, err = l.ID(ctx); err != nil {
		return err
	}
	if file := l.Config.HostFile; file != "" {
		if _, l.alloc.slots, err = batch.Hosts(file); err != nil {
			return err
		}
	}
	l.alloc.end = l.End(ctx)
	ends := "without a known end"
	if !l.alloc.end.IsZero() {
		ends = "until " + l.alloc.end.Format(time.DateTime)
	}
	l.Tell("job %s (%s), %s: %s, %s; prefix directory %s", l.alloc.id, l.Manager.Name(), report.Count(len(l.alloc.nodes), "node"),
		hostlist.Compress(l.alloc.nodes), ends, l.Prefix)
	return l.Prerun()
}

// runs runs the program until there is a reason to stop.
func (l *Loop) runs(ctx context.Context) (*stop, error) {
	l.past.status = 1
	for number := 1; ; number++ {
		if s := l.before(ctx, number); s != nil {
			return s, nil
		}
		a, err := l.once(ctx, number)
		if err != nil {
			return nil, err
		}
		l.past.status = a.status
		if s := l.after(ctx, a); s != nil {
			return s, nil
		}
	}
}

// finish copies datasets to the prefix directory, and returns the exit status of the job.
func (l *Loop) finish(ctx context.Context, last *stop) (int, error) {
	l.Tell("the job is over: %s", last.why)
	if last.done && l.Config.Flush == 0 {
		l.Detail("checkpoints stay where they are: the program has done its work, and SCR_FLUSH=0")
		return last.status, l.postrunOutput(ctx, l.alloc.nodes, l.alloc.down)
	}
	if err := l.Postrun(ctx, l.alloc.down); err != nil {
		l.Tell("%v", err)
		return max(last.status, 1), nil
	}
	return last.status, nil
}

// ---------------------------------------------------------------- before a run

// before decides whether to start another run.
func (l *Loop) before(ctx context.Context, number int) *stop {
	if most := l.Config.Runs; most >= 0 && number > most {
		return &stop{why: fmt.Sprintf("SCR_RUNS=%d runs are all there may be", most), status: l.past.status}
	}
	if _, err := l.findLost(ctx); err != nil {
		return &stop{why: err.Error(), status: 1}
	}
	if s := l.pendingSignal(); s != nil {
		return s
	}
	why, err := l.ShouldStop(l.alloc.nodes, l.alloc.down, l.alloc.end, time.Now())
	if err != nil {
		return &stop{why: err.Error(), status: 1}
	}
	if why != "" {
		return &stop{why: why, status: l.past.status}
	}
	return nil
}

// pendingSignal handles the signals that came while no program ran.
func (l *Loop) pendingSignal() *stop {
	for len(l.Signals) > 0 {
		if s := <-l.Signals; endsJob(s) {
			return &stop{why: fmt.Sprintf("signal %v", s), status: l.past.status}
		}
	}
	return nil
}

// findLost finds out which nodes can still be used, and returns those that were used
// until now and cannot be any more.
func (l *Loop) findLost(ctx context.Context) (lost []string, err error) {
	down, err := l.Down(ctx, l.alloc.nodes, l.alloc.down, false)
	if err != nil {
		return nil, err
	}
	for node := range l.alloc.down {
		delete(down, node)
	}
	for _, line := range Reasons(down) {
		l.Tell("node %s", line)
	}
	l.LogDown(ctx, down, 0)
	if l.alloc.down == nil {
		l.alloc.down = map[string]string{}
	}
	for node, why := range down {
		l.alloc.down[node] = why
		lost = append(lost, node)
	}
	return lost, nil
}

// ------------------------------------------------------------------------ a run

// once runs the program.
func (l *Loop) once(ctx context.Context, number int) (attempt, error) {
	progress, err := prefix.ReadProgress(l.Prefix)
	if err != nil {
		return attempt{}, err
	}
	// What an earlier run has left there does not count.
	if err := prefix.EndRestart(l.Prefix); err != nil {
		return attempt{}, err
	}
	command, err := l.command(progress)
	if err != nil {
		return attempt{}, err
	}
	r, err := l.launch(ctx, number, command, progress.Latest)
	if err != nil {
		return attempt{}, err
	}
	l.watch(ctx, r)
	l.past.haltAtOnce = l.past.haltAtOnce || l.isHaltedAtOnce(r) // the program may have seen it first
	a := attempt{number: number, status: r.status(), hung: r.hung, gained: l.hasGained(progress.Latest)}
	a.what = fmt.Sprintf("exit status %d after %v", a.status, time.Since(r.start.began).Round(100*time.Millisecond))
	l.Tell("run %d: %s", number, a.what)
	return a, nil
}

// hasGained reports whether there is a checkpoint that was begun after a time. Its number
// would not do: a run that has gone back to an older checkpoint uses numbers again.
func (l *Loop) hasGained(since time.Time) bool {
	now, err := prefix.ReadProgress(l.Prefix)
	if err != nil {
		l.Tell("%v", err)
	}
	return err == nil && now.Latest.After(since)
}

// ----------------------------------------------------------------- after a run

// after decides what the end of a run means.
func (l *Loop) after(ctx context.Context, a attempt) *stop {
	if s := l.wasAsked(a); s != nil {
		return s
	}
	if s := l.hasFinished(a); s != nil {
		return s
	}
	var err error
	if a.lost, err = l.findLost(ctx); err != nil {
		return &stop{why: err.Error(), status: a.status}
	}
	if s := l.blameProgram(a); s != nil {
		return s
	}
	return l.countFruitless(a)
}

// wasAsked stops a job whose end somebody has asked for.
func (l *Loop) wasAsked(a attempt) *stop {
	switch {
	case l.past.haltAtOnce:
		return &stop{why: "stopped by scr_halt --immediate", status: a.status}
	case l.past.signal != nil:
		return &stop{why: fmt.Sprintf("stopped by signal %v", l.past.signal), status: a.status}
	}
	return nil
}

// hasFinished stops a job whose program is at its end.
func (l *Loop) hasFinished(a attempt) *stop {
	if a.status == 0 { // perhaps because somebody has halted it
		why, err := l.haltReason(time.Now())
		return &stop{why: "the program has ended by itself", done: err == nil && why == ""}
	}
	finalized, err := halt.WasFinalized(l.Prefix)
	if err != nil {
		l.Tell("%v", err)
	}
	if finalized {
		return &stop{why: "the program has called SCR_Finalize", status: a.status}
	}
	return nil
}

// terminated is the status of a program that SIGTERM has ended.
const terminated = 128 + int(unix.SIGTERM)

// lateSignal is how long before the end of the allocation a SIGTERM to the program that
// is not ours is taken for the resource manager's: Slurm's --signal=TERM@60, without B:,
// reaches the program alone, and up to a minute early.
const lateSignal = 6 * time.Minute

// blameProgram handles a run that has failed with all nodes up: the resource manager may
// have ended it, or the checkpoint that it was reading is the reason.
func (l *Loop) blameProgram(a attempt) *stop {
	if len(a.lost) > 0 || a.hung {
		return nil
	}
	if left := time.Until(l.alloc.end); a.status == terminated && left < lateSignal && !l.alloc.end.IsZero() {
		return &stop{why: fmt.Sprintf("the program was ended by SIGTERM, %v before the end of the allocation", left.Round(time.Second)), status: a.status}
	}
	name, err := prefix.Condemn(l.Prefix, time.Now())
	if err != nil {
		l.Tell("%v", err)
	}
	if name != "" {
		l.Tell("the program died while it read checkpoint %s, with all nodes up; the next run takes an older one", name)
	}
	return nil
}

// countFruitless stops a job whose last runs have all failed without a new checkpoint.
func (l *Loop) countFruitless(a attempt) *stop {
	if a.gained {
		l.past.fruitless = nil
		return nil
	}
	l.past.fruitless = append(l.past.fruitless, a)
	if len(l.past.fruitless) < maxFruitless {
		return nil
	}
	var runs []string
	lost := 0
	for _, a := range l.past.fruitless {
		runs = append(runs, fmt.Sprintf("run %d: %s", a.number, a.what))
		if len(a.lost) > 0 {
			lost++
		}
	}
	advice := "no node was lost, so look for the reason in the program's own output"
	if lost > 0 {
		advice = fmt.Sprintf("%d of them lost a node before their first checkpoint; checkpoint more often, or have the nodes looked at", lost)
	}
	return &stop{why: fmt.Sprintf("%d runs in a row have failed without completing a checkpoint (%s): %s", len(runs), strings.Join(runs, ", "), advice), status: a.status}
}
