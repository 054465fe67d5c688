package run

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// watchdog decides when a run has gone on for too long without a checkpoint. Its caller
// reads the clock and the files.
//
// If the user sets no limit, it is derived from the run: the times between checkpoints
// are similar, so a run hangs that takes several times the longest of them. Before the
// first checkpoint of the run there is no limit then.
type watchdog struct {
	limit, limitPFS time.Duration // limits of the user; limitPFS while a dataset is flushed; 0: none

	latest   time.Time     // when the most recent checkpoint was begun
	since    time.Time     // when that checkpoint was first seen complete, or the run began
	longest  time.Duration // between two checkpoints of this run
	finished int           // number of checkpoints of this run
}

// A learned limit is a multiple of the longest time between checkpoints, with a minimum,
// so that one slow operation of a file system does not exceed it.
const (
	learnedFactor = 4
	learnedLeast  = time.Minute
)

func newWatchdog(limit, limitPFS time.Duration, latest, began time.Time) *watchdog {
	return &watchdog{limit: limit, limitPFS: limitPFS, latest: latest, since: began}
}

// update returns for how long the run has completed no checkpoint, if that is too long,
// else 0. latest is when the most recent checkpoint was begun, and flushing is true while
// a dataset is being flushed.
func (w *watchdog) update(latest time.Time, flushing bool, now time.Time) time.Duration {
	if latest.After(w.latest) {
		w.longest = max(w.longest, now.Sub(w.since))
		w.latest, w.since = latest, now
		w.finished++
	}
	limit := w.limit
	if limit == 0 && w.finished > 0 {
		limit = max(learnedFactor*w.longest, learnedLeast)
	}
	if flushing && w.limitPFS > 0 {
		limit = w.limitPFS
	}
	if quiet := now.Sub(w.since); limit > 0 && quiet >= limit {
		return quiet
	}
	return 0
}

// starter decides when a program takes too long to call SCR_Init: the launcher may wait
// for nodes that it never gets, or the program may hang before it calls the library. Its
// caller reads the clock and the files.
type starter struct {
	limit   time.Duration // 0: none
	began   time.Time     // when the run was started
	started bool          // the program has called SCR_Init
	noticed bool          // the notice has been given
	took    time.Duration // until it had called SCR_Init; 0: it has not
}

// startNotice is the time after which a line says that the program has not called
// SCR_Init.
const startNotice = 2 * time.Minute

// startLeast is the shortest learned limit: a later run may have to wait for a busy file
// system.
const startLeast = 5 * time.Minute

// startLimit returns how long a run may take until it calls SCR_Init: told, the limit of
// the user, if that is not 0; else, with a watchdog, a multiple of longest, the longest
// time that an earlier run has taken. The first run has no limit then.
func startLimit(told time.Duration, watched bool, longest time.Duration) time.Duration {
	if told > 0 || !watched || longest == 0 {
		return told
	}
	return max(learnedFactor*longest, startLeast)
}

// update is told whether the program has called SCR_Init. It returns how long the run has
// taken so far, whether to print a notice about that, and whether it is too long.
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

// fileChange detects that a file has been replaced or written.
type fileChange struct {
	path string
	old  fs.FileInfo // nil: the file did not exist
}

func newFileChange(path string) (fileChange, error) {
	old, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileChange{}, err
	}
	return fileChange{path, old}, nil
}

// seen reports whether the file was written since newFileChange.
func (s fileChange) seen() bool {
	now, err := os.Stat(s.path)
	return err == nil && (s.old == nil || !os.SameFile(s.old, now) || !s.old.ModTime().Equal(now.ModTime()))
}
