package run

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/prefix"
)

// Program is the program that a job runs, and its launcher.
type Program struct {
	Launcher batch.Launcher
	Argv     []string // the launcher with its arguments, and possibly the program
	First    []string // program and arguments if there is no checkpoint; nil if they are in Argv
	Args     []string // the command line of scr_run itself
	Again    []string // program and arguments if there is a checkpoint; nil: the same as First

	In     io.Reader // standard input of the launcher
	Stdout io.Writer // ... its standard output
	Stderr io.Writer // ... its standard error
}

// CheckpointName is replaced by the name of the checkpoint in the command line of a
// restart.
const CheckpointName = "SCR_CKPT_NAME"

// command returns the command line and the environment of a run: where it is placed, variables
// for it, and the checkpoint from which it starts.
func (p *Program) command(where batch.Placement, env []string, from prefix.Progress) (batch.Launch, error) {
	where.Vars = scrVariables(env)
	launch, err := p.Launcher.Command(append(slices.Clone(p.Argv), p.arguments(from)...), where)
	launch.Env = append(launch.Env, env...)
	return launch, err
}

// arguments returns the program with its arguments, which follow Argv: that of a restart,
// if there is a checkpoint, else that of a first start.
func (p *Program) arguments(from prefix.Progress) []string {
	if from.Newest == 0 || p.Again == nil {
		return p.First
	}
	program := slices.Clone(p.Again)
	for i, word := range program {
		program[i] = strings.ReplaceAll(word, CheckpointName, from.Name)
	}
	return program
}

// runDisabled replaces Loop.Run if SCR_ENABLE=0: it runs the program once and forwards signals
// to it, and does nothing else.
func (p *Program) runDisabled(signals <-chan os.Signal) (int, error) {
	l, err := start(batch.Launch{Argv: append(slices.Clone(p.Argv), p.First...)}, p.In, p.Stdout, p.Stderr)
	if err != nil {
		return 1, err
	}
	for {
		select {
		case s := <-signals:
			l.signal(s)
		case <-l.done:
			return l.status(), nil
		}
	}
}

// origin decides at which checkpoint the next run starts.
type origin struct {
	from        string // the one for which the program has asked, until a run has completed a checkpoint; "": none
	pastCurrent bool   // runs do not begin at the checkpoint of SCR_CURRENT any more
}

// choose returns the name of the checkpoint, and variables by which the run learns it. newest
// is the newest checkpoint of the job.
func (o *origin) choose(cfg *config.Config, newest prefix.Progress) (name string, env []string) {
	// SCR_CURRENT says where the job begins. A run that follows a new checkpoint would lose that.
	current := cfg.Source(&cfg.Current).Level == config.Environment
	switch {
	case o.from != "":
		return o.from, []string{"SCR_CURRENT=" + o.from}
	case current && o.pastCurrent:
		return newest.Name, []string{"SCR_CURRENT="}
	case current && newest.Newest != 0:
		return cfg.Current, nil
	}
	return newest.Name, nil
}

// gained records that a run has completed a checkpoint.
func (o *origin) gained() { o.from, o.pastCurrent = "", true }

// condemned records that no run restarts from a checkpoint again. current is the one of SCR_CURRENT.
func (o *origin) condemned(name, current string) {
	o.pastCurrent = o.pastCurrent || name == current
	if name == o.from { // a run that gets it as SCR_CURRENT would try it again
		o.from = ""
	}
}

// scrVariables returns the names of all environment variables that begin with SCR_, of
// this process and in more ("name=value"). Launchers have to pass them to the program.
func scrVariables(more []string) []string {
	var names []string
	for _, v := range append(os.Environ(), more...) {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "SCR_") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
