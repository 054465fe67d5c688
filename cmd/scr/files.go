package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/halt"
	"github.com/goscr/goscr/internal/prefix"
)

// The commands by which the scripts around a job read and write its small files. These
// are in .scr of the prefix directory; the directory with the files is accepted too.

func dirFlag(flags *pflag.FlagSet) *string {
	return flags.String("dir", "", "prefix directory `DIR`, in whose .scr a job leaves its files, or the directory that has these files itself (default: $SCR_PREFIX, else the current directory)")
}

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
	short: "say where datasets are that a job has written",
	synopsis: []string{"[--dir DIR] --latest", "[--dir DIR] --need-flush ID", "[--dir DIR] --id ID", "[--dir DIR] --list-output",
		"[--dir DIR] --list-ckpt [--before ID]", "[--dir DIR] --location ID", "[--dir DIR] --name ID"},
	long: `For scripts that scavenge after a job has ended: they should scavenge outputs first, lowest number first, and
then checkpoints, highest number first, until one is complete.`,
	exit:    status{done: "Yes, or found.", failed: "No, or not found, or failed; then a line on standard error says why."},
	environ: ofPrefix,
	files:   []file{{".scr/flush.scr", "where datasets are"}},
	examples: `All that is to be scavenged:

    for id in $(scr_flush_file --list-output) $(scr_flush_file --list-ckpt); do
        scr_flush_file --need-flush $id && echo $id
    done`,
	see: []string{"scr_copy", "scr_index", "scr_postrun"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		dir := dirFlag(flags)
		flags.Bool("latest", false, "print the number of the newest checkpoint")
		flags.Int("need-flush", 0, "is dataset `ID` still to be copied to the prefix directory?")
		flags.Int("needflush", 0, "the same as --need-flush `ID`")
		flags.Int("id", 0, "is dataset `ID` in the prefix directory?")
		flags.Bool("list-output", false, "print the numbers of all outputs, lowest first")
		flags.Bool("list-ckpt", false, "print the numbers of all checkpoints, highest first")
		before := flags.Int("before", 0, "with --list-ckpt: only those with numbers below `ID`")
		flags.Int("location", 0, "print where dataset `ID` is, a place a line: CACHE, PFS (the prefix directory), FLUSHING (it is being flushed, or was when the job died)")
		flags.Int("name", 0, "print the name of dataset `ID`")
		return func([]string) error {
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

// numbers prints at most most numbers. Without any the answer is no.
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

// flushState answers a question about one dataset.
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
	names:    []string{"scr_nodes_file"},
	short:    "print how many nodes the last run used",
	synopsis: []string{"[--dir DIR]"},
	long:     `Scripts use this number to decide whether enough nodes are up for another run.`,
	exit:     status{done: "Found.", failed: "Not found, or failed; a line on standard error says why."},
	environ:  ofPrefix,
	files:    []file{{".scr/nodes.scr", "the number"}},
	see:      []string{"scr_retries_halt", "scr_should_exit"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		dir := dirFlag(flags)
		return func([]string) error {
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
	names:    []string{"scr_retries_halt"},
	short:    "say whether a job is to stop",
	synopsis: []string{"[--dir DIR]"},
	long: `For scripts that start a job again after it has failed. It is not to be started again if the halt file has a
condition that has come true, or if the last run ended by itself, in SCR_Finalize. The reason is printed.`,
	exit:    status{done: "The job is to stop.", failed: "Another run may be started, or failed; then a line on standard error says why."},
	environ: ofPrefix,
	files:   []file{{".scr/halt.scr", "the conditions"}},
	examples: `    until scr_retries_halt --dir /p/run7; do
        mpirun ./app
    done`,
	see: []string{"scr_halt", "scr_halt_cntl", "scr_nodes_file", "scr_should_exit"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		dir := dirFlag(flags)
		return func([]string) error {
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
