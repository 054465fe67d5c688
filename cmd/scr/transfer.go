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
	names: []string{mover.Command},
	use:   "[--cntldir DIR] [--stay | --detach | --exit]",
	short: "copy what the job on this node flushes in the background; one on each node",
	long: `Copies what the transfer file in the control directory of the node lists, and ends when all of it is copied.
Jobs with SCR_FLUSH_ASYNC=1 and SCR_FLUSH_TYPE=DAEMON start it when they need it, and scr_run does for all
of an allocation. If one is running on the node already, another ends at once; with --stay it waits for one
that does not stay, and takes its place.`,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		control := flags.String("cntldir", "", "control directory of the node (default: that of the job, from the configuration)")
		stay := flags.Bool("stay", false, "wait for more when all is copied, until told to end, or whoever started it has ended")
		detach := flags.Bool("detach", false, "go on in the background, as a process that has nothing to do with its parent")
		exit := flags.Bool("exit", false, "have the one that is running on this node end, and one that waits to take its place, and wait until they have; what it has not copied stays listed")
		return func(args []string) error {
			if err := noArguments(args); err != nil {
				return err
			}
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
					return err // it would seem as if there were none
				}
				return mover.Exit(dir)
			case *detach:
				return detached.Again([]string{mover.Command, "--cntldir", dir})
			}
			if c.alone {
				stepBack()
			}
			signal.Ignore(syscall.SIGPIPE) // whoever reads its output may end first
			parent := os.Getppid()
			return (&mover.Server{
				Control: dir, Stay: *stay, Warn: c.warn(mover.Command + ": " + nodeName()),
				Alone: func() bool { return os.Getppid() != parent },
			}).Run()
		}
	},
}

// stepBack lets all threads of the process step back behind those of the program. Some
// of Go's runtime are there before main begins; one of them looks every 20 µs what the
// others do while these wait for the disk, and the program's processor is as good as
// any to it. So the command is executed once more, by a thread that has stepped back
// and whose timers may be late, which the threads of what it executes have from it.
func stepBack() {
	const mark, late = "GOSCR_TRANSFER_BEHIND", 50 * time.Millisecond
	runtime.LockOSThread()
	if os.Getenv(mark) != "" { // it has been, or is started by one that has
		_ = os.WriteFile("/proc/self/comm", []byte(mover.Command), 0) // for who lists processes
		return
	}
	transfer.StepBack()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(late), 0, 0, 0)
	if self, err := os.Executable(); err == nil {
		_ = unix.Exec(self, os.Args, append(os.Environ(), mark+"=1")) // without, it copies all the same
	}
}
