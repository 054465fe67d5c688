package run

import "time"

// watchdog decides when a run has gone on for too long without a checkpoint. It
// reads no clock and no file.
//
// Without a time from the user it learns one: checkpoints come at about the
// same distance, so a run that takes several times the longest there was does
// nothing any more. Before the first checkpoint there is nothing to learn from.
type watchdog struct {
	limit, limitPFS time.Duration // 0: learn

	latest   time.Time // when the checkpoint that was seen last was begun
	since    time.Time // when it was seen first, or the run began
	longest  time.Duration
	finished int // checkpoints of this run
}

// What a learned time is: many times the longest distance, and not so short
// that one slow file system operation looks like the end.
const (
	patienceFactor = 4
	patienceLeast  = time.Minute
)

func newWatchdog(limit, limitPFS time.Duration, latest, began time.Time) *watchdog {
	return &watchdog{limit: limit, limitPFS: limitPFS, latest: latest, since: began}
}

// look is told how far the run is. It returns how long it has done nothing, if
// that is too long, and 0 if it is not.
func (w *watchdog) look(latest time.Time, flushing bool, now time.Time) time.Duration {
	if latest.After(w.latest) {
		w.longest = max(w.longest, now.Sub(w.since))
		w.latest, w.since = latest, now
		w.finished++
	}
	limit := w.limit
	if limit == 0 && w.finished > 0 {
		limit = max(patienceFactor*w.longest, patienceLeast)
	}
	if flushing && w.limitPFS > 0 {
		limit = w.limitPFS
	}
	if quiet := now.Sub(w.since); limit > 0 && quiet >= limit {
		return quiet
	}
	return 0
}
