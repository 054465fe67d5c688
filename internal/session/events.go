package session

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// Rank 0 logs the events (docs/logging.md). On other ranks s.events is nil, whose methods
// do nothing.

// events are the log of the session.
type events struct {
	*eventlog.Log               // nil on ranks other than 0
	phases        *phases.Meter // nil if the log is off
}

// computing logs the beginning of a phase in which the program computes, unless the
// session has ended.
func (s *Session) computing() {
	if s.state == finished {
		return
	}
	s.computes = time.Now()
	s.events.Add(eventlog.Record{Type: eventlog.ComputeStart})
}

// computed logs the end of a phase in which the program computed.
func (s *Session) computed() {
	s.events.Add(eventlog.Record{Type: eventlog.ComputeEnd, Start: s.computes, Seconds: eventlog.Since(s.computes)})
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

// tellBeginning logs, once, that there is no checkpoint from which the run restarts. asked is whether the
// program has asked for one.
func (s *Session) tellBeginning(asked bool) {
	if s.beginning || s.restart.Offered() != nil {
		return
	}
	s.beginning = true
	missed := ""
	if s.world.Rank() == 0 && (asked || !readsItself(s.config)) {
		missed = s.restart.Missed(asked)
	}
	if missed != "" {
		s.log.WarnJob("THE RUN STARTS FROM THE BEGINNING, although %s. What is there is not replaced. SCR_RESTART=must makes this an error; with SCR_RESTART=never, or SCR_FETCH=0, the run replaces it without a word", missed)
	} else {
		s.log.Info("no checkpoint to restart from: the run starts from the beginning")
	}
	s.events.Add(eventlog.Record{Type: eventlog.RestartNone, Note: "from the beginning"})
}

// tellTraffic logs how much the rank has sent and received since the counters had the
// values in before.
func (s *Session) tellTraffic(what string, before mpi.Traffic) {
	t := s.traffic
	s.log.Detail("%s: sent %d bytes in %d messages, received %d bytes", what,
		t.Sent-before.Sent, t.Messages-before.Messages, t.Received-before.Received)
}

// measure logs the phases of a dataset that is complete: the calls of Route, and what the
// program did besides until it was written; and more. It is collective, and costs one
// reduction if there is a log.
func (s *Session) measure(o *unfinished, written time.Time, more ...phases.Phase) {
	s.events.phases.Log(o.Dataset, slices.Concat([]phases.Phase{
		phases.Took(eventlog.Route, o.spent.opened, o.spent.routed),
		phases.Took(eventlog.Write, o.spent.opened, written.Sub(o.spent.opened)-o.spent.routed),
	}, more)...)
}

// fill returns how full the store of a dataset is, in percent, as a phase, with the bytes of
// the program's files in the caches of all nodes.
func (s *Session) fill(c *cache.Cached) phases.Phase {
	p := phases.Phase{Type: eventlog.Fill, Note: c.Desc.Store, Start: time.Now()}
	if s.events.phases == nil {
		return p
	}
	p.Bytes = new(int64)
	for _, there := range s.cache.List() {
		*p.Bytes += there.Size()
	}
	var st unix.Statfs_t
	if err := unix.Statfs(s.protection.store(c.Desc.Store).Base, &st); err == nil && st.Blocks > 0 {
		p.Value = 100 * float64(st.Blocks-st.Bavail) / float64(st.Blocks)
	}
	return p
}
