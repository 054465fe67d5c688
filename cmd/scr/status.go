package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/goscr/goscr/internal/job/hostlist"
	jobstatus "github.com/goscr/goscr/internal/observe/status"
	"github.com/goscr/goscr/internal/prefix/snapshot"
)

var statusCommand = command{
	names:    []string{"scr_status"},
	short:    "show how safe a job is now: its checkpoints, their places, and the loss if nodes died",
	synopsis: []string{"[DIR] [-w] [--all] [--offline] [--json]"},
	long: `Reads the files of the prefix directory, so it works wherever that directory is mounted. If a run has died, and only the caches
of nodes have its newest checkpoint, it asks those that are in this allocation whether they can be used, as scr_run does before a run; with
--offline and with -w it asks none. If no job runs and it has asked none, a line shows when the prefix directory's record of the caches was
last changed: they may have changed since. The first line is the verdict: SAFE if the job survives the loss of any node now, else AT RISK, or LOST; and the work that is lost. The second
line shows the run of the job, and the time of the last entry in its log. The next lines show the newest checkpoint, the
newest one in the prefix directory, and the checkpoint that is to be flushed next. Then the newest three datasets have a line each, with
--all all of them: their places, the progress of the flush, the losses that they survive by the scheme with
which they were written, when they were flushed, and when all their files were last read and found right.

The name of the next flush is a guess: it assumes that the names of checkpoints continue in equal steps. The progress of a flush
is known if the flush takes more than a second: rank 0, or scr_transfer on its node, writes how much of its own part it has
copied. With -w, q or Ctrl-C ends the command; arrows, PgUp and PgDn scroll. The verdict is green, yellow or red, unless NO_COLOR is set.

A run is RUNNING while rank 0 or scr_run holds its lock in the prefix directory. It has DIED if no process holds the lock
and the log does not contain the end of the run. It is STOPPED if somebody has asked it to end, as scr_halt, a time limit or a signal to scr_run
does: start it again to continue. Without a log the command knows the places of the datasets, but neither how the last run has ended nor
how much work is lost.`,
	exit:     status{done: "Done.", failed: "Not done; or no job has used the directory."},
	environ:  ofPrefix,
	files:    []file{{".scr/index.scr", "the index"}, {".scr/flush.scr", "where datasets are"}, {".scr/log", "the log of the job"}},
	examples: `    scr_status /p/run7 -w`,
	see:      []string{"scr_report", "scr_index", "scr_flush_file"},
	takes:    true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		watch := flags.BoolP("watch", "w", false, "show it on the whole terminal and again every second, until the job is over; without a terminal, print it again when a dataset or the state has changed")
		all := flags.BoolP("all", "a", false, "show all datasets, and not the newest three")
		offline := flags.Bool("offline", false, "ask no node")
		asJSON := flags.Bool("json", false, "write JSON")
		dir := prefixFlag(flags)
		return func(args []string) error {
			option, err := orArgument(*dir, args)
			if err != nil {
				return err
			}
			path, err := prefixDir(option)
			if err != nil {
				return err
			}
			if *watch && *asJSON {
				return fmt.Errorf("--watch and --json do not go together; %w", errUsage)
			}
			if *watch {
				return c.watchStatus(path)
			}
			now := time.Now()
			s, err := jobstatus.Read(path, now)
			if err != nil {
				return err
			}
			if s.Problem != "" {
				c.warn("scr_status")(fmt.Errorf("%s", s.Problem))
			}
			if !*offline {
				if err := askNodes(c, path, s); err != nil {
					c.warn("scr_status")(err)
				}
			}
			most := 3
			if *all {
				most = 0
			}
			if *asJSON {
				err = c.encode(s)
			} else {
				lines := s.Lines(now, most)
				if next := s.Next(path); next != "" {
					lines = append(lines, next)
				}
				_, err = fmt.Fprintln(c.out, strings.Join(lines, "\n"))
			}
			if err == nil && s.Empty() {
				err = fmt.Errorf("no job has used %s as its prefix directory", path)
			}
			return err
		}
	},
}

// askNodes asks the nodes that have the newest checkpoint whether they can be used, if the next run needs them. It asks only nodes
// of this allocation: others may be up and not allow it.
func askNodes(c *context, path string, s *jobstatus.Status) error {
	names, err := neededNodes(path, s)
	if err != nil || len(names) == 0 {
		return err
	}
	job, err := c.openJob(path)
	if err != nil {
		return err
	}
	nodes, err := job.Nodes(c.ctx()) // none where there is no allocation
	if err != nil {
		return fmt.Errorf("the nodes of the allocation are unknown: %w", err)
	}
	if names = hostlist.Intersection(names, nodes); len(names) == 0 {
		return nil
	}
	down, err := job.Down(c.ctx(), names, nil, false)
	if err != nil {
		return err
	}
	answered(s, names, down)
	return nil
}

// neededNodes returns the nodes whose caches the next run needs, none if it needs none or if nobody knows them.
func neededNodes(path string, s *jobstatus.Status) (names []string, err error) {
	newest := s.NeedsNodes()
	if newest == nil {
		return nil, nil
	}
	list, err := snapshot.List(path)
	i := slices.IndexFunc(list, func(x snapshot.Snapshot) bool { return x.Seq == newest.ID && x.Name == newest.Name })
	if err != nil || i < 0 {
		return nil, err
	}
	record, err := snapshot.Read(path, list[i])
	if errors.Is(err, snapshot.ErrNone) {
		return nil, nil // as with SCR_RECORD=0
	}
	if err != nil {
		return nil, err
	}
	for _, n := range record.Nodes {
		names = append(names, n.Name)
	}
	return names, nil
}

// answered enters in a status which nodes were asked, and which of them are down.
func answered(s *jobstatus.Status, asked []string, down map[string]string) {
	s.Asked, s.Gone = asked, slices.DeleteFunc(slices.Clone(asked), func(n string) bool { return down[n] == "" })
}

// watchStatus shows the status of a job until it is over: on the whole terminal, or, without one,
// in lines whenever it has changed.
func (c *context) watchStatus(path string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGINT, unix.SIGTERM)
	if !signal.Ignored(unix.SIGHUP) { // nohup
		signal.Notify(stop, unix.SIGHUP)
	}
	defer signal.Stop(stop)
	if out, ok := c.out.(*os.File); ok && term.IsTerminal(int(out.Fd())) {
		if screen, err := tcell.NewScreen(); err == nil && screen.Init() == nil {
			lines, err := (&statusScreen{Screen: screen}).show(path, stop)
			screen.Fini() // the terminal is as it was before
			for _, line := range lines {
				if _, err := fmt.Fprintln(c.out, line); err != nil {
					return err
				}
			}
			return err
		} // else this terminal can show lines only
	}
	return c.tellStatus(path, stop)
}

// tellStatus prints the status of a job whenever a dataset or the state has changed.
func (c *context) tellStatus(path string, stop <-chan os.Signal) error {
	done := make(chan struct{})
	defer close(done)
	readings := make(chan reading)
	go readStatuses(path, readings, done)
	var before *jobstatus.Status
	for {
		var r reading
		select {
		case r = <-readings:
		case <-stop:
			return nil
		}
		if r.err != nil {
			return r.err
		}
		if before == nil || !before.Alike(r.status) {
			if _, err := fmt.Fprintln(c.out, strings.Join(r.lines, "\n")); err != nil {
				return err
			}
		}
		if before = r.status; over(before) {
			return nil
		}
	}
}
