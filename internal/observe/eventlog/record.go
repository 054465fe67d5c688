// Package eventlog writes the log of a job: what happened to its datasets, when, and how
// long it took. Each event becomes a line in the file .scr/log of the prefix directory,
//
//	2026-11-21T00:01:55.250000Z: host=node0, jobid=job1, event=CHECKPOINT_START, note="/tmp", dset=1, name="ckpt.1"
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
	Host    string `json:"host"` // the node on which the record is logged
	User    string `json:"user"`
	ID      string `json:"id"`
	Name    string `json:"name"`
	Cluster string `json:"cluster"`
	Prefix  string `json:"prefix"` // the prefix directory
}

// JobOf returns the job of a configuration.
func JobOf(cfg *config.Config) Job {
	return Job{
		Host: cfg.NodeName, User: cfg.UserName, ID: cfg.JobID,
		Name: cfg.JobName, Cluster: cfg.ClusterName, Prefix: cfg.Prefix,
	}
}

// Record is one entry of the log: an event; a transfer of files if Transfer is set; or how
// long a phase took on all ranks if Spread is set. A field that is empty, 0 or nil is not
// known, and is not written.
type Record struct {
	Time     time.Time
	Job      Job
	Type     string
	Transfer bool
	Note     string // of an event or a phase, not of a transfer
	From, To string // of a transfer: the directories
	Dataset  int
	Name     string // of the dataset
	Start    time.Time
	Seconds  *float64
	Bytes    *int64
	Files    *int64
	Run      *Run
	Spread   *Spread
}

// Run describes a run of the program: the fields of RUN_START and RUN_END, which scr_run
// logs, and of NODES, which the program logs.
type Run struct {
	Number   int    // of the runs of an allocation, from 1
	Status   *int   // exit status, as a shell reports it
	Signal   int    // number of the signal that ended the run, 0 if none did
	Nodes    int    // how many nodes it uses
	Ranks    int    // how many ranks it has
	NodeList string // the nodes, as "node[0-3]"
}

// Spread says how a phase has gone on all ranks: in seconds, or in percent in a record of
// type FILL.
type Spread struct {
	Least  float64 `json:"least"`
	Median float64 `json:"median"`
	Most   float64 `json:"most"`
	Rank   int     `json:"rank"` // the rank that had Most
	Node   string  `json:"node"` // its node
}

// Since returns the Seconds of an event that began at start and ends now.
func Since(start time.Time) *float64 {
	seconds := time.Since(start).Seconds()
	return &seconds
}

// Count returns n for the field Bytes or Files of a record, where 0 is known.
func Count(n int64) *int64 { return &n }

// timeLayout is the format of a time. Logs of SCR 3.1 have
// oldLayout, in local time.
const (
	timeLayout = "2006-01-02T15:04:05.000000Z"
	oldLayout  = "2006-01-02T15:04:05"
)

// Line is the record as a line of the text log, without the newline.
func (r *Record) Line() string { return r.Time.UTC().Format(timeLayout) + ": " + r.Text() }

// Text is Line without the time. It is one line, whatever characters are in the names.
func (r *Record) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "host=%s, jobid=%s, %s=%s", word(r.Job.Host), word(r.Job.ID), r.kind(), word(r.Type))
	text := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, ", %s=%s", key, quote(value))
		}
	}
	number := func(key string, n int) {
		if n != 0 {
			fmt.Fprintf(&b, ", %s=%d", key, n)
		}
	}
	text("note", r.Note)
	text("from", r.From)
	text("to", r.To)
	number("dset", r.Dataset)
	text("name", r.Name)
	if !r.Start.IsZero() {
		fmt.Fprintf(&b, ", start=%s", r.Start.UTC().Format(timeLayout))
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
	if s := r.Spread; s != nil {
		fmt.Fprintf(&b, ", least=%f, median=%f, most=%f, rank=%d", s.Least, s.Median, s.Most, s.Rank)
		text("node", s.Node)
	}
	if run := r.Run; run != nil {
		number("run", run.Number)
		if run.Status != nil {
			fmt.Fprintf(&b, ", status=%d", *run.Status)
		}
		number("signal", run.Signal)
		number("nodes", run.Nodes)
		number("ranks", run.Ranks)
		text("nodelist", run.NodeList)
	}
	if namesJob[r.Type] && !r.Transfer && r.Spread == nil {
		text("user", r.Job.User)
		text("jobname", r.Job.Name)
		text("cluster", r.Job.Cluster)
	}
	return b.String()
}

// namesJob has the events that name the job. The others have its id only.
var namesJob = map[string]bool{InitStart: true, RunStart: true}

// kind is the key of the record's type.
func (r *Record) kind() string {
	switch {
	case r.Transfer:
		return "xfer"
	case r.Spread != nil:
		return "phase"
	}
	return "event"
}

// word quotes text only if it contains blanks, commas, quotes, unprintable characters, or others
// that mean something to a shell.
func word(text string) string {
	for _, c := range text {
		if c <= ' ' || strings.ContainsRune(",\"'`$;&|<>()\\!*?~#{}", c) || !strconv.IsPrint(c) {
			return quote(text)
		}
	}
	return text
}

// quote quotes text so that it is one line, and no command to a shell that is given the line by
// mistake. strconv.Unquote is the reverse.
func quote(text string) string {
	return strings.NewReplacer("$", `\x24`, "`", `\x60`).Replace(strconv.Quote(text))
}
