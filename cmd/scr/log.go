package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/database"
	"github.com/goscr/goscr/internal/sys/detached"
)

// ofLog are parameters that say where events are logged.
var ofLog = []string{"SCR_LOG_ENABLE", "SCR_LOG_TXT_ENABLE", "SCR_LOG_SYSLOG_ENABLE", "SCR_LOG_DB_ENABLE", "SCR_LOG_DB_HOST"}

var logEventCommand = command{
	names:    []string{"scr_log_event"},
	short:    "add an event to the log of a job",
	synopsis: []string{"-T TYPE [OPTION...]"},
	long:     `For scripts that run a job, to log events outside its runs. Without SCR_LOG_ENABLE=1 it does nothing.`,
	environ:  slices.Concat([]string{"SCR_PREFIX", "SCR_USER_NAME", "SCR_JOB_ID", "SCR_JOB_NAME"}, ofLog),
	examples: `    scr_log_event -T NODE_FAIL -N "atlas17 does not answer"`,
	see:      []string{"scr_log_transfer"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		o := addLogOptions(flags)
		flags.StringVarP(&o.Note, "note", "N", "", "add the text `TEXT`")
		addRunOptions(flags, o)
		return func([]string) error { return c.log(flags, o) }
	},
}

var logTransferCommand = command{
	names:    []string{"scr_log_transfer"},
	short:    "add a transfer of files to the log of a job",
	synopsis: []string{"-T TYPE -X FROM -Y TO [OPTION...]"},
	long:     `For scripts that run a job, to log the files that they copy. Without SCR_LOG_ENABLE=1 it does nothing.`,
	environ:  slices.Concat([]string{"SCR_PREFIX", "SCR_USER_NAME", "SCR_JOB_ID", "SCR_JOB_NAME"}, ofLog),
	examples: `    scr_log_transfer -T COPY -X /p/run7 -Y /archive/run7 -D 12 -L 340 -B 2e12`,
	see:      []string{"scr_log_event"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		o := addLogOptions(flags)
		o.Transfer = true
		flags.StringVarP(&o.From, "from", "X", "", "the files were copied from directory `DIR`")
		flags.StringVarP(&o.To, "to", "Y", "", "they were copied to directory `DIR`")
		bytes := flags.Float64P("bytes", "B", 0, "`N` bytes were copied") // scripts compute it, and may get any number
		files := flags.Int64P("files", "F", 0, "`N` files were copied")
		return func([]string) error {
			if flags.Changed("bytes") {
				if !(*bytes >= 0 && *bytes < math.MaxInt64) {
					return fmt.Errorf("--bytes %v is no number of bytes; %w", *bytes, errUsage)
				}
				o.Bytes = eventlog.Count(int64(*bytes))
			}
			if flags.Changed("files") {
				if *files < 0 {
					return fmt.Errorf("--files %d is no number of files; %w", *files, errUsage)
				}
				o.Files = files
			}
			return c.log(flags, o)
		}
	},
}

// logOptions are the common options of events and transfers, in the logged record.
type logOptions struct {
	eventlog.Record
	prefix, start, time string
	seconds             float64
	status              *int // nil: the command has no such option
}

func addLogOptions(flags *pflag.FlagSet) *logOptions {
	o := &logOptions{Record: eventlog.Record{Time: time.Now()}}
	flags.StringVarP(&o.Type, "type", "T", "", "the type `TYPE` of the record, such as NODE_FAIL (required)")
	flags.StringVarP(&o.prefix, "prefix", "p", "", aboutPrefix)
	flags.StringVarP(&o.Job.ID, "jobid", "i", "", "job `ID` (default: as for jobs)")
	flags.StringVarP(&o.Job.User, "user", "u", "", "user `USER` (default: as for jobs)")
	flags.StringVarP(&o.Job.Name, "jobname", "j", "", "name `NAME` of the job (default: as for jobs)")
	flags.IntVarP(&o.Dataset, "dset", "d", 0, "number `ID` of the dataset")
	flags.IntVarP(&o.Dataset, "dataset", "D", 0, "the same as --dset `ID`")
	flags.StringVarP(&o.Name, "name", "n", "", "name `NAME` of the dataset")
	flags.StringP("jobstart", "s", "", "the job began at `TIME`, in seconds since 1970"+unused)
	flags.StringVarP(&o.start, "start", "S", "", "the event began at `TIME`, in seconds since 1970")
	flags.Float64VarP(&o.seconds, "secs", "L", 0, "the event took `SECONDS`")
	flags.StringVar(&o.time, "time", "", "enter the event with `TIME`, in seconds since 1970 (default: now)")
	return o
}

// addRunOptions adds the options of events about a run.
func addRunOptions(flags *pflag.FlagSet, o *logOptions) {
	o.Run = &eventlog.Run{}
	flags.IntVar(&o.Run.Number, "run", 0, "the event is about run `N` of the allocation")
	o.status = flags.Int("status", 0, "the run had exit status `N`")
	flags.IntVar(&o.Run.Signal, "signal", 0, "signal `N` ended the run")
	flags.IntVar(&o.Run.Nodes, "nodes", 0, "the run uses `N` nodes")
	flags.IntVar(&o.Run.Ranks, "ranks", 0, "the run has `N` ranks")
	flags.StringVar(&o.Run.NodeList, "nodelist", "", "the run uses these `NODES`, as node[0-3]")
}

// log adds the record that the options say.
func (c *context) log(flags *pflag.FlagSet, o *logOptions) error {
	if o.Type == "" {
		return fmt.Errorf("no --type given; %w", errUsage)
	}
	for _, t := range []struct {
		option, text string
		to           *time.Time
	}{{"--start", o.start, &o.Start}, {"--time", o.time, &o.Time}} {
		if t.text == "" {
			continue
		}
		seconds, err := strconv.ParseFloat(t.text, 64)
		if err != nil || !(math.Abs(seconds) < 1e11) {
			return fmt.Errorf("%s %s is no number of seconds since 1970; %w", t.option, t.text, errUsage)
		}
		*t.to = time.UnixMicro(int64(math.Round(seconds * 1e6)))
	}
	if o.status != nil && flags.Changed("status") {
		o.Run.Status = o.status
	}
	if o.Run != nil && *o.Run == (eventlog.Run{}) {
		o.Run = nil
	}
	if flags.Changed("secs") {
		if math.IsNaN(o.seconds) || math.IsInf(o.seconds, 0) {
			return fmt.Errorf("--secs %v is no number of seconds; %w", o.seconds, errUsage)
		}
		o.Seconds = &o.seconds
	}
	cfg, err := c.config("scr_log", o.prefix)
	if err != nil {
		return err
	}
	if !cfg.LogEnable {
		return nil // silently, as in SCR 3.1: scripts call this whether there is a log or not
	}
	job := eventlog.JobOf(cfg)
	job.ID, job.User, job.Name = cmp.Or(o.Job.ID, job.ID), cmp.Or(o.Job.User, job.User), cmp.Or(o.Job.Name, job.Name)
	o.Job = job
	return eventlog.Once(cfg, o.Record, c.database)
}

// database opens the database of a log.
func (c *context) database(at eventlog.Database) (eventlog.Sink, error) {
	return database.Open(at, c.err)
}

// recorderCommand is for jobs, not for users: see eventlog.
var recorderCommand = command{
	names:   []string{eventlog.Command},
	short:   "write the log of a running job to a database; started by the job",
	long:    `Jobs that log to a database start this command; users do not call it.`,
	environ: ofLog,
	see:     []string{"scr_log_event"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		isDetached := flags.Bool("detached", false, "this is the process that stays in the background")
		return func([]string) error {
			if *isDetached {
				signal.Ignore(syscall.SIGPIPE) // the job may end first
				return database.Serve(c.in, c.out)
			}
			if info, err := os.Stdin.Stat(); err != nil || info.Mode()&os.ModeSocket == 0 {
				return fmt.Errorf("jobs start this command when SCR_LOG_DB_ENABLE=1; %w", errUsage)
			}
			return detached.Again([]string{eventlog.Command, "--detached"})
		}
	},
}
