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
// Without a limit from the user it learns one: the times between checkpoints are
// about the same, so a run that takes several times the longest of them hangs. Before
// the first checkpoint there is nothing to learn from.
type watchdog struct {
	limit, limitPFS time.Duration // 0: learn

	latest   time.Time // when the checkpoint that was seen last was begun
	since    time.Time // when it was seen first, or the run began
	longest  time.Duration
	finished int // checkpoints of this run
}

// A learned limit is several times the longest time between checkpoints, and not so
// short that one slow operation of a file system exceeds it.
const (
	patienceFactor = 4
	patienceLeast  = time.Minute
)

func newWatchdog(limit, limitPFS time.Duration, latest, began time.Time) *watchdog {
	return &watchdog{limit: limit, limitPFS: limitPFS, latest: latest, since: began}
}

// update takes how far the run is. It returns for how long the run has completed no
// checkpoint, if that is too long, and 0 if it is not.
func (w *watchdog) update(latest time.Time, flushing bool, now time.Time) time.Duration {
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

// starter decides when a program takes too long to come to SCR_Init: the launcher may
// wait for nodes that it never gets, or the program hangs before it calls the library.
// It reads no clock and no file.
type starter struct {
	limit   time.Duration // 0: none
	began   time.Time
	started bool
	noticed bool
}

// startNotice is when a line says that the program has not come to SCR_Init.
const startNotice = 2 * time.Minute

// startLeast is the shortest limit that is learned: a later run may have to wait for a
// file system that is busy.
const startLeast = 5 * time.Minute

// startLimit is how long a run may take to SCR_Init: as the user says, else,
// with a watchdog, several times what earlier runs have taken. The first run has no
// limit.
func startLimit(told time.Duration, watched bool, longest time.Duration) time.Duration {
	if told > 0 || !watched || longest == 0 {
		return told
	}
	return max(patienceFactor*longest, startLeast)
}

// update takes whether the program has come to SCR_Init. It returns how long that has
// taken so far, whether that is worth a notice, and whether it is too long.
func (s *starter) update(started bool, now time.Time) (took time.Duration, notice, tooLong bool) {
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

// sign is a file that the library replaces in each run.
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

// given reports whether the file was written since newSign.
func (s sign) given() bool {
	now, err := os.Stat(s.path)
	return err == nil && (s.old == nil || !os.SameFile(s.old, now) || !s.old.ModTime().Equal(now.ModTime()))
}
