package run

import (
	"context"
	"time"

	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/observe/account"
	"github.com/goscr/goscr/internal/observe/account/page"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/prefix"
)

// addToLog adds a record to the log of the job, if the job has a log. It does so itself: a
// command would have to start between two runs, while all ranks wait.
func (j *Job) addToLog(ctx context.Context, r eventlog.Record) {
	if !j.Config.LogEnable {
		return
	}
	id, err := j.ID(ctx)
	if err != nil {
		j.Tell("log: %v", err)
		return
	}
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	r.Job = eventlog.JobOf(j.Config)
	r.Job.ID, r.Job.Prefix = id, j.Prefix
	if err := eventlog.Once(j.Config, r, j.Database); err != nil {
		j.Tell("log: %v", err)
	}
}

// meter adds a record to the metrics, if there are any.
func (j *Job) meter(r eventlog.Record) {
	if j.Metrics == nil {
		return
	}
	r.Time = time.Now()
	j.warn(j.Metrics.Write(r))
}

// LogDown enters an event NODE_FAIL for each node that is down into the log of the job.
// seconds is how long the run has taken, 0 if that is not known.
func (j *Job) LogDown(ctx context.Context, down map[string]string, seconds int) {
	for _, line := range Reasons(down) {
		r := eventlog.Record{Type: eventlog.NodeFail, Note: line}
		if seconds > 0 {
			took := float64(seconds)
			r.Seconds = &took
		}
		j.addToLog(ctx, r)
		j.meter(eventlog.Record{Type: eventlog.NodeFail, Note: line})
	}
}

// logStart enters that a run begins now, on these nodes.
func (l *Loop) logStart(ctx context.Context, number int, nodes []string) {
	l.Job.addToLog(ctx, eventlog.Record{Type: eventlog.RunStart, Run: &eventlog.Run{Number: number, Nodes: len(nodes), NodeList: hostlist.Compress(nodes)}})
	l.Job.meter(eventlog.Record{Type: eventlog.RunStart, Run: &eventlog.Run{Number: number, Nodes: len(nodes)}})
}

// logEnd enters that a run has ended. last is the reason why there is no other run, nil if
// there is one.
func (l *Loop) logEnd(ctx context.Context, a attempt, last *stop) {
	why := a.what
	if len(a.lost) > 0 {
		why += "; lost " + hostlist.Compress(a.lost)
	}
	if a.hung {
		why += "; it hung"
	}
	if last != nil {
		why += "; " + last.why
	}
	run := &eventlog.Run{Number: a.number, Status: &a.status}
	if a.status > 128 && a.status < 128+65 {
		run.Signal = a.status - 128
	}
	if n, err := l.Job.NodesUsed(); err == nil && n > 0 {
		run.Nodes = n
	}
	took := a.ended.Sub(a.began).Seconds()
	l.Job.addToLog(ctx, eventlog.Record{Type: eventlog.RunEnd, Note: why, Time: a.ended, Start: a.began, Seconds: &took, Run: run})
	l.Job.meter(eventlog.Record{Type: eventlog.RunEnd, Note: a.how, Run: &eventlog.Run{Number: a.number, Status: &a.status}})
}

// logScavenge enters the result err of scavenging a dataset, which began at start.
func (j *Job) logScavenge(ctx context.Context, d prefix.Unflushed, start time.Time, err error) {
	r := eventlog.Record{Dataset: d.ID, Name: d.Name, Start: start, Seconds: eventlog.Since(start)}
	if err != nil {
		r.Type, r.Note = eventlog.ScavengeFail, err.Error()
		j.addToLog(ctx, r)
		j.meter(eventlog.Record{Type: eventlog.ScavengeFail})
		return
	}
	bytes := int64(0)
	if x, err := prefix.ReadIndex(j.Prefix); err == nil {
		if e, ok := x.Find(d.Name); ok {
			bytes = e.Size()
			r.Bytes, r.Files = &bytes, eventlog.Count(int64(e.Files()))
		}
	}
	r.Type, r.Transfer, r.From, r.To = eventlog.Scavenge, true, j.Config.CacheBase, j.Prefix
	j.addToLog(ctx, r)
	j.meter(eventlog.Record{Transfer: true, Type: eventlog.Scavenge, Bytes: &bytes})
}

// summarize prints what the checkpoints of the job have cost and saved, by its text log.
func (l *Loop) summarize() {
	if !l.Job.Config.LogEnable {
		return
	}
	a, err := account.Read(l.Job.Prefix)
	if a == nil {
		l.Job.Detail("scr_report: %v", err)
		return
	}
	for _, line := range page.Summary(a.Only(l.alloc.id)) {
		l.Job.Tell("%s", line)
	}
}
