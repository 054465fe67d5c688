package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/job/run/migration"
	"github.com/goscr/goscr/internal/job/run/recovery"
)

var migrateCommand = command{
	names: []string{"scr_migrate"},
	short: "move ranks of a job that runs under scr_run to other nodes",
	synopsis: []string{"[-x NODES] [-t NODES] [-r RANKS] [-v] [PID | --jobid ID | -p DIR]",
		"--predicted NODES [--within SECONDS] [--assurance P] [-v] [PID | --jobid ID | -p DIR]"},
	long: `Asks scr_run to start some ranks of a job on other nodes. PID is the process id of scr_run or its launcher on this
machine; without PID and --jobid the command asks the job of the prefix directory. The ranks on the nodes of --off move,
or the ranks of --ranks. They move to the nodes of --onto, else to spare nodes. Other ranks stay where they are if
possible, and find their files there. If --onto names as many nodes as --ranks has ranks, each rank moves to the node at
the same place in the list, so ranks can change places: -r 0,5 -t n2,n1.

scr_run asks the program for a checkpoint in the cache, ends the run when it is complete, and starts the program again.
If no rank stays on an old node, its files go directly to the cache of the new node; SCR_Init fetches other files. The
command waits until the program runs on its new nodes, and prints the time of each part. If the run fails before that,
scr_run cancels the migration and recovers from the failure as from any other.

With --predicted scr_run compares the time that is left with the times of earlier checkpoints and moves. It moves the
ranks, or only asks for a checkpoint, or copies the files of the node to the prefix directory for the recovery after the
failure.`,
	exit:    status{done: "The program runs on its new nodes.", failed: "It does not; a line on standard error says why."},
	environ: slices.Concat(ofPrefix, []string{"SCR_PREDICT_ASSURANCE", "SCR_PREDICT_HOLDOFF", "SCR_RECOVERY"}),
	files:   []file{{".scr/migrate.scr", "the requests to scr_run, and its answers"}},
	examples: `Off a node that is to be repaired:

    scr_migrate --off node17 -p /p/run7`,
	see:   []string{"scr_run", "scr_checkpoint", "scr_halt"},
	takes: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		off := flags.StringP("off", "x", "", "`NODES` that no rank may use any more, such as node[3-4]")
		onto := flags.StringP("onto", "t", "", "`NODES` to use")
		ranks := flags.StringP("ranks", "r", "", "`RANKS` to move, such as 0,4-7")
		predicted := flags.String("predicted", "", "`NODES` are predicted to fail: scr_run moves their ranks, or only asks for a checkpoint, if the time is too short to move them")
		within := flags.Float64("within", -1, "... in `SECONDS`; less than 0: the time is unknown")
		assurance := flags.Float64("assurance", 1, "... with the probability `P`, from 0 to 1")
		verbose := flags.BoolP("verbose", "v", false, "print each state of the migration")
		n := jobNamed{}
		flags.StringVar(&n.job, "jobid", "", "the job `ID`")
		flags.StringVarP(&n.prefix, "prefix", "p", "", aboutPrefix)
		return func(args []string) error {
			if err := n.takePID(args); err != nil {
				return err
			}
			var q migration.Request
			var err error
			if *predicted != "" {
				if *off+*onto+*ranks != "" {
					return fmt.Errorf("--predicted goes neither with --off nor with --onto nor with --ranks; %w", errUsage)
				}
				if !(*assurance >= 0 && *assurance <= 1) || !(*within < 1e9) {
					return fmt.Errorf("--assurance takes a number from 0 to 1, and --within one of seconds; %w", errUsage)
				}
				q.Predicted, q.Assurance, q.Within = true, *assurance, time.Duration(*within*float64(time.Second))
				*off = *predicted
			}
			if q.Wish, err = wish(*off, *onto, *ranks); err != nil {
				return fmt.Errorf("%w; %w", err, errUsage)
			}
			dir, _, err := n.find("")
			if err != nil {
				return err
			}
			if dir == "" || !request.Restarts(dir) {
				return n.noLoop(dir)
			}
			return c.migrate(dir, q, *verbose)
		}
	},
}

// takePID takes the process id of a launcher from the arguments of a command.
func (n *jobNamed) takePID(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if len(args) > 1 {
		return noArguments(args[1:])
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil || pid <= 0 {
		return fmt.Errorf("%q is not the id of a process; %w", args[0], errUsage)
	}
	if n.job != "" || n.prefix != "" {
		return fmt.Errorf("PID goes neither with --jobid nor with --prefix; %w", errUsage)
	}
	n.pid = pid
	return nil
}

// noLoop is the error if scr_run does not look after the job. dir is "" if no prefix
// directory was found.
func (n jobNamed) noLoop(dir string) error {
	if dir == "" && n.pid != 0 {
		return fmt.Errorf("process %d has started no job that has called SCR_Init", n.pid)
	}
	if dir == "" || !request.Alive(dir) {
		return n.noJob(dir)
	}
	return fmt.Errorf("the job with the prefix directory %s does not run under scr_run, so nothing can start its ranks on other nodes", dir)
}

// wish reads the options of scr_migrate.
func wish(off, onto, ranks string) (w recovery.Wish, err error) {
	var err1, err2, err3 error
	w.Off, err1 = hostlist.Expand(off)
	w.Onto, err2 = hostlist.Expand(onto)
	w.Ranks, err3 = rankList(ranks)
	if err := errors.Join(err1, err2, err3); err != nil {
		return w, err
	}
	if len(w.Off) == 0 && len(w.Ranks) == 0 {
		return w, errors.New("--off names nodes to leave, and --ranks ranks to move; one of them is needed")
	}
	return w, nil
}

// migrate asks for a migration and waits for its end.
func (c *context) migrate(dir string, q migration.Request, verbose bool) error {
	began := time.Now()
	id, err := migration.Ask(dir, q)
	if err != nil {
		return denied(dir, err)
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer signal.Stop(interrupted)
	var told migration.State
	const often = 20 * time.Millisecond
	for {
		r, err := migration.Read(dir)
		switch {
		case err != nil:
			return err
		case r.ID != id:
			return errors.New("another request has taken the place of this one, so it was over")
		}
		if verbose && r.State != told {
			fmt.Fprintf(c.err, "scr_migrate: %s %s\n", time.Now().Format("15:04:05.000"), r.State)
			told = r.State
		}
		switch {
		case r.State == migration.Done:
			if r.Took == 0 { // the text says what was done instead
				fmt.Fprintln(c.out, printable(r.Text))
				return nil
			}
			all := time.Since(began)
			fmt.Fprintf(c.out, "in all: %.2f s; request and answer: %.2f s; %s\n", all.Seconds(), (all - r.Took).Seconds(), printable(r.Text))
			return nil
		case r.State == migration.Failed:
			return errors.New(r.Text)
		case !request.Restarts(dir):
			return errors.New("scr_run has ended")
		}
		select {
		case s := <-interrupted:
			done, err := migration.TakeBack(dir, id)
			if err == nil && !done {
				err = fmt.Errorf("%v: the migration has begun and continues", s)
			}
			return errors.Join(err, fmt.Errorf("%v", s))
		case <-time.After(often):
		}
	}
}
