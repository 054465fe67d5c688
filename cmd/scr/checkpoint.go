package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/snapshot"
)

var checkpointCommand = command{
	names:    []string{"scr_checkpoint"},
	short:    "ask a running job for a checkpoint, and wait until it is complete",
	synopsis: []string{"[--term | --stop] [-s] [--timeout SECONDS] [-v] [PID | --jobid ID | -p DIR]", "--continue [PID | --jobid ID | -p DIR]", "-l [-p DIR]"},
	long: `Asks a job for a checkpoint. PID is the process id of its launcher (mpirun, srun, scr_run, ...), which must run
on this machine; --jobid is the id of the job, and -p is its prefix directory. Without any of them the command asks
the job of the prefix directory.

The program's next SCR_Need_checkpoint returns yes, on all ranks in the same call. A checkpoint that the program begins
by itself also answers the request. When the checkpoint is complete, the command prints its sequence number and the
prefix directory, which scr_restart takes as arguments. With -v or --attach it prints the same for debuggers on standard
error, in a line that begins with MPIR_checkpoint_handle).

Several commands that ask at the same time get the same checkpoint. The request is cancelled if the job ends, or if it
does not begin a checkpoint within --timeout. If scr_run starts the job again, the next run gets the request.

With --stop all ranks send themselves SIGSTOP in the call that completes the checkpoint. --continue continues them: the
command itself on this machine; on other nodes scr_run, if it runs the job, else srun in the job's allocation, pdsh or ssh
(SCR_REMOTE_SHELL). If a stopped job is ended, it restarts from the checkpoint.

With --attach all threads of all ranks wait after the checkpoint until a debugger sets MPIR_checkpoint_debug_gate to 1, in
each rank. Each prints its host and process on its standard error, in a line that begins with MPIR_debug_info), and the
command prints all of them. --continue lets the ranks continue without a debugger, a second later. If the program does not have
libscr_cr.so, --attach stops the ranks like --stop.`,
	exit:    status{done: "The checkpoint is complete.", failed: "There is none; a line on standard error says why."},
	environ: ofPrefix,
	files: []file{{".scr/request.scr", "the requests to the job, and its answers"},
		{".scr/job.lock", "the job that runs holds this lock"}},
	examples: `    mpirun -n 64 ./app &
    scr_checkpoint $!
    Snapshot Ref.:  12 /p/run7`,
	see:   []string{"scr_restart", "scr_halt", "scr_run", "scr_index"},
	takes: true,
	run: func(c *context, flags *pflag.FlagSet) func([]string) error {
		o := &checkpointOptions{}
		flags.BoolVar(&o.wish.Term, "term", false, "flush the checkpoint, then end the program: SCR_Should_exit returns yes, and scr_run does not start it again")
		flags.BoolVarP(&o.status, "status", "s", false, "print each state of the request, on a terminal with a progress bar")
		flags.BoolVar(&o.wish.Stop, "stop", false, "stop all ranks with SIGSTOP after the checkpoint")
		flags.BoolVar(&o.wish.Attach, "attach", false, "have all ranks wait for debuggers after the checkpoint, and print their processes")
		flags.Bool("detach", false, "let the program continue after the checkpoint, which is the default")
		goOn := flags.Bool("continue", false, "continue a job that was stopped")
		here := flags.Bool("here", false, "with --continue: only the ranks on this node")
		asJSON := flags.Bool("json", false, "with --list: write JSON")
		list := flags.BoolP("list", "l", false, "list the checkpoints from which a job can be restarted")
		flags.Float64Var(&o.timeout, "timeout", 0, "cancel the request if the job has not begun a checkpoint after `SECONDS`; 0: wait as long as it runs")
		flags.StringVar(&o.job, "jobid", "", "ask the job `ID`")
		flags.StringVarP(&o.prefix, "prefix", "p", "", aboutPrefix)
		verbose := flags.BoolP("verbose", "v", false, "print what the command does")
		level := flags.IntP("level", "V", 0, "print what the command does, up to the level `N`")
		return func(args []string) error {
			o.verbose = *verbose || *level > 0
			if len(args) > 1 {
				return noArguments(args[1:])
			}
			if len(args) == 1 {
				pid, err := strconv.Atoi(args[0])
				if err != nil || pid <= 0 {
					return fmt.Errorf("%q is not the id of a process; %w", args[0], errUsage)
				}
				o.pid = pid
			}
			if o.timeout < 0 {
				return fmt.Errorf("--timeout: %v is less than 0; %w", o.timeout, errUsage)
			}
			if o.pid != 0 && (o.job != "" || o.prefix != "") {
				return fmt.Errorf("PID goes neither with --jobid nor with --prefix; %w", errUsage)
			}
			chosen := 0
			for _, yes := range []bool{o.wish.Term, o.wish.Stop, o.wish.Attach, *goOn} {
				if yes {
					chosen++
				}
			}
			if chosen > 1 || o.wish.Attach && flags.Changed("detach") {
				return fmt.Errorf("of --term, --stop, --attach, --detach and --continue only one can be given; %w", errUsage)
			}
			if *goOn || *here {
				return c.continueJob(o, *here)
			}
			if *asJSON && !*list {
				return fmt.Errorf("--json goes with --list; %w", errUsage)
			}
			if *list {
				return c.listSnapshots(o.prefix, *asJSON)
			}
			return c.checkpoint(o)
		}
	},
}

// checkpointOptions are the options of scr_checkpoint.
type checkpointOptions struct {
	jobNamed
	wish    request.Wish
	status  bool
	timeout float64 // seconds; 0: none
	verbose bool
}

// listSnapshots prints the checkpoints from which a job can be restarted.
func (c *context) listSnapshots(option string, asJSON bool) error {
	dir, err := prefixDir(option)
	if err != nil {
		return err
	}
	list, err := snapshot.List(dir)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(s snapshot.Snapshot) bool { return s.Problem != "" })
	if len(list) == 0 {
		fmt.Fprintf(c.err, "there is no checkpoint in %s\n", dir)
		return errNo
	}
	if asJSON {
		return c.encode(list)
	}
	fmt.Fprintf(c.out, "%6s  %-14s %-19s %10s  %s\n", "SEQ", "WHERE", "WRITTEN", "SIZE", "NAME")
	for _, s := range list {
		where := map[[2]bool]string{{true, false}: "nodes", {false, true}: "prefix", {true, true}: "nodes, prefix"}[[2]bool{s.InCache, s.InPrefix}]
		fmt.Fprintf(c.out, "%6d  %-14s %-19s %10s  %s\n", s.Seq, where, s.Created.Format("2006-01-02T15:04:05"), report.Bytes(s.Size), printable(s.Name))
	}
	fmt.Fprintf(c.out, "Snapshot Ref.: %s\n", dir)
	return nil
}

// askInterval is how often a command that waits reads the request file.
const askInterval = 10 * time.Millisecond

// checkpoint asks a job for a checkpoint and waits for it.
func (c *context) checkpoint(o *checkpointOptions) error {
	w := &waiter{context: c, options: o, asker: request.NewAsker(), began: time.Now(), told: -1}
	defer w.endBar()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer signal.Stop(interrupted)
	for {
		done, err := w.step()
		if done || err != nil {
			return err
		}
		select {
		case s := <-interrupted:
			return w.takeBack(fmt.Sprintf("ended by signal %v", s))
		case <-time.After(askInterval):
		}
	}
}

// waiter is a command that waits for a checkpoint.
type waiter struct {
	*context
	options *checkpointOptions
	asker   string
	began   time.Time
	dir     string // the prefix directory, "" until the job is found
	id      int    // of the request, 0 until it is entered
	told    int    // order of the last state that was printed
	bar     *progressbar.ProgressBar
}

// step continues as far as it is possible without waiting. done is true if the checkpoint is
// complete.
func (w *waiter) step() (done bool, err error) {
	runs := true
	if w.id == 0 {
		if w.dir, runs, err = w.options.find(w.dir); err != nil {
			return false, err
		}
		if w.dir != "" && request.Alive(w.dir) {
			if w.id, err = request.Ask(w.dir, w.options.job, w.asker, w.options.wish); err != nil {
				return false, denied(w.dir, err)
			}
			w.say("request %d in %s", w.id, w.dir)
		}
	}
	if w.id != 0 {
		r, ok, err := request.Read(w.dir, w.id)
		switch {
		case err != nil:
			return false, err
		case !ok: // a new run has forgotten it
			w.id, w.told = 0, -1
			return false, nil
		}
		w.tell(r)
		if r.State.Over() {
			return true, w.result(r)
		}
		if runs = request.Alive(w.dir) || request.Restarts(w.dir) || w.options.launcherRuns(); !runs {
			if r, ok, err := request.Read(w.dir, w.id); err == nil && ok && r.State.Over() { // it has ended just now
				return true, w.result(r)
			}
			return false, w.takeBack("the job has ended, and has not written the checkpoint")
		}
	}
	switch {
	case !runs:
		return false, w.options.noJob(w.dir)
	case w.options.timeout > 0 && time.Since(w.began).Seconds() >= w.options.timeout:
		return false, w.takeBack(fmt.Sprintf("the job has not written a checkpoint within %v s", w.options.timeout))
	}
	return false, nil
}

func (w *waiter) say(format string, args ...any) {
	if w.options.verbose {
		fmt.Fprintf(w.err, "scr_checkpoint: "+format+"\n", args...)
	}
}

// takeBack takes the request back and returns the error why.
func (w *waiter) takeBack(why string) error {
	if w.id == 0 {
		return errors.New(why)
	}
	done, err := request.TakeBack(w.dir, w.id, w.asker)
	if err == nil && !done {
		why += "; it has begun one, which can no longer be taken back"
	}
	return errors.Join(errors.New(why), err)
}

// stateNames are the words for the states of a request.
var stateNames = map[request.State]string{
	request.Requested: "requested", request.Pending: "pending", request.Running: "running", request.InCache: "in the cache",
	request.Flushing: "on its way to the prefix directory", request.Finished: "finished", request.Failed: "failed",
}

// tell prints the state of a request if it has changed, and those that it had in between.
func (w *waiter) tell(r request.Request) {
	order := r.State.Order()
	if !w.options.status || order <= w.told {
		return
	}
	w.told = order
	out := w.err
	if f, ok := w.err.(*os.File); ok && w.bar == nil && term.IsTerminal(int(f.Fd())) {
		w.bar = stateBar(f)
	}
	if w.bar != nil {
		_ = w.bar.Clear()
	}
	line := fmt.Sprintf("%8.3f s  %s", time.Since(w.began).Seconds(), stateNames[r.State])
	if r.Dataset != 0 {
		line += fmt.Sprintf(": %d (%s)", r.Dataset, printable(r.Name))
	}
	if r.Size != 0 {
		line += ", " + report.Bytes(r.Size)
	}
	fmt.Fprintln(out, line)
	if w.bar != nil && !r.State.Over() {
		w.bar.Describe(stateNames[r.State])
		_ = w.bar.Set(order) // an error of the terminal does not matter
	}
}

// stateBar is a progress bar of the states before the last one.
func stateBar(to io.Writer) *progressbar.ProgressBar {
	return progressbar.NewOptions(request.Finished.Order(), progressbar.OptionSetWriter(to), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(true), progressbar.OptionThrottle(0))
}

func (w *waiter) endBar() {
	if w.bar != nil {
		_ = w.bar.Exit()
		_ = w.bar.Clear()
	}
}

// result prints where the checkpoint is, or returns why there is none.
func (w *waiter) result(r request.Request) error {
	if r.State == request.Failed {
		return fmt.Errorf("the job has written no checkpoint: %s", strings.TrimSpace(r.Reason))
	}
	w.endBar()
	fmt.Fprintf(w.out, "Snapshot Ref.: %3d %s\n", r.Dataset, w.dir)
	if w.options.verbose || w.options.wish.Attach {
		fmt.Fprintf(w.err, "MPIR_checkpoint_handle) -s %d %s\n", r.Dataset, w.dir)
	}
	if !w.options.wish.Attach {
		return nil
	}
	list, err := request.StoppedNodes(w.dir)
	for _, s := range list {
		for _, pid := range s.PIDs() {
			fmt.Fprintf(w.out, "%s %d\n", s.Node, pid)
		}
	}
	return err
}

// takesOver is how long scr_run may take to continue a job.
const takesOver = 10 * time.Second

// continueJob lets the ranks of a job continue that have stopped themselves.
func (c *context) continueJob(o *checkpointOptions, here bool) error {
	dir, _, err := o.find("")
	if err != nil {
		return err
	}
	list, err := request.StoppedNodes(dir)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("no job with the prefix directory %s has stopped", dir)
	}
	far := false
	for _, s := range list {
		if !s.Here() {
			far = true
			continue
		}
		if _, e := s.Continue(dir); e != nil {
			err = errors.Join(err, denied(dir, e))
		}
	}
	if !far || here {
		return err
	}
	if request.Restarts(dir) { // scr_run reaches its nodes from wherever this is
		if err := request.AskToContinue(dir); err != nil {
			return denied(dir, err)
		}
		for limit := time.Now().Add(takesOver); time.Now().Before(limit); time.Sleep(askInterval) {
			if list, err := request.StoppedNodes(dir); err != nil || len(list) == 0 {
				return err
			}
		}
	}
	j, err := c.job(&jobOptions{prefix: dir, verbose: o.verbose})
	if err != nil {
		return err
	}
	return j.Continue(c.ctx())
}
