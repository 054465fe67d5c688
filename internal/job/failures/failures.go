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

const (
	keyRuns     = "RUNS"
	keyFailures = "FAILURES"
	keySeconds  = "SECONDS"
	keyRun      = "RUN"
	keyStarted  = "STARTED"
	keySeen     = "SEEN"
	keyAsked    = "ASKED"
)

// enough is the least number of failures from which MTBF estimates.
const enough = 3

// Path is where the record of a prefix directory is.
func Path(prefix string) string { return filepath.Join(prefix, ".scr", "runs.scr") }

// every is the time between two records that a run goes on.
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
	return r, hash.Update(Path(prefix), func(h *hash.Hash) error {
		before := h.Get(keyRun, id)
		r.Again = before != nil && before.Text(keyAsked) == ""
		for _, other := range h.Get(keyRun).Keys() {
			seen, _ := h.Get(keyRun, other).Int(keySeen)
			if other == id || now.Sub(time.Unix(seen, 0)) > gone {
				settle(h, other, true)
			}
		}
		run := h.At(keyRun, id)
		run.SetInt(keyStarted, now.Unix())
		run.SetInt(keySeen, now.Unix())
		return nil
	})
}

// settle moves a run from its entry to the sums.
func settle(h *hash.Hash, id string, failed bool) {
	run := h.Get(keyRun, id)
	if run == nil {
		return
	}
	started, _ := run.Int(keyStarted)
	seen, _ := run.Int(keySeen)
	add(h, keyRuns, 1)
	add(h, keySeconds, max(seen-started, 0))
	if failed && run.Text(keyAsked) == "" {
		add(h, keyFailures, 1)
	}
	h.UnsetKV(keyRun, id)
}

func add(h *hash.Hash, key string, n int64) {
	old, _ := h.Int(key)
	h.SetInt(key, old+n)
}

// Alive records, now and then, that the run goes on.
func (r *Run) Alive(now time.Time) error {
	if now.Sub(r.seen) < every {
		return nil
	}
	r.seen = now
	return hash.Update(Path(r.prefix), func(h *hash.Hash) error {
		if run := h.Get(keyRun, r.id); run != nil {
			run.SetInt(keySeen, now.Unix())
		}
		return nil
	})
}

// Asked records that somebody has asked the run of a job to end, or has ended it. Its end
// is no failure then, even if the run does not record it.
func Asked(prefix, id string, now time.Time) error {
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		if run := h.Get(keyRun, id); run != nil {
			run.SetInt(keySeen, now.Unix())
			run.SetInt(keyAsked, 1)
		}
		return nil
	})
}

// Asked is the function Asked, for this run.
func (r *Run) Asked(now time.Time) error { return Asked(r.prefix, r.id, now) }

// TakeBack records that the run is not asked to end any more.
func (r *Run) TakeBack(now time.Time) error {
	return hash.Update(Path(r.prefix), func(h *hash.Hash) error {
		if run := h.Get(keyRun, r.id); run != nil {
			run.SetInt(keySeen, now.Unix())
			run.Unset(keyAsked)
		}
		return nil
	})
}

// End records that the run has ended by itself.
func (r *Run) End(now time.Time) error {
	return hash.Update(Path(r.prefix), func(h *hash.Hash) error {
		if run := h.Get(keyRun, r.id); run != nil {
			run.SetInt(keySeen, now.Unix())
			settle(h, r.id, false)
		}
		return nil
	})
}

// MTBF estimates the mean time between failures from the runs before. It is 0
// if there have been too few.
func MTBF(prefix string) (time.Duration, error) {
	h, err := hash.ReadFile(Path(prefix))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	n, _ := h.Int(keyFailures)
	if err != nil || n < enough {
		return 0, err
	}
	seconds, _ := h.Int(keySeconds)
	// A run that fails within its first second counts as one second.
	return time.Duration(max(seconds, n) * int64(time.Second) / n), nil
}
