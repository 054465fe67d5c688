package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// The commands by which the scripts around a job read and write its small files. These
// are in .scr of the prefix directory; the directory with the files is accepted too.

func dirFlag(flags *pflag.FlagSet) *string {
	defer alias(flags, "dir", "prefix", "p") // as other commands call it
	return flags.StringP("dir", "d", "", "prefix directory `DIR`, or its directory .scr (default: $SCR_PREFIX, else the current directory)")
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
	short: "show the places of the datasets of a job",
	synopsis: []string{"[-d DIR] --latest", "[-d DIR] --need-flush ID", "[-d DIR] --id ID", "[-d DIR] --list-output [--before ID]",
		"[-d DIR] --list-ckpt [--before ID]", "[-d DIR] --location ID", "[-d DIR] [--resume | --summary] --name ID"},
	long: `For scripts that scavenge after a job has ended. They should scavenge all outputs, lowest number first, and then
checkpoints, highest number first, until one is complete. The command prints numbers on one line, separated by blanks.`,
	exit:    status{done: "Yes, or found.", failed: "No, or not found, or failed; then a line on standard error says why."},
	environ: ofPrefix,
	files:   []file{{".scr/flush.scr", "where datasets are"}},
	examples: `All that is to be scavenged:

    for id in $(scr_flush_file --list-output) $(scr_flush_file --list-ckpt); do
        scr_flush_file --need-flush $id && echo $id
    done`,
	see:     []string{"scr_copy", "scr_index", "scr_postrun"},
	lenient: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		q := &flushQuestion{flags: flags, dir: dirFlag(flags)}
		flags.BoolP("latest", "l", false, "print the number of the newest dataset")
		flags.IntP("need-flush", "n", 0, "is dataset `ID` still to be copied to the prefix directory?")
		alias(flags, "need-flush", "needflush", "")
		_ = flags.MarkHidden("needflush") // the error is that there is none of the name
		flags.Int("id", 0, "is dataset `ID` in the prefix directory?")
		flags.BoolP("list-output", "o", false, "print the numbers of all outputs, lowest first")
		flags.Bool("list-ckpt", false, "print the numbers of all checkpoints, highest first")
		q.before = flags.Int("before", 0, "with --list-output and --list-ckpt: only those with numbers below `ID`")
		flags.IntP("location", "L", 0, "print where dataset `ID` is: PFS if it is in the prefix directory, else FLUSHING if it is being flushed, or was when the job died, else CACHE")
		flags.IntP("name", "s", 0, "print the name of dataset `ID`")
		q.resume = flags.BoolP("resume", "r", false, "with --name: finish the copies first; scr_transfer does so itself, so this changes nothing")
		q.facts = c.facts(flags)
		q.summary = flags.BoolP("summary", "S", false, "with --name: enter the dataset in the index first, if all of it has come, as scr_index --build does")
		return func([]string) error { return q.answer() }
	},
}

// flushQuestion is what scr_flush_file is asked.
type flushQuestion struct {
	*facts
	flags           *pflag.FlagSet
	dir             *string
	before          *int
	resume, summary *bool
}

func (q *flushQuestion) answer() error {
	what, err := exactlyOne(q.flags, "", "latest", "need-flush", "needflush", "id", "list-output", "list-ckpt", "location", "name")
	switch {
	case err != nil:
		return err
	case q.flags.Changed("before") && what != "list-ckpt" && what != "list-output":
		return fmt.Errorf("--before goes with --list-output and --list-ckpt; %w", errUsage)
	case (*q.resume || *q.summary) && what != "name":
		return fmt.Errorf("--resume and --summary go with --name; %w", errUsage)
	}
	path, err := jobFile(*q.dir, "flush.scr")
	if err != nil {
		return err
	}
	list, err := prefix.ReadFlushFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: no job has written one here", err)
	}
	if err != nil {
		return err
	}
	switch what {
	case "latest":
		ids := newest(list, dataset.Checkpoint|dataset.Output, 0)
		return q.numbers(ids[:min(1, len(ids))])
	case "list-ckpt":
		return q.numbers(newest(list, dataset.Checkpoint, *q.before))
	case "list-output":
		ids := newest(list, dataset.Output, *q.before)
		slices.Reverse(ids)
		return q.numbers(ids)
	}
	id, _ := q.flags.GetInt(what) // is one of those that are numbers
	return q.aboutOne(list, what, id)
}

// newest returns the numbers of the datasets of one of the kinds, highest first. before
// bounds them, if it is not 0.
func newest(list []prefix.Located, kinds dataset.Flags, before int) []int {
	var ids []int
	for _, l := range list {
		if l.Flags()&kinds != 0 && (before == 0 || l.ID < before) {
			ids = append(ids, l.ID)
		}
	}
	slices.Reverse(ids)
	return ids
}

// numbers prints numbers on one line. Without any the answer is no.
func (q *flushQuestion) numbers(ids []int) error {
	if len(ids) == 0 {
		return errNo
	}
	return q.say(ids, strings.Trim(fmt.Sprint(ids), "[]"))
}

// aboutOne answers a question about one dataset.
func (q *flushQuestion) aboutOne(list []prefix.Located, what string, id int) error {
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
		if err := q.say(map[string]any{"id": id, "location": location(l)}, location(l)); err != nil {
			return err
		}
		yes = len(l.Places) > 0
	case "name":
		if *q.summary && !l.Is(prefix.InPrefix) {
			dir, err := prefixDir(*q.dir)
			if err != nil {
				return err
			}
			if err := newIndex(q.context, dir, false).build(id); err != nil {
				return err
			}
		}
		return q.say(map[string]any{"id": id, "name": l.Name}, printable(l.Name))
	default:
		yes = !l.Is(prefix.InPrefix)
	}
	if !yes {
		return errNo
	}
	return nil
}

// location is the one place that says most about a dataset, NONE if it has none.
func location(l prefix.Located) string {
	for _, where := range []prefix.Location{prefix.InPrefix, prefix.Flushing, "SYNC_FLUSHING", prefix.InCache} { // SYNC_FLUSHING: by SCR 3.1
		if l.Is(where) {
			return string(where)
		}
	}
	if len(l.Places) > 0 {
		return printable(string(l.Places[0]))
	}
	return "NONE"
}

var nodesFileCommand = command{
	names:    []string{"scr_nodes_file"},
	short:    "print how many nodes the last run used",
	synopsis: []string{"[-d DIR]"},
	long:     `Scripts use this number to decide whether enough nodes are up for another run.`,
	exit:     status{done: "Found.", failed: "Not found, and then 0 is printed if there is a file, or failed; a line on standard error says why."},
	lenient:  true,
	environ:  ofPrefix,
	files:    []file{{".scr/nodes.scr", "the number"}},
	see:      []string{"scr_retries_halt", "scr_should_exit"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		dir := dirFlag(flags)
		f := c.facts(flags)
		return func([]string) error {
			path, err := jobFile(*dir, "nodes.scr")
			if err != nil {
				return err
			}
			n, err := prefix.ReadNodes(path)
			if errors.Is(err, prefix.ErrNoNodes) {
				return errors.Join(err, f.say(map[string]int{"nodes": 0}, "0"))
			}
			if err != nil {
				return err
			}
			return f.say(map[string]int{"nodes": n}, strconv.Itoa(n))
		}
	},
}

var retriesHaltCommand = command{
	names:    []string{"scr_retries_halt"},
	short:    "tell a script whether the job should stop",
	synopsis: []string{"[-d DIR]"},
	long: `For scripts that start a job again after a failure. The job should not start again if a condition in the halt file is
true, or if the last run called SCR_Finalize. The command prints the reasons.

If the command cannot read the halt file, or is called in the wrong way, the answer is to stop: otherwise a script
could start the job for ever.`,
	exit:    status{done: "The job is to stop, or failed; then a line on standard error says why.", failed: "Another run may be started.", stops: true},
	environ: append([]string{"SCR_HALT_SECONDS"}, ofPrefix...),
	files:   []file{{".scr/halt.scr", "the conditions"}},
	examples: `    until scr_retries_halt --dir /p/run7; do
        mpirun ./app
    done`,
	see:     []string{"scr_halt", "scr_halt_cntl", "scr_nodes_file", "scr_should_exit"},
	lenient: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		dir := dirFlag(flags)
		f := c.facts(flags)
		return func([]string) error {
			path, err := jobFile(*dir, "halt.scr")
			if err != nil {
				return err
			}
			cfg, err := c.config("scr_retries_halt", *dir)
			if err != nil {
				return err
			}
			reasons, err := halt.Stop(path, cfg.HaltTime, time.Now())
			if err != nil {
				return err
			}
			if f.json {
				err = c.encode(map[string]any{"stop": len(reasons) > 0, "reasons": append([]string{}, reasons...)})
				if err == nil && len(reasons) == 0 {
					err = errNo
				}
				return err
			}
			for _, why := range reasons {
				fmt.Fprintf(c.out, "scr_retries_halt: HALT RUN: %s\n", printable(why))
			}
			if len(reasons) > 0 {
				return nil
			}
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				fmt.Fprintln(c.out, "scr_retries_halt: CONTINUE RUN: No halt file found.")
			}
			return errNo
		}
	},
}
