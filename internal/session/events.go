package session

import (
	"slices"
	"time"

	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// events are the log of the session (docs/logging.md), and what is measured for it. Rank 0
// writes the log.
type events struct {
	*eventlog.Log               // nil on ranks other than 0
	phases        *phases.Meter // nil if the log is off
	computes      time.Time     // when the program began to compute, after its last call
	traffic       mpi.Traffic   // counted if SCR_DEBUG is at least 2
}

// computing logs the beginning of a phase in which the program computes.
func (e *events) computing() {
	e.computes = time.Now()
	e.Add(eventlog.Record{Type: eventlog.ComputeStart})
}

// computed logs the end of a phase in which the program computed.
func (e *events) computed() {
	e.Add(eventlog.Record{Type: eventlog.ComputeEnd, Start: e.computes, Seconds: eventlog.Since(e.computes)})
}

// writingEvents are the types of events of a dataset that the program writes.
type writingEvents struct{ start, end, fail string }

// writingEventsOf returns the events by the purpose of a dataset.
func writingEventsOf(d dataset.Dataset) writingEvents {
	if d.Flags().Has(dataset.Checkpoint) {
		return writingEvents{eventlog.CheckpointStart, eventlog.CheckpointEnd, eventlog.CheckpointFail}
	}
	return writingEvents{eventlog.OutputStart, eventlog.OutputEnd, eventlog.OutputFail}
}

// tellTraffic logs how much the rank has sent and received since the counters had the
// values in before.
func (e *events) tellTraffic(log *report.Logger, what string, before mpi.Traffic) {
	t := e.traffic
	log.Detail("%s: sent %d bytes in %d messages, received %d bytes", what,
		t.Sent-before.Sent, t.Messages-before.Messages, t.Received-before.Received)
}

// measure logs the phases of a dataset that is complete: the calls of Route, and what the
// program did besides until it was written; and more. It is collective, and costs one
// reduction if there is a log.
func (e *events) measure(o *unfinished, written time.Time, more ...phases.Phase) {
	e.phases.Log(o.Dataset, slices.Concat([]phases.Phase{
		phases.Took(eventlog.Route, o.spent.opened, o.spent.routed),
		phases.Took(eventlog.Write, o.spent.opened, written.Sub(o.spent.opened)-o.spent.routed),
	}, more)...)
}
