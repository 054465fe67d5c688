package halt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/goscr/goscr/hash"
)

const keyImmediate = "ExitImmediately"

// Immediate is when a user asked to end a run without waiting for the program, in
// seconds since the epoch. It is for scr_run.
const Immediate Field = keyImmediate

// Change is Edit for a prefix directory that no job may have used yet.
func Change(prefix string, values map[Field]string) error {
	if err := hash.MakeDirs(filepath.Dir(Path(prefix))); err != nil {
		return err
	}
	return Edit(Path(prefix), values)
}

// Remove removes all conditions.
func Remove(prefix string) error {
	all := map[Field]string{}
	for _, c := range []Field{Checkpoints, After, Before, Seconds, Because, Immediate, keyObeyed, keyTold} {
		all[c] = ""
	}
	err := Change(prefix, all)
	if errors.Is(err, hash.ErrCorrupt) { // it has no readable conditions
		err = os.Remove(Path(prefix))
	}
	return err
}

// Settings lists the conditions in the halt file at path, one a line, in the words of SCR
// 3.1; "" if none is set or there is no file.
func Settings(path string) (string, error) {
	h, err := Read(path)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	line := func(label, value string) {
		if value != "" {
			if strings.ContainsFunc(value, unicode.IsControl) { // it was written by something else
				value = strconv.Quote(value)
			}
			fmt.Fprintf(&text, "  %-17s%s\n", label, value)
		}
	}
	at := func(key string) string {
		if t, ok := h.Int(key); ok {
			return time.Unix(t, 0).Format(time.ANSIC)
		}
		return h.Text(key)
	}
	line("ExitReason:", h.Text(keyReason))
	line("ExitImmediately:", at(keyImmediate))
	line("CheckpointsLeft:", h.Text(keyCheckpointsLeft))
	line("ExitAfter:", at(keyExitAfter))
	line("ExitBefore:", at(keyExitBefore))
	line("HaltSeconds:", h.Text(keyHaltSeconds))
	if h.Has(keyObeyed) {
		line("Lapses:", "when the next job begins; the last one has stopped")
	}
	before, bounded := h.Int(keyExitBefore)
	if margin, ok := h.Int(keyHaltSeconds); ok && bounded {
		fmt.Fprintf(&text, "  ExitBefore - HaltSeconds: %s\n", time.Unix(before-margin, 0).Format(time.ANSIC))
	}
	return text.String(), nil
}

// AtOnce reports whether a user has asked, since a run began, to end it without waiting
// for it.
func AtOnce(prefix string, began time.Time) (bool, error) {
	h, err := Read(Path(prefix))
	if err != nil {
		return false, err
	}
	asked, ok := h.Int(keyImmediate)
	return ok && asked >= began.Unix(), nil
}

// WasFinalized reports whether the program has called SCR_Finalize.
func WasFinalized(prefix string) (bool, error) {
	h, err := Read(Path(prefix))
	return err == nil && h.Text(keyReason) == Finalized, err
}

// ParseTime reads a point in time as a person writes it: ISO 8601, with a time
// zone or in local time, with or without seconds; a time of day alone, which is
// the next such; or seconds since the epoch.
func ParseTime(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := now.Date()
			at := time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, time.Local)
			if at.Before(now) {
				at = time.Date(y, m, d+1, t.Hour(), t.Minute(), t.Second(), 0, time.Local)
			}
			return at, nil
		}
	}
	var seconds int64
	if n, err := fmt.Sscanf(text, "%d", &seconds); n == 1 && err == nil && seconds > 1e8 && fmt.Sprint(seconds) == text {
		return time.Unix(seconds, 0), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time; write 2026-11-21T14:30, 14:30, or seconds since 1970", text)
}
