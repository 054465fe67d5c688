package run

import (
	"context"
	"time"

	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/run/migration"
)

// requests takes what users and the program ask scr_run for (migration.Request), and gives it to
// the part that does it.
type requests struct {
	job       *Job
	moves     *migrations
	foresight *foresight
	restart   string // the checkpoint from which the program has asked to be started again; "": it has not
}

// look does what somebody asks for, and reacts to predictions. It returns true if the run is to
// be ended.
func (r *requests) look(ctx context.Context) (end bool) {
	if r.take(ctx) {
		return true
	}
	r.foresight.foresee(ctx, time.Now())
	return false
}

// take does what somebody asks for. It returns true if the program has
// asked to be started again from another checkpoint: then the run is to be ended.
func (r *requests) take(ctx context.Context) (end bool) {
	switch q, err := migration.Read(r.job.Prefix); {
	case err != nil:
		r.job.Detail("%v", err)
	case q.State != migration.Requested:
	case q.Restart != "":
		r.job.Tell("the program asks to be started again from checkpoint %s; the run is ended", q.Restart)
		r.acceptRestart(q)
		return true
	case q.Predicted:
		r.foresight.react(ctx, q.ID, q.Wish.Off, batch.Prediction{Why: "scr_migrate --predicted", Within: q.Within, Assurance: q.Assurance}, time.Now())
	default:
		if err := r.moves.begin(q.ID, q.Wish); err != nil {
			r.job.Tell("migration: not possible: %v", err)
			r.moves.answer(q.ID, migration.Failed, err.Error())
		}
	}
	return false
}

// acceptRestart records that the next run begins at the checkpoint for which the program has asked.
func (r *requests) acceptRestart(q migration.Request) {
	r.restart = q.Restart
	r.moves.answer(q.ID, migration.Done, "the run has been ended")
}

// takeLate takes a request of the program to be started again, which a run has entered shortly
// before it ended: take has not seen it then. Left in the file, it would end the next run.
func (r *requests) takeLate() {
	q, err := migration.Read(r.job.Prefix)
	if err != nil || q.State != migration.Requested || q.Restart == "" {
		r.job.warn(err)
		return
	}
	switch finalized, err := halt.WasFinalized(r.job.Prefix); {
	case err != nil:
		r.job.Tell("%v", err)
		r.moves.answer(q.ID, migration.Failed, err.Error())
	case finalized:
		r.moves.answer(q.ID, migration.Failed, "the job is over")
	default:
		r.job.Tell("the program has asked to be started again from checkpoint %s", q.Restart)
		r.acceptRestart(q)
	}
}

// takeRestart returns, once, the checkpoint from which the program has asked to be started again, ""
// if it has not.
func (r *requests) takeRestart() (from string) {
	from, r.restart = r.restart, ""
	return from
}
