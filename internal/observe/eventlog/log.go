package eventlog

import (
	"errors"
	"time"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/observe/report"
)

const (
	// backlog is how many records can wait for a sink before others are dropped. A job
	// that writes a checkpoint every second fills it in minutes.
	backlog = 1024
	// patience is how long Close waits for slow sinks.
	patience = 2 * time.Second
)

// Log logs the records of one process; in a job, that is rank 0. Methods of a nil Log do
// nothing.
type Log struct {
	job      Job
	report   *report.Logger
	patience time.Duration
	outlets  []*outlet
}

// outlet is a sink with its queue.
type outlet struct {
	name  string
	sink  Sink
	queue chan Record
	done  chan struct{} // closed when the queue is closed and empty
	lost  int           // records dropped because the queue was full
}

// Open opens the log of a job. It reports a sink that cannot be used, and the job runs
// without it. It returns nil if the log is disabled and metrics, a sink that is there even
// then, is nil.
func Open(cfg *config.Config, log *report.Logger, metrics Sink) *Log {
	l := &Log{job: JobOf(cfg), report: log, patience: patience}
	if metrics != nil {
		l.add("the file of metrics", metrics)
	}
	if !cfg.LogEnable && metrics == nil {
		return nil
	}
	if !cfg.LogEnable {
		return l
	}
	l.openFiles(cfg)
	if cfg.LogDBEnable {
		if sink, err := startRecorder(DatabaseOf(cfg), log); err != nil {
			log.Warn("no events are logged to the database: %v", err)
		} else {
			l.add("the database", sink)
		}
	}
	return l
}

// openFiles adds the text file and syslog, the sinks that need no process of goscr.
func (l *Log) openFiles(cfg *config.Config) {
	if cfg.LogTxtEnable {
		l.add(TextFile(l.job.Prefix), openText(cfg, l.job.Prefix))
	}
	if cfg.LogSyslogEnable {
		if sink, err := openSyslog(cfg); err == nil {
			l.add("syslog", sink)
		} else if chosen(cfg, &cfg.LogSyslogEnable) {
			l.report.Warn("%v; SCR_LOG_SYSLOG_ENABLE=0 disables it", err)
		} else {
			l.report.Info("%v; SCR_LOG_SYSLOG_ENABLE=0 disables it", err)
		}
	}
}

func (l *Log) add(name string, sink Sink) {
	o := &outlet{name: name, sink: sink, queue: make(chan Record, backlog), done: make(chan struct{})}
	l.outlets = append(l.outlets, o)
	go o.run(l.report)
}

// run writes the records of the queue. It leaves out those of which a sink panics.
func (o *outlet) run(log *report.Logger) {
	defer close(o.done)
	do := func(f func() error) {
		if err := guarded(f); err != nil {
			log.WarnOnce("event log: %v", err)
		}
	}
	for r := range o.queue {
		do(func() error { return o.sink.Write(r) })
	}
	do(o.sink.Close)
}

// guarded returns the error of f, or its panic as an error.
func guarded(f func() error) (err error) {
	defer report.Recover(&err)
	return f()
}

// Add logs a record, whose time and job it fills in. It returns at once.
func (l *Log) Add(r Record) {
	if l == nil {
		return
	}
	r.Time, r.Job = time.Now(), l.job
	for _, o := range l.outlets {
		select {
		case o.queue <- r:
		default:
			o.lost++
		}
	}
}

// Close waits until all records are written, for at most l.patience.
func (l *Log) Close() {
	if l == nil {
		return
	}
	for _, o := range l.outlets {
		close(o.queue)
	}
	late := time.NewTimer(l.patience)
	defer late.Stop()
	expired := false
	for _, o := range l.outlets {
		if o.lost > 0 {
			l.report.Warn("event log: %s was too slow for %d events, which are not in it", o.name, o.lost)
		}
		if !expired {
			select {
			case <-o.done:
			case <-late.C:
				expired = true
			}
		}
		select {
		case <-o.done:
		default:
			l.report.Warn("event log: %s has not taken all events within %v; the last may be missing in it", o.name, l.patience)
		}
	}
	l.outlets = nil
}

// Once logs one record for a command to all sinks that the configuration enables, and
// returns their errors. openDatabase opens the database.
func Once(cfg *config.Config, r Record, openDatabase func(Database) (Sink, error)) error {
	var errs []error
	write := func(sink Sink, err error) {
		if err == nil {
			err = errors.Join(sink.Write(r), sink.Close())
		}
		errs = append(errs, err)
	}
	if cfg.LogTxtEnable {
		write(openText(cfg, r.Job.Prefix), nil)
	}
	if cfg.LogSyslogEnable {
		sink, err := openSyslog(cfg)
		if err == nil || chosen(cfg, &cfg.LogSyslogEnable) {
			write(sink, err)
		}
	}
	if cfg.LogDBEnable {
		write(openDatabase(DatabaseOf(cfg)))
	}
	return errors.Join(errs...)
}

// chosen reports whether a parameter was set. In a container there may be no syslog, which
// is worth a warning only if the user has enabled it explicitly.
func chosen(cfg *config.Config, field any) bool { return cfg.Source(field).Level != config.Default }
