package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/eventlog"
)

var ckptIntervalCommand = command{
	names:    []string{"scr_ckpt_interval"},
	short:    "the time between checkpoints with which a job is done soonest",
	synopsis: []string{"--cost SECONDS --mtbf SECONDS [--restart SECONDS] [--model MODEL]", "[--prefix DIR | --logfile FILE] [--model MODEL] [--percent] [--stats]"},
	long: `Given the cost of a checkpoint and the time between failures, it prints the interval of Daly's formula, and what
part of the time is then computing that is kept. Otherwise it takes both from the text log of a job
(SCR_LOG_ENABLE=1): the mean time that checkpoints took, and the time of all runs divided by the number of those
that did not end by themselves; then it prints the interval in whole seconds, and nothing else.

SCR_CHECKPOINT_SECONDS is the parameter that sets an interval; with SCR_MTBF_SECONDS the library finds it itself,
from what checkpoints cost.`,
	environ: ofPrefix,
	files:   []file{{".scr/log", "the text log of a job"}},
	examples: `A node fails once in five years, the job has 1000 of them, and a checkpoint takes half a minute:

    scr_ckpt_interval --cost 30 --mtbf $((5 * 365 * 86400 / 1000))`,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		var q intervalQuestion
		flags.Float64VarP(&q.cost, "cost", "c", 0, "a checkpoint takes `SECONDS`")
		flags.Float64VarP(&q.mtbf, "mtbf", "m", 0, "mean time of `SECONDS` between failures of the job: that of a node divided by the number of nodes")
		flags.Float64VarP(&q.restart, "restart", "r", 0, "it takes `SECONDS` from a failure to computing again")
		flags.StringVar(&q.model, "model", "daly", "formula `MODEL`: daly or young")
		flags.BoolVar(&q.percent, "percent", false, "print, instead of the interval, how many percent of the time checkpoints take then")
		flags.BoolVar(&q.stats, "stats", false, "also print what the log says, on standard error")
		dir := prefixFlag(flags)
		f := c.facts(flags)
		flags.StringVar(&q.log, "logfile", "", "text log `FILE` (default: .scr/log in the prefix directory)")
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
	p, err := readPast(q.log)
	if err != nil {
		return err
	}
	if q.stats {
		fmt.Fprintf(f.err, "%s: %d checkpoints, %.3f s each; %d runs in %.0f s, of which %d did not end by themselves\n",
			q.log, p.checkpoints, p.seconds/float64(max(p.checkpoints, 1)), p.runs, p.took.Seconds(), p.failed)
	}
	switch {
	case p.checkpoints == 0:
		return fmt.Errorf("%s has no checkpoint", q.log)
	case p.failed == 0 || p.took <= 0:
		return fmt.Errorf("%s has no run that did not end by itself, so that the time between failures is not known; give it with --mtbf, and --cost %.3f",
			q.log, p.seconds/float64(p.checkpoints))
	}
	q.cost, q.mtbf = p.seconds/float64(p.checkpoints), p.took.Seconds()/float64(p.failed)
	t := q.optimal()
	if q.percent {
		return f.overhead(q.cost, t)
	}
	return f.say(map[string]float64{"interval": t}, fmt.Sprintf("%.0f", t))
}

// overhead prints how many percent of the time checkpoints take.
func (f *facts) overhead(cost, interval float64) error {
	percent := 100 * cost / (cost + interval)
	return f.say(map[string]float64{"interval": interval, "overhead_percent": percent}, fmt.Sprintf("%.3f", percent))
}

// optimal is the interval of the model.
func (q *intervalQuestion) optimal() float64 {
	if q.model == "young" {
		return math.Sqrt(2 * q.cost * q.mtbf)
	}
	return daly(q.cost, q.mtbf)
}

// daly is the interval of J. T. Daly, "A higher order estimate of the optimum
// checkpoint interval", 2006, equation 37.
func daly(cost, mtbf float64) float64 {
	if cost >= 2*mtbf {
		return mtbf
	}
	r := cost / (2 * mtbf)
	return math.Sqrt(2*cost*mtbf)*(1+math.Sqrt(r)/3+r/9) - cost
}

// past is what a log says about checkpoints and runs.
type past struct {
	checkpoints  int
	seconds      float64 // that they took
	runs, failed int
	took         time.Duration // of all runs
}

var (
	quotedText = regexp.MustCompile(`"(\\.|[^"\\])*"`)
	logLine    = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d): .*\bjobid=([^,]*), event=(\w+)`)
	logSeconds = regexp.MustCompile(`, secs=([0-9.]+)`)
)

// Events by which a run begins, and which show that it has ended by itself: of goscr and
// of SCR 3.1.
var (
	runBegins = []string{"INIT_START", "START"}
	runEnds   = []string{"FINALIZE_END", "HALT"}
)

// readPast reads a text log, of goscr or of SCR 3.1. Runs are told apart by their job ids.
func readPast(path string) (p past, err error) {
	file, err := os.Open(path)
	if err != nil {
		return p, fmt.Errorf("%w (SCR_LOG_ENABLE=1 makes a job write it)", err)
	}
	defer file.Close()
	type open struct{ began, last time.Time }
	runs := map[string]*open{}
	end := func(job string, failed bool) {
		if r := runs[job]; r != nil {
			p.took += r.last.Sub(r.began)
			if failed {
				p.failed++
			}
			delete(runs, job)
		}
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text := quotedText.ReplaceAllString(lines.Text(), `""`)
		m := logLine.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		when, err := time.ParseInLocation("2006-01-02T15:04:05", m[1], time.Local)
		if err != nil {
			continue
		}
		job, event := m[2], m[3]
		if slices.Contains(runBegins, event) {
			end(job, true)
			p.runs++
			runs[job] = &open{when, when}
		}
		if r := runs[job]; r != nil && when.After(r.last) {
			r.last = when
		}
		if seconds := logSeconds.FindStringSubmatch(text); seconds != nil && event == "CHECKPOINT_END" {
			if s, err := strconv.ParseFloat(seconds[1], 64); err == nil {
				p.checkpoints++
				p.seconds += s
			}
		}
		if slices.Contains(runEnds, event) {
			end(job, false)
		}
	}
	for job := range runs {
		end(job, true)
	}
	return p, lines.Err()
}
