// Package halt reads and writes the halt file, which has the conditions under which a
// job should stop (SCR Developer's Manual, "Files"). The library updates it, and users
// may change it while the job runs.
package halt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	keyObeyed          = "Obeyed" // id of the allocation whose job a one-shot condition has stopped; goscr's
	keyTold            = "Told"   // <job id> / ALLOCATION = id: whose program was told to stop by one; goscr's
	keyAllocation      = "ALLOCATION"
)

// Finalized is the reason that Finalize records. It shows scripts that the job ended by
// itself, and does not stop the next run.
const Finalized = "SCR_FINALIZE_CALLED"

// Terminated is the reason to stop after a checkpoint that scr_checkpoint --term has asked
// for. It is for the run that has written the checkpoint, and does not stop the next job.
const Terminated = "scr_checkpoint --term"

// The reasons that are recorded if SCR_HALT_EXIT=1 ends a run, by the condition; those of SCR 3.1. They are for scripts that
// ask whether to start another run, and do not stop one: the condition does, if it is still true.
const (
	noCheckpointsLeft = "NO_CHECKPOINTS_LEFT"
	exitAfterTime     = "EXIT_AFTER_TIME"
	exitBeforeTime    = "EXIT_BEFORE_TIME"
	timeLimit         = "TIME_LIMIT"
)

// ofLastRun reports whether a reason says how a run has ended.
func ofLastRun(why string) bool {
	switch why {
	case Finalized, Terminated, noCheckpointsLeft, exitAfterTime, exitBeforeTime, timeLimit:
		return true
	}
	return false
}

// Asked and AskedNow are the reasons that scr_halt enters without a condition, and with
// --immediate. Asked is that of SCR 3.1.
const (
	Asked    = "JOB_HALTED"
	AskedNow = "scr_halt --immediate"
)

// A number of checkpoints, and the reasons Asked and AskedNow, are one-shot conditions: they
// are for one job. When they have stopped it, the halt file records that (keyObeyed), and
// they lapse when the next job begins. Until then they stay, so that scripts which ask
// whether to start another run are told not to. Conditions in absolute time stay, and so do
// other reasons.

// isOneShot reports whether a one-shot condition is true.
func isOneShot(h *hash.Hash) bool {
	n, ok := h.Int(keyCheckpointsLeft)
	why := h.Text(keyReason)
	return ok && n <= 0 || why == Asked || why == AskedNow
}

// obey records that the job of an allocation stops, if a one-shot condition is true.
func obey(h *hash.Hash, allocation string) {
	if isOneShot(h) {
		h.SetValue(keyObeyed, allocation)
		h.Unset(keyTold)
	}
}

// lapse removes the one-shot conditions that have stopped a job. A job in the same
// allocation that scr_run or scr_prerun has not begun counts as the same: allocation is ""
// if it is not known, or does not matter.
func lapse(h *hash.Hash, allocation string) {
	if !h.Has(keyObeyed) || allocation != "" && h.Text(keyObeyed) == allocation {
		return
	}
	if n, ok := h.Int(keyCheckpointsLeft); ok && n <= 0 {
		h.Unset(keyCheckpointsLeft)
	}
	if why := h.Text(keyReason); why == Asked || why == AskedNow {
		h.Unset(keyReason)
		h.Unset(keyImmediate)
	}
	h.Unset(keyObeyed)
	h.Unset(keyTold)
}

// Told records that the program of a job was told to stop: it may end without Finalize, and
// without a scr_run that would record that. Told does nothing if no one-shot condition is true.
func Told(prefix, job, allocation string) error {
	h, err := Read(Path(prefix))
	if err != nil || !isOneShot(h) || h.Get(keyTold, job) != nil {
		return err
	}
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		if isOneShot(h) {
			h.At(keyTold, job).SetValue(keyAllocation, allocation)
		}
		return nil
	})
}

// Over records that the one-shot conditions have stopped the jobs that were told to stop, if
// all of them are over: of which job that is so, over reports. A job that runs must still find
// the condition.
func Over(prefix string, over func(job string) bool) error {
	if h, err := Read(Path(prefix)); err != nil || !h.Has(keyTold) {
		return err
	}
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		told := h.Get(keyTold)
		for _, job := range told.Keys() {
			if !over(job) {
				return nil
			}
		}
		for _, job := range told.Keys() {
			obey(h, told.Get(job).Text(keyAllocation))
		}
		return nil
	})
}

// Obeyed records that the job of an allocation stops without Finalize. It does nothing if no
// one-shot condition is true.
func Obeyed(prefix, allocation string) error {
	if h, err := Read(Path(prefix)); err != nil || !isOneShot(h) {
		return err
	}
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		obey(h, allocation)
		return nil
	})
}

// Exited records that SCR_HALT_EXIT=1 has ended the run of an allocation, and by which condition.
func Exited(prefix, allocation string, now time.Time) error {
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		obey(h, allocation)
		if h.Text(keyReason) == "" {
			h.SetValue(keyReason, exitReason(h, now))
		}
		return nil
	})
}

// exitReason returns which condition is true.
func exitReason(h *hash.Hash, now time.Time) string {
	past := func(key string, seconds int64) bool { t, ok := h.Int(key); return ok && now.Unix() >= t-seconds }
	margin, _ := h.Int(keyHaltSeconds)
	switch n, ok := h.Int(keyCheckpointsLeft); {
	case ok && n <= 0:
		return noCheckpointsLeft
	case past(keyExitAfter, 0):
		return exitAfterTime
	case past(keyExitBefore, margin):
		return exitBeforeTime
	}
	return timeLimit
}

// Path is the path of the halt file of a prefix directory.
func Path(prefix string) string { return filepath.Join(prefix, ".scr", "halt.scr") }

// pause is the time between two readings of a halt file that is being written; for tests
// it can be changed.
var pause = func() { time.Sleep(5 * time.Millisecond) }

// Read reads the halt file at path; without a file the hash is empty. SCR's own
// scr_halt_cntl, which users may have beside goscr, overwrites the file in place: so one
// that is damaged is read a few times more.
func Read(path string) (h *hash.Hash, err error) {
	const times = 20
	for range times {
		if h, err = hash.ReadOrNew(path); !errors.Is(err, hash.ErrCorrupt) {
			break
		}
		pause()
	}
	return h, err
}

// Begin prepares the halt file for a run: neither the end of the previous run stops this
// one, nor a one-shot condition that has stopped the job of another allocation. allocation
// is the id of that of this run, "" if the run begins a job whatever its allocation is.
// seconds, if not 0, is the time to stop before the end of the allocation.
func Begin(prefix, allocation string, seconds int64) error {
	if _, err := os.Lstat(Path(prefix)); errors.Is(err, fs.ErrNotExist) && seconds == 0 {
		return nil
	}
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		if ofLastRun(h.Text(keyReason)) {
			h.Unset(keyReason)
		}
		lapse(h, allocation)
		if seconds != 0 {
			h.SetInt(keyHaltSeconds, seconds)
		}
		return nil
	})
}

// Reason returns why the job should stop now, "" if it should not. end, called if
// needed, returns the end of the allocation, the zero time if that is not known.
func Reason(prefix string, end func() time.Time, now time.Time) (string, error) {
	h, err := Read(Path(prefix))
	if err != nil {
		return "", err
	}
	if r := reason(h, now); r != "" {
		return r, nil
	}
	margin, _ := h.Int(keyHaltSeconds)
	if margin <= 0 {
		return "", nil
	}
	if t := end(); !t.IsZero() && now.Unix() >= t.Unix()-margin {
		return fmt.Sprintf("the allocation ends at %s, in less than the %d seconds of SCR_HALT_SECONDS", t.Format(time.DateTime), margin), nil
	}
	return "", nil
}

// reason is Reason without the end of the allocation.
func reason(h *hash.Hash, now time.Time) string {
	if n, ok := h.Int(keyCheckpointsLeft); ok && n <= 0 {
		return "the number of checkpoints asked for is reached"
	}
	if reason := h.Text(keyReason); reason != "" && reason != Finalized {
		return reason
	}
	if after, ok := h.Int(keyExitAfter); ok && now.Unix() >= after {
		return fmt.Sprintf("the time to stop after, %s, has come", time.Unix(after, 0).Format(time.DateTime))
	}
	margin, _ := h.Int(keyHaltSeconds)
	if before, ok := h.Int(keyExitBefore); ok {
		if now.Unix() >= before-margin {
			return fmt.Sprintf("the job has to end before %s", time.Unix(before, 0).Format(time.DateTime))
		}
	}
	return ""
}

// CountCheckpoint records that a checkpoint has been completed.
func CountCheckpoint(prefix string) error {
	if h, err := Read(Path(prefix)); err == nil && !h.Has(keyCheckpointsLeft) {
		return nil
	}
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		if n, ok := h.Int(keyCheckpointsLeft); ok && n > 0 {
			h.SetInt(keyCheckpointsLeft, n-1)
		}
		return nil
	})
}

// End records that the job of an allocation has ended by itself.
func End(prefix, allocation string) error {
	return hash.Update(Path(prefix), func(h *hash.Hash) error {
		obey(h, allocation)
		if h.Text(keyReason) == "" {
			h.SetValue(keyReason, Finalized)
		}
		return nil
	})
}

// Stop returns why no other run should be started after one that has ended, one reason an
// item, in the words of SCR 3.1; none if one may be: a job that ended by itself is not
// started again. path is the path of the halt file; without a file another run may start.
// margin is how long before the end the job should stop if the file does not say.
func Stop(path string, margin time.Duration, now time.Time) (reasons []string, err error) {
	h, err := Read(path)
	if err != nil {
		return nil, err
	}
	if why := h.Text(keyReason); why != "" {
		reasons = append(reasons, "Reason: "+why+".")
	}
	if n, ok := h.Int(keyCheckpointsLeft); ok && n <= 0 {
		reasons = append(reasons, "No checkpoints remaining.")
	}
	past := func(seconds int64, what string) {
		if now.Unix() >= seconds {
			reasons = append(reasons, fmt.Sprintf("Current time (%s) is past %s time (%s).", now.Format(time.ANSIC), what, time.Unix(seconds, 0).Format(time.ANSIC)))
		}
	}
	seconds, ok := h.Int(keyHaltSeconds)
	if !ok {
		seconds = int64(margin.Seconds())
	}
	if before, ok := h.Int(keyExitBefore); ok {
		past(before-seconds, "ExitBefore-HaltSeconds")
	}
	if after, ok := h.Int(keyExitAfter); ok {
		past(after, "ExitAfter")
	}
	return reasons, nil
}

// Field is a condition in a halt file.
type Field string

// The conditions.
const (
	Checkpoints Field = keyCheckpointsLeft
	After       Field = keyExitAfter
	Before      Field = keyExitBefore
	Seconds     Field = keyHaltSeconds
	Because     Field = keyReason
)

// Edit changes conditions in the halt file at path, and makes it if need be. An
// empty text removes a condition. A one-shot condition is for the next job: those that have
// stopped the last one lapse.
func Edit(path string, changes map[Field]string) error {
	return hash.Update(path, func(h *hash.Hash) error {
		if changes[Checkpoints] != "" || changes[Because] != "" {
			lapse(h, "")
			h.Unset(keyTold) // nobody was told of this condition
		}
		for field, text := range changes {
			if text == "" {
				h.Unset(string(field))
			} else {
				h.SetValue(string(field), text)
			}
		}
		return nil
	})
}
