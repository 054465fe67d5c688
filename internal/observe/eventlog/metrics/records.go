package metrics

import (
	"strings"
	"time"

	"github.com/goscr/goscr/internal/observe/eventlog"
)

// add adds a record up, and reports whether the file is to be written.
func (f *File) add(r eventlog.Record) bool {
	switch {
	case r.Spread != nil:
		return f.phase(r)
	case r.Transfer:
		return f.transfer(r)
	case r.Run != nil:
		return f.run(r)
	}
	return f.event(r)
}

// event adds an event of a job.
func (f *File) event(r eventlog.Record) bool {
	s := &f.state
	switch r.Type {
	case eventlog.InitStart:
		f.set(info, 1, label{"jobname", r.Job.Name}, label{"cluster", r.Job.Cluster}, label{"prefix", r.Job.Prefix}, label{"host", r.Job.Host})
		f.set(up, 1)
	case eventlog.EarlierRunDied:
		s.died = true
		f.count(failures, 1)
	case eventlog.InitEnd:
		s.scheme, _, _ = strings.Cut(r.Note, " ")
		if !strings.Contains(r.Note, ", bears ") { // it is no scheme
			s.scheme = "none"
		}
	case eventlog.RebuildSuccess:
		s.rebuilt[r.Dataset] = strings.HasPrefix(r.Note, "rebuilt")
		return false
	case eventlog.FetchSuccess:
		s.fetched[r.Dataset] = true
		return false
	case eventlog.RestartSuccess:
		f.restarted(r)
	case eventlog.RestartFail:
		f.count(restartFailures, 1)
	case eventlog.RestartNone:
		f.count(restarts, 1, label{"from", "beginning"})
	case eventlog.CheckpointStart:
		s.begin(r.Dataset, begun{at: r.Time.UnixMicro(), bypass: r.Note == r.Job.Prefix})
		return false
	case eventlog.CheckpointEnd:
		f.count(checkpoints, 1)
		place := "cache"
		if s.begun[r.Dataset].bypass {
			place = "prefix"
		}
		f.newest(place, r.Dataset)
	case eventlog.CheckpointFail, eventlog.OutputFail:
		f.count(failed, 1)
		delete(s.begun, r.Dataset)
	case eventlog.OutputEnd:
		f.count(outputs, 1)
	case eventlog.FlushSuccess:
		f.count(flushes, 1)
		f.newest("prefix", r.Dataset)
	case eventlog.FlushFail:
		f.count(flushFailures, 1)
	case eventlog.Recovery:
		f.count(recoveries, 1, label{"rung", r.Note})
	case eventlog.NodeFail:
		f.count(nodesLost, 1)
	case eventlog.ScavengeFail:
		f.count(scavengeFailures, 1)
	case eventlog.FinalizeEnd, eventlog.FinalizeFail:
		f.set(up, 0)
	default:
		return false
	}
	return true
}

// begin remembers a checkpoint in place of the oldest, if there are many.
func (s *state) begin(id int, b begun) {
	s.begun[id] = b
	if len(s.begun) <= remembered {
		return
	}
	oldest := id
	for other, o := range s.begun {
		if o.at < s.begun[oldest].at {
			oldest = other
		}
	}
	delete(s.begun, oldest)
}

// restarted counts a restart by the place where the checkpoint was found.
func (f *File) restarted(r eventlog.Record) {
	from := "cache"
	switch {
	case f.state.fetched[r.Dataset]:
		from = "prefix"
	case f.state.rebuilt[r.Dataset]:
		from = "rebuilt"
	}
	f.count(restarts, 1, label{"from", from})
	if f.state.died {
		f.state.died = false
		f.count(survived, 1)
	}
}

// newest returns when the newest checkpoint in a place was begun.
func (f *File) newest(place string, id int) {
	b, known := f.state.begun[id]
	if !known || b.at <= f.state.newest[place] {
		return
	}
	f.state.newest[place] = b.at
	f.set(newest, time.UnixMicro(b.at), label{"place", place})
	if place == "prefix" { // older ones that are flushed later make no difference
		for other, o := range f.state.begun {
			if o.at < b.at {
				delete(f.state.begun, other)
			}
		}
	}
}

// phase adds a phase up: the time of the slowest rank, for which the others have waited.
func (f *File) phase(r eventlog.Record) bool {
	if r.Type == eventlog.Fill {
		f.set(fill, r.Spread.Most/100, label{"store", r.Note})
		if r.Bytes != nil {
			f.set(cacheBytes, *r.Bytes)
		}
		return true
	}
	labels := []label{{"phase", strings.ToLower(r.Type)}, {"scheme", f.state.scheme}}
	f.count(phaseSeconds, r.Spread.Most, labels...)
	f.count(phases, 1, labels...)
	if r.Type == eventlog.Encode && r.Bytes != nil {
		f.count(redundancy, float64(*r.Bytes))
	}
	return r.Type == eventlog.Flush || r.Type == eventlog.Fetch
}

// transfer adds the bytes of a transfer up.
func (f *File) transfer(r eventlog.Record) bool {
	if r.Bytes == nil {
		return false
	}
	n := float64(*r.Bytes)
	switch r.Type {
	case eventlog.Encode:
		f.count(written, n)
	case eventlog.Flush:
		f.count(flushed, n)
	case eventlog.Fetch:
		f.count(fetched, n)
	case eventlog.Scavenge:
		f.count(scavenged, n)
		f.count(scavenges, 1)
		return true
	}
	return false
}

// run adds up what scr_run forwards. The note of RUN_END is how the run has ended.
func (f *File) run(r eventlog.Record) bool {
	switch r.Type {
	case eventlog.RunStart:
		f.set(nodes, r.Run.Nodes)
		f.set(runUp, 1)
	case eventlog.RunEnd:
		f.count(runs, 1, label{"how", r.Note})
		f.set(runUp, 0)
	default: // of the program
		return false
	}
	return true
}
