package scr

import (
	"fmt"
	"time"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/report"
)

// What is logged (docs/logging.md) is logged by rank 0; on others s.events is
// nil, which logs nothing.

// openLog begins the log of the run, which starts at start.
func (s *Session) openLog(start time.Time) {
	if s.world.Rank() == 0 {
		s.events = eventlog.Open(s.config, s.log)
	}
	s.events.Add(eventlog.Record{Type: "INIT_START", Start: start,
		Note: fmt.Sprintf("goscr %s, %s", Version, report.Count(s.world.Size(), "rank"))})
}

// event logs what happened to a dataset.
func (s *Session) event(kind string, d dataset.Dataset, r eventlog.Record) {
	r.Type, r.Dataset, r.Name = kind, d.ID(), d.Name()
	s.events.Add(r)
}

// result logs how what began at start ended: as kind_good, or kind_FAIL with
// the reason.
func (s *Session) result(kind, good string, d dataset.Dataset, start time.Time, err error) {
	r := eventlog.Record{Start: start, Seconds: eventlog.Since(start)}
	if err != nil {
		good, r.Note = "FAIL", err.Error()
	}
	s.event(kind+"_"+good, d, r)
}

// moved logs that all files of a dataset were copied, or read and protected,
// since start.
func (s *Session) moved(kind string, d dataset.Dataset, from, to string, start time.Time) {
	s.event(kind, d, eventlog.Record{Transfer: true, From: from, To: to, Start: start, Seconds: eventlog.Since(start),
		Bytes: eventlog.Count(d.Size()), Files: eventlog.Count(int64(d.Files()))})
}

// computing logs that the program computes from now on, unless the session has
// ended.
func (s *Session) computing() {
	if s.state == finished {
		return
	}
	s.computes = time.Now()
	s.events.Add(eventlog.Record{Type: "COMPUTE_START"})
}

// computed logs that the program has computed until now.
func (s *Session) computed() {
	s.events.Add(eventlog.Record{Type: "COMPUTE_END", Start: s.computes, Seconds: eventlog.Since(s.computes)})
}

// kindOf is what a dataset is called in the log.
func kindOf(d dataset.Dataset) string {
	if d.Flags().Has(Checkpoint) {
		return "CHECKPOINT"
	}
	return "OUTPUT"
}

// tellBeginning says, once, that the run has no checkpoint to begin with.
func (s *Session) tellBeginning() {
	if s.beginning || s.restart != nil {
		return
	}
	s.beginning = true
	s.log.Info("no checkpoint to restart from: the run starts from the beginning")
	s.events.Add(eventlog.Record{Type: "RESTART_NONE", Note: "from the beginning"})
}

// tellHalt logs a reason to stop, each once.
func (s *Session) tellHalt(reason string) {
	if reason != "" && reason != s.halting {
		s.halting = reason
		s.events.Add(eventlog.Record{Type: "HALT", Note: reason})
	}
}
