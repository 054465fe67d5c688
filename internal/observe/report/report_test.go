package report

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLogger_Levels(t *testing.T) {
	for debug, want := range []string{"warn once", "warn once info local", "warn once info local detail"} {
		for rank := range 2 {
			var b bytes.Buffer
			l := &Logger{Out: &b, Rank: rank, Node: "n", Debug: debug}
			l.Warn("warn")
			l.WarnOnce("%s", "once")
			l.WarnOnce("%s", "once")
			l.Info("info")
			l.Local("local")
			l.Detail("detail")
			var got []string
			for line := range strings.Lines(b.String()) {
				begin, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " on n: ")
				if !ok || begin != "SCR: rank "+string(rune('0'+rank)) {
					t.Errorf("line %q", line)
				}
				got = append(got, text)
			}
			expect := want
			if rank == 1 {
				expect = strings.Replace(want, " info", "", 1)
			}
			if strings.Join(got, " ") != expect {
				t.Errorf("SCR_DEBUG=%d, rank %d: %q, want %q", debug, rank, got, expect)
			}
		}
	}
	(&Logger{}).Warn("to nobody")
}

// writes counts the calls of Write.
type writes struct{ list []string }

func (w *writes) Write(p []byte) (int, error) {
	w.list = append(w.list, string(p))
	return len(p), nil
}

func TestLogger_OneWriteAndOneLine(t *testing.T) {
	var w writes
	l := &Logger{Out: &w, Node: "n"}
	l.Warn("a %s\nb", "x\ny")
	if len(w.list) != 1 || w.list[0] != "SCR: rank 0 on n: a x; y; b\n" {
		t.Errorf("%q", w.list)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB",
		1 << 40: "1.0 TiB", 1<<63 - 1: "8.0 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// clock is a time that a test sets.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func TestLogger_SaysTheSameOnlySoOften(t *testing.T) {
	var w writes
	c := &clock{time.Unix(1e9, 0)}
	l := &Logger{Out: &w, Node: "n", now: c.now}
	for i := range 1000 {
		l.Warn("file %d is full", i)
	}
	l.Warn("another thing")
	want := []string{"file 0 is full", "file 1 is full", "file 2 is full" + andMore, "another thing"}
	c.Time = c.Add(period)
	for i := range 10 {
		l.Warn("file %d is full", i)
	}
	want = append(want, "file 0 is full (997 lines like this one were left out)")
	c.Time = c.Add(period)
	l.Warn("file %d is full", 99)
	want = append(want, "file 99 is full (9 lines like this one were left out)")
	for i := range want {
		want[i] = "SCR: rank 0 on n: " + want[i] + "\n"
	}
	if !slices.Equal(w.list, want) {
		t.Errorf("%q\nwant %q", w.list, want)
	}
	l.Debug, w.list = 2, nil
	for range 100 {
		l.Warn("once more")
	}
	if len(w.list) != 100 {
		t.Errorf("%d lines of 100 with SCR_DEBUG=2", len(w.list))
	}
}

// A job of 10,000 ranks on 100 nodes, in which all ranks say the same at once.
func TestLogger_RanksShareLimit(t *testing.T) {
	job := t.TempDir()
	var w writes
	c := &clock{time.Unix(1e9, 0)}
	var loggers []*Logger
	for node := range 100 {
		dir := t.TempDir()
		for i := range 100 {
			loggers = append(loggers, &Logger{Out: &w, Rank: node*100 + i, Node: "n", shared: []string{dir, job}, now: c.now})
		}
	}
	tell := func() int {
		w.list = nil
		for _, l := range loggers {
			l.Warn("rank %d has no room", l.Rank)
		}
		return len(w.list)
	}
	if n := tell(); n != burst || !strings.HasSuffix(w.list[burst-1], andMore+"\n") {
		t.Errorf("%q", w.list)
	}
	if n := tell(); n != 0 {
		t.Errorf("at once again: %d lines", n)
	}
	c.Time = c.Add(period)
	if n := tell(); n != burst {
		t.Errorf("after a while: %d lines", n)
	}
	Forget(job)
	for _, l := range loggers {
		l.Share(l.shared[1:]...)
	}
	if n := tell(); n != burst {
		t.Errorf("in the next run: %d lines", n)
	}
	loggers[0].Share("/nowhere/at/all")
	if loggers[0].Warn("another thing"); len(w.list) != burst+1 {
		t.Error("silent where nothing can be shared")
	}
	if names, _ := os.ReadDir(job); len(names) != burst {
		t.Errorf("%d files", len(names))
	}
	Forget(job)
	if names, _ := os.ReadDir(job); len(names) != 0 {
		t.Errorf("%d files are left", len(names))
	}
}

// What was said at a time that has not come yet, before the clock was set back, keeps
// nobody silent.
func TestLogger_ClockGoesBack(t *testing.T) {
	job := t.TempDir()
	var w writes
	c := &clock{time.Unix(1e9, 0).AddDate(1, 0, 0)}
	say := func() int {
		w.list = nil
		for range 100 {
			(&Logger{Out: &w, Node: "n", shared: []string{job}, now: c.now}).Warn("no room")
		}
		return len(w.list)
	}
	if n := say(); n != burst {
		t.Errorf("%d lines", n)
	}
	c.Time = c.AddDate(-1, 0, 0)
	if n := say(); n != burst {
		t.Errorf("after the clock was set back: %d lines", n)
	}
}

// Of the processes of a job, on any nodes, one writes what all of them meet.
func TestWarnFirst(t *testing.T) {
	job := t.TempDir()
	var w strings.Builder
	for node := range 3 {
		dir := t.TempDir()
		for range 4 {
			l := &Logger{Out: &w, Node: "n", shared: []string{dir, job}}
			l.WarnFirst("file %d cannot have its mode", node)
		}
	}
	if n := strings.Count(w.String(), "\n"); n != 1 {
		t.Errorf("%d lines: %s", n, w.String())
	}
	Forget(job)
	(&Logger{Out: &w, Node: "n", shared: []string{job}}).WarnFirst("file 7 cannot have its mode")
	if n := strings.Count(w.String(), "\n"); n != 2 {
		t.Errorf("%d lines after the next run has begun", n)
	}
}
