package scr

import (
	"time"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/mpi"
)

// What is logged (docs/logging.md) is logged by rank 0; on others s.events is
// nil, which logs nothing.

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
	if d.Flags().Has(dataset.Checkpoint) {
		return "CHECKPOINT"
	}
	return "OUTPUT"
}

// tellBeginning says, once, that the run has no checkpoint to begin with.
func (s *Session) tellBeginning() {
	if s.beginning || s.restart.Offered() != nil {
		return
	}
	s.beginning = true
	s.log.Info("no checkpoint to restart from: the run starts from the beginning")
	s.events.Add(eventlog.Record{Type: "RESTART_NONE", Note: "from the beginning"})
}

// tellTraffic says in detail what the rank has sent and received since before.
func (s *Session) tellTraffic(what string, before mpi.Traffic) {
	t := s.traffic
	s.log.Detail("%s: sent %d bytes in %d messages, received %d bytes", what,
		t.Sent-before.Sent, t.Messages-before.Messages, t.Received-before.Received)
}
