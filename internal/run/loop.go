package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/batch"
	"github.com/goscr/goscr/internal/halt"
	"github.com/goscr/goscr/internal/hostlist"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/report"
)

// CheckpointName stands for the name of the checkpoint in the command of a
// restart.
const CheckpointName = "SCR_CKPT_NAME"

// Loop starts a program as often as it takes.
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
	Poll    time.Duration // how often the prefix directory is looked at; 0: a second
	Grace   time.Duration // what a run may take to end when told to; 0: 10 s

	id            string
	nodes         []string          // of the allocation
	slots         map[string]int    // of the host file
	end           time.Time         // of the allocation
	down          map[string]string // nodes that are not used any more, and why
	status        int               // of the last run; 1 before the first
	fruitless     []attempt         // runs in a row that have failed without a new checkpoint
	lastSignal    os.Signal         // that asked us to stop
	askedAtOnce   bool              // by scr_halt --immediate
	watchdogAwoke bool              // in the last run
	longestStart  time.Duration     // that a run has taken to SCR_Init
}

// attempt is a run that has ended.
type attempt struct {
	number int
	status int
	what   string   // how it ended, in words
	gained bool     // it has completed a checkpoint
	lost   []string // nodes that went down with it
}

// maxFruitless runs without a new checkpoint in a row are enough.
const maxFruitless = 3

// stop says why the program is not started again. A nil *stop is none.
type stop struct {
	why    string
	status int
	done   bool // there is nothing left to compute
}

// Run is the whole story: prerun, runs, postrun. It returns the exit status of
// the last run, or 1 if there was none.
func (l *Loop) Run(ctx context.Context) (int, error) {
	if l.Poll == 0 {
		l.Poll = time.Second
	}
	if l.Grace == 0 {
		l.Grace = 10 * time.Second
	}
	if !l.Config.Enable {
		return l.justRun()
	}
	if err := l.prepare(ctx); err != nil {
		return 1, err
	}
	stopMovers, err := l.startMovers(ctx, hostlist.Minus(l.nodes, keys(l.down)))
	if err != nil {
		return 1, err
	}
	l.status = 1
	var last *stop
	for number := 1; last == nil; number++ {
		if last = l.before(ctx, number); last != nil {
			break
		}
		a, err := l.once(ctx, number)
		if err != nil {
			stopMovers()
			return 1, err
		}
		l.status = a.status
		last = l.after(ctx, a)
	}
	stopMovers()
	l.Tell("the job is over: %s", last.why)
	if last.done && l.Config.Flush == 0 {
		l.Detail("checkpoints stay where they are: the program has done its work, and SCR_FLUSH=0")
		err := l.bringOutput(ctx)
		return last.status, err
	}
	if err := l.Postrun(ctx, l.down); err != nil {
		l.Tell("%v", err)
		last.status = max(last.status, 1)
	}
	return last.status, nil
}

// justRun is for SCR_ENABLE=0.
func (l *Loop) justRun() (int, error) {
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
	if l.nodes, err = l.Nodes(ctx); err != nil {
		return err
	}
	if l.id, err = l.ID(ctx); err != nil {
		return err
	}
	if file := l.Config.HostFile; file != "" {
		if _, l.slots, err = batch.Hosts(file); err != nil {
			return err
		}
	}
	l.end = l.End(ctx)
	ends := "without a known end"
	if !l.end.IsZero() {
		ends = "until " + l.end.Format(time.DateTime)
	}
	l.Tell("job %s (%s), %s: %s, %s; prefix directory %s", l.id, l.Manager.Name(), report.Count(len(l.nodes), "node"), hostlist.Compress(l.nodes), ends, l.Prefix)
	return l.Prerun()
}

// Prerun readies the prefix directory for the runs of an allocation. How many
// nodes a run of another allocation has used is of no interest, nor that it has
// ended by itself.
func (j *Job) Prerun() error {
	if err := os.MkdirAll(filepath.Join(j.Prefix, prefix.Metadata), 0o777); err != nil {
		return fmt.Errorf("prefix directory: %w (SCR_PREFIX says where it is)", err)
	}
	if err := halt.Begin(j.Prefix, 0); err != nil {
		return err
	}
	if err := os.Remove(j.nodesFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (j *Job) nodesFile() string { return filepath.Join(j.Prefix, prefix.Metadata, "nodes.scr") }

// NodesUsed is how many nodes the last run has used; 0 if none has come far
// enough to say so.
func (j *Job) NodesUsed() (int, error) {
	h, err := hash.ReadWithLock(j.nodesFile())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	n, _ := h.Int("NODES")
	return int(n), err
}

// Needed is how many nodes the program needs of those of the allocation.
func (j *Job) Needed(nodes []string) (n int, why string, err error) {
	if n := j.Config.MinNodes; n > 0 {
		return n, "SCR_MIN_NODES", nil
	}
	n, err = j.NodesUsed()
	if err != nil || n > 0 {
		return n, "as many as the last run used", err
	}
	excluded, err := j.Excluded()
	return len(hostlist.Minus(nodes, excluded)), "all, as SCR_MIN_NODES does not say otherwise", err
}

// haltReason is why the job should stop, "" if it should not, as far as people
// have said so.
func (j *Job) haltReason(now time.Time) (string, error) {
	return halt.Reason(j.Prefix, func() time.Time { return time.Time{} }, now)
}

// ShouldStop says why no run should be started on what is left of nodes, "" if
// one may be.
func (j *Job) ShouldStop(nodes []string, down map[string]string, end, now time.Time) (string, error) {
	if reason, err := j.haltReason(now); err != nil {
		return "", err
	} else if reason != "" {
		return reason + " (scr_halt --remove takes back what was asked for)", nil
	}
	if margin := j.Config.HaltSeconds; !end.IsZero() && !now.Before(end.Add(-margin)) {
		return fmt.Sprintf("the allocation ends at %s, in %v", end.Format(time.DateTime), end.Sub(now).Round(time.Second)), nil
	}
	needed, why, err := j.Needed(nodes)
	if err != nil {
		return "", err
	}
	if left := len(hostlist.Minus(nodes, keys(down))); left < max(needed, 1) {
		are := map[bool]string{true: "is", false: "are"}
		return fmt.Sprintf("%s %s left, and %d %s needed (%s)", report.Count(left, "node"), are[left == 1], needed, are[needed == 1], why), nil
	}
	return "", nil
}

// lookAround finds out which nodes can still be used, and returns those that
// could be until now.
func (l *Loop) lookAround(ctx context.Context) (lost []string, err error) {
	down, err := l.Down(ctx, l.nodes, l.down, false)
	if err != nil {
		return nil, err
	}
	for node := range l.down {
		delete(down, node)
	}
	for _, line := range Reasons(down) {
		l.Tell("node %s", line)
	}
	lost = keys(down)
	l.LogDown(ctx, down, 0)
	if l.down == nil {
		l.down = map[string]string{}
	}
	maps.Copy(l.down, down)
	return lost, nil
}

// before decides whether to start another run.
func (l *Loop) before(ctx context.Context, number int) *stop {
	if most := l.Config.Runs; most >= 0 && number > most {
		return &stop{why: fmt.Sprintf("SCR_RUNS=%d runs are all there may be", most), status: l.status}
	}
	if _, err := l.lookAround(ctx); err != nil {
		return &stop{why: err.Error(), status: 1}
	}
	for len(l.Signals) > 0 { // that came while no program ran
		if s := <-l.Signals; endsJob(s) {
			return &stop{why: fmt.Sprintf("signal %v", s), status: l.status}
		}
	}
	why, err := l.ShouldStop(l.nodes, l.down, l.end, time.Now())
	if err != nil {
		return &stop{why: err.Error(), status: 1}
	}
	if why != "" {
		return &stop{why: why, status: l.status}
	}
	return nil
}

// command is the command line of a run.
func (l *Loop) command(newest prefix.Progress) (batch.Launch, error) {
	program := l.First
	if newest.Newest > 0 && l.Again != nil {
		program = slices.Clone(l.Again)
		for i, word := range program {
			program[i] = strings.ReplaceAll(word, CheckpointName, newest.Name)
		}
	}
	needed, _, err := l.Needed(l.nodes)
	if err != nil {
		return batch.Launch{}, err
	}
	env := []string{"SCR_JOB_ID=" + l.id, "SCR_PREFIX=" + l.Prefix}
	if !l.end.IsZero() {
		env = append(env, fmt.Sprintf("SCR_END_TIME=%d", l.end.Unix()))
	}
	up := hostlist.Minus(l.nodes, keys(l.down))
	launch, err := l.Launcher.Command(append(slices.Clone(l.Argv), program...), batch.Placement{
		Nodes: up, Down: hostlist.Intersection(l.nodes, keys(l.down)), Needed: min(needed, len(up)), Slots: l.slots,
		Dir:    filepath.Join(l.Prefix, prefix.Metadata),
		Listed: l.Config.HostFile != "" || l.Config.Nodelist != "",
		Vars:   scrVariables(env),
	})
	launch.Env = append(launch.Env, env...)
	return launch, err
}

// scrVariables are the names of variables that the program wants to have.
func scrVariables(more []string) []string {
	var names []string
	for _, v := range append(os.Environ(), more...) {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "SCR_") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// once runs the program.
func (l *Loop) once(ctx context.Context, number int) (attempt, error) {
	progress, err := prefix.ReadProgress(l.Prefix)
	if err != nil {
		return attempt{}, err
	}
	// What a run before left there is not of this one.
	if err := prefix.EndRestart(l.Prefix); err != nil {
		return attempt{}, err
	}
	launch, err := l.command(progress)
	if err != nil {
		return attempt{}, err
	}
	r, err := l.launch(ctx, number, launch, progress.Latest)
	if err != nil {
		return attempt{}, err
	}
	l.watch(ctx, r)
	l.askedAtOnce = l.askedAtOnce || l.isAskedAtOnce(r) // the program may have seen it first
	a := attempt{number: number, status: r.status()}
	// Not by its number: after a loss the next may have that of an older one.
	if now, err := prefix.ReadProgress(l.Prefix); err != nil {
		l.Tell("%v", err)
	} else {
		a.gained = now.Latest.After(progress.Latest)
	}
	a.what = fmt.Sprintf("exit status %d after %v", a.status, time.Since(r.start.began).Round(100*time.Millisecond))
	l.Tell("run %d: %s", number, a.what)
	return a, nil
}

// watchdog returns that of a run, nil if the user wants none.
func (j *Job) watchdog(latest, began time.Time) *watchdog {
	if !j.Config.Watchdog {
		return nil
	}
	return newWatchdog(j.Config.WatchdogTimeout, j.Config.WatchdogTimeoutPFS, latest, began)
}

// running is a run that has not ended yet.
type running struct {
	*process
	number  int
	earlier []string // job steps that were there before
	start   starter
	inited  sign // that it has come to SCR_Init
	dog     *watchdog
}

// launch starts a run. latest is when the newest checkpoint of those before it
// was begun.
func (l *Loop) launch(ctx context.Context, number int, launch batch.Launch, latest time.Time) (*running, error) {
	r := &running{number: number}
	var err error
	if m, ok := l.Manager.(stepper); ok {
		if r.earlier, err = m.Steps(ctx); err != nil {
			l.Tell("%v", err)
		}
	}
	if r.inited, err = newSign(l.nodesFile()); err != nil {
		return nil, err
	}
	l.Tell("run %d: %s", number, strings.Join(launch.Argv, " "))
	r.start.began = time.Now()
	r.start.limit = startLimit(l.Config.LaunchTimeout, l.Config.Watchdog, l.longestStart)
	r.dog = l.watchdog(latest, r.start.began)
	r.process, err = start(launch, l.In, l.Stdout, l.Stderr)
	return r, err
}

// watch stays with a run until it has ended.
func (l *Loop) watch(ctx context.Context, r *running) {
	l.watchdogAwoke = false
	tick := time.NewTicker(l.Poll)
	defer tick.Stop()
	var deadline <-chan time.Time
	for {
		select {
		case <-r.done:
			return
		case s := <-l.Signals:
			l.Tell("signal %v is passed on", s)
			r.signal(s)
			if endsJob(s) {
				l.lastSignal = s
				deadline = time.After(l.untilKilled(ctx))
			}
		case <-deadline:
			l.Tell("the run has not ended; it is killed, as time is needed to bring checkpoints home")
			l.Job.end(ctx, r.process, r.earlier, l.Grace)
			return
		case <-tick.C:
			if l.mayGoOn(ctx, r, time.Now()) {
				continue
			}
			l.Job.end(ctx, r.process, r.earlier, l.Grace)
			return
		}
	}
}

func (l *Loop) isAskedAtOnce(r *running) bool {
	asked, err := halt.AtOnce(l.Prefix, r.start.began)
	return err == nil && asked
}

// mayGoOn is false for a run that somebody wants to end at once, or that hangs.
func (l *Loop) mayGoOn(ctx context.Context, r *running, now time.Time) bool {
	if l.isAskedAtOnce(r) {
		l.Tell("scr_halt --immediate: the run is ended")
		l.askedAtOnce = true
		return false
	}
	hangs := l.hasNotStarted(r, now)
	if hangs == "" && r.dog != nil {
		hangs = l.makesNoProgress(r, now)
	}
	if hangs == "" {
		return true
	}
	l.watchdogAwoke = true
	l.Tell("watchdog: %s; the run is taken to hang and ended", hangs)
	l.keepStacks(ctx, r.number)
	return false
}

// hasNotStarted says so of a program that should have come to SCR_Init.
func (l *Loop) hasNotStarted(r *running, now time.Time) string {
	if r.start.started {
		return ""
	}
	took, notice, tooLong := r.start.look(r.inited.given(), now)
	took = took.Round(100 * time.Millisecond)
	switch {
	case tooLong:
		return fmt.Sprintf("no SCR_Init within %v", took)
	case notice:
		l.Tell("run %d has not come to SCR_Init in %v: if %s says nothing either, it may wait for nodes; SCR_LAUNCH_TIMEOUT ends such runs",
			r.number, took, l.Launcher.Name())
	case r.start.started:
		l.longestStart = max(l.longestStart, took)
	}
	return ""
}

// makesNoProgress says so of a program that should have completed a checkpoint.
func (l *Loop) makesNoProgress(r *running, now time.Time) string {
	progress, err := prefix.ReadProgress(l.Prefix)
	if err != nil {
		l.Detail("%v", err)
		return ""
	}
	quiet := r.dog.look(progress.Latest, progress.Flushing, now)
	if quiet == 0 {
		return ""
	}
	return fmt.Sprintf("no checkpoint for %v", quiet.Round(100*time.Millisecond))
}

// endsJob tells signals that ask for an end from those that are the program's
// own affair.
func endsJob(s os.Signal) bool { return s == unix.SIGTERM || s == unix.SIGINT || s == unix.SIGHUP }

// untilKilled is how long a program may take to end on a signal: half of what
// is left of the allocation, within reason.
func (l *Loop) untilKilled(ctx context.Context) time.Duration {
	const least, most = 5 * time.Second, 2 * time.Minute
	end, err := l.Manager.End(ctx)
	if err != nil || end.IsZero() {
		return 30 * time.Second
	}
	return min(max(time.Until(end)/2, least), most)
}

// after decides what the end of a run means.
func (l *Loop) after(ctx context.Context, a attempt) *stop {
	finalized, err := halt.WasFinalized(l.Prefix)
	if err != nil {
		l.Tell("%v", err)
	}
	switch {
	case l.askedAtOnce:
		return &stop{why: "stopped by scr_halt --immediate", status: a.status}
	case l.lastSignal != nil:
		return &stop{why: fmt.Sprintf("stopped by signal %v", l.lastSignal), status: a.status}
	case a.status == 0:
		// It may have done so because somebody wanted it to.
		why, err := l.haltReason(time.Now())
		return &stop{why: "the program has ended by itself", done: err == nil && why == ""}
	case finalized:
		return &stop{why: "the program has called SCR_Finalize", status: a.status}
	}
	// Which nodes were lost decides whose fault it was.
	if a.lost, err = l.lookAround(ctx); err != nil {
		return &stop{why: err.Error(), status: a.status}
	}
	if len(a.lost) == 0 && !l.watchdogAwoke {
		if left := time.Until(l.end); a.status == terminated && left < lateSignal && !l.end.IsZero() {
			return &stop{why: fmt.Sprintf("the program was ended by SIGTERM, %v before the end of the allocation", left.Round(time.Second)), status: a.status}
		}
		l.condemn()
	}
	return l.judge(a)
}

// terminated is the status of a program that SIGTERM has ended.
const terminated = 128 + int(unix.SIGTERM)

// lateSignal is how near the end of the allocation SIGTERM to a program that does
// not come from us is taken for the resource manager's: Slurm's --signal=TERM@60,
// without B:, reaches the program alone, and up to a minute early.
const lateSignal = 6 * time.Minute

// condemn takes the checkpoint that the program died of out of use.
func (l *Loop) condemn() {
	name, err := prefix.Condemn(l.Prefix, time.Now())
	if err != nil {
		l.Tell("%v", err)
	}
	if name != "" {
		l.Tell("the program died while it read checkpoint %s, with all nodes up; the next run takes an older one", name)
	}
}

// judge counts runs that were in vain.
func (l *Loop) judge(a attempt) *stop {
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
	advice := "no node was lost, so look for the reason in the program's own output"
	if lost > 0 {
		advice = fmt.Sprintf("%d of them lost a node before their first checkpoint; checkpoint more often, or have the nodes looked at", lost)
	}
	return &stop{why: fmt.Sprintf("%d runs in a row have failed without completing a checkpoint (%s): %s", len(runs), strings.Join(runs, ", "), advice), status: a.status}
}
