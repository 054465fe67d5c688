// Package eventlog writes the log of a job: what happened to its datasets, when, and how
// long it took. Each event becomes a line in the file .scr/log of the prefix directory,
//
//	2026-11-21T00:01:55: host=node0, jobid=job1, event=CHECKPOINT_START, note="/tmp", dset=1, name="ckpt.1"
//
// a message to syslog, and a row in a database. The parameters SCR_LOG_* enable each of
// these three.
//
// The log never delays a program, and never makes a call fail. Each of the three has a
// queue and a goroutine of its own; records that do not fit into a queue are dropped,
// counted, and reported. The library does not contain the drivers for databases, which are
// larger than the rest of it. They are in the command binary: startRecorder starts a
// process of that binary and sends it the records through a socket.
package eventlog

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/config"
)

// Job is the job that a record is about.
type Job struct {
	Host    string // the node on which the record is logged
	User    string
	ID      string
	Name    string
	Cluster string
	Prefix  string // the prefix directory
}

// JobOf returns the job of a configuration.
func JobOf(cfg *config.Config) Job {
	return Job{
		Host: cfg.NodeName, User: cfg.UserName, ID: cfg.JobID,
		Name: cfg.JobName, Cluster: cfg.ClusterName, Prefix: cfg.Prefix,
	}
}

// Record is one entry of the log: an event, or a transfer of files if Transfer is set. A
// field that is empty, 0 or nil is not known, and is not written.
type Record struct {
	Time     time.Time
	Job      Job
	Type     string
	Transfer bool
	Note     string // of an event, not of a transfer
	From, To string // of a transfer: the directories
	Dataset  int
	Name     string // of the dataset
	Start    time.Time
	Seconds  *float64
	Bytes    *int64
	Files    *int64
}

// Since returns the Seconds of an event that began at start and ends now.
func Since(start time.Time) *float64 {
	seconds := time.Since(start).Seconds()
	return &seconds
}

// Count returns n for the field Bytes or Files of a record, where 0 is known.
func Count(n int64) *int64 { return &n }

// timeLayout is SCR's format of a time, which is local.
const timeLayout = "2006-01-02T15:04:05"

// Line is the record as a line of the text log, without the newline.
func (r *Record) Line() string { return r.Time.Local().Format(timeLayout) + ": " + r.Text() }

// Text is Line without the time. It is one line, whatever characters are in the names.
func (r *Record) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "host=%s, jobid=%s", word(r.Job.Host), word(r.Job.ID))
	if r.Transfer {
		fmt.Fprintf(&b, ", xfer=%s", word(r.Type))
	} else {
		fmt.Fprintf(&b, ", event=%s", word(r.Type))
	}
	for _, f := range []struct{ key, value string }{{"note", r.Note}, {"from", r.From}, {"to", r.To}} {
		if f.value != "" {
			fmt.Fprintf(&b, ", %s=%s", f.key, strconv.Quote(f.value))
		}
	}
	if r.Dataset != 0 {
		fmt.Fprintf(&b, ", dset=%d", r.Dataset)
	}
	if r.Name != "" {
		fmt.Fprintf(&b, ", name=%s", strconv.Quote(r.Name))
	}
	if !r.Start.IsZero() {
		fmt.Fprintf(&b, ", start=%s", r.Start.Local().Format(timeLayout))
	}
	if r.Seconds != nil {
		fmt.Fprintf(&b, ", secs=%f", *r.Seconds)
	}
	if r.Bytes != nil {
		fmt.Fprintf(&b, ", bytes=%d", *r.Bytes)
	}
	if r.Files != nil {
		fmt.Fprintf(&b, ", files=%d", *r.Files)
	}
	return b.String()
}

// word quotes text only if it contains blanks, commas, quotes or unprintable characters.
func word(text string) string {
	for _, c := range text {
		if c <= ' ' || c == ',' || c == '"' || !strconv.IsPrint(c) {
			return strconv.Quote(text)
		}
	}
	return text
}
