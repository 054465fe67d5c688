package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/detached"
	"github.com/goscr/goscr/internal/mover"
	"github.com/goscr/goscr/internal/transfer"
)

var transferCommand = command{
	names:    []string{mover.Command},
	short:    "copy what the job on this node flushes in the background; one on each node",
	synopsis: []string{"[--cntldir DIR] [--stay | --detach | --exit]"},
	long: `Copies the files that the transfer file in the control directory of the node lists to the prefix directory,
and ends when all are copied. Jobs with SCR_FLUSH_ASYNC=1 and SCR_FLUSH_TYPE=DAEMON start it when they need
it, and scr_run, with these settings, starts it on all nodes of an allocation. If one is running on the node
already, another ends at once; with --stay it waits for one that does not stay, and takes its place.

It does not need the job: when that has died, it copies to the end, and scr_index --build or the next run
make the dataset complete. If it is killed itself, the next one goes on with the files that are missing. It
keeps to SCR_FLUSH_ASYNC_BW and SCR_FLUSH_ASYNC_PERCENT of the job.

A file appears under its name once all of it is on its medium, so scr_copy may run at the same time.`,
	exit:    status{done: `There is nothing left to do for it, or another is doing it. Files that could not be copied are recorded in the transfer file, and a line on standard error says why.`, failed: "The transfer file cannot be read or written."},
	environ: ofControl,
	files:   []file{{"transfer.scrinfo", "in the control directory, what is to be copied and what has been (scr_print shows it)"}},
	see:     []string{"scr_copy", "scr_index", "scr_flush_file", "scr_run"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		control := controlFlag(flags)
		stay := flags.Bool("stay", false, "wait for more when all is copied, until told to end, or until the process that started it has ended")
		detach := flags.Bool("detach", false, "go on in the background, as a process that has nothing to do with its parent")
		exit := flags.Bool("exit", false, "have the one that is running on this node end, and one that waits to take its place, and wait until they have; what it has not copied stays listed")
		return func([]string) error {
			if _, err := exactlyOne(flags, "none", "stay", "detach", "exit"); err != nil {
				return err
			}
			dir, err := controlDir(*control)
			if err != nil {
				return err
			}
			if _, err := os.Stat(dir); err != nil && !*stay && !*exit {
				return fmt.Errorf("%w: no job has been on this node", err)
			}
			switch {
			case *exit:
				if d, err := os.Open(dir); err == nil {
					d.Close()
				} else if !errors.Is(err, fs.ErrNotExist) {
					return err // else the answer would be that none runs
				}
				return mover.Exit(dir)
			case *detach:
				return detached.Again([]string{mover.Command, "--cntldir", dir})
			}
			if c.alone {
				lowerPriority()
			}
			signal.Ignore(syscall.SIGPIPE) // the reader of its output may end first
			parent := os.Getppid()
			return (&mover.Server{
				Control: dir, Stay: *stay, Warn: c.warn(mover.Command + ": " + nodeName()),
				Alone: func() bool { return os.Getppid() != parent },
			}).Run()
		}
	},
}

// lowerPriority lowers the priority of all threads of the process below those of the
// program. Go's runtime has started some before main begins; one of them, the monitor,
// wakes up every 20 µs while others wait for the disk, on any processor. So a thread
// with low priority and large timer slack executes the command once more: all threads
// of the new process inherit both.
func lowerPriority() {
	const mark, late = "GOSCR_TRANSFER_BEHIND", 50 * time.Millisecond
	runtime.LockOSThread()
	if os.Getenv(mark) != "" { // the second execution, or a child of one
		_ = os.WriteFile("/proc/self/comm", []byte(mover.Command), 0) // the name that ps shows
		return
	}
	transfer.LowerPriority()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(late), 0, 0, 0)
	if self, err := os.Executable(); err == nil {
		_ = unix.Exec(self, os.Args, append(os.Environ(), mark+"=1")) // after an error it copies all the same
	}
}
