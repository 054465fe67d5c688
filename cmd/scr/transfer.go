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

	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/sys/detached"
)

var transferCommand = command{
	names:    []string{mover.Command},
	short:    "copy files for background flushes of the job, one process on each node",
	synopsis: []string{"[--cntldir DIR] [--stay | --detach | --exit]"},
	long: `Copies the files that are listed in the transfer file, in the control directory of the node, to the prefix
directory, and ends when all are copied. Jobs with SCR_FLUSH_ASYNC=1 and SCR_FLUSH_TYPE=DAEMON start it when
they need it; with these settings scr_run starts it on all nodes of an allocation. If another scr_transfer already runs on the
node, the new one ends at once. With --stay it waits until an scr_transfer without --stay has ended, and
replaces it.

It does not depend on the job: if the job dies, it copies all files, and scr_index --build or the next run
completes the dataset. If it is killed, the next scr_transfer copies the missing files. The
job's SCR_FLUSH_ASYNC_BW and SCR_FLUSH_ASYNC_PERCENT limit its rate.

A file gets its name when all of it is on the medium, so scr_copy may run at the same time.`,
	exit:    status{done: `All files are copied, or another scr_transfer copies them. Files that could not be copied are recorded in the transfer file, and a line on standard error says why.`, failed: "The transfer file cannot be read or written."},
	environ: ofControl,
	files:   []file{{"transfer.scrinfo", "in the control directory, the files to copy and those that were copied (scr_print shows it)"}},
	see:     []string{"scr_copy", "scr_index", "scr_flush_file", "scr_run"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		control := controlFlag(flags)
		stay := flags.Bool("stay", false, "wait for further files when all are copied, until --exit or until the process that started it has ended")
		detach := flags.Bool("detach", false, "continue in the background, in a session of its own")
		exit := flags.Bool("exit", false, "end the scr_transfer on this node, and one that waits to replace it, and wait until both have ended; files that were not copied stay in the list")
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
