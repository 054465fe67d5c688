package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/job/interval"
	"github.com/goscr/goscr/internal/observe/account"
	"github.com/goscr/goscr/internal/observe/eventlog"
)

var ckptIntervalCommand = command{
	names:    []string{"scr_ckpt_interval"},
	short:    "compute the time between checkpoints with which a job loses the least time",
	synopsis: []string{"--cost SECONDS --mtbf SECONDS [--restart SECONDS] [--model MODEL]", "[--prefix DIR | --from-log LOG] [--model MODEL] [--percent] [--stats]"},
	long: `With --cost and --mtbf, the command prints the interval of Daly's formula, and the share of the time that is then useful
work. Otherwise it reads both values from the log of a job (SCR_LOG_ENABLE=1): the mean time that the program waited for a
checkpoint and its flush, and the time of all runs divided by the number of runs that failed. Then it prints only the
interval, in whole seconds.

SCR_CHECKPOINT_SECONDS sets an interval. With SCR_MTBF_SECONDS the library computes it from the measured cost of
checkpoints.`,
	environ: ofPrefix,
	files:   []file{{".scr/log", "the text log of a job"}},
	see:     []string{"scr_report"},
	examples: `A node fails once in five years, the job has 1000 of them, and a checkpoint takes half a minute:

    scr_ckpt_interval --cost 30 --mtbf $((5 * 365 * 86400 / 1000))`,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		var q intervalQuestion
		flags.Float64VarP(&q.cost, "cost", "c", 0, "a checkpoint takes `SECONDS`")
		flags.Float64VarP(&q.mtbf, "mtbf", "m", 0, "mean time of `SECONDS` between failures of the job: that of a node divided by the number of nodes")
		flags.Float64VarP(&q.restart, "restart", "r", 0, "the time from a failure until the job computes again is `SECONDS`")
		flags.StringVar(&q.model, "model", "daly", "formula `MODEL`: daly or young")
		flags.BoolVar(&q.percent, "percent", false, "print the share of checkpoints in the time, in percent, instead of the interval")
		flags.BoolVar(&q.stats, "stats", false, "also print the numbers of the log on standard error")
		dir := prefixFlag(flags)
		f := c.facts(flags)
		flags.StringVar(&q.log, "from-log", "", "read `LOG`, as scr_report: a text log, an SQLite database, a prefix directory or the URL of a database (default: .scr/log in the prefix directory)")
		alias(flags, "from-log", "logfile", "")
		return func([]string) error {
			if q.model != "daly" && q.model != "young" {
				return fmt.Errorf("--model %s is neither daly nor young; %w", q.model, errUsage)
			}
			if given(flags, "cost", "mtbf", "restart") {
				return f.interval(q)
			}
			if q.log == "" {
				path, err := prefixDir(*dir)
				if err != nil {
					return err
				}
				q.log = eventlog.TextFile(path)
			}
			return f.intervalOfLog(q)
		}
	},
}

// intervalQuestion is what scr_ckpt_interval is asked.
type intervalQuestion struct {
	cost, mtbf, restart float64
	model, log          string
	percent, stats      bool
}

func (f *facts) interval(q intervalQuestion) error {
	if !(q.cost > 0 && q.mtbf > 0 && q.restart >= 0) || math.IsInf(q.cost+q.mtbf+q.restart, 0) {
		return fmt.Errorf("--cost and --mtbf have to be more than 0; %w", errUsage)
	}
	t := q.optimal()
	if q.percent {
		return f.overhead(q.cost, t)
	}
	// Expected time to get one interval done, with failures at random.
	took := q.mtbf * math.Exp(q.restart/q.mtbf) * math.Expm1((t+q.cost)/q.mtbf)
	return f.say(map[string]float64{"interval": t, "kept_percent": 100 * t / took},
		fmt.Sprintf("compute for %.0f s between checkpoints; %.1f %% of the time is then computing that is kept", t, 100*t/took))
}

func (f *facts) intervalOfLog(q intervalQuestion) error {
	a, err := account.Read(q.log)
	var broken *account.BrokenError
	if errors.As(err, &broken) && a != nil {
		err = nil // scr_report says so
	}
	if err != nil {
		return fmt.Errorf("%w (SCR_LOG_ENABLE=1 makes a job write a log)", err)
	}
	a.EndRuns(q.log)
	t := a.Totals()
	q.cost, q.mtbf = t.Interval.Cost, t.Interval.MTBF
	if q.stats {
		fmt.Fprintf(f.err, "%s: %d checkpoints, %.3f s each; %d runs in %.0f s, of which %d did not end by themselves\n",
			q.log, t.Checkpoints, q.cost, t.Runs, t.Ran, t.Died)
	}
	switch {
	case t.Checkpoints == 0:
		return fmt.Errorf("%s has no checkpoint", q.log)
	case !(q.mtbf > 0):
		return fmt.Errorf("%s has no run that did not end by itself, so that the time between failures is not known; give it with --mtbf, and --cost %.3f",
			q.log, q.cost)
	}
	best := q.optimal()
	if q.percent {
		return f.overhead(q.cost, best)
	}
	return f.say(map[string]float64{"interval": best}, fmt.Sprintf("%.0f", best))
}

// overhead prints how many percent of the time checkpoints take.
func (f *facts) overhead(cost, interval float64) error {
	percent := 100 * cost / (cost + interval)
	return f.say(map[string]float64{"interval": interval, "overhead_percent": percent}, fmt.Sprintf("%.3f", percent))
}

// optimal is the interval of the model, in seconds.
func (q *intervalQuestion) optimal() float64 {
	if q.model == "young" {
		return math.Sqrt(2 * q.cost * q.mtbf)
	}
	return interval.Optimal(q.cost, q.mtbf)
}
