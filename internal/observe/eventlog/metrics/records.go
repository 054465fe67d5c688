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
	case "INIT_START":
		f.set(info, 1, label{"jobname", r.Job.Name}, label{"cluster", r.Job.Cluster}, label{"prefix", r.Job.Prefix}, label{"host", r.Job.Host})
		f.set(up, 1)
	case "EARLIER_RUN_DIED":
		s.died = true
		f.count(failures, 1)
	case "INIT_END":
		s.scheme, _, _ = strings.Cut(r.Note, " ")
		if !strings.Contains(r.Note, ", bears ") { // it is no scheme
			s.scheme = "none"
		}
	case "REBUILD_SUCCESS":
		s.rebuilt[r.Dataset] = strings.HasPrefix(r.Note, "rebuilt")
		return false
	case "FETCH_SUCCESS":
		s.fetched[r.Dataset] = true
		return false
	case "RESTART_SUCCESS":
		f.restarted(r)
	case "RESTART_FAIL":
		f.count(restartFailures, 1)
	case "RESTART_NONE":
		f.count(restarts, 1, label{"from", "beginning"})
	case "CHECKPOINT_START":
		s.begin(r.Dataset, begun{at: r.Time.UnixMicro(), bypass: r.Note == r.Job.Prefix})
		return false
	case "CHECKPOINT_END":
		f.count(checkpoints, 1)
		place := "cache"
		if s.begun[r.Dataset].bypass {
			place = "prefix"
		}
		f.newest(place, r.Dataset)
	case "CHECKPOINT_FAIL", "OUTPUT_FAIL":
		f.count(failed, 1)
		delete(s.begun, r.Dataset)
	case "OUTPUT_END":
		f.count(outputs, 1)
	case "FLUSH_SUCCESS":
		f.count(flushes, 1)
		f.newest("prefix", r.Dataset)
	case "FLUSH_FAIL":
		f.count(flushFailures, 1)
	case "RECOVERY":
		f.count(recoveries, 1, label{"rung", r.Note})
	case "NODE_FAIL":
		f.count(nodesLost, 1)
	case "SCAVENGE_FAIL":
		f.count(scavengeFailures, 1)
	case "FINALIZE_END", "FINALIZE_FAIL":
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

// newest tells when the newest checkpoint in a place was begun.
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
	if r.Type == "FILL" {
		f.set(fill, r.Spread.Most/100, label{"store", r.Note})
		if r.Bytes != nil {
			f.set(cacheBytes, *r.Bytes)
		}
		return true
	}
	labels := []label{{"phase", strings.ToLower(r.Type)}, {"scheme", f.state.scheme}}
	f.count(phaseSeconds, r.Spread.Most, labels...)
	f.count(phases, 1, labels...)
	if r.Type == "ENCODE" && r.Bytes != nil {
		f.count(redundancy, float64(*r.Bytes))
	}
	return r.Type == "FLUSH" || r.Type == "FETCH"
}

// transfer adds the bytes of a transfer up.
func (f *File) transfer(r eventlog.Record) bool {
	if r.Bytes == nil {
		return false
	}
	n := float64(*r.Bytes)
	switch r.Type {
	case "ENCODE":
		f.count(written, n)
	case "FLUSH":
		f.count(flushed, n)
	case "FETCH":
		f.count(fetched, n)
	case "SCAVENGE":
		f.count(scavenged, n)
		f.count(scavenges, 1)
		return true
	}
	return false
}

// run adds up what scr_run passes on. The note of RUN_END is how the run has ended.
func (f *File) run(r eventlog.Record) bool {
	switch r.Type {
	case "RUN_START":
		f.set(nodes, r.Run.Nodes)
		f.set(runUp, 1)
	case "RUN_END":
		f.count(runs, 1, label{"how", r.Note})
		f.set(runUp, 0)
	default: // of the program
		return false
	}
	return true
}
