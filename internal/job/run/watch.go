package run

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/job/run/migration"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/snapshot"
)

// running is a run that has not ended yet.
type running struct {
	*process
	job        *Job
	alloc      *allocation
	moves      *migrations
	requests   *requests
	launcher   batch.Launcher
	grace      time.Duration // time it has to end after SIGTERM
	messages   *messages     // of the launcher
	earlier    []string      // job steps that existed before it
	start      starter
	initCalled fileChange // of nodes.scr, which the library writes in SCR_Init
	dog        *watchdog  // nil: none
	continued  time.Time  // when somebody last asked to continue it
	outcome    attempt    // as far as it is known
}

// hasDied reports, once, that rank 0 of a run has ended without SCR_Finalize: it takes the lock of
// the job before initCalled sees anything. A launcher may take a second or more after that to end the
// other ranks, and then itself, and not all launchers say before that that they do (messages.ending). watch calls hasDied every lockPoll.
func (r *running) hasDied() bool {
	if r.outcome.check != nil || !r.initCalled.seen() || request.Alive(r.job.Prefix) {
		return false
	}
	finalized, err := halt.WasFinalized(r.job.Prefix)
	return err == nil && !finalized
}

// requestPoll is how often a run looks whether somebody asks for a migration: by one stat, and no more. The
// kernel would report only what processes of its own machine change (inotify), and scr_migrate
// and the program often run on another one: so the file has to be looked at anyway.
const requestPoll = 100 * time.Millisecond

// lockPoll is how often a run looks whether rank 0 has died: on a shared file system each look at the
// lock is a message to the server. The nodes answer within a second, while the launcher still ends.
const lockPoll = 300 * time.Millisecond

// watchdog returns the watchdog of a run, nil if SCR_WATCHDOG is off.
func (j *Job) watchdog(latest, began time.Time) *watchdog {
	if !j.Config.Watchdog {
		return nil
	}
	return newWatchdog(j.Config.WatchdogTimeout, j.Config.WatchdogTimeoutPFS, latest, began)
}

// launch starts a run. latest is when the most recent checkpoint of earlier runs was
// begun.
func (l *Loop) launch(ctx context.Context, number int, command batch.Launch, latest time.Time) (*running, error) {
	p := &l.Program
	r := &running{job: l.Job, alloc: l.alloc, moves: l.moves, requests: l.requests, launcher: p.Launcher, grace: l.Grace, outcome: attempt{number: number}}
	var err error
	if m, ok := l.Job.Manager.(stepper); ok {
		r.earlier, err = m.Steps(ctx)
		l.Job.warn(err)
	}
	if r.initCalled, err = newFileChange(l.Job.nodesFile()); err != nil {
		return nil, err
	}
	l.Job.Tell("run %d: %s", number, strings.Join(command.Argv, " "))
	r.start.began = time.Now()
	r.start.limit = startLimit(l.Job.Config.LaunchTimeout, l.Job.Config.Watchdog, l.longestStart)
	r.dog = l.Job.watchdog(latest, r.start.began)
	l.Job.warn(snapshot.RecordLaunch(l.Job.Prefix, p.Args, append(slices.Clone(p.Argv), p.First...)))
	if r.messages, err = newMessages(p.Launcher, p.Stderr); err != nil {
		return nil, err
	}
	defer r.messages.w.Close()
	r.process, err = start(command, p.In, p.Stdout, r.messages.w)
	return r, err
}

// watch waits until a run has ended. It passes signals on to the run, and ends the run if
// it hangs, if scr_halt --immediate asks for it, if it does not end after a signal,
// or if it has written the checkpoint for a migration. poll is the interval at which it reads
// the prefix directory.
func (r *running) watch(ctx context.Context, poll time.Duration, signals <-chan os.Signal) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	often := time.NewTicker(min(poll, requestPoll))
	defer often.Stop()
	locks := time.NewTicker(min(poll, lockPoll))
	defer locks.Stop()
	asked := fileChange{path: migration.Path(r.job.Prefix)} // the first look reads what is there
	var deadline <-chan time.Time
	for over := false; !over; {
		var soon <-chan time.Time
		if r.moves.underWay() {
			soon = time.After(quickly)
		}
		select {
		case <-soon:
			over = r.migrates(ctx)
		case <-often.C:
			if !r.moves.underWay() && asked.seen() && r.canMigrate() {
				asked, _ = newFileChange(asked.path) // if it cannot be read, tick looks
				over = r.requests.take(ctx)
			}
		case <-r.done:
			return
		case s := <-signals:
			r.job.Tell("signal %v is passed on", s)
			r.signal(s)
			if endsJob(s) {
				r.outcome.signal = s
				deadline = time.After(r.untilKilled(ctx))
			}
		case <-deadline:
			r.job.Tell("the run has not ended; it is killed, because copying the checkpoints needs the remaining time")
			over = true
		case <-r.messages.ending:
			if !r.moves.underWay() && r.outcome.check == nil && r.initCalled.seen() {
				r.outcome.check = r.alloc.check(ctx)
			}
		case <-locks.C:
			if !r.moves.underWay() && r.hasDied() {
				r.outcome.check = r.alloc.check(ctx)
			}
		case <-tick.C:
			over = !r.mayGoOn(ctx, time.Now()) || r.migrates(ctx)
		}
	}
	r.end(ctx)
}

// migrates looks for a request to migrate, or after the migration that is under way. It
// returns true if the run is to be ended for it.
func (r *running) migrates(ctx context.Context) bool {
	if r.moves.underWay() {
		return r.moves.advance(ctx, r.start.began)
	}
	return r.canMigrate() && r.requests.look(ctx)
}

// canMigrate reports whether a run has come so far that its ranks can be moved: before that they
// have no nodes, and the job forgets what it is asked for.
func (r *running) canMigrate() bool { return r.initCalled.seen() && request.Alive(r.job.Prefix) }

// endsJob reports whether a signal asks to end the job. Other signals are only passed on
// to the program.
func endsJob(s os.Signal) bool { return s == unix.SIGTERM || s == unix.SIGINT || s == unix.SIGHUP }

// untilKilled returns how long a program may take to end after a signal: half of the
// remaining time of the allocation, within bounds.
func (r *running) untilKilled(ctx context.Context) time.Duration {
	const least, most = 5 * time.Second, 2 * time.Minute
	end, err := r.job.Manager.End(ctx)
	if err != nil || end.IsZero() {
		return 30 * time.Second
	}
	return min(max(time.Until(end)/2, least), most)
}

// isHaltedAtOnce reports whether scr_halt --immediate was called since the run began.
func (r *running) isHaltedAtOnce() bool {
	asked, err := halt.AtOnce(r.job.Prefix, r.start.began)
	return err == nil && asked
}

// mayGoOn returns false if a run must be ended, because of scr_halt --immediate or because
// it hangs.
func (r *running) mayGoOn(ctx context.Context, now time.Time) bool {
	if r.isHaltedAtOnce() {
		r.job.Tell("scr_halt --immediate: the run is ended")
		r.outcome.haltAtOnce = true
		return false
	}
	stopped := r.continueIfAsked(ctx)
	if stopped && r.dog != nil {
		r.dog.pause(now)
	}
	hangs := r.hasNotStarted(now)
	if hangs == "" && r.dog != nil {
		hangs = r.makesNoProgress(now)
	}
	if hangs == "" {
		return true
	}
	r.outcome.hung = true
	r.job.Tell("watchdog: %s; the run seems to hang and is ended", hangs)
	r.job.keepStacks(ctx, r.outcome.number, r.alloc.up())
	return false
}

// hasNotStarted returns a text that says for how long the program has not called SCR_Init,
// if that is too long, else "".
func (r *running) hasNotStarted(now time.Time) string {
	if r.start.started {
		return ""
	}
	took, notice, tooLong := r.start.update(r.initCalled.seen(), now)
	took = took.Round(100 * time.Millisecond)
	switch {
	case tooLong:
		return fmt.Sprintf("no SCR_Init within %v", took)
	case notice:
		r.job.Tell("run %d has not called SCR_Init in %v: if %s prints nothing, it may be waiting for nodes; SCR_LAUNCH_TIMEOUT ends such runs",
			r.outcome.number, took, r.launcher.Name())
	case r.start.started:
		r.start.took = took
	}
	return ""
}

// makesNoProgress returns a text that says for how long the program has completed no
// checkpoint, if that is too long, else "".
func (r *running) makesNoProgress(now time.Time) string {
	progress, err := prefix.ReadProgress(r.job.Prefix)
	if err != nil {
		r.job.Detail("%v", err)
		return ""
	}
	quiet := r.dog.update(progress.Latest, progress.Flushing, now)
	if quiet == 0 {
		return ""
	}
	return fmt.Sprintf("no checkpoint for %v", quiet.Round(100*time.Millisecond))
}
