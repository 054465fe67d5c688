package halt

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestChange(t *testing.T) {
	dir := t.TempDir() // .scr is made
	must(t, Change(dir, map[Field]string{Checkpoints: "2", Seconds: "60", After: "1000000"}))
	text, err := Settings(Path(dir))
	must(t, err)
	want := "  CheckpointsLeft: 2\n  ExitAfter:       " + time.Unix(1_000_000, 0).Format(time.ANSIC) + "\n  HaltSeconds:     60\n"
	if text != want {
		t.Errorf("%q", text)
	}
	stops(t, dir, "stop after")
	must(t, Change(dir, map[Field]string{After: "", Before: "1000059"}))
	stops(t, dir, "end before")
	text, err = Settings(Path(dir))
	must(t, err)
	if want := "  ExitBefore - HaltSeconds: " + time.Unix(1_000_059-60, 0).Format(time.ANSIC) + "\n"; !strings.HasSuffix(text, want) {
		t.Errorf("%q does not end with %q", text, want)
	}
	must(t, Change(dir, map[Field]string{Before: "", Because: "the machine is needed"}))
	stops(t, dir, "the machine is needed")
	must(t, Remove(dir))
	stops(t, dir, "")
	if text, err := Settings(Path(dir)); text != "" || err != nil {
		t.Error(text, err)
	}
}

func TestRemove_DamagedFile(t *testing.T) {
	dir := prefix(t)
	must(t, os.WriteFile(Path(dir), []byte("nonsense"), 0o600))
	if err := Change(dir, map[Field]string{Seconds: "1"}); err == nil {
		t.Error("no error")
	}
	must(t, Remove(dir))
	stops(t, dir, "")
}

func TestSettings_NoFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	if text, err := Settings(Path(dir)); text != "" || err != nil {
		t.Error(text, err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("looking made a directory")
	}
}

// A reason with a line break must not look like another line of the list.
func TestSettings_OddReason(t *testing.T) {
	dir := prefix(t)
	set(t, dir, "ExitReason", "one\ntwo")
	if text, err := Settings(Path(dir)); text != "  ExitReason:      \"one\\ntwo\"\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

func TestStop(t *testing.T) {
	at := func(seconds int64) string { return time.Unix(seconds, 0).Format(time.ANSIC) }
	past := "Current time (" + at(1_000_000) + ") is past "
	for _, c := range []struct {
		name   string
		fields map[Field]string
		margin time.Duration
		want   []string
	}{
		{"no file", nil, time.Hour, nil},
		{"not yet", map[Field]string{Checkpoints: "1", Before: "1000010", After: "1000001", Seconds: "9"}, time.Hour, nil},
		{"the run has ended by itself", map[Field]string{Because: Finalized}, 0, []string{"Reason: SCR_FINALIZE_CALLED."}},
		{"all", map[Field]string{Because: "full", Checkpoints: "0", Before: "1000060", After: "1000000", Seconds: "60"}, 0, []string{
			"Reason: full.", "No checkpoints remaining.",
			past + "ExitBefore-HaltSeconds time (" + at(1_000_000) + ").", past + "ExitAfter time (" + at(1_000_000) + ")."}},
		{"seconds of the parameter", map[Field]string{Before: "1000060"}, time.Minute, []string{past + "ExitBefore-HaltSeconds time (" + at(1_000_000) + ")."}},
	} {
		dir := t.TempDir()
		if c.fields != nil {
			must(t, Change(dir, c.fields))
		}
		if got, err := Stop(Path(dir), c.margin, now); !slices.Equal(got, c.want) || err != nil {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	dir := prefix(t)
	must(t, os.WriteFile(Path(dir), []byte("nonsense"), 0o600))
	if _, err := Stop(Path(dir), 0, now); err == nil {
		t.Error("a file that cannot be read: no error")
	}
}

func TestAtOnce(t *testing.T) {
	dir := t.TempDir()
	asks := func(began time.Time, want bool) {
		t.Helper()
		if at, err := AtOnce(dir, began); at != want || err != nil {
			t.Error(at, err)
		}
	}
	asks(now, false)
	must(t, Change(dir, map[Field]string{Immediate: "1000000"}))
	asks(now.Add(-time.Second), true)
	asks(now, true)
	asks(now.Add(time.Second), false) // it was meant for the run before
}

func TestWasFinalized(t *testing.T) {
	dir := prefix(t)
	for _, want := range []bool{false, true} {
		if is, err := WasFinalized(dir); is != want || err != nil {
			t.Error(is, err)
		}
		must(t, End(dir, ""))
	}
}

func TestParseTime(t *testing.T) {
	at := time.Date(2026, 11, 21, 14, 30, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"2026-11-21T14:30":     at,
		"2026-11-21T14:30:05":  at.Add(5 * time.Second),
		"2026-11-21 14:30":     at,
		"2026-11-21T14:30:00Z": time.Date(2026, 11, 21, 14, 30, 0, 0, time.UTC),
		"2026-11-21":           time.Date(2026, 11, 21, 0, 0, 0, 0, time.Local),
		"15:00":                at.Add(30 * time.Minute),
		"14:00":                time.Date(2026, 11, 22, 14, 0, 0, 0, time.Local),
		"1795271400":           time.Unix(1795271400, 0),
	} {
		if got, err := ParseTime(text, at); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "noon", "2026-13-01", "25:00", "12", "-1795271400", "1795271400x"} {
		if got, err := ParseTime(text, at); err == nil || !strings.Contains(err.Error(), "14:30") {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}
