package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	jobstatus "github.com/goscr/goscr/internal/observe/status"
)

var statusCommand = command{
	names:    []string{"scr_status"},
	short:    "show how safe a job is now: its checkpoints, their places, and the loss if nodes died",
	synopsis: []string{"[-p DIR] [-w] [--all] [--json]"},
	long: `Reads the files of the prefix directory, so it works wherever that directory is mounted; it asks no node. The first
line is the verdict: SAFE if the job survives the loss of any node now, else AT RISK, or LOST; and the work that is lost. The second
line shows the run of the job, and the time of the last entry in its log. The next lines show the newest checkpoint, the
newest one in the prefix directory, and the checkpoint that is to be flushed next. Then the newest three datasets have a line each, with
--all all of them: their places, the progress of the flush, the losses that they survive by the scheme with
which they were written, when they were flushed, and when all their files were last read and found right.

The name of the next flush is a guess: it assumes that the names of checkpoints continue in equal steps. The progress of a flush
is known if the flush takes more than a second: rank 0, or scr_transfer on its node, writes how much of its own part it has
copied. With -w, q or Ctrl-C ends the command; arrows, PgUp and PgDn scroll. The verdict is green, yellow or red, unless NO_COLOR is set.

A run is RUNNING while rank 0 or scr_run holds its lock in the prefix directory. It has DIED if no process holds the lock
and the log does not contain the end of the run. Without a log the command knows only the places of the datasets.`,
	exit:     status{done: "Done.", failed: "Not done; or no job has used the directory."},
	environ:  ofPrefix,
	files:    []file{{".scr/index.scr", "the index"}, {".scr/flush.scr", "where datasets are"}, {".scr/log", "the log of the job"}},
	examples: `    scr_status -p /p/run7 -w`,
	see:      []string{"scr_report", "scr_index", "scr_flush_file"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		watch := flags.BoolP("watch", "w", false, "show it on the whole terminal and again every second, until the job is over; without a terminal, print it again when a dataset or the state has changed")
		all := flags.BoolP("all", "a", false, "show all datasets, and not the newest three")
		asJSON := flags.Bool("json", false, "write JSON")
		dir := prefixFlag(flags)
		return func([]string) error {
			path, err := prefixDir(*dir)
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
			most := 3
			if *all {
				most = 0
			}
			if *asJSON {
				err = c.encode(s)
			} else {
				_, err = fmt.Fprintln(c.out, strings.Join(append(s.Lines(now, most), s.Next(path)), "\n"))
			}
			if err == nil && s.Empty() {
				err = fmt.Errorf("no job has used %s as its prefix directory", path)
			}
			return err
		}
	},
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
