package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/halt"
)

// haltOptions are the conditions that scr_halt sets, each with how its value is
// read.
var haltOptions = []struct {
	name, short, help string
	condition         halt.Field
	read              func(text string, now time.Time) (string, error)
}{
	{"checkpoints", "c", "stop after `N` more checkpoints", halt.Checkpoints, haltNumber},
	{"before", "b", "stop early enough to have ended before `TIME`: 2026-11-21T14:30, 14:30, or seconds since 1970", halt.Before, haltTime},
	{"after", "a", "stop as soon as it is later than `TIME`, given as for --before", halt.After, haltTime},
	{"seconds", "s", "stop `N` seconds before the time of --before, or the end of the allocation", halt.Seconds, haltNumber},
}

func haltNumber(text string, _ time.Time) (string, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return "", fmt.Errorf("%q is not a whole number", text)
	}
	return strconv.FormatUint(n, 10), nil
}

func haltTime(text string, now time.Time) (string, error) {
	t, err := halt.ParseTime(text, now)
	return strconv.FormatInt(t.Unix(), 10), err
}

var haltCommand = command{
	names:    []string{"scr_halt"},
	short:    "have a running job stop: after its next checkpoint, or as the options say",
	synopsis: []string{"[OPTIONS] [PREFIX...]"},
	long: `Enters conditions in the halt file of each prefix directory PREFIX (default: that of --prefix). A running job
looks at them at each call of the library, and scr_run between runs; it stops at its next checkpoint once one
has come true. Without an option the job stops after its next checkpoint.

Conditions stay until they are removed, also when they have come true: a job that is started again stops
again, and says so. That a job has ended by itself (SCR_FINALIZE_CALLED) is recorded there, too, and stops
nothing but scr_retries_halt. The options --checkpoints, --before, --after and --seconds may be given
together: whichever comes true first.`,
	environ: append([]string{"SCR_HALT_SECONDS", "SCR_HALT_EXIT"}, ofPrefix...),
	files:   []file{{".scr/halt.scr", "the conditions"}},
	examples: `Maintenance begins at half past two:

    scr_halt --before 14:30 --seconds 600 /p/run7`,
	see:   []string{"scr_run", "scr_halt_cntl", "scr_retries_halt", "scr_should_exit"},
	takes: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		for _, o := range haltOptions {
			flags.StringP(o.name, o.short, "", o.help)
			flags.Bool("unset-"+o.name, false, "take --"+o.name+" back")
		}
		flags.BoolP("immediate", "i", false, "stop now: scr_run ends the program, which loses what it did since its last checkpoint")
		flags.Bool("unset-reason", false, "take the wish to stop back, and that the job had ended")
		list := flags.BoolP("list", "l", false, "print the conditions that are set")
		remove := flags.BoolP("remove", "r", false, "take all conditions back")
		dir := prefixFlag(flags)
		return func(args []string) error {
			now := time.Now()
			values, err := haltValues(flags, now)
			if err != nil {
				return fmt.Errorf("%w; %w", err, errUsage)
			}
			if *remove && len(values) > 0 || *list && (*remove || len(values) > 0) {
				return fmt.Errorf("--list and --remove go with no other option; %w", errUsage)
			}
			if len(args) == 0 {
				path, err := prefixDir(*dir)
				if err != nil {
					return err
				}
				args = []string{path}
			}
			for _, path := range args {
				if path, err = filepath.Abs(path); err != nil {
					return err
				}
				if err := c.haltOne(path, *list, *remove, values); err != nil {
					return err
				}
			}
			return nil
		}
	},
}

// haltValues is what the options set.
func haltValues(flags *pflag.FlagSet, now time.Time) (map[halt.Field]string, error) {
	values := map[halt.Field]string{}
	for _, o := range haltOptions {
		set, unset := flags.Changed(o.name), flags.Changed("unset-"+o.name)
		if set && unset {
			return nil, fmt.Errorf("--%s and --unset-%s contradict each other", o.name, o.name)
		}
		if unset {
			values[o.condition] = ""
		}
		if set {
			text, err := o.read(flags.Lookup(o.name).Value.String(), now)
			if err != nil {
				return nil, fmt.Errorf("--%s: %w", o.name, err)
			}
			values[o.condition] = text
		}
	}
	if flags.Changed("unset-reason") {
		values[halt.Because], values[halt.Immediate] = "", ""
	}
	if flags.Changed("immediate") {
		values[halt.Because] = "scr_halt --immediate"
		values[halt.Immediate] = strconv.FormatInt(now.Unix(), 10)
	}
	return values, nil
}

func (c *context) haltOne(prefix string, list, remove bool, values map[halt.Field]string) error {
	if _, err := os.Stat(prefix); err != nil {
		return fmt.Errorf("prefix directory: %w", err)
	}
	switch {
	case remove:
		return halt.Remove(prefix)
	case len(values) > 0:
		if err := halt.Change(prefix, values); err != nil {
			return err
		}
	case !list:
		if err := halt.Change(prefix, map[halt.Field]string{halt.Because: "scr_halt"}); err != nil {
			return err
		}
	}
	text, err := halt.Describe(prefix)
	if err != nil {
		return err
	}
	if text == "" {
		text = "no condition is set\n"
	}
	fmt.Fprintf(c.out, "%s\n%s", prefix, text)
	return nil
}
