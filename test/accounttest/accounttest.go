// Package accounttest writes logs of jobs that nobody has run, for tests.
package accounttest

import (
	"fmt"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/observe/eventlog"
)

// Epoch is when the job begins.
var Epoch = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

// Job is a job of which a log is written. Each run computes for 10 s, writes a checkpoint in
// 2 s, protects it in 1 s, and so on; the second of two checkpoints is flushed, which takes
// 4 s in the background. All runs but the last die, 5 s after their last checkpoint, 20 s
// later the next is started, and node3 has then been lost.
type Job struct {
	ID, Name    string
	Node        string // the slowest one
	Runs        int
	Checkpoints int // of each run
}

// writer makes the records of a job.
type writer struct {
	Job
	b   strings.Builder
	now time.Time
	id  int
}

func (w *writer) after(d time.Duration) { w.now = w.now.Add(d) }

func (w *writer) add(r eventlog.Record) {
	r.Time, r.Job = w.now, eventlog.Job{Host: "node0", ID: w.ID, User: "alice", Name: w.Name}
	w.b.WriteString(r.Line() + "\n")
}

func took(start, end time.Time) eventlog.Record {
	seconds := end.Sub(start).Seconds()
	return eventlog.Record{Start: start, Seconds: &seconds}
}

// did adds a record of what began at start and ends now.
func (w *writer) did(kind string, id int, name string, start time.Time) {
	r := took(start, w.now)
	r.Type, r.Dataset, r.Name = kind, id, name
	w.add(r)
}

func (w *writer) phase(kind string, id int, name string, start time.Time, most float64) {
	r := eventlog.Record{Type: kind, Dataset: id, Name: name, Start: start,
		Spread: &eventlog.Spread{Least: most / 2, Median: most * .75, Most: most, Rank: 3, Node: w.Node}}
	if kind == "ENCODE" {
		r.Bytes = eventlog.Count(1 << 20)
	}
	w.add(r)
}

// Text returns the text log of a job.
func (j Job) Text() string {
	w := &writer{Job: j, now: Epoch}
	for run := range j.Runs {
		w.run(run, run == j.Runs-1)
	}
	return w.b.String()
}

func (w *writer) run(n int, last bool) {
	start := w.now
	w.add(eventlog.Record{Type: "RUN_START", Run: &eventlog.Run{Number: n + 1, Nodes: 4, NodeList: "node[0-3]"}})
	begin := w.now
	w.add(eventlog.Record{Type: "INIT_START", Start: begin, Note: "goscr v3.1.0, 16 ranks"})
	w.after(time.Second)
	w.did("INIT_END", 0, "", begin)
	name := fmt.Sprintf("ckpt.%d", w.id)
	if n > 0 {
		w.add(eventlog.Record{Type: "RESTART_START", Dataset: w.id, Name: name})
		begin = w.now
		w.after(time.Second)
		w.did("RESTART_SUCCESS", w.id, name, begin)
	}
	for range w.Checkpoints {
		w.checkpoint()
	}
	begin = w.now
	w.add(eventlog.Record{Type: "COMPUTE_START"})
	w.after(5 * time.Second)
	status := 137
	if last {
		status = 0
		w.did("COMPUTE_END", 0, "", begin)
		w.add(eventlog.Record{Type: "FINALIZE_END"})
	}
	r := took(start, w.now)
	r.Type, r.Note = "RUN_END", fmt.Sprintf("exit status %d", status)
	r.Run = &eventlog.Run{Number: n + 1, Status: &status, Signal: max(status-128, 0)}
	w.add(r)
	if !last {
		w.add(eventlog.Record{Type: "NODE_FAIL", Note: "node3: no answer"})
		w.after(20 * time.Second)
	}
}

func (w *writer) checkpoint() {
	w.id++
	id, name := w.id, fmt.Sprintf("ckpt.%d", w.id)
	begin := w.now
	w.add(eventlog.Record{Type: "COMPUTE_START"})
	w.after(10 * time.Second)
	w.did("COMPUTE_END", 0, "", begin)
	if id%2 == 1 && id > 1 {
		flushed := fmt.Sprintf("ckpt.%d", id-1)
		start := begin
		if w.id > 2 && w.Checkpoints > 1 {
			now := w.now
			w.now = begin.Add(4 * time.Second)
			w.did("FLUSH_SUCCESS", id-1, flushed, start)
			r := took(start, w.now)
			r.Transfer, r.Type, r.Dataset, r.Name, r.Bytes, r.Files = true, "FLUSH", id-1, flushed, eventlog.Count(100<<20), eventlog.Count(16)
			w.add(r)
			w.phase("FLUSH", id-1, flushed, start, 4)
			w.now = now
		}
	}
	begin = w.now
	w.add(eventlog.Record{Type: "CHECKPOINT_START", Note: "/dev/shm", Dataset: id, Name: name})
	w.after(2 * time.Second)
	written := w.now
	w.after(time.Second)
	w.did("CHECKPOINT_END", id, name, begin)
	r := took(written, w.now)
	r.Transfer, r.Type, r.Dataset, r.Name, r.Bytes, r.Files = true, "ENCODE", id, name, eventlog.Count(100<<20), eventlog.Count(16)
	w.add(r)
	w.phase("WRITE", id, name, begin, 2)
	w.phase("ENCODE", id, name, written, 1)
	if id%2 == 0 {
		w.add(eventlog.Record{Type: "FLUSH_START", Dataset: id, Name: name})
	}
}
