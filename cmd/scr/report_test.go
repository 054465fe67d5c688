package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/database"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/test/accounttest"
)

// logged makes a prefix directory with the log of a job, as text and as a database.
func logged(t *testing.T) (dir, text string) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, ".scr"), 0o700))
	text = accounttest.Job{ID: "job1", Name: "heat", Node: "node2", Runs: 2, Checkpoints: 3}.Text()
	must(t, os.WriteFile(eventlog.TextFile(dir), []byte(text), 0o600))
	db, err := database.Open(eventlog.Database{File: eventlog.DatabaseFile(dir)}, nil)
	must(t, err)
	defer db.Close()
	for line := range strings.Lines(text) {
		r, err := eventlog.Parse(line)
		must(t, err)
		r.Job.User, r.Job.Name = "alice", "heat" // as the recorder has them in all records
		must(t, db.Write(r))
	}
	return dir, text
}

// A prefix directory, its text and its database say the same.
func TestReport_Sources(t *testing.T) {
	t.Setenv("SCR_PREFIX", "")
	dir, _ := logged(t)
	want, said := run(t, 0, "scr_report", dir)
	if said != "" || !strings.Contains(want, "2 runs, 1 died; 6 checkpoints, 2 in the prefix directory; 1 node lost") {
		t.Fatalf("%s%s", want, said)
	}
	for _, argv := range [][]string{{eventlog.TextFile(dir)}, {eventlog.DatabaseFile(dir)}, {"-p", dir}} {
		if got, said := run(t, 0, append([]string{"scr_report"}, argv...)...); got != want || said != "" {
			t.Errorf("%q: %s%s\nwant\n%s", argv, got, said, want)
		}
	}
	must(t, os.Remove(eventlog.TextFile(dir)))
	if got, _ := run(t, 0, "scr_report", dir); got != want {
		t.Errorf("%s", got)
	}
	out, _ := run(t, 0, "scr_ckpt_interval", "--from-log", dir, "--stats")
	if out != "21\n" {
		t.Errorf("interval %q", out)
	}
}

// A job that was killed without scr_run has died, and its interval is known, unless it still runs or the log
// is a copy.
func TestReport_KilledWithoutScrRun(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, ".scr"), 0o700))
	text := `2026-11-21T00:00:00: host=node0, jobid=job1, event=INIT_START, note="goscr v3.1.0, 4 ranks", start=2026-11-21T00:00:00
2026-11-21T00:00:01: host=node0, jobid=job1, event=INIT_END, start=2026-11-21T00:00:00, secs=1.000000
2026-11-21T00:00:01: host=node0, jobid=job1, event=COMPUTE_START
2026-11-21T00:01:41: host=node0, jobid=job1, event=COMPUTE_END, start=2026-11-21T00:00:01, secs=100.000000
2026-11-21T00:01:41: host=node0, jobid=job1, event=CHECKPOINT_START, note="/dev/shm", dset=1, name="ckpt.1"
2026-11-21T00:01:43: host=node0, jobid=job1, event=CHECKPOINT_END, dset=1, name="ckpt.1", start=2026-11-21T00:01:41, secs=2.000000
2026-11-21T00:01:43: host=node0, jobid=job1, event=COMPUTE_START
`
	must(t, os.WriteFile(eventlog.TextFile(dir), []byte(text), 0o600))
	db, err := database.Open(eventlog.Database{File: eventlog.DatabaseFile(dir)}, nil)
	must(t, err)
	for line := range strings.Lines(text) {
		r, err := eventlog.Parse(line)
		must(t, err)
		must(t, db.Write(r))
	}
	must(t, db.Close())
	copied := filepath.Join(t.TempDir(), "log")
	must(t, os.WriteFile(copied, []byte(text), 0o600))
	const died, open = "1 run, 1 died; 1 checkpoint", "1 run, 0 died; 1 checkpoint"
	says := func(what, want string) {
		t.Helper()
		out, said := run(t, 0, "scr_report", what)
		if said != "" || !strings.Contains(out, want) || strings.Contains(out, "; best for a failure every 103 s: every 19 s (Daly)") != (want == died) {
			t.Errorf("%s: %s%s", what, out, said)
		}
	}
	for _, what := range []string{dir, eventlog.TextFile(dir), eventlog.DatabaseFile(dir)} {
		says(what, died)
	}
	says(copied, open)
	for _, file := range []string{request.LockPath(dir), request.LoopPath(dir)} {
		held, err := lock.Try(file, lock.Exclusive)
		must(t, err)
		says(dir, open)
		held.Release()
	}
}

func TestReport_Files(t *testing.T) {
	dir, _ := logged(t)
	html, trace := filepath.Join(dir, "r.html"), filepath.Join(dir, "r.json")
	if out, said := run(t, 0, "scr_report", dir, "--html", html, "--trace", trace); out+said != "" {
		t.Errorf("%s%s", out, said)
	}
	page, err := os.ReadFile(html)
	must(t, err)
	if !bytes.HasPrefix(page, []byte("<!DOCTYPE html>")) || !bytes.Contains(page, []byte("Leon Sorokin")) {
		t.Errorf("%.200s", page)
	}
	data, err := os.ReadFile(trace)
	must(t, err)
	if !json.Valid(data) {
		t.Errorf("%.200s", data)
	}
	if list, err := filepath.Glob(filepath.Join(dir, ".r*")); err != nil || len(list) > 0 {
		t.Errorf("left: %q", list)
	}
	if _, said := run(t, 1, "scr_report", dir, "--html", filepath.Join(dir, "none", "x")); said == "" {
		t.Error("no message")
	}
	out, _ := run(t, 0, "scr_report", dir, "--json")
	var got struct {
		Runs   []struct{ Outcome string }
		Totals struct{ Checkpoints, Died int }
	}
	must(t, json.Unmarshal([]byte(out), &got))
	if len(got.Runs) != 2 || got.Runs[0].Outcome != "died" || got.Totals.Checkpoints != 6 || got.Totals.Died != 1 {
		t.Errorf("%+v", got)
	}
}

// What is no log, or only partly one, is an error, and says so.
func TestReport_Broken(t *testing.T) {
	dir, text := logged(t)
	database, err := os.ReadFile(eventlog.DatabaseFile(dir))
	must(t, err)
	must(t, os.Remove(eventlog.DatabaseFile(dir)))
	// A database is read as far as it can be: wherever it ends, there is one line, and the report or none.
	for end := 20; end < len(database); end += len(database)/23 + 1 {
		path := filepath.Join(dir, "cut")
		must(t, os.WriteFile(path, database[:end], 0o600))
		if _, said := run(t, 1, "scr_report", path); strings.Count(said, "\n") != 1 || !strings.Contains(said, path) {
			t.Errorf("a database of %d bytes, of which %d are left: %s", len(database), end, said)
		}
	}
	for name, c := range map[string]struct {
		data, says string
		some       bool
	}{
		"truncated": {text[:len(text)-20], "cannot be read and are left out", true},
		"foreign":   {"\x7fELF" + strings.Repeat("\x00\x01\n", 5000), "not the log of a job", false},
		"sqlite":    {"SQLite format 3\x00" + strings.Repeat("x", 5000), "no log of goscr", false},
		"empty":     {"", "empty", false},
	} {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(c.data), 0o600))
		out, said := run(t, 1, "scr_report", path)
		if strings.Count(said, "\n") != 1 || !strings.Contains(said, c.says) || !strings.Contains(said, name) || (out != "") != c.some {
			t.Errorf("%s: %s%s", name, out, said)
		}
	}
	for _, argv := range [][]string{{"none"}, {t.TempDir()}, {"mysql://u:secret@127.0.0.1:1/x"}} {
		if _, said := run(t, 1, append([]string{"scr_report"}, argv...)...); strings.Count(said, "\n") != 1 || strings.Contains(said, "secret") {
			t.Errorf("%q: %s", argv, said)
		}
	}
	run(t, 2, "scr_report", "a", "b")
}
