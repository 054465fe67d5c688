package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"mvdan.cc/sh/v3/shell"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/halt"
	jobrun "github.com/goscr/goscr/internal/job/run"
)

var runCommand = command{
	names:    []string{"scr_run", "scr_srun", "scr_mpirun", "scr_mpiexec", "scr_flux", "scr_jsrun", "scr_lrun", "scr_aprun"},
	short:    "run a program in an allocation, and start it again after a failure, on the nodes that are up",
	synopsis: []string{"[-rc COMMAND] [-rs COMMAND] [LAUNCHER] ARGUMENTS..."},
	long: `LAUNCHER is srun, mpirun, mpiexec, flux run, jsrun, lrun or aprun; scr_srun is scr_run srun, and so on.
Without -rc the arguments are the launcher's options and the program, as without scr_run. With -rc they are only the
launcher's options, and scr_run starts COMMAND: the command of -rc if there is no checkpoint, else the command of -rs, in
which it replaces SCR_CKPT_NAME by the name of the checkpoint.

Debian's Slurm starts programs of Open MPI with srun --mpi=pmix, and programs of MPICH with --mpi=pmi2.`,
	exit: status{intro: "That of the last run. If there was no run:", failed: "No run could be started; a line on standard error says why."},
	environ: slices.Concat(ofNodes, []string{"SCR_MIN_NODES", "SCR_RUNS", "SCR_RETRIES", "SCR_RECOVERY", "SCR_GLOBAL_RESTART", "SCR_PREDICT_SECONDS",
		"SCR_PREDICT_COMMAND", "SCR_PREDICT_ASSURANCE", "SCR_PREDICT_HOLDOFF", "SCR_HALT_SECONDS", "SCR_END_TIME", "SCR_WATCHDOG", "SCR_WATCHDOG_TIMEOUT",
		"SCR_WATCHDOG_TIMEOUT_PFS", "SCR_LAUNCH_TIMEOUT", "SCR_FLUSH_ASYNC", "SCR_FLUSH_TYPE", "SCR_DEBUG"}),
	files: []file{{".scr/halt.scr", "the conditions under which the job stops"}, {".scr/nodes.scr", "how many nodes the program uses"}},
	examples: `    scr_run srun --mpi=pmix -n8 -N4 ./app

A program whose command line names the checkpoint to restart from:

    scr_run -rc "./app" -rs "./app --from SCR_CKPT_NAME" mpirun -n 8`,
	see:    []string{"scr_halt", "scr_postrun", "scr_list_down_nodes", "scr_env"},
	takes:  true,
	before: runArguments,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		first := flags.String("run-cmd", "", "start the program `COMMAND`, given with its arguments (also -rc)")
		again := flags.String("restart-cmd", "", "start the program `COMMAND` if there is a checkpoint to restart from (also -rs)")
		restart := flags.String("restart", "", "set SCR_RESTART to `VALUE`: must, may or never, as the program has to restart, may, or starts from the beginning")
		dir := prefixFlag(flags)
		return func(args []string) error {
			switch *restart {
			case "must", "may", "never":
				if err := os.Setenv("SCR_RESTART", *restart); err != nil {
					return err
				}
			case "":
			default:
				return fmt.Errorf("--restart=%s: must, may or never; %w", *restart, errUsage)
			}
			if name, ok := strings.CutPrefix(flags.Name(), "scr_"); ok && name != "run" {
				launcher := []string{name}
				if name == "flux" {
					launcher = append(launcher, "run")
				}
				args = append(launcher, args...)
			}
			if len(args) > 0 && strings.HasPrefix(args[0], "-") {
				return fmt.Errorf("%w; %w", noRunOption(flags, args[0]), errUsage)
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

// runOptions are the options of scr_run, as users write them, by their internal names.
var runOptions = map[string]string{
	"-rc": "--run-cmd", "--run-cmd": "--run-cmd", "-rs": "--restart-cmd", "--restart-cmd": "--restart-cmd",
	"-p": "--prefix", "--prefix": "--prefix", "--restart": "--restart",
}

// noRunOption is the error of an option in front of the launcher that scr_run does not have.
func noRunOption(flags *pflag.FlagSet, option string) error {
	if runOptions[option] != "" {
		return fmt.Errorf("option %s needs a value", option)
	}
	err := fmt.Errorf("option %s is not known; options of a launcher follow its name", option)
	name, _, _ := strings.Cut(strings.TrimLeft(option, "-"), "=")
	if like := nearest(name, optionNames(flags)); like != "" && len(name) > 2 {
		err = fmt.Errorf("%w; did you mean --%s?", err, like)
	}
	return err
}

// runArguments separates the options of scr_run from the arguments of the launcher: they
// come first, or, as in SCR, -rc and -rs at the very end.
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
		return nil, fmt.Errorf("--restart-cmd needs --run-cmd, the command for a start without a checkpoint; %w", errUsage)
	}
	if err := describeJob(dir); err != nil {
		return nil, err
	}
	p := jobrun.Program{Argv: args, Args: os.Args, In: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	var err error
	if p.Launcher, err = batch.FindLauncher(c.ctx(), args); err != nil {
		return nil, fmt.Errorf("%w; %w", err, errUsage)
	}
	if p.First, err = words(first); err != nil {
		return nil, fmt.Errorf("--run-cmd: %w; %w", err, errUsage)
	}
	if p.Again, err = words(again); err != nil {
		return nil, fmt.Errorf("--restart-cmd: %w; %w", err, errUsage)
	}
	job, err := c.openJob(dir)
	return &jobrun.Loop{Job: job, Program: p}, err
}

// describeJob sets variables for the program and the commands, where nothing else sets their
// parameters: the text log is on, and the job has the names that the resource manager gives
// to it and to the cluster.
func describeJob(dir string) error {
	cfg, _, err := config.Read(dir)
	if err != nil {
		return err
	}
	set := map[string]string{}
	if cfg.Source(&cfg.LogEnable).Level == config.Default {
		set["SCR_LOG_ENABLE"] = "1"
		if cfg.Source(&cfg.LogSyslogEnable).Level == config.Default {
			set["SCR_LOG_SYSLOG_ENABLE"] = "0" // a machine's syslog is not for every job that nobody has asked about
		}
	}
	name, cluster := batch.Names(os.LookupEnv)
	if cfg.JobName == "" && name != "" {
		set["SCR_JOB_NAME"] = name
	}
	if cfg.ClusterName == "" && cluster != "" {
		set["SCR_CLUSTER_NAME"] = cluster
	}
	for name, value := range set {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// words splits a command as a shell does. SCR_CKPT_NAME is replaced later, also if it is
// written as a variable.
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
	names:    []string{"scr_prerun"},
	short:    "prepare the prefix directory for the runs of an allocation",
	synopsis: []string{"[-p DIR] [-v]"},
	long: `Call this at the beginning of a batch script that does not use scr_run. It creates .scr in the prefix
directory and deletes the records of runs in an earlier allocation: the number of nodes that they used, and the
record that the last run has called SCR_Finalize.`,
	environ: append([]string{"SCR_ENABLE"}, ofPrefix...),
	see:     []string{"scr_postrun", "scr_run"},
	lenient: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		return c.aboutJob(jobFlags(flags), func(j *jobrun.Job) error {
			if !j.Config.Enable {
				return nil
			}
			return j.Prerun()
		})
	},
}

var postrunCommand = command{
	names:    []string{"scr_postrun"},
	short:    "copy datasets that are only on the nodes to the prefix directory, after the last run",
	synopsis: []string{"[-p DIR] [-d NODES] [-j NAME] [-v]"},
	long: `Call this at the end of a batch script that does not use scr_run. It copies datasets that are only on the
nodes to the prefix directory with scr_copy on each node, and rebuilds missing files and enters the datasets in
the index with scr_index --build: first all outputs, and then checkpoints, newest first, until one is saved. It
finishes background flushes that had copied all files when the program died. It can be killed and called again.`,
	environ: append([]string{"SCR_ENABLE"}, ofNodes...),
	see:     []string{"scr_scavenge", "scr_copy", "scr_index", "scr_run"},
	lenient: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		known := downFlag(flags)
		launcherFlag(flags)
		return c.aboutJob(jobFlags(flags), func(j *jobrun.Job) error {
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
	names:    []string{"scr_should_exit"},
	short:    "tell a script whether to stop: exit status 0 if no further run should start",
	synopsis: []string{"[-p DIR] [-d NODES] [--min-nodes N] [--runs N] [-v]"},
	long: `For scripts that start runs in a loop, like scr_run. No further run should start if the program has
called SCR_Finalize since scr_prerun, if a condition of the halt file is true (scr_halt), if --runs is 0, if the
allocation ends within SCR_HALT_SECONDS, or if fewer nodes are up than --min-nodes or SCR_MIN_NODES says, or
than the last run used. The command prints the reason.

If the command fails, or is called in the wrong way, the answer is yes, too: otherwise a script could start the job for
ever.`,
	exit: status{done: "No further run should be started, or failed; then a line on standard error says why.",
		failed: "Another may be.", stops: true},
	environ: slices.Concat(ofNodes, []string{"SCR_MIN_NODES", "SCR_HALT_SECONDS", "SCR_END_TIME"}),
	files:   []file{{".scr/halt.scr", "the conditions under which the job stops"}, {".scr/nodes.scr", "how many nodes the last run used"}},
	see:     []string{"scr_run", "scr_halt", "scr_retries_halt", "scr_list_down_nodes"},
	lenient: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		known := downFlag(flags)
		least := flags.Int("min-nodes", 0, "the program needs `N` nodes (default: $SCR_MIN_NODES, else as many as the last run used, else all)")
		f := c.facts(flags)
		runs := flags.Int("runs", -1, "the script would start `N` more runs; 0 is a reason to stop, and less than 0 is no limit")
		return c.aboutJob(jobFlags(flags), func(j *jobrun.Job) error {
			if *least > 0 {
				j.Config.MinNodes = *least
			}
			why, err := c.whyExit(j, *known, *runs)
			switch {
			case err != nil:
				return err
			case f.json:
				err = c.encode(map[string]any{"exit": why != "", "reason": why})
			case why != "":
				return f.say(nil, printable(why))
			}
			if why == "" {
				err = errors.Join(errNo, err)
			}
			return err
		})
	},
}

// whyExit is the reason for which no further run should be started, "" if there is none.
// It looks at nodes last, since that takes time.
func (c *context) whyExit(j *jobrun.Job, known string, runs int) (string, error) {
	if runs == 0 {
		return "no runs are left (--runs 0)", nil
	}
	finalized, err := halt.WasFinalized(j.Prefix)
	if finalized || err != nil {
		return "the program has called SCR_Finalize", err
	}
	nodes, down, err := c.nodesAndDown(j, known)
	if err != nil {
		return "", err
	}
	return j.ShouldStop(nodes, down, j.End(c.ctx()), time.Now())
}

var killJobstepCommand = command{
	names:    []string{"scr_kill_jobstep"},
	short:    "end a program that a launcher has started",
	synopsis: []string{"--jobStepId ID [-l NAME]"},
	long: `Uses the resource manager's command for this. If it has none, the job step is a process on this node, to which
SIGTERM is sent.`,
	environ: []string{"SCR_RESOURCE_MANAGER"},
	see:     []string{"scr_run", "scr_halt"},
	takes:   true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		flags.StringP("launcher", "l", "", "launcher `NAME` of the job step"+unused)
		flags.StringP("bindir", "b", "", "directory `DIR` with the commands"+unused)
		flags.Lookup("bindir").NoOptDefVal = omitted // scripts pass it with and without a value
		id := flags.StringP("jobStepId", "j", "", "end the job step `ID`; without a resource manager: the launcher's process id")
		return func(args []string) error {
			if flags.Changed("bindir") && len(args) == 1 {
				args = nil // its value
			}
			if err := noArguments(args); err != nil {
				return err
			}
			if *id == "" {
				return fmt.Errorf("--jobStepId is missing; %w", errUsage)
			}
			j, err := c.job(noPrefix)
			if err != nil {
				return err
			}
			return j.Manager.Kill(c.ctx(), *id)
		}
	},
}

var testRuntimeCommand = command{
	names: []string{"scr_test_runtime"},
	short: "check that the programs that the run commands need are installed",
	long: `Looks for the commands of the resource manager, and for the command that reaches other nodes. Missing ones are
listed on standard error.`,
	exit:    status{done: "All are installed.", failed: "Some are missing."},
	environ: ofNodes,
	see:     []string{"scr_run"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		f := c.facts(flags)
		return c.aboutJob(noPrefix, func(j *jobrun.Job) error {
			bad := j.TestRuntime(c.ctx())
			if f.json {
				missing := []string{}
				for _, err := range bad {
					missing = append(missing, oneLine(err))
				}
				if err := c.encode(map[string]any{"missing": missing}); err != nil {
					return err
				}
			}
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
	names:    []string{"scr_stacks"},
	short:    "print the stacks of the threads of all ranks on this node",
	synopsis: []string{"[--cntldir DIR]"},
	long: `Writes the stacks of all processes on this node that use its control directory or have loaded libscr.so. It calls
eu-stack, or gdb if eu-stack is not installed. scr_run does so on all nodes before it ends a run that hangs.`,
	see: []string{"scr_run"},
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		control := flags.String("cntldir", "", "the job's control directory `DIR`")
		return func([]string) error {
			n, err := jobrun.Stacks(c.ctx(), *control, c.out)
			if err == nil && n == 0 {
				err = errors.New("no rank runs on this node")
			}
			return err
		}
	},
}
