package scr

import (
	"time"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/mpi"
)

// Rank 0 logs the events (docs/logging.md). On other ranks s.events is nil, whose methods
// do nothing.

// computing logs the beginning of a phase in which the program computes, unless the
// session has ended.
func (s *Session) computing() {
	if s.state == finished {
		return
	}
	s.computes = time.Now()
	s.events.Add(eventlog.Record{Type: "COMPUTE_START"})
}

// computed logs the end of a phase in which the program computed.
func (s *Session) computed() {
	s.events.Add(eventlog.Record{Type: "COMPUTE_END", Start: s.computes, Seconds: eventlog.Since(s.computes)})
}

// kindOf returns the name of a dataset's kind in the log.
func kindOf(d dataset.Dataset) string {
	if d.Flags().Has(dataset.Checkpoint) {
		return "CHECKPOINT"
	}
	return "OUTPUT"
}

// tellBeginning logs, once, that there is no checkpoint from which the run restarts.
func (s *Session) tellBeginning() {
	if s.beginning || s.restart.Offered() != nil {
		return
	}
	s.beginning = true
	s.log.Info("no checkpoint to restart from: the run starts from the beginning")
	s.events.Add(eventlog.Record{Type: "RESTART_NONE", Note: "from the beginning"})
}

// tellTraffic logs how much the rank has sent and received since the counters had the
// values in before.
func (s *Session) tellTraffic(what string, before mpi.Traffic) {
	t := s.traffic
	s.log.Detail("%s: sent %d bytes in %d messages, received %d bytes", what,
		t.Sent-before.Sent, t.Messages-before.Messages, t.Received-before.Received)
}
