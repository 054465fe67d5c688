package main

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/detached"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/eventlog/database"
)

var logEventCommand = command{
	names: []string{"scr_log_event"},
	use:   "-T TYPE [OPTION...]",
	short: "add an event to the log of a job",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		o := addLogOptions(flags)
		note := flags.StringP("note", "N", "", "what else there is to say")
		return func(args []string) error {
			return c.log(o, args, func(r *eventlog.Record) error {
				r.Note = *note
				return nil
			})
		}
	},
}

var logTransferCommand = command{
	names: []string{"scr_log_transfer"},
	use:   "-T TYPE -X FROM -Y TO [OPTION...]",
	short: "add a transfer of files to the log of a job",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		o := addLogOptions(flags)
		from := flags.StringP("from", "X", "", "directory the files were copied from")
		to := flags.StringP("to", "Y", "", "directory they were copied to")
		bytes := flags.Float64P("bytes", "B", 0, "bytes copied") // scripts compute it, with whatever result
		files := flags.Int64P("files", "F", 0, "files copied")
		return func(args []string) error {
			return c.log(o, args, func(r *eventlog.Record) error {
				r.Transfer, r.From, r.To = true, *from, *to
				if flags.Changed("bytes") {
					if !(*bytes >= 0 && *bytes < math.MaxInt64) {
						return fmt.Errorf("--bytes %v is no number of bytes; %w", *bytes, errUsage)
					}
					r.Bytes = eventlog.Count(int64(*bytes))
				}
				if flags.Changed("files") {
					if *files < 0 {
						return fmt.Errorf("--files %d is no number of files; %w", *files, errUsage)
					}
					r.Files = files
				}
				return nil
			})
		}
	},
}

// logOptions are those that events and transfers have in common.
type logOptions struct {
	flags                              *pflag.FlagSet
	prefix, user, jobID, jobName, kind string
	name, start                        string
	dataset                            int
	seconds                            float64
}

func addLogOptions(flags *pflag.FlagSet) *logOptions {
	o := &logOptions{flags: flags}
	flags.SortFlags = false
	flags.StringVarP(&o.kind, "type", "T", "", "what it is, as in NODE_FAIL (required)")
	flags.StringVarP(&o.prefix, "prefix", "p", "", "prefix directory (default: $SCR_PREFIX, else the current directory)")
	flags.StringVarP(&o.jobID, "jobid", "i", "", "job id (default: as for jobs)")
	flags.StringVarP(&o.user, "user", "u", "", "user (default: as for jobs)")
	flags.StringVarP(&o.jobName, "jobname", "j", "", "name of the job (default: as for jobs)")
	flags.IntVarP(&o.dataset, "dset", "d", 0, "number of the dataset")
	flags.IntVarP(&o.dataset, "dataset", "D", 0, "the same")
	flags.StringVarP(&o.name, "name", "n", "", "name of the dataset")
	flags.StringVarP(&o.start, "start", "S", "", "when it began, in seconds since 1970")
	flags.Float64VarP(&o.seconds, "secs", "L", 0, "seconds that it took")
	return o
}

// log adds a record, to which more adds what is not common.
func (c *context) log(o *logOptions, args []string, more func(*eventlog.Record) error) error {
	if len(args) > 0 {
		return fmt.Errorf("argument %q is not expected; %w", args[0], errUsage)
	}
	if o.kind == "" {
		return fmt.Errorf("no --type given; %w", errUsage)
	}
	r := eventlog.Record{Time: time.Now(), Type: o.kind, Dataset: o.dataset, Name: o.name}
	if o.start != "" {
		seconds, err := strconv.ParseFloat(o.start, 64)
		if err != nil || !(math.Abs(seconds) < 1e11) {
			return fmt.Errorf("--start %s is no number of seconds since 1970; %w", o.start, errUsage)
		}
		r.Start = time.UnixMicro(int64(seconds * 1e6))
	}
	if o.flags.Changed("secs") {
		if math.IsNaN(o.seconds) || math.IsInf(o.seconds, 0) {
			return fmt.Errorf("--secs %v is no number of seconds; %w", o.seconds, errUsage)
		}
		r.Seconds = &o.seconds
	}
	if err := more(&r); err != nil {
		return err
	}
	cfg, _, err := config.Read(o.prefix)
	if err != nil {
		return err
	}
	if !cfg.LogEnable {
		fmt.Fprintln(c.err, "nothing is logged: SCR_LOG_ENABLE=1 turns the log on")
		return nil
	}
	r.Job = eventlog.JobOf(cfg)
	for _, set := range []struct {
		to    *string
		value string
	}{{&r.Job.User, o.user}, {&r.Job.ID, o.jobID}, {&r.Job.Name, o.jobName}} {
		if set.value != "" {
			*set.to = set.value
		}
	}
	return eventlog.Once(cfg, r, func(at eventlog.Database) (eventlog.Sink, error) { return database.Open(at, c.err) })
}

// recorderCommand is for jobs, not for people: see eventlog.
var recorderCommand = command{
	names: []string{eventlog.Command},
	use:   "",
	short: "write the log of a running job to a database; started by the job",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		isDetached := flags.Bool("detached", false, "this is the process that does it")
		return func(args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("argument %q is not expected; %w", args[0], errUsage)
			}
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
