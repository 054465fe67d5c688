// Package failures keeps count of how the runs of a job in a prefix directory
// have ended, from which follows how often it fails. The record is
// .scr/runs.scr:
//
//	RUNS     = runs that have ended
//	FAILURES = those among them that did not end by themselves
//	SECONDS  = time that all of them ran
//	RUN / <job id> / STARTED, SEEN     seconds since the epoch, of a run that has not ended
//
// A run that fails cannot say so; the next one with its job id, or with another
// one much later, finds it there.
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
)

// enough failures say something about how often they come.
const enough = 3

// Path is where the record of a prefix directory is.
func Path(prefix string) string { return filepath.Join(prefix, ".scr", "runs.scr") }

// every is how often a run says that it is alive.
const every = time.Minute

// gone is when a run of another job that has said nothing is taken for ended:
// jobs may have nothing to say for long.
const gone = 7 * 24 * time.Hour

// Run is a run of the job.
type Run struct {
	prefix, id string
	seen       time.Time
}

// Begin enters a run. What is there of runs that are no more is added up.
func Begin(prefix, id string, now time.Time) (*Run, error) {
	r := &Run{prefix: prefix, id: id, seen: now}
	return r, hash.Update(Path(prefix), func(h *hash.Hash) error {
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

// settle adds a run up.
func settle(h *hash.Hash, id string, failed bool) {
	run := h.Get(keyRun, id)
	if run == nil {
		return
	}
	started, _ := run.Int(keyStarted)
	seen, _ := run.Int(keySeen)
	add(h, keyRuns, 1)
	add(h, keySeconds, max(seen-started, 0))
	if failed {
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
	h, err := hash.ReadWithLock(Path(prefix))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	n, _ := h.Int(keyFailures)
	if err != nil || n < enough {
		return 0, err
	}
	seconds, _ := h.Int(keySeconds)
	// A run that fails within its first second has lasted for some of it.
	return time.Duration(max(seconds, n) * int64(time.Second) / n), nil
}
