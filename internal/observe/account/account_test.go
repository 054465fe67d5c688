package account

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/test/accounttest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestAccount_Totals(t *testing.T) {
	a, err := Read(write(t, accounttest.Job{ID: "job1", Name: "heat", Node: "node2", Runs: 2, Checkpoints: 3}.Text()))
	must(t, err)
	if len(a.Runs) != 2 || a.Job.ID != "job1" || a.Job.Name != "heat" || a.Job.User != "alice" {
		t.Fatalf("%+v", a)
	}
	one, two := a.Runs[0], a.Runs[1]
	if one.Outcome != Died || one.Signal != 9 || *one.Status != 137 || one.Nodes != 4 || one.Ranks != 16 || one.NodeList != "node[0-3]" || len(one.Datasets) != 3 {
		t.Errorf("%+v", one)
	}
	if two.Outcome != Finished || two.From != "ckpt.3" || two.Number != 2 {
		t.Errorf("%+v", two)
	}
	d := one.Datasets[1]
	if d.Name != "ckpt.2" || !d.Complete || !d.Flushed || d.FlushTime != 4 || d.Waited != 0 || d.Bytes != 100<<20 || d.Redundancy != 1<<20 || d.Seconds != 3 {
		t.Errorf("%+v", d)
	}
	got := a.Totals()
	// Both runs have computed 30 s and then 5 s, of which the first has lost the latter. The
	// flush of ckpt.6 had gone on for 5 s at the end.
	want := Totals{Runs: 2, Ran: 91, Finished: 1, Died: 1, LostNodes: 1, Checkpoints: 6, Flushed: 2,
		Seconds:  Seconds{Computing: 70, Writing: 12, Protecting: 6, Background: 4 + 4 + 5, Restarting: 3, Down: 20, Recomputed: 5},
		Bytes:    Bytes{Written: 600 << 20, Redundancy: 6 << 20, Flushed: 200 << 20, Avoided: 400 << 20},
		Hours:    Hours{Spent: 4 * 21. / 3600, Saved: 4 * 30. / 3600},
		Interval: Interval{Used: 10, Cost: 3, MTBF: 91, Best: got.Interval.Best},
		Slowest:  Slowest{"node2", 12, 12}}
	round := func(p *float64) { *p = math.Round(*p*1e6) / 1e6 }
	for _, x := range []*Totals{&got, &want} {
		round(&x.Hours.Spent)
		round(&x.Hours.Saved)
		round(&x.Seconds.Restarting)
	}
	if got != want {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	if got.Interval.Best < 18 || got.Interval.Best > 24 { // Young: sqrt(2*3*91) = 23.4, less the cost in Daly's
		t.Errorf("best %v", got.Interval.Best)
	}
}

// Without scr_run, a run that does not end by itself is known by the next one.
func TestAccount_WithoutRuns(t *testing.T) {
	var b strings.Builder
	for line := range strings.Lines(accounttest.Job{ID: "j", Runs: 3, Checkpoints: 2}.Text()) {
		if !strings.Contains(line, "event=RUN_") {
			b.WriteString(line)
		}
	}
	a, err := Read(write(t, b.String()))
	must(t, err)
	var got []Outcome
	for _, r := range a.Runs {
		got = append(got, r.Outcome)
	}
	if len(got) != 3 || got[0] != Died || got[1] != Died || got[2] != Finished {
		t.Errorf("%v", got)
	}
}

// Logs of SCR 3.1 have local times and no phases.
func TestRead_LogOfSCR(t *testing.T) {
	a, err := Read(write(t, `2026-11-21T00:00:00: host=node0, jobid=job1, event=INIT_START, note="goscr v3.1.0, 4 ranks", start=2026-11-21T00:00:00
2026-11-21T00:00:01: host=node0, jobid=job1, event=INIT_END, start=2026-11-21T00:00:00, secs=1.000000
2026-11-21T00:00:01: host=node0, jobid=job1, event=COMPUTE_START
2026-11-21T00:00:11: host=node0, jobid=job1, event=COMPUTE_END, start=2026-11-21T00:00:01, secs=10.000000
2026-11-21T00:00:11: host=node0, jobid=job1, event=CHECKPOINT_START, note="/dev/shm", dset=1, name="ckpt.1"
2026-11-21T00:00:13: host=node0, jobid=job1, event=CHECKPOINT_END, dset=1, name="ckpt.1", start=2026-11-21T00:00:11, secs=2.000000
2026-11-21T00:00:13: host=node0, jobid=job1, xfer=ENCODE, from="/dev/shm", to="/dev/shm", dset=1, name="ckpt.1", start=2026-11-21T00:00:12, secs=1.000000, bytes=4096, files=4
`))
	must(t, err)
	if s := a.Totals().Seconds; s.Computing != 10 || s.Writing != 1 || s.Protecting != 1 || a.Runs[0].Ranks != 4 || a.Runs[0].Outcome != Open {
		t.Errorf("%+v %+v", s, a.Runs[0])
	}
}

// A run that reads what it has written has not restarted from that.
func TestRead_ReadsItsOwn(t *testing.T) {
	const text = `2026-11-21T00:00:00: host=node0, jobid=job1, event=INIT_START, note="goscr v3.1.0, 4 ranks", start=2026-11-21T00:00:00
2026-11-21T00:00:02: host=node0, jobid=job1, event=RESTART_SUCCESS, dset=1, name="ckpt.1", start=2026-11-21T00:00:01, secs=1.000000
2026-11-21T00:00:11: host=node0, jobid=job1, event=CHECKPOINT_START, note="/dev/shm", dset=2, name="ckpt.2"
2026-11-21T00:00:13: host=node0, jobid=job1, event=CHECKPOINT_END, dset=2, name="ckpt.2", start=2026-11-21T00:00:11, secs=2.000000
2026-11-21T00:00:15: host=node0, jobid=job1, event=RESTART_SUCCESS, dset=2, name="ckpt.2", start=2026-11-21T00:00:14, secs=1.000000
`
	a, err := Read(write(t, text))
	must(t, err)
	if from := a.Runs[0].From; from != "ckpt.1" {
		t.Errorf("restarted from %q", from)
	}
}

// A run without an end in the log of a prefix directory has died, unless it may run.
func TestRead_NoEnd(t *testing.T) {
	const text = `2026-11-21T00:00:00: host=node0, jobid=job1, event=INIT_START, note="goscr v3.1.0, 4 ranks", start=2026-11-21T00:00:00
2026-11-21T00:00:01: host=node0, jobid=job1, event=INIT_END, start=2026-11-21T00:00:00, secs=1.000000
2026-11-21T00:00:01: host=node0, jobid=job1, event=COMPUTE_START
2026-11-21T00:00:11: host=node0, jobid=job1, event=COMPUTE_END, start=2026-11-21T00:00:01, secs=10.000000
`
	dir := t.TempDir()
	path := eventlog.TextFile(dir)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	for _, text := range []string{text, text + `2026-11-21T00:00:12: host=node0, jobid=job1, event=HALT, note="scr_halt"` + "\n"} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		ended := Died
		if strings.Contains(text, "HALT") {
			ended = Finished
		}
		for _, what := range []string{dir, path} {
			a, err := Read(what)
			must(t, err)
			a.EndRuns(what)
			if a.Runs[0].Outcome != ended {
				t.Errorf("%s: %+v", what, a.Runs[0])
			}
		}
	}
	must(t, os.WriteFile(path, []byte(text), 0o600))
	for _, file := range []string{request.LockPath(dir), request.LoopPath(dir)} {
		held, err := lock.Try(file, lock.Exclusive)
		must(t, err)
		a, err := Read(dir)
		must(t, err)
		a.EndRuns(dir)
		if a.Runs[0].Outcome != Open || a.Totals().Died != 0 {
			t.Errorf("%+v", a.Runs[0])
		}
		held.Release()
	}
}

func TestRead_Rotated(t *testing.T) {
	text := accounttest.Job{ID: "j", Runs: 3, Checkpoints: 4}.Text()
	lines := strings.SplitAfter(text, "\n")
	path := write(t, strings.Join(lines[40:], ""))
	must(t, os.WriteFile(eventlog.Rotation(path, 1), []byte(strings.Join(lines[20:40], "")), 0o600))
	must(t, os.WriteFile(eventlog.Rotation(path, 2), []byte(strings.Join(lines[:20], "")), 0o600))
	a, err := Read(path)
	must(t, err)
	if got := a.Totals(); got.Runs != 3 || got.Checkpoints != 12 {
		t.Errorf("%+v", got)
	}
}

// The last record of a job makes the log so long that it is rotated: then there are only
// older ones, until the next job writes its first record.
func TestRead_OnlyRotated(t *testing.T) {
	lines := strings.SplitAfter(accounttest.Job{ID: "j", Runs: 3, Checkpoints: 4}.Text(), "\n")
	dir := t.TempDir()
	path := eventlog.TextFile(dir)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(eventlog.Rotation(path, 1), []byte(strings.Join(lines[40:], "")), 0o600))
	must(t, os.WriteFile(eventlog.Rotation(path, 2), []byte(strings.Join(lines[:40], "")), 0o600))
	for _, what := range []string{dir, path} {
		a, err := Read(what)
		if err != nil || a.Totals().Runs != 3 || a.Totals().Checkpoints != 12 {
			t.Errorf("%s: %+v, %v", what, a, err)
		}
	}
	for n := range eventlog.Rotated {
		must(t, os.RemoveAll(eventlog.Rotation(path, n+1)))
	}
	for what, want := range map[string]error{dir: ErrEmpty, path: fs.ErrNotExist} {
		if a, err := Read(what); a != nil || !errors.Is(err, want) {
			t.Errorf("%s: %+v, %v", what, a, err)
		}
	}
}

// A job may rotate the logs while they are opened: what is opened twice is read once.
func TestRead_WhileItRotates(t *testing.T) {
	text := accounttest.Job{ID: "j", Runs: 1, Checkpoints: 4}.Text()
	path := write(t, text)
	must(t, os.Link(path, eventlog.Rotation(path, 1))) // as the log and log.1 look then
	a, err := Read(path)
	must(t, err)
	if got := a.Totals(); got.Runs != 1 || got.Checkpoints != 4 {
		t.Errorf("%+v", got)
	}
}

func TestRead_Broken(t *testing.T) {
	good := accounttest.Job{ID: "j", Runs: 2, Checkpoints: 2}.Text()
	var broken *BrokenError
	for name, c := range map[string]struct {
		text, says string
		some       bool // there is an account all the same
	}{
		"empty":     {"", "is empty", false},
		"foreign":   {strings.Repeat("hello\n", 5000), "this is not the log of a job: line 1", false},
		"binary":    {strings.Repeat("\x00\xff\x7f", 1000), "this is not the log of a job", false},
		"no run":    {strings.SplitAfter(good, "\n")[3], "no run is logged", false},
		"truncated": {good[:len(good)-7], "the line has no end", true},
		"damaged":   {strings.Replace(good, ", dset=1", ", dset=x", 1), "dset", true},
		"long line": {good + strings.Repeat("x", 3<<20) + "\n" + good, "more than 1048576 bytes", true},
	} {
		a, err := Read(write(t, c.text))
		if err == nil || !strings.Contains(err.Error(), c.says) || (a != nil) != c.some {
			t.Errorf("%s: %v, account %v", name, err, a != nil)
		}
		if c.some && (!errors.As(err, &broken) || a.Problem != err.Error() || len(a.Runs) < 2) {
			t.Errorf("%s: %v, %d runs", name, err, len(a.Runs))
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no run is logged") {
		t.Error(err)
	}
	for _, url := range []string{"mysql://", "mysql://u:secret@host", "mysql://u:secret@/x", "mysql://u:secret@host:p/x"} {
		if _, err := Read(url); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// Whatever a log says, its account has no time that is negative or not finite.
func FuzzRead(f *testing.F) {
	f.Add(accounttest.Job{ID: "j", Runs: 2, Checkpoints: 2}.Text())
	f.Add("2026-11-21T00:00:13: host=n, jobid=j, event=INIT_START\n2026-11-21T00:00:12: host=n, jobid=j, event=COMPUTE_END, start=2026-11-21T00:00:14, secs=-1")
	f.Fuzz(func(t *testing.T, text string) {
		c := NewCollector()
		if _, err := ReadText(strings.NewReader(text), c.Add); err != nil {
			var broken *BrokenError
			if !errors.As(err, &broken) {
				t.Fatal(err)
			}
		}
		a := c.Account(time.Now())
		got := a.Totals()
		if got.Ran+got.Seconds.Down < longestTime { // longer times are not those of a job
			sums(t, a)
		}
		s := got.Seconds
		for _, v := range []float64{s.Computing, s.Writing, s.Protecting, s.Flushing, s.Background, s.Restarting, s.Launching, s.Ending, s.Other, s.Down, s.Recomputed,
			got.Hours.Spent, got.Hours.Saved, got.Interval.Used, got.Interval.Best} {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				t.Fatalf("%+v", got)
			}
		}
	})
}

// A log without end is not collected until the memory is full.
func TestCollector_TooLarge(t *testing.T) {
	c := NewCollector()
	c.size = most - 1
	must(t, c.Add(eventlog.Record{Type: "INIT_START"}))
	if err := c.Add(eventlog.Record{Type: "INIT_END"}); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}

// A run that scr_run has ended on request is none of the failures, whatever its exit status.
func TestRead_EndedOnRequest(t *testing.T) {
	for halt, want := range map[string]Outcome{
		"": Died,
		`2026-11-21T00:00:08.000000Z: host=n, jobid=j, event=HALT, note="stopped by signal terminated"` + "\n": Finished,
	} {
		a, err := Read(write(t, `2026-11-21T00:00:01.000000Z: host=n, jobid=j, event=RUN_START, run=1, nodes=2
2026-11-21T00:00:02.000000Z: host=n, jobid=j, event=INIT_START
2026-11-21T00:00:03.000000Z: host=n, jobid=j, event=INIT_END
`+halt+`2026-11-21T00:00:08.000000Z: host=n, jobid=j, event=RUN_END, note="exit status 143", run=1, status=143
`))
		must(t, err)
		if len(a.Runs) != 1 || a.Runs[0].Outcome != want || a.Totals().Died != map[Outcome]int{Died: 1}[want] {
			t.Errorf("%q: %+v", halt, a.Runs)
		}
	}
}

// A dataset that is protected while the program continues costs the program no time, but the wait for
// the one before does.
func TestAccount_ProtectedBehind(t *testing.T) {
	begin := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	var text strings.Builder
	add := func(end, start float64, r eventlog.Record) {
		took := end - start
		r.Time, r.Start, r.Job.ID, r.Job.Host = at(end), at(start), "job1", "node0"
		if r.Spread == nil {
			r.Seconds = &took
		}
		text.WriteString(r.Line() + "\n")
	}
	took := func(s float64) *eventlog.Spread { return &eventlog.Spread{Least: s, Median: s, Most: s, Node: "node0"} }
	add(0, 0, eventlog.Record{Type: "INIT_START", Note: "goscr, 4 ranks", Run: &eventlog.Run{Nodes: 1}})
	add(1, 0, eventlog.Record{Type: "INIT_END"})
	for i, waits := range [][2]float64{{0, 0}, {0, 4}, {1, 0}, {1, 2}, {1, 0}} { // in Start, the last time for something else, and in Complete
		id, name, start := i+1, "ckpt."+strconv.Itoa(i+1), []float64{10, 20, 28, 33, 50}[i]
		opened := start + waits[0]
		end := opened + 2 + waits[1]
		add(start, start, eventlog.Record{Type: "CHECKPOINT_START", Dataset: id, Name: name})
		add(end, start, eventlog.Record{Type: "CHECKPOINT_END", Dataset: id, Name: name})
		add(end, opened, eventlog.Record{Type: "ROUTE", Dataset: id, Name: name, Spread: took(0.5)})
		add(end, opened, eventlog.Record{Type: "WRITE", Dataset: id, Name: name, Spread: took(1.5)})
		add(end+3, end, eventlog.Record{Type: "ENCODE", Transfer: true, Dataset: id, Name: name})
	}
	a, err := Read(write(t, text.String()))
	must(t, err)
	s := a.Totals().Seconds
	if s.Writing != 11 || s.Protecting != 8 || s.Background != 15 {
		t.Errorf("%+v\n%s", s, text.String())
	}
	if slowest := a.Totals().Slowest; slowest.Of != 0 {
		t.Errorf("of one node: %+v", slowest)
	}
}
