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
	messages   *messages // of the launcher
	number     int
	earlier    []string // job steps that existed before it
	start      starter
	initCalled fileChange // of nodes.scr, which the library writes in SCR_Init
	dog        *watchdog  // nil: none
	hung       bool       // the watchdog has ended it
	continued  time.Time  // when somebody last asked to continue it
	check      *nodeCheck // of the nodes, since the launcher ends the run or rank 0 has died; nil: neither
}

// hasDied reports, once, that rank 0 of a run has ended without SCR_Finalize: it takes the lock of
// the job before initCalled sees anything. A launcher may take a second or more after that to end the
// other ranks, and then itself, and not all launchers say before that that they do (messages.ending). watch calls hasDied every lockPoll.
func (l *Loop) hasDied(r *running) bool {
	if r.check != nil || !r.initCalled.seen() || request.Alive(l.Prefix) {
		return false
	}
	finalized, err := halt.WasFinalized(l.Prefix)
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
	r := &running{number: number}
	var err error
	if m, ok := l.Manager.(stepper); ok {
		if r.earlier, err = m.Steps(ctx); err != nil {
			l.Tell("%v", err)
		}
	}
	if r.initCalled, err = newFileChange(l.nodesFile()); err != nil {
		return nil, err
	}
	l.Tell("run %d: %s", number, strings.Join(command.Argv, " "))
	r.start.began = time.Now()
	r.start.limit = startLimit(l.Config.LaunchTimeout, l.Config.Watchdog, l.past.longestStart)
	r.dog = l.watchdog(latest, r.start.began)
	if err := snapshot.RecordLaunch(l.Prefix, l.Program.Args, append(slices.Clone(l.Program.Argv), l.Program.First...)); err != nil {
		l.Tell("%v", err)
	}
	if r.messages, err = newMessages(l.Program.Launcher, l.Program.Stderr); err != nil {
		return nil, err
	}
	defer r.messages.w.Close()
	r.process, err = start(command, l.Program.In, l.Program.Stdout, r.messages.w)
	return r, err
}

// watch waits until a run has ended. It passes signals on to the run, and ends the run if
// it hangs, if scr_halt --immediate asks for it, if it does not end after a signal,
// or if it has written the checkpoint for a migration.
func (l *Loop) watch(ctx context.Context, r *running) {
	tick := time.NewTicker(l.Poll)
	defer tick.Stop()
	often := time.NewTicker(min(l.Poll, requestPoll))
	defer often.Stop()
	locks := time.NewTicker(min(l.Poll, lockPoll))
	defer locks.Stop()
	asked := fileChange{path: migration.Path(l.Prefix)} // the first look reads what is there
	var deadline <-chan time.Time
	for {
		var soon <-chan time.Time
		if l.moves.underWay() {
			soon = time.After(quickly)
		}
		select {
		case <-soon:
			if l.migrates(ctx, r) {
				l.Job.end(ctx, r.process, r.earlier, l.Grace)
				return
			}
		case <-often.C:
			if !l.moves.underWay() && asked.seen() && l.canMigrate(r) {
				asked, _ = newFileChange(asked.path) // if it cannot be read, tick looks
				if l.requests.take(ctx) {
					l.Job.end(ctx, r.process, r.earlier, l.Grace)
					return
				}
			}
		case <-r.done:
			return
		case s := <-l.Signals:
			l.Tell("signal %v is passed on", s)
			r.signal(s)
			if endsJob(s) {
				l.past.signal = s
				deadline = time.After(l.untilKilled(ctx))
			}
		case <-deadline:
			l.Tell("the run has not ended; it is killed, because copying the checkpoints needs the remaining time")
			l.Job.end(ctx, r.process, r.earlier, l.Grace)
			return
		case <-r.messages.ending:
			if !l.moves.underWay() && r.check == nil && r.initCalled.seen() {
				r.check = l.alloc.check(ctx)
			}
		case <-locks.C:
			if !l.moves.underWay() && l.hasDied(r) {
				r.check = l.alloc.check(ctx)
			}
		case <-tick.C:
			if l.mayGoOn(ctx, r, time.Now()) && !l.migrates(ctx, r) {
				continue
			}
			l.Job.end(ctx, r.process, r.earlier, l.Grace)
			return
		}
	}
}

// migrates looks for a request to migrate, or after the migration that is under way. It
// returns true if the run is to be ended for it.
func (l *Loop) migrates(ctx context.Context, r *running) bool {
	if l.moves.underWay() {
		return l.moves.advance(ctx, r.start.began)
	}
	if !l.canMigrate(r) {
		return false
	}
	if l.requests.take(ctx) {
		return true
	}
	l.requests.foresight.foresee(ctx, time.Now())
	return false
}

// canMigrate reports whether a run has come so far that its ranks can be moved: before that they
// have no nodes, and the job forgets what it is asked for.
func (l *Loop) canMigrate(r *running) bool { return r.initCalled.seen() && request.Alive(l.Prefix) }

// endsJob reports whether a signal asks to end the job. Other signals are only passed on
// to the program.
func endsJob(s os.Signal) bool { return s == unix.SIGTERM || s == unix.SIGINT || s == unix.SIGHUP }

// untilKilled returns how long a program may take to end after a signal: half of the
// remaining time of the allocation, within bounds.
func (l *Loop) untilKilled(ctx context.Context) time.Duration {
	const least, most = 5 * time.Second, 2 * time.Minute
	end, err := l.Manager.End(ctx)
	if err != nil || end.IsZero() {
		return 30 * time.Second
	}
	return min(max(time.Until(end)/2, least), most)
}

// isHaltedAtOnce reports whether scr_halt --immediate was called since the run began.
func (l *Loop) isHaltedAtOnce(r *running) bool {
	asked, err := halt.AtOnce(l.Prefix, r.start.began)
	return err == nil && asked
}

// mayGoOn returns false if a run must be ended, because of scr_halt --immediate or because
// it hangs.
func (l *Loop) mayGoOn(ctx context.Context, r *running, now time.Time) bool {
	if l.isHaltedAtOnce(r) {
		l.Tell("scr_halt --immediate: the run is ended")
		l.past.haltAtOnce = true
		return false
	}
	stopped := l.continueIfAsked(ctx, r)
	if stopped && r.dog != nil {
		r.dog.pause(now)
	}
	hangs := l.hasNotStarted(r, now)
	if hangs == "" && r.dog != nil {
		hangs = l.makesNoProgress(r, now)
	}
	if hangs == "" {
		return true
	}
	r.hung = true
	l.Tell("watchdog: %s; the run seems to hang and is ended", hangs)
	l.keepStacks(ctx, r.number, l.alloc.up())
	return false
}

// hasNotStarted returns a text that says for how long the program has not called SCR_Init,
// if that is too long, else "".
func (l *Loop) hasNotStarted(r *running, now time.Time) string {
	if r.start.started {
		return ""
	}
	took, notice, tooLong := r.start.update(r.initCalled.seen(), now)
	took = took.Round(100 * time.Millisecond)
	switch {
	case tooLong:
		return fmt.Sprintf("no SCR_Init within %v", took)
	case notice:
		l.Tell("run %d has not called SCR_Init in %v: if %s prints nothing, it may be waiting for nodes; SCR_LAUNCH_TIMEOUT ends such runs",
			r.number, took, l.Program.Launcher.Name())
	case r.start.started:
		l.past.longestStart = max(l.past.longestStart, took)
	}
	return ""
}

// makesNoProgress returns a text that says for how long the program has completed no
// checkpoint, if that is too long, else "".
func (l *Loop) makesNoProgress(r *running, now time.Time) string {
	progress, err := prefix.ReadProgress(l.Prefix)
	if err != nil {
		l.Detail("%v", err)
		return ""
	}
	quiet := r.dog.update(progress.Latest, progress.Flushing, now)
	if quiet == 0 {
		return ""
	}
	return fmt.Sprintf("no checkpoint for %v", quiet.Round(100*time.Millisecond))
}
