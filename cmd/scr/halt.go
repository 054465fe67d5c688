package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/request"
)

// haltOptions are the conditions under which a job stops, each with the option
// that sets it to a time or a number. The option with --unset- before its name removes the
// condition.
var haltOptions = []struct {
	name, short, help string
	condition         halt.Field
	isTime            bool
}{
	{"checkpoints", "c", "stop after `N` more checkpoints", halt.Checkpoints, false},
	{"before", "b", "stop so early that the job has ended before `TIME`", halt.Before, true},
	{"after", "a", "stop as soon as it is later than `TIME`", halt.After, true},
	{"seconds", "s", "stop `N` seconds before the time of --before, or the end of the allocation", halt.Seconds, false},
}

const aboutTimes = `TIME is written as 2026-11-21T14:30 or 14:30, or in seconds since 1970.`

// haltValue reads the value of an option. least is the least number of seconds
// since 1970 that is taken for a time.
func haltValue(text string, isTime bool, least int64) (string, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case isTime && (err != nil || n < least):
		t, err := halt.ParseTime(text, time.Now())
		return strconv.FormatInt(t.Unix(), 10), err
	case err != nil || n < 0:
		return "", fmt.Errorf("%q is not a whole number from 0 on", text)
	}
	return strconv.FormatInt(n, 10), nil
}

func haltFlags(flags *pflag.FlagSet) {
	for _, o := range haltOptions {
		flags.StringP(o.name, o.short, "", o.help)
	}
	for _, o := range haltOptions {
		flags.Bool("unset-"+o.name, false, "remove the condition of --"+o.name)
	}
}

// haltValues are the conditions that the options set, or with "" remove.
func haltValues(flags *pflag.FlagSet, least int64) (map[halt.Field]string, error) {
	values := map[halt.Field]string{}
	for _, o := range haltOptions {
		set, unset := flags.Changed(o.name), flags.Changed("unset-"+o.name)
		switch {
		case set && unset:
			return nil, fmt.Errorf("--%s and --unset-%s contradict each other; %w", o.name, o.name, errUsage)
		case set:
			text, err := haltValue(flags.Lookup(o.name).Value.String(), o.isTime, least)
			if err != nil {
				return nil, fmt.Errorf("--%s: %w; %w", o.name, err, errUsage)
			}
			values[o.condition] = text
		case unset:
			values[o.condition] = ""
		}
	}
	return values, nil
}

var haltCommand = command{
	names:    []string{"scr_halt"},
	short:    "stop a running job: after its next checkpoint, or when a condition is true",
	synopsis: []string{"[OPTIONS] [PREFIX...]"},
	long: `Enters conditions in the halt file of each prefix directory PREFIX (default: that of --prefix). A running job
checks them, and scr_run checks them between runs. When one of them is true, the job stops at its next checkpoint.
Without an option the job stops after its next checkpoint.

If no job runs with the prefix directory, no condition is set: the next job would stop. The command says so, and its exit status
is 1. --next sets it all the same. In the allocation of a batch job, as in its script, the command sets it, and says so. From outside, a job is seen from
its SCR_Init to its SCR_Finalize, and scr_run also between two runs. A program that has not come to SCR_Init, and a batch script that calls the
launcher itself and is between two runs, are not seen. Another user
than that of the job may not be able to see either. --list, --remove and --unset-... need no job.

The command prints a condition when it sets it, and all conditions with --list. A condition of --checkpoints, of
--immediate, or of a call without an option is for one job: it lapses when it has stopped that job and the next job
begins. The next job is another allocation, the same one requeued, another scr_run, or, without a resource manager, another run. A
time stays until it is removed, even if it is past: a job that starts again stops again, and prints the reason. The halt
file also records that a job has called SCR_Finalize (SCR_FINALIZE_CALLED), or which condition has ended a run with SCR_HALT_EXIT=1
(NO_CHECKPOINTS_LEFT, EXIT_AFTER_TIME, EXIT_BEFORE_TIME, TIME_LIMIT), which affects only scr_retries_halt. If
--checkpoints, --before, --after and --seconds are given together, the first condition that becomes true stops the
job. ` + aboutTimes,
	environ: append([]string{"SCR_HALT_SECONDS", "SCR_HALT_EXIT"}, ofPrefix...),
	files:   []file{{".scr/halt.scr", "the conditions"}},
	examples: `Maintenance begins at half past two:

    scr_halt --before 14:30 --seconds 600 /p/run7`,
	see:   []string{"scr_run", "scr_halt_cntl", "scr_retries_halt", "scr_should_exit"},
	takes: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		haltFlags(flags)
		immediate := flags.BoolP("immediate", "i", false, "stop now: scr_run ends the program, which loses its work since the last checkpoint")
		resume := flags.Bool("unset-reason", false, "remove the reason to stop, and the record that the job has ended")
		list := flags.BoolP("list", "l", false, "print the conditions that are set")
		remove := flags.BoolP("remove", "r", false, "remove all conditions")
		flags.BoolP("verbose", "v", false, "print more"+unused)
		next := flags.Bool("next", false, "set conditions also if no job runs: they stop the next one")
		dir := prefixFlag(flags)
		f := c.facts(flags)
		return func(args []string) error {
			values, err := haltValues(flags, 1e8) // 14 is no time, nor is it 14 seconds after 1970
			if err != nil {
				return err
			}
			if *resume {
				values[halt.Because], values[halt.Immediate] = "", ""
			}
			if *immediate {
				values[halt.Because] = halt.AskedNow
				values[halt.Immediate] = strconv.FormatInt(time.Now().Unix(), 10)
			}
			if *remove && (*list || len(values) > 0) {
				return fmt.Errorf("--remove goes with no other option; %w", errUsage)
			}
			if len(args) == 0 {
				path, err := prefixDir(*dir)
				if err != nil {
					return err
				}
				args = []string{path}
			}
			stops := slices.ContainsFunc(slices.Collect(maps.Values(values)), func(value string) bool { return value != "" })
			if len(values) == 0 && !*list && !*remove {
				values, stops = map[halt.Field]string{halt.Because: halt.Asked}, true
			}
			for _, path := range args {
				if path, err = filepath.Abs(path); err != nil {
					return err
				}
				if err := exists(path); err != nil {
					return err
				}
				if stops && !*next {
					if err := f.running(path); err != nil {
						return err
					}
				}
				if err := f.haltOne(path, *remove, values); err != nil {
					return err
				}
			}
			return nil
		}
	},
}

func exists(prefix string) error {
	if _, err := os.Stat(prefix); err != nil {
		return fmt.Errorf("prefix directory: %w", err)
	}
	return nil
}

// running returns an error if no job is seen with a prefix directory: a condition would stop the next one. In the allocation of
// a job it only says so: a batch script is a job, also before its first run.
func (f *facts) running(prefix string) error {
	if request.Alive(prefix) || request.Restarts(prefix) {
		return nil
	}
	if batch.InJob(os.LookupEnv) {
		fmt.Fprintf(f.err, "no run is seen with the prefix directory %s: the next one stops\n", prefix)
		return nil
	}
	const next = "with --next it is set also for a job that is not seen, and for the next one"
	if err := request.Unseen(prefix); err != nil {
		return fmt.Errorf("no condition was set, since it cannot be seen whether a job runs with the prefix directory %s: only %s and root can (%w); %s",
			prefix, ownerOf(prefix), err, next)
	}
	return fmt.Errorf("no condition was set, since no job runs with the prefix directory %s (from outside of its allocation, a program before "+
		"SCR_Init, or a batch script between two runs, is not seen); %s", prefix, next)
}

func (f *facts) haltOne(prefix string, remove bool, values map[halt.Field]string) error {
	if remove {
		return halt.Remove(prefix)
	}
	if len(values) > 0 {
		if err := halt.Change(prefix, values); err != nil {
			return err
		}
		f.tellChanges(values)
	}
	return f.haltSettings(halt.Path(prefix))
}

// haltSettings prints the conditions in a halt file as SCR 3.1 does.
func (f *facts) haltSettings(path string) error {
	if f.json {
		h, err := halt.Read(path)
		if err != nil {
			return err
		}
		return f.encode(map[string]any{"file": path, "conditions": tree(h)})
	}
	text, err := halt.Settings(path)
	if err != nil {
		return err
	}
	if text == "" {
		text = "  None\n"
	}
	fmt.Fprintf(f.out, "Halt file settings for %s:\n%s", path, text)
	return nil
}

var haltCntlCommand = command{
	names: []string{"scr_halt_cntl"},
	short: "list and change the conditions under which a job stops",
	synopsis: []string{"{-f FILE | --dir DIR} [--list]",
		"{-f FILE | --dir DIR} [-c N] [-a TIME] [-b TIME] [-s SECONDS] [-r REASON] [-x LETTER] [--unset-...]"},
	long: `A job looks at its halt file when it asks whether to write a checkpoint or to stop. Conditions can be changed
while it runs. The command prints a line for each change, and then all conditions. ` + aboutTimes,
	environ:  ofPrefix,
	files:    []file{{".scr/halt.scr", "the conditions"}},
	examples: `    scr_halt_cntl --dir /p/run7 --checkpoints 2 --list`,
	see:      []string{"scr_halt", "scr_retries_halt"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		file := flags.StringP("file", "f", "", "halt file `FILE` (default: that of --dir)")
		dir := dirFlag(flags)
		flags.BoolP("list", "l", false, "print all conditions; the command also does so after a change")
		haltFlags(flags)
		reason := flags.StringP("reason", "r", "", "stop now, for the reason `TEXT`")
		flags.Bool("unset-reason", false, "remove the reason, so that the job continues or can be started again")
		f := c.facts(flags)
		unset := flags.StringArrayP("unset", "x", nil, "remove the condition of option `LETTER`: -xc, -xb, -xa, -xs or -xr")
		return func([]string) error {
			for _, letter := range *unset {
				if err := unsetByLetter(flags, letter); err != nil {
					return err
				}
			}
			changes, err := haltValues(flags, 1)
			if err != nil {
				return err
			}
			if flags.Changed("unset-reason") {
				changes[halt.Because] = ""
			}
			if *reason != "" {
				if printable(*reason) != *reason {
					return fmt.Errorf("the reason %q is not one line of text; %w", *reason, errUsage)
				}
				changes[halt.Because] = *reason
			}
			path := *file
			if path == "" {
				if path, err = jobFile(*dir, "halt.scr"); err != nil {
					return err
				}
			}
			if len(changes) > 0 {
				if *file == "" {
					if err := hash.MakeDirs(filepath.Dir(path)); err != nil {
						return err
					}
				}
				if err := halt.Edit(path, changes); err != nil {
					return err
				}
				f.tellChanges(changes)
			}
			return f.haltSettings(path)
		}
	},
}

// unsetByLetter sets --unset-NAME for the letter of the option --NAME.
func unsetByLetter(flags *pflag.FlagSet, letter string) error {
	if len(letter) == 1 {
		if f := flags.ShorthandLookup(letter); f != nil && flags.Lookup("unset-"+f.Name) != nil {
			return flags.Set("unset-"+f.Name, "true")
		}
	}
	return fmt.Errorf("-x %q: the letter is c, b, a, s or r; %w", letter, errUsage)
}

// tellChanges says which conditions were changed, as SCR 3.1 does, with an empty line
// after them.
func (f *facts) tellChanges(changes map[halt.Field]string) {
	if f.json {
		return
	}
	for _, field := range []halt.Field{halt.Checkpoints, halt.After, halt.Before, halt.Seconds, halt.Because} {
		if value, ok := changes[field]; ok && value == "" {
			fmt.Fprintf(f.out, "Unsetting %s\n", field)
		} else if ok {
			fmt.Fprintf(f.out, "Setting %s\n", field)
		}
	}
	fmt.Fprintln(f.out)
}
