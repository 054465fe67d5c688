package run

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/goscr/goscr/internal/account"
	"github.com/goscr/goscr/internal/account/page"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/hostlist"
	"github.com/goscr/goscr/internal/prefix"
)

// addToLog adds a record to the log of the job, if the job has a log. command is log_event
// or log_transfer, which finds out where the log is kept.
func (j *Job) addToLog(ctx context.Context, command string, args ...string) {
	if !j.Config.LogEnable {
		return
	}
	id, err := j.ID(ctx)
	if err != nil {
		j.Tell("log: %v", err)
		return
	}
	argv := append([]string{j.Tool, command, "--prefix", j.Prefix, "--jobid", id}, args...)
	if a := locally(ctx, answerTime, argv); a.failed() {
		j.Tell("log: %s", a.lastLine())
	}
}

// meter adds a record to the metrics, if there are any.
func (j *Job) meter(r eventlog.Record) {
	if j.Metrics == nil {
		return
	}
	r.Time = time.Now()
	if err := j.Metrics.Write(r); err != nil {
		j.Tell("%v", err)
	}
}

// LogDown enters an event NODE_FAIL for each node that is down into the log of the job.
// seconds is how long the run has taken, 0 if that is not known.
func (j *Job) LogDown(ctx context.Context, down map[string]string, seconds int) {
	for _, line := range Reasons(down) {
		args := []string{"--type", "NODE_FAIL", "--note", line}
		if seconds > 0 {
			args = append(args, "--secs", strconv.Itoa(seconds))
		}
		j.addToLog(ctx, "log_event", args...)
		j.meter(eventlog.Record{Type: "NODE_FAIL", Note: line})
	}
}

// instant is a time as scr_log_event reads it.
func instant(t time.Time) string { return fmt.Sprintf("%.6f", float64(t.UnixMicro())/1e6) }

// logStart enters that a run begins now, on these nodes.
func (l *Loop) logStart(ctx context.Context, number int, nodes []string) {
	l.addToLog(ctx, "log_event", "--type", "RUN_START", "--run", strconv.Itoa(number),
		"--nodes", strconv.Itoa(len(nodes)), "--nodelist", hostlist.Compress(nodes))
	l.meter(eventlog.Record{Type: "RUN_START", Run: &eventlog.Run{Number: number, Nodes: len(nodes)}})
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
	args := []string{"--type", "RUN_END", "--run", strconv.Itoa(a.number), "--status", strconv.Itoa(a.status),
		"--note", why, "--start", instant(a.began), "--time", instant(a.ended), "--secs", fmt.Sprintf("%.6f", a.ended.Sub(a.began).Seconds())}
	if a.status > 128 && a.status < 128+65 {
		args = append(args, "--signal", strconv.Itoa(a.status-128))
	}
	if n, err := l.NodesUsed(); err == nil && n > 0 {
		args = append(args, "--nodes", strconv.Itoa(n))
	}
	l.addToLog(ctx, "log_event", args...)
	l.meter(eventlog.Record{Type: "RUN_END", Note: a.how, Run: &eventlog.Run{Number: a.number, Status: &a.status}})
}

// logScavenge enters the result err of scavenging a dataset, which began at start.
func (j *Job) logScavenge(ctx context.Context, d prefix.Unflushed, start time.Time, err error) {
	args := []string{"--dset", strconv.Itoa(d.ID), "--name", d.Name, "--start", instant(start), "--secs", fmt.Sprintf("%.6f", time.Since(start).Seconds())}
	if err != nil {
		j.addToLog(ctx, "log_event", append(args, "--type", "SCAVENGE_FAIL", "--note", err.Error())...)
		j.meter(eventlog.Record{Type: "SCAVENGE_FAIL"})
		return
	}
	bytes := int64(0)
	if x, err := prefix.ReadIndex(j.Prefix); err == nil {
		if e, ok := x.Find(d.Name); ok {
			bytes = e.Size()
			args = append(args, "--bytes", strconv.FormatInt(e.Size(), 10), "--files", strconv.Itoa(e.Files()))
		}
	}
	j.addToLog(ctx, "log_transfer", append(args, "--type", "SCAVENGE", "--from", j.Config.CacheBase, "--to", j.Prefix)...)
	j.meter(eventlog.Record{Transfer: true, Type: "SCAVENGE", Bytes: &bytes})
}

// summarize tells what the checkpoints of the job have cost and saved, by its text log.
func (l *Loop) summarize() {
	if !l.Config.LogEnable {
		return
	}
	a, err := account.Read(l.Prefix)
	if a == nil {
		l.Detail("scr_report: %v", err)
		return
	}
	for _, line := range page.Summary(a.Only(l.alloc.id)) {
		l.Tell("%s", line)
	}
}
