package run

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

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

// starter decides when a program has not come to SCR_Init for too long: a
// launcher that waits for nodes it never gets, or a program that hangs before
// the library can tell anything. It reads no clock and no file.
type starter struct {
	limit   time.Duration // 0: none
	began   time.Time
	started bool
	noticed bool
}

// startNotice is when somebody who looks at the output is told what is missing.
const startNotice = 2 * time.Minute

// startLeast is the least of a learned time. A later run may have to wait for a
// file system that all of the others hold up.
const startLeast = 5 * time.Minute

// startLimit is how long a run may take to SCR_Init: as the user says, else,
// where a watchdog is wanted, many times what the runs before have taken. Of the
// first run nothing is known, and it is left alone.
func startLimit(told time.Duration, watched bool, longest time.Duration) time.Duration {
	if told > 0 || !watched || longest == 0 {
		return told
	}
	return max(patienceFactor*longest, startLeast)
}

// look is told whether the program has come to SCR_Init. It returns how long
// that has taken: whether that is worth a notice, and whether it is too long.
func (s *starter) look(started bool, now time.Time) (took time.Duration, notice, tooLong bool) {
	took = now.Sub(s.began)
	if started || s.started {
		s.started = true
		return took, false, false
	}
	if s.limit > 0 && took >= s.limit {
		return took, false, true
	}
	notice = !s.noticed && took >= startNotice
	s.noticed = s.noticed || notice
	return took, notice, false
}

// sign is a file that the library writes anew in each run.
type sign struct {
	path string
	old  fs.FileInfo // nil: there was none
}

func newSign(path string) (sign, error) {
	old, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sign{}, err
	}
	return sign{path, old}, nil
}

// given reports whether the file was written since.
func (s sign) given() bool {
	now, err := os.Stat(s.path)
	return err == nil && (s.old == nil || !os.SameFile(s.old, now) || !s.old.ModTime().Equal(now.ModTime()))
}
