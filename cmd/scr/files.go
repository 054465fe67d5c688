package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/halt"
	"github.com/goscr/goscr/internal/prefix"
)

// The commands by which the scripts around a job read and write what it leaves in
// small files. These are in .scr of the prefix directory; a directory that has
// them itself is accepted too.
const dirHelp = "directory in which the job leaves its files: the prefix directory (default: $SCR_PREFIX, else the current directory)"

// jobFile is the path of one of these files.
func jobFile(option, name string) (string, error) {
	dir, err := prefixDir(option)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, prefix.Metadata, name)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name), nil
		}
	}
	return path, nil
}

var flushFileCommand = command{
	names: []string{"scr_flush_file"},
	use:   "[--dir DIR] {--latest | --need-flush ID | --id ID | --list-output | --list-ckpt [--before ID] | --location ID | --name ID}",
	short: "say where datasets are that a job has written",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		dir := flags.String("dir", "", dirHelp)
		flags.Bool("latest", false, "print the number of the newest checkpoint; 1 if there is none")
		flags.Int("need-flush", 0, "0 if a dataset is not in the prefix directory yet, 1 if it is, or is not known")
		flags.Int("needflush", 0, "the same")
		flags.Int("id", 0, "0 if a dataset is in the prefix directory, 1 if not")
		flags.Bool("list-output", false, "print the numbers of all outputs, lowest first")
		flags.Bool("list-ckpt", false, "print the numbers of all checkpoints, highest first")
		before := flags.Int("before", 0, "with --list-ckpt: only those below this number")
		flags.Int("location", 0, "print where a dataset is: CACHE, PFS, FLUSHING")
		flags.Int("name", 0, "print the name of a dataset")
		return func(args []string) error {
			if err := noArguments(args); err != nil {
				return err
			}
			what, err := exactlyOne(flags, "", "latest", "need-flush", "needflush", "id", "list-output", "list-ckpt", "location", "name")
			if err != nil {
				return err
			}
			if flags.Changed("before") && what != "list-ckpt" {
				return fmt.Errorf("--before goes with --list-ckpt; %w", errUsage)
			}
			path, err := jobFile(*dir, "flush.scr")
			if err != nil {
				return err
			}
			list, err := prefix.ReadFlushFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: no job has left one here", err)
			}
			if err != nil {
				return err
			}
			switch what {
			case "latest":
				return c.numbers(newest(list, dataset.Checkpoint, 0), 1)
			case "list-ckpt":
				return c.numbers(newest(list, dataset.Checkpoint, *before), -1)
			case "list-output":
				ids := newest(list, dataset.Output, 0)
				slices.Reverse(ids)
				return c.numbers(ids, -1)
			}
			id, _ := flags.GetInt(what) // is one of those that are numbers
			return c.flushState(list, what, id)
		}
	},
}

// newest returns the numbers of the datasets of a kind, highest first. before
// bounds them, if it is not 0.
func newest(list []prefix.Located, kind dataset.Flags, before int) []int {
	var ids []int
	for _, l := range list {
		if l.Flags.Has(kind) && (before == 0 || l.ID < before) {
			ids = append(ids, l.ID)
		}
	}
	slices.Reverse(ids)
	return ids
}

// numbers prints numbers, at most so many. None is a no.
func (c *context) numbers(ids []int, most int) error {
	if len(ids) == 0 {
		return errNo
	}
	if most > 0 && len(ids) > most {
		ids = ids[:most]
	}
	for _, id := range ids {
		fmt.Fprintln(c.out, id)
	}
	return nil
}

// flushState answers what is asked of one dataset.
func (c *context) flushState(list []prefix.Located, what string, id int) error {
	i := slices.IndexFunc(list, func(l prefix.Located) bool { return l.ID == id })
	if i < 0 {
		return errNo
	}
	l := list[i]
	yes := true
	switch what {
	case "id":
		yes = l.Is(prefix.InPrefix)
	case "location":
		for _, where := range l.Places {
			fmt.Fprintln(c.out, printable(string(where)))
		}
		yes = len(l.Places) > 0
	case "name":
		fmt.Fprintln(c.out, printable(l.Name))
	default:
		yes = !l.Is(prefix.InPrefix)
	}
	if !yes {
		return errNo
	}
	return nil
}

var nodesFileCommand = command{
	names: []string{"scr_nodes_file"},
	use:   "[--dir DIR]",
	short: "print how many nodes the last run used",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		dir := flags.String("dir", "", dirHelp)
		return func(args []string) error {
			if err := noArguments(args); err != nil {
				return err
			}
			path, err := jobFile(*dir, "nodes.scr")
			if err != nil {
				return err
			}
			n, err := prefix.ReadNodes(path)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.out, n)
			return nil
		}
	},
}

var retriesHaltCommand = command{
	names: []string{"scr_retries_halt"},
	use:   "[--dir DIR]",
	short: "say whether a job is to stop",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		dir := flags.String("dir", "", dirHelp)
		return func(args []string) error {
			if err := noArguments(args); err != nil {
				return err
			}
			path, err := jobFile(*dir, "halt.scr")
			if err != nil {
				return err
			}
			why, err := halt.Stop(path, time.Now())
			if err != nil {
				return err
			}
			if why == "" {
				return errNo
			}
			fmt.Fprintln(c.out, printable(why))
			return nil
		}
	},
}

var haltCntlCommand = command{
	names: []string{"scr_halt_cntl"},
	use:   "{-f FILE | --dir DIR} [--list] [CONDITION...]",
	short: "list and change the conditions under which a job stops",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		file := flags.StringP("file", "f", "", "halt file (default: that of --dir)")
		dir := flags.String("dir", "", dirHelp)
		list := flags.BoolP("list", "l", false, "print all conditions (what it does if nothing is asked for)")
		checkpoints := flags.IntP("checkpoints", "c", 0, "stop after so many more checkpoints")
		after := flags.StringP("after", "a", "", "stop at the first occasion after a time")
		before := flags.StringP("before", "b", "", "stop --seconds before a time")
		seconds := flags.IntP("seconds", "s", 0, "how many seconds before the time of --before")
		reason := flags.StringP("reason", "r", "", "stop now, for this reason")
		unset := map[halt.Field]*bool{
			halt.Checkpoints: flags.Bool("unset-checkpoints", false, "take the condition out"),
			halt.After:       flags.Bool("unset-after", false, "take the condition out"),
			halt.Before:      flags.Bool("unset-before", false, "take the condition out"),
			halt.Seconds:     flags.Bool("unset-seconds", false, "take the condition out"),
			halt.Because:     flags.Bool("unset-reason", false, "take the reason out, so that the job goes on"),
		}
		return func(args []string) error {
			if err := noArguments(args); err != nil {
				return err
			}
			changes := map[halt.Field]string{}
			for field, on := range unset {
				if *on {
					changes[field] = ""
				}
			}
			for _, number := range []struct {
				name  string
				field halt.Field
				value int
			}{{"checkpoints", halt.Checkpoints, *checkpoints}, {"seconds", halt.Seconds, *seconds}} {
				if flags.Changed(number.name) {
					if number.value < 0 {
						return fmt.Errorf("--%s takes a number from 0 on; %w", number.name, errUsage)
					}
					changes[number.field] = strconv.Itoa(number.value)
				}
			}
			for field, text := range map[halt.Field]string{halt.After: *after, halt.Before: *before} {
				if text == "" {
					continue
				}
				when, err := parseTime(text)
				if err != nil {
					return fmt.Errorf("%w; %w", err, errUsage)
				}
				changes[field] = strconv.FormatInt(when.Unix(), 10)
			}
			if *reason != "" {
				if printable(*reason) != *reason {
					return fmt.Errorf("the reason %q is not one line of text; %w", *reason, errUsage)
				}
				changes[halt.Because] = *reason
			}
			path := *file
			if path == "" {
				var err error
				if path, err = jobFile(*dir, "halt.scr"); err != nil {
					return err
				}
			}
			if len(changes) > 0 {
				if *file == "" {
					if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
						return err
					}
				}
				if err := halt.Edit(path, changes); err != nil {
					return err
				}
			}
			if *list || len(changes) == 0 {
				return c.conditions(path)
			}
			return nil
		}
	},
}

// parseTime reads seconds since the epoch, or a local time.
func parseTime(text string) (time.Time, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		return time.Unix(n, 0), nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", time.DateTime, "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q is no time: want seconds since 1970, or as in 2026-11-21T18:30:00", text)
}

func (c *context) conditions(path string) error {
	set, err := halt.Conditions(path)
	if err != nil {
		return err
	}
	for _, field := range slices.Sorted(maps.Keys(set)) {
		text := printable(set[field])
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && (field == halt.After || field == halt.Before) {
			text += " (" + time.Unix(n, 0).Format(time.DateTime) + ")"
		}
		fmt.Fprintf(c.out, "%s = %s\n", field, text)
	}
	return nil
}
