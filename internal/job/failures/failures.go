// Package failures counts how the runs of a job in a prefix directory have ended,
// to estimate how often it fails. The record is .scr/runs.scr:
//
//	RUNS     = runs that have ended
//	FAILURES = those among them that did not end by themselves
//	SECONDS  = time that all of them ran
//	RUN / <job id> / STARTED, SEEN     seconds since the epoch, of a run that has not ended
//	RUN / <job id> / ASKED = 1         ... and that somebody has asked to end
//
// A run that fails cannot record it; the next run with its job id, or one with
// another job id much later, finds its entry and counts the failure, unless somebody had
// asked the run to end.
package failures

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/hash"
)

type record struct {
	Ended    int64             `hash:"RUNS,omitempty"`
	Failures int64             `hash:"FAILURES,omitempty"`
	Seconds  *int64            `hash:"SECONDS"` // nil as long as none has ended
	Runs     map[string]*entry `hash:"RUN,omitempty"`
}

// entry is a run that has not ended.
type entry struct {
	Started time.Time `hash:"STARTED,omitempty,seconds"`
	Seen    time.Time `hash:"SEEN,omitempty,seconds"`
	Asked   bool      `hash:"ASKED,omitempty"`
}

// enough is the least number of failures from which MTBF estimates.
const enough = 3

// Path is where the record of a prefix directory is.
func Path(prefix string) string { return filepath.Join(prefix, ".scr", "runs.scr") }

// every is the time between two records that a run continues.
const every = time.Minute

// gone is the time without a record after which a run of another job counts as
// failed: a job may not record anything for long.
const gone = 7 * 24 * time.Hour

// Run is a run of the job.
type Run struct {
	Again bool // the run of the same job before it has not ended by itself, and nobody had asked it to end

	prefix, id string
	seen       time.Time
}

// Begin enters a run, and counts earlier runs that did not end by themselves.
func Begin(prefix, id string, now time.Time) (*Run, error) {
	r := &Run{prefix: prefix, id: id, seen: now}
	return r, hash.UpdateRecord(Path(prefix), func(of *record) error {
		before := of.Runs[id]
		r.Again = before != nil && !before.Asked
		for other, run := range of.Runs {
			if other == id || now.Sub(run.Seen) > gone {
				of.end(other, true)
			}
		}
		of.Runs[id] = &entry{Started: now, Seen: now}
		return nil
	})
}

// end moves a run from its entry to the sums.
func (r *record) end(id string, failed bool) {
	run := r.Runs[id]
	r.Ended++
	if r.Seconds == nil {
		r.Seconds = new(int64)
	}
	*r.Seconds += max(run.Seen.Unix()-run.Started.Unix(), 0)
	if failed && !run.Asked {
		r.Failures++
	}
	delete(r.Runs, id)
}

// see records that a run continues, and changes its entry, if it has one.
func see(prefix, id string, now time.Time, change func(of *record, run *entry)) error {
	return hash.UpdateRecord(Path(prefix), func(of *record) error {
		if run := of.Runs[id]; run != nil {
			run.Seen = now
			change(of, run)
		}
		return nil
	})
}

// Alive records, now and then, that the run continues.
func (r *Run) Alive(now time.Time) error {
	if now.Sub(r.seen) < every {
		return nil
	}
	r.seen = now
	return see(r.prefix, r.id, now, func(*record, *entry) {})
}

// Asked records that somebody has asked the run of a job to end, or has ended it. Its end
// is no failure then, even if the run does not record it.
func Asked(prefix, id string, now time.Time) error {
	return see(prefix, id, now, func(_ *record, run *entry) { run.Asked = true })
}

// Asked is the function Asked, for this run.
func (r *Run) Asked(now time.Time) error { return Asked(r.prefix, r.id, now) }

// TakeBack records that the run is not asked to end any more.
func (r *Run) TakeBack(now time.Time) error {
	return see(r.prefix, r.id, now, func(_ *record, run *entry) { run.Asked = false })
}

// End records that the run has ended by itself.
func (r *Run) End(now time.Time) error {
	return see(r.prefix, r.id, now, func(of *record, _ *entry) { of.end(r.id, false) })
}

// MTBF estimates the mean time between failures from the runs before. It is 0
// if there have been too few.
func MTBF(prefix string) (time.Duration, error) {
	h, err := hash.ReadFile(Path(prefix))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	of := hash.As[record](h)
	if err != nil || of.Failures < enough {
		return 0, err
	}
	seconds := of.Failures // a run that fails within its first second counts as one second
	if of.Seconds != nil {
		seconds = max(seconds, *of.Seconds)
	}
	return time.Duration(seconds * int64(time.Second) / of.Failures), nil
}
