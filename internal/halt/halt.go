// Package halt keeps the halt file, which says under which conditions a job
// should stop (spec 000 §9.5). The library updates it, and so may a person
// while the job runs.
package halt

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/hash"
)

const (
	keyCheckpointsLeft = "CheckpointsLeft"
	keyExitAfter       = "ExitAfter"   // seconds since the epoch
	keyExitBefore      = "ExitBefore"  // seconds since the epoch
	keyHaltSeconds     = "HaltSeconds" // before ExitBefore
	keyReason          = "ExitReason"
)

// Finalized is the reason that Finalize records. It tells the scripts around a
// job that it ended by itself, and does not stop the next run.
const Finalized = "SCR_FINALIZE_CALLED"

// Path is where the halt file of a prefix directory is.
func Path(prefix string) string { return filepath.Join(prefix, ".scr", "halt.scr") }

// Begin readies the halt file for a run: the previous run's end is no reason to
// stop this one. seconds, if not 0, is the time to stop before the end of the
// allocation.
func Begin(prefix string, seconds int64) error {
	_, err := hash.ReadWithLock(Path(prefix))
	if errors.Is(err, fs.ErrNotExist) && seconds == 0 {
		return nil
	}
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		if h.Text(keyReason) == Finalized {
			h.Unset(keyReason)
		}
		if seconds != 0 {
			h.SetInt(keyHaltSeconds, seconds)
		}
		return nil
	})
}

// Reason returns why the job should stop now, "" if it should not. end, which
// is asked if it matters, says when the allocation ends; the zero time if that is
// not known.
func Reason(prefix string, end func() time.Time, now time.Time) (string, error) {
	h, err := hash.ReadWithLock(Path(prefix))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if n, ok := h.Int(keyCheckpointsLeft); ok && n <= 0 {
		return "the number of checkpoints asked for is reached", nil
	}
	if reason := h.Text(keyReason); reason != "" && reason != Finalized {
		return reason, nil
	}
	if after, ok := h.Int(keyExitAfter); ok && now.Unix() >= after {
		return fmt.Sprintf("the time to stop after, %s, has come", time.Unix(after, 0).Format(time.DateTime)), nil
	}
	margin, _ := h.Int(keyHaltSeconds)
	if before, ok := h.Int(keyExitBefore); ok {
		if now.Unix() >= before-margin {
			return fmt.Sprintf("the job has to end before %s", time.Unix(before, 0).Format(time.DateTime)), nil
		}
	}
	if margin <= 0 {
		return "", nil
	}
	if t := end(); !t.IsZero() && now.Unix() >= t.Unix()-margin {
		return fmt.Sprintf("the allocation ends at %s, in less than the %d seconds of SCR_HALT_SECONDS", t.Format(time.DateTime), margin), nil
	}
	return "", nil
}

// CountCheckpoint records that a checkpoint has been completed.
func CountCheckpoint(prefix string) error {
	h, err := hash.ReadWithLock(Path(prefix))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !h.Has(keyCheckpointsLeft) {
		return nil
	}
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		if n, ok := h.Int(keyCheckpointsLeft); ok && n > 0 {
			h.SetInt(keyCheckpointsLeft, n-1)
		}
		return nil
	})
}

// End records that the job has ended by itself.
func End(prefix string) error {
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		if h.Text(keyReason) == "" {
			h.SetValue(keyReason, Finalized)
		}
		return nil
	})
}
