package halt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func prefix(t *testing.T) string {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, ".scr"), 0o700))
	return dir
}

func set(t *testing.T, dir, key, value string) {
	t.Helper()
	must(t, hash.Update(Path(dir), func(h *hash.Hash) error { h.SetValue(key, value); return nil }))
}

func unknown() time.Time { return time.Time{} }

var now = time.Unix(1_000_000, 0)

// stops fails the test unless the job has to stop for a reason with text, or,
// where that is "", may continue.
func stops(t *testing.T, dir, text string) {
	t.Helper()
	reason, err := Reason(dir, unknown, now)
	must(t, err)
	if (reason == "") != (text == "") || !strings.Contains(reason, text) {
		t.Errorf("reason %q, want %q", reason, text)
	}
}

func TestReason(t *testing.T) {
	for _, c := range []struct {
		name   string
		fields [][2]string
		want   string
	}{
		{"nothing", nil, ""},
		{"checkpoints left", [][2]string{{"CheckpointsLeft", "1"}}, ""},
		{"no checkpoints left", [][2]string{{"CheckpointsLeft", "0"}}, "number of checkpoints"},
		{"fewer than none left", [][2]string{{"CheckpointsLeft", "-1"}}, "number of checkpoints"},
		{"a reason", [][2]string{{"ExitReason", "maintenance"}}, "maintenance"},
		{"the last run's end", [][2]string{{"ExitReason", Finalized}}, ""},
		{"after, not yet", [][2]string{{"ExitAfter", "1000001"}}, ""},
		{"after", [][2]string{{"ExitAfter", "1000000"}}, "stop after"},
		{"before, not yet", [][2]string{{"ExitBefore", "1000001"}}, ""},
		{"before", [][2]string{{"ExitBefore", "1000000"}}, "end before"},
		{"before with a margin, not yet", [][2]string{{"ExitBefore", "1000101"}, {"HaltSeconds", "100"}}, ""},
		{"before with a margin", [][2]string{{"ExitBefore", "1000100"}, {"HaltSeconds", "100"}}, "end before"},
		{"a margin alone", [][2]string{{"HaltSeconds", "100"}}, ""},
		{"no numbers", [][2]string{{"CheckpointsLeft", "x"}, {"ExitAfter", ""}, {"ExitBefore", "noon"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := prefix(t)
			stops(t, dir, "")
			for _, f := range c.fields {
				set(t, dir, f[0], f[1])
			}
			stops(t, dir, c.want)
		})
	}
}

func TestCountCheckpoint(t *testing.T) {
	dir := prefix(t)
	must(t, CountCheckpoint(dir))
	if _, err := os.Stat(Path(dir)); !os.IsNotExist(err) {
		t.Error("counting made a file")
	}
	set(t, dir, "CheckpointsLeft", "2")
	for _, want := range []string{"", "number of checkpoints", "number of checkpoints"} {
		must(t, CountCheckpoint(dir))
		stops(t, dir, want)
	}
	h, err := hash.ReadFile(Path(dir))
	must(t, err)
	if h.Text("CheckpointsLeft") != "0" {
		t.Error(h.Text("CheckpointsLeft"))
	}
}

func TestBeginAndEnd(t *testing.T) {
	dir := prefix(t)
	must(t, Begin(dir, "", 0))
	if _, err := os.Stat(Path(dir)); !os.IsNotExist(err) {
		t.Error("a run that says nothing made a file")
	}
	must(t, End(dir, ""))
	stops(t, dir, "") // itself does not stop a run
	must(t, Begin(dir, "", 60))
	h, err := hash.ReadFile(Path(dir))
	must(t, err)
	if h.Has("ExitReason") || h.Text("HaltSeconds") != "60" {
		t.Errorf("%v", h.Keys())
	}
	set(t, dir, "ExitReason", "maintenance")
	must(t, End(dir, ""))
	must(t, Begin(dir, "", 0))
	stops(t, dir, "maintenance") // a person's wish outlives the run
}

// A one-shot condition is for one job; a time is for all.
func TestOneShot(t *testing.T) {
	begin := func(dir, allocation string) { must(t, Begin(dir, allocation, 0)) }
	for _, c := range []struct {
		name   string
		fields map[Field]string
		one    bool
	}{
		{"checkpoints", map[Field]string{Checkpoints: "0"}, true},
		{"plain", map[Field]string{Because: Asked}, true},
		{"immediate", map[Field]string{Because: AskedNow, Immediate: "1000000"}, true},
		{"a reason", map[Field]string{Because: "maintenance"}, false},
		{"a time", map[Field]string{After: "999999"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := prefix(t)
			must(t, Change(dir, c.fields))
			begin(dir, "17") // it waits for a job to stop
			why, err := Reason(dir, unknown, now)
			must(t, err)
			stops(t, dir, why)
			must(t, Obeyed(dir, "17"))
			stops(t, dir, why) // no further run of the job
			begin(dir, "17")
			stops(t, dir, why)
			after := why
			if c.one {
				after = ""
			}
			begin(dir, "18")
			stops(t, dir, after)
			if text, err := Settings(Path(dir)); err != nil || (text == "") != c.one {
				t.Errorf("%q, %v", text, err)
			}
			must(t, Change(dir, c.fields)) // for the next
			must(t, End(dir, "18"))
			stops(t, dir, why)
			begin(dir, "") // scr_run
			stops(t, dir, after)
		})
	}
	dir := prefix(t)
	must(t, Change(dir, map[Field]string{Checkpoints: "0"}))
	must(t, Obeyed(dir, "17"))
	must(t, Change(dir, map[Field]string{Because: Asked})) // for the next job, like a number that was not reached
	begin(dir, "18")
	stops(t, dir, Asked)
	must(t, Change(dir, map[Field]string{Checkpoints: "2", Because: ""}))
	must(t, Obeyed(dir, "18"))
	begin(dir, "19")
	must(t, CountCheckpoint(dir))
	must(t, CountCheckpoint(dir))
	stops(t, dir, "number of checkpoints")
}

// A run that SCR_HALT_EXIT=1 ends leaves the reason in the words of SCR 3.1, which the next run takes away.
func TestExited(t *testing.T) {
	now := time.Unix(1000, 0)
	for want, conditions := range map[string]map[Field]string{
		"NO_CHECKPOINTS_LEFT": {Checkpoints: "0", After: "900"},
		"EXIT_AFTER_TIME":     {Checkpoints: "1", After: "1000", Before: "1000"},
		"EXIT_BEFORE_TIME":    {After: "1001", Before: "1100", Seconds: "100"},
		"TIME_LIMIT":          {Before: "1101", Seconds: "100"},
		"the user's":          {Because: "the user's", Checkpoints: "0"},
	} {
		dir := t.TempDir()
		must(t, Change(dir, conditions))
		must(t, Exited(dir, "17", now))
		h, err := Read(Path(dir))
		if err != nil || h.Text(keyReason) != want {
			t.Errorf("%v, %v, not %s", h, err, want)
		}
		must(t, Begin(dir, "18", 0))
		h, err = Read(Path(dir))
		if kept := h.Text(keyReason); err != nil || kept != conditions[Because] {
			t.Errorf("the next run finds %q, %v", kept, err)
		}
	}
}

func TestReason_CorruptFile(t *testing.T) {
	dir := prefix(t)
	must(t, os.WriteFile(Path(dir), []byte("nonsense"), 0o600))
	if _, err := Reason(dir, unknown, now); err == nil {
		t.Error("no error")
	}
}

func TestReason_EndOfTheAllocation(t *testing.T) {
	dir := prefix(t)
	for _, c := range []struct {
		margin string
		left   time.Duration
		want   bool
	}{{"", -time.Hour, false}, {"0", time.Second, false}, {"60", 61 * time.Second, false}, {"60", time.Minute, true}, {"60", -time.Hour, true}} {
		set(t, dir, "HaltSeconds", c.margin)
		reason, err := Reason(dir, func() time.Time { return now.Add(c.left) }, now)
		must(t, err)
		if strings.Contains(reason, "allocation ends") != c.want {
			t.Errorf("%v left, margin %q: %q", c.left, c.margin, reason)
		}
	}
	stops(t, dir, "") // nobody knows when it ends
}

// SCR's own scr_halt_cntl overwrites the halt file in place: who reads meanwhile finds
// what is there after.
func TestRead_OverwrittenInPlace(t *testing.T) {
	dir := prefix(t)
	set(t, dir, keyCheckpointsLeft, "0")
	text, err := os.ReadFile(Path(dir))
	must(t, err)
	usual := pause
	defer func() { pause = usual }()
	for n := range len(text) {
		must(t, os.WriteFile(Path(dir), text[:n], 0o600))
		paused := 0
		pause = func() {
			if paused++; paused == 3 {
				must(t, os.WriteFile(Path(dir), text, 0o600))
			}
		}
		stops(t, dir, "number of checkpoints")
		if paused != 3 {
			t.Errorf("%d bytes of %d: paused %d times", n, len(text), paused)
		}
	}
	must(t, os.WriteFile(Path(dir), text[:10], 0o600)) // nobody continues writing it
	pause = func() {}
	if _, err := Read(Path(dir)); !errors.Is(err, hash.ErrCorrupt) {
		t.Error(err)
	}
}
