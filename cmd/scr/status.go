package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	jobstatus "github.com/goscr/goscr/internal/status"
)

var statusCommand = command{
	names:    []string{"scr_status"},
	short:    "show how safe a job is now: its checkpoints, their places, and the loss if nodes died",
	synopsis: []string{"[-p DIR] [-w] [--json]"},
	long: `Reads the files of the prefix directory, so it works wherever that directory is mounted; it asks no node. The first
line shows the run of the job, and the time of the last entry in its log. The next lines show the newest checkpoint, the
newest one in the prefix directory, and the work that the job would lose if nodes died now. Then each dataset has a line.

A run is RUNNING while rank 0 or scr_run holds its lock in the prefix directory. It has DIED if no process holds the lock
and the log does not contain the end of the run. Without a log the command knows only the places of the datasets.`,
	environ:  ofPrefix,
	files:    []file{{".scr/index.scr", "the index"}, {".scr/flush.scr", "where datasets are"}, {".scr/log", "the log of the job"}},
	examples: `    scr_status -p /p/run7 -w`,
	see:      []string{"scr_report", "scr_index", "scr_flush_file"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		watch := flags.BoolP("watch", "w", false, "print this again every second, until the job is over or Ctrl-C is pressed; without a terminal, whenever a checkpoint or the state has changed")
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
			if *asJSON {
				return c.encode(s)
			}
			_, err = fmt.Fprintln(c.out, strings.Join(s.Lines(now), "\n"))
			return err
		}
	},
}

// watchStatus shows the status of a job until it is over.
func (c *context) watchStatus(path string) error {
	const home, clear = "\x1b[H", "\x1b[J"
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGINT, unix.SIGTERM)
	defer signal.Stop(stop)
	out, ok := c.out.(*os.File)
	terminal := ok && term.IsTerminal(int(out.Fd()))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var before *jobstatus.Status
	for {
		now := time.Now()
		s, err := jobstatus.Read(path, now)
		if err != nil {
			return err
		}
		text := strings.Join(s.Lines(now), "\n") + "\n"
		switch {
		case terminal:
			text = home + clear + text
		case before != nil && before.State == s.State && before.Run == s.Run && slices.Equal(before.Datasets, s.Datasets):
			text = ""
		}
		before = s
		if _, err := fmt.Fprint(c.out, text); err != nil {
			return err
		}
		if s.State == jobstatus.Finished || s.State == jobstatus.Unknown {
			return nil
		}
		select {
		case <-tick.C:
		case <-stop:
			return nil
		}
	}
}
