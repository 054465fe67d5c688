// Package advice decides when the program is to write a checkpoint and when to stop.
//
// Rank 0 decides: it counts calls, measures checkpoints, reads the halt file, sees the
// requests of commands and asks the resource manager when the allocation ends. It
// broadcasts the advice to the others.
// Only internal/session calls this package.
package advice

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/failures"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/interval"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/mpi"
)

// Advisor decides when to write checkpoints and when to stop. Only rank 0's has state.
type Advisor struct {
	world  mpi.Comm
	prefix *prefix.Prefix
	log    *report.Logger
	events *eventlog.Log
	job    string           // SCR_JOB_ID
	id     string           // of the allocation as the halt file has it, "" if there is none
	end    func() time.Time // of the allocation; the zero time if that is not known
	run    *failures.Run    // nil if it could not be entered
	told   string           // the reason to stop that was logged last, "" if it was taken back
	yes    int              // how often Need has said yes
	conf   string           // the user's configuration file if nothing is set that makes Need say yes, else ""
	warned bool             // that this is so
	first  time.Time        // when the run began

	requests *request.Answers // nil if this job does not answer requests

	Policy   interval.Policy
	Observed interval.Observed
	Last     time.Time // end of the last checkpoint, else start of the run
}

// New returns an Advisor for the ranks of world, which has to Begin.
func New(world mpi.Comm, p *prefix.Prefix, log *report.Logger, events *eventlog.Log) *Advisor {
	return &Advisor{world: world, prefix: p, log: log, events: events}
}

// Begin prepares the files of the prefix directory that tell when to stop and how often
// jobs fail. Rank 0 calls it. environ is where variables are looked up.
func (a *Advisor) Begin(cfg *config.Config, environ func(name string) (string, bool)) error {
	a.Last = time.Now()
	a.first = a.Last
	a.job, a.id = cfg.JobID, allocation(environ)
	if max(cfg.Source(&cfg.CheckpointInterval).Level, cfg.Source(&cfg.CheckpointTime).Level, cfg.Source(&cfg.CheckpointOverhead).Level) == config.Default {
		a.conf = cfg.ConfFile
	}
	a.Policy = interval.Policy{
		Calls: cfg.CheckpointInterval, Every: cfg.CheckpointTime,
		Overhead: cfg.CheckpointOverhead, MTBF: cfg.MTBFTime,
	}
	a.end = sync.OnceValue(func() time.Time { return a.endOfAllocation(cfg, environ) })
	a.prefix.Note(func() (err error) {
		a.run, err = failures.Begin(a.prefix.Dir, cfg.JobID, time.Now())
		if err == nil && a.run.Again {
			a.events.Add(eventlog.Record{Type: eventlog.EarlierRunDied})
		}
		return err
	})
	if !a.Policy.Advises() {
		a.prefix.Note(func() (err error) {
			a.Policy.MTBF, err = failures.MTBF(a.prefix.Dir)
			return err
		})
		if a.Policy.MTBF > 0 {
			a.log.Info("earlier runs have failed every %.0f s of their time; SCR_Need_checkpoint advises accordingly", a.Policy.MTBF.Seconds())
		}
	}
	// This run is the next of its job. If no other job runs here, all that were told to stop have stopped.
	err := halt.Over(a.prefix.Dir, func(job string) bool { return job == a.job || a.requests.First() })
	return errors.Join(err, halt.Begin(a.prefix.Dir, a.id, int64(cfg.HaltTime.Seconds())))
}

// allocation returns the id of the allocation, "" if there is none. If Slurm has put the job
// into its queue again, that is another allocation of the same id: what has stopped the job
// before does not stop it again.
func allocation(environ func(name string) (string, bool)) string {
	id := config.Allocation(environ)
	if n, _ := environ("SLURM_RESTART_COUNT"); id != "" && n != "" && n != "0" {
		id += "." + n
	}
	return id
}

// endOfAllocation is when the allocation ends, the zero time if that is not known.
func (a *Advisor) endOfAllocation(cfg *config.Config, environ func(name string) (string, bool)) time.Time {
	var end time.Time
	manager, err := batch.Of(cfg, environ)
	if err == nil {
		end, err = manager.End(context.Background())
	}
	switch {
	case err != nil:
		a.log.Warn("when the allocation ends cannot be found out, so SCR_HALT_SECONDS has no effect (SCR_END_TIME can say it): %v", err)
	case end.IsZero():
		a.log.Warn("when the allocation ends is not known, so SCR_HALT_SECONDS has no effect; SCR_END_TIME can say it, in seconds since 1970")
	default:
		a.log.Info("the allocation ends at %s", end.Format(time.DateTime))
	}
	return end
}

// Wrote records a checkpoint that the program has written, and its cost from its start,
// at began, to now. It is not collective.
func (a *Advisor) Wrote(began time.Time) {
	if a.world.Rank() != 0 {
		return
	}
	a.Last = time.Now()
	a.Observed.Count++
	a.Observed.Cost += a.Last.Sub(began)
	if a.run != nil {
		a.prefix.Note(func() error { return a.run.Alive(a.Last) })
	}
}

// Need reports whether to write a checkpoint now: as the policy has it, if a command has
// asked for one, and always while the job should stop. On rank 0, also is asked for something else to tell all ranks in
// the same message. It is collective, and costs one broadcast.
func (a *Advisor) Need(also func() bool) (need, other bool) {
	const needed, asked = 1, 2
	answer := make([]byte, 1)
	if a.world.Rank() == 0 {
		a.Observed.Calls++
		if a.needs() {
			answer[0] |= needed
			a.yes++
		} else {
			a.unset()
		}
		if also() {
			answer[0] |= asked
		}
	}
	a.world.Bcast(answer, 0)
	return answer[0]&needed != 0, answer[0]&asked != 0
}

// needs is Need on rank 0.
func (a *Advisor) needs() bool {
	a.Observed.Since = time.Since(a.Last)
	return a.wanted() || a.Policy.Need(a.Observed) || a.reason() != ""
}

// unset says, when Need is about to say no for the third time, that it always will. A program that is
// killed would not be told at its end.
func (a *Advisor) unset() {
	if a.conf == "" || a.warned || a.Observed.Calls-a.yes < 3 || a.Observed.Count > 0 || a.Policy.Advises() {
		return
	}
	a.log.Warn("the program has asked %d times whether it needs a checkpoint, and the answer is always no, since neither SCR_CHECKPOINT_INTERVAL nor "+
		"SCR_CHECKPOINT_SECONDS nor SCR_CHECKPOINT_OVERHEAD is set: for a checkpoint at every 10th question, add the line "+
		"SCR_CHECKPOINT_INTERVAL=10 to %s, or for one every ten minutes the line SCR_CHECKPOINT_SECONDS=600", a.Observed.Calls, a.conf)
	a.warned = true
}

// Due reports whether Need would say yes now for another reason than how often the program has
// asked. On other ranks than 0 it is false.
func (a *Advisor) Due() bool {
	if a.world.Rank() != 0 {
		return false
	}
	policy := a.Policy
	policy.Calls = 0
	a.Observed.Since = time.Since(a.Last)
	byTime := (a.Policy.Calls == 0 || policy.Every > 0 || policy.Overhead > 0) && policy.Need(a.Observed)
	return a.wanted() || byTime || a.reason() != ""
}

// Declined records that a checkpoint was needed, and why there is none. Rank 0's does so.
func (a *Advisor) Declined(why error) {
	if a.world.Rank() != 0 {
		return
	}
	a.Last = time.Now()
	a.prefix.Note(func() error { return a.requests.Decline(why.Error()) })
}

// Stop returns why the job should stop, "" if it should not, for a caller that tells the
// program. It is collective; all ranks get the same. It costs a broadcast, and rank 0 reads a
// file.
func (a *Advisor) Stop() (reason string) {
	reason = a.stop()
	if reason != "" && a.world.Rank() == 0 {
		a.prefix.Note(func() error { return halt.Told(a.prefix.Dir, a.job, a.id) })
	}
	return reason
}

func (a *Advisor) stop() (reason string) {
	if a.world.Rank() == 0 {
		reason = a.reason()
	}
	return string(mpi.BcastBytes(a.world, []byte(reason), 0))
}

// Stopping reports whether the job should stop, for a caller that does not tell the program. It
// is collective, like Stop.
func (a *Advisor) Stopping() bool { return a.stop() != "" }

// reason is Stop on rank 0. Each reason is logged once.
func (a *Advisor) reason() string {
	reason, err := halt.Reason(a.prefix.Dir, a.end, time.Now())
	if err != nil {
		a.log.WarnOnce("halt file: %v; conditions in it are not observed", err)
	}
	switch {
	case err == nil && reason == "" && a.told != "": // somebody has removed the condition
		a.told = ""
		if a.run != nil {
			a.prefix.Note(func() error { return a.run.TakeBack(time.Now()) })
		}
	case reason != "" && reason != a.told:
		a.told = reason
		a.events.Add(eventlog.Record{Type: eventlog.Halt, Note: reason})
		if a.run != nil { // the program may end without Finalize
			a.prefix.Note(func() error { return a.run.Asked(time.Now()) })
		}
	}
	return reason
}

// Sum returns what the checkpoints of the run have cost; and, if it has none because the
// answer to the program's question was always no, how that can be changed. It does so on
// rank 0.
func (a *Advisor) Sum() {
	if a.world.Rank() != 0 || a.first.IsZero() {
		return
	}
	o, ran := a.Observed, time.Since(a.first)
	switch {
	case o.Count > 0:
		a.log.Info("%s in %.1f s, %.3f s each: %.1f %% of the time", report.Count(o.Count, "checkpoint"), ran.Seconds(),
			o.Cost.Seconds()/float64(o.Count), 100*o.Cost.Seconds()/max(ran.Seconds(), 1e-9))
	case o.Calls > 0 && a.yes == 0 && o.Calls < a.Policy.Calls:
		a.log.Info("the program has asked %s whether it needs a checkpoint, less often than SCR_CHECKPOINT_INTERVAL=%d says, and it wrote none", report.Count(o.Calls, "time"), a.Policy.Calls)
	case o.Calls > 0 && a.yes == 0 && !a.warned:
		a.log.Warn("the program has asked %s whether it needs a checkpoint, the answer was always no, and it wrote none: "+
			"SCR_CHECKPOINT_INTERVAL=N makes it yes at every N-th question, SCR_CHECKPOINT_SECONDS=S every S seconds", report.Count(o.Calls, "time"))
	}
}

// Finalized records that the program has called Finalize. Rank 0 calls it.
func (a *Advisor) Finalized() error {
	return errors.Join(halt.End(a.prefix.Dir, a.id), a.ended())
}

// Halted records that the run ends because it should stop. Rank 0 calls it.
func (a *Advisor) Halted() error {
	return errors.Join(halt.Exited(a.prefix.Dir, a.id, time.Now()), a.ended())
}

// ended records that the run has ended by itself.
func (a *Advisor) ended() error {
	if a.run == nil {
		return nil
	}
	return a.run.End(time.Now())
}
