package main

import (
	stdcontext "context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"mvdan.cc/sh/v3/shell"

	"github.com/goscr/goscr/internal/batch"
	jobrun "github.com/goscr/goscr/internal/run"
)

// ctx is for what a command waits for. A command ends with its process, so
// there is nothing to cancel.
func (c *context) ctx() stdcontext.Context { return stdcontext.Background() }

// exitStatus is the error of a command that ends with the status of another.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

var runCommand = command{
	names: []string{"scr_run", "scr_srun", "scr_mpirun", "scr_mpiexec", "scr_flux", "scr_jsrun", "scr_lrun", "scr_aprun"},
	use:   "[-rc COMMAND] [-rs COMMAND] [LAUNCHER] ARGUMENTS...",
	short: "run a program in an allocation, as often as it takes, on the nodes that are left",
	long: `LAUNCHER is srun, mpirun, mpiexec, flux run, jsrun, lrun or aprun; scr_srun is scr_run srun, and so on.
Without -rc the arguments are the launcher's and the program, as they would be without scr_run:

    scr_run srun -n8 -N4 ./app

With it they are the launcher's, and the program is COMMAND: that of -rc where there is no checkpoint to
restart from, and that of -rs, in which SCR_CKPT_NAME stands for the name of the checkpoint, where there is.`,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		first := flags.String("run-cmd", "", "program to start, with its arguments (also -rc)")
		again := flags.String("restart-cmd", "", "program to start where there is a checkpoint (also -rs)")
		dir := prefixFlag(flags)
		return func(args []string) error {
			if name, ok := strings.CutPrefix(flags.Name(), "scr_"); ok && name != "run" {
				launcher := []string{name}
				if name == "flux" {
					launcher = append(launcher, "run")
				}
				args = append(launcher, args...)
			}
			l, err := c.newLoop(*dir, args, *first, *again)
			if err != nil {
				return err
			}
			signals := make(chan os.Signal, 16)
			signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
			defer signal.Stop(signals)
			l.Signals = signals
			status, err := l.Run(c.ctx())
			if err == nil && status != 0 {
				err = exitStatus(status)
			}
			return err
		}
	},
}

// runOptions are the options of scr_run, as users write them, by the names they
// are read by.
var runOptions = map[string]string{
	"-rc": "--run-cmd", "--run-cmd": "--run-cmd", "-rs": "--restart-cmd", "--restart-cmd": "--restart-cmd",
	"-p": "--prefix", "--prefix": "--prefix",
}

// runArguments parts the options of scr_run from the words that are the
// launcher's: they come first, or, as in SCR, -rc and -rs at the very end.
func runArguments(args []string) []string {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		return args
	}
	var own []string
	// take reads an option at the beginning of list and says how long it is.
	take := func(list []string) int {
		name, value, found := strings.Cut(list[0], "=")
		long, ok := runOptions[name]
		switch {
		case ok && found:
			own = append(own, long+"="+value)
			return 1
		case ok && len(list) > 1:
			own = append(own, long+"="+list[1])
			return 2
		}
		return 0
	}
	for len(args) > 0 {
		n := take(args)
		if n == 0 {
			break
		}
		args = args[n:]
	}
	for n := len(args); n >= 3; n = len(args) {
		if name := args[n-2]; name == "-rc" || name == "-rs" {
			take(args[n-2:])
			args = args[:n-2]
			continue
		}
		break
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	return append(append(own, "--"), args...)
}

func (c *context) newLoop(dir string, args []string, first, again string) (*jobrun.Loop, error) {
	if again != "" && first == "" {
		return nil, fmt.Errorf("--restart-cmd needs --run-cmd: what is to be started where there is no checkpoint?; %w", errUsage)
	}
	l := &jobrun.Loop{Argv: args, In: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	var err error
	if l.Launcher, err = batch.FindLauncher(c.ctx(), args); err != nil {
		return nil, fmt.Errorf("%w; %w", err, errUsage)
	}
	if l.First, err = words(first); err != nil {
		return nil, fmt.Errorf("--run-cmd: %w; %w", err, errUsage)
	}
	if l.Again, err = words(again); err != nil {
		return nil, fmt.Errorf("--restart-cmd: %w; %w", err, errUsage)
	}
	l.Job, err = c.openJob(dir)
	return l, err
}

// words splits a command as a shell does. SCR_CKPT_NAME is for later, also
// where it is written as a variable.
func words(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	return shell.Fields(text, func(name string) string {
		if name == jobrun.CheckpointName {
			return jobrun.CheckpointName
		}
		return os.Getenv(name)
	})
}

var prerunCommand = command{
	names: []string{"scr_prerun"},
	use:   "[-p DIR]",
	short: "ready the prefix directory for the runs of an allocation",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		return c.aboutJob(prefixFlag(flags), func(j *jobrun.Job) error {
			if !j.Config.Enable {
				return nil
			}
			return j.Prerun()
		})
	},
}

var postrunCommand = command{
	names: []string{"scr_postrun"},
	use:   "[-p DIR] [-d NODES]",
	short: "bring home what is only in the nodes, after the last run",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		known := downFlag(flags)
		return c.aboutJob(prefixFlag(flags), func(j *jobrun.Job) error {
			if !j.Config.Enable {
				return nil
			}
			_, down, err := c.nodesAndDown(j, *known)
			if err != nil {
				return err
			}
			return j.Postrun(c.ctx(), down)
		})
	},
}

var shouldExitCommand = command{
	names: []string{"scr_should_exit"},
	use:   "[-p DIR] [-d NODES]",
	short: "whether no further run should be started: exit status 0 for yes",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		known := downFlag(flags)
		return c.aboutJob(prefixFlag(flags), func(j *jobrun.Job) error {
			nodes, down, err := c.nodesAndDown(j, *known)
			if err != nil {
				return err
			}
			why, err := j.ShouldStop(nodes, down, j.End(c.ctx()), time.Now())
			if err != nil {
				return err
			}
			if why == "" {
				return errNo
			}
			fmt.Fprintln(c.out, why)
			return nil
		})
	},
}

// aboutJob is what a command does that takes no arguments and is about the job
// of a prefix directory.
func (c *context) aboutJob(dir *string, do func(j *jobrun.Job) error) func([]string) error {
	return func(args []string) error {
		if err := noArguments(args); err != nil {
			return err
		}
		j, err := c.openJob(*dir)
		if err != nil {
			return err
		}
		return do(j)
	}
}

// noPrefix is for commands to which the prefix directory makes no difference.
var noPrefix = new(string)

// downFlag is the option for nodes that somebody knows to be lost.
func downFlag(flags *pflag.FlagSet) *string {
	return flags.StringP("down", "d", "", "nodes to take for down whatever they say")
}

// nodesAndDown finds the nodes of the allocation, and those of them that cannot
// be used, with those of an option --down.
func (c *context) nodesAndDown(j *jobrun.Job, list string) (nodes []string, down map[string]string, err error) {
	known, err := downNodes(list)
	if err != nil {
		return nil, nil, err
	}
	if nodes, err = j.Nodes(c.ctx()); err != nil {
		return nil, nil, err
	}
	down, err = j.Down(c.ctx(), nodes, known, false)
	return nodes, down, err
}

var killJobstepCommand = command{
	names: []string{"scr_kill_jobstep"},
	use:   "--jobStepId ID",
	short: "end a program that a launcher has started",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		id := flags.StringP("jobStepId", "j", "", "id that the launcher gave it; without a resource manager: the launcher's process id")
		return c.aboutJob(noPrefix, func(j *jobrun.Job) error {
			if *id == "" {
				return fmt.Errorf("--jobStepId is missing; %w", errUsage)
			}
			return j.Manager.Kill(c.ctx(), *id)
		})
	},
}

var testRuntimeCommand = command{
	names: []string{"scr_test_runtime"},
	use:   "",
	short: "see whether all that the run commands need is there",
	run: func(c *context, _ *pflag.FlagSet) func([]string) error {
		return c.aboutJob(noPrefix, func(j *jobrun.Job) error {
			bad := j.TestRuntime(c.ctx())
			for _, err := range bad {
				fmt.Fprintf(c.err, "scr_test_runtime: %v\n", err)
			}
			if len(bad) > 0 {
				return errNo
			}
			return nil
		})
	},
}

var stacksCommand = command{
	names: []string{"scr_stacks"},
	use:   "[--cntldir DIR]",
	short: "where the ranks on this node are: the stacks of their threads",
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		control := flags.String("cntldir", "", "the job's control directory")
		return func(args []string) error {
			if err := noArguments(args); err != nil {
				return err
			}
			n, err := jobrun.Stacks(c.ctx(), *control, c.out)
			if err == nil && n == 0 {
				err = errors.New("no rank runs on this node")
			}
			return err
		}
	},
}
