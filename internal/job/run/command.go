package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/prefix"
)

// CheckpointName is replaced by the name of the checkpoint in the command line of a
// restart.
const CheckpointName = "SCR_CKPT_NAME"

// command returns the command line and the environment of the next run, on the nodes of
// l.next. newest is the progress of the job so far.
func (l *Loop) command(newest prefix.Progress) (batch.Launch, error) {
	needed, _, err := l.Needed(l.alloc.nodes)
	if err != nil {
		return batch.Launch{}, err
	}
	env := []string{"SCR_JOB_ID=" + l.alloc.id, "SCR_PREFIX=" + l.Prefix}
	if !l.alloc.end.IsZero() {
		env = append(env, fmt.Sprintf("SCR_END_TIME=%d", l.alloc.end.Unix()))
	}
	// SCR_CURRENT says where the job begins. A run that follows a new checkpoint would lose that.
	if l.past.from != "" {
		env = append(env, "SCR_CURRENT="+l.past.from)
		newest.Name = l.past.from
	} else if current := l.Config.Source(&l.Config.Current).Level == config.Environment; current && l.past.pastCurrent {
		env = append(env, "SCR_CURRENT=")
	} else if current && newest.Newest != 0 {
		newest.Name = l.Config.Current
	}
	launch, err := l.Launcher.Command(append(slices.Clone(l.Argv), l.program(newest)...), batch.Placement{
		Nodes: l.next.nodes, Down: hostlist.Minus(l.alloc.nodes, l.next.nodes), Needed: min(needed, len(l.next.nodes)), Usual: l.next.usual, Hosts: l.next.hosts,
		Slots: l.alloc.slots, Dir: filepath.Join(l.Prefix, prefix.Metadata),
		Listed: l.Config.HostFile != "" || l.Config.Nodelist != "",
		Vars:   scrVariables(env),
	})
	launch.Env = append(launch.Env, env...)
	return launch, err
}

// program returns the program with its arguments, which follow Argv: that of a restart,
// if there is a checkpoint, else that of a first start.
func (l *Loop) program(newest prefix.Progress) []string {
	if newest.Newest == 0 || l.Again == nil {
		return l.First
	}
	program := slices.Clone(l.Again)
	for i, word := range program {
		program[i] = strings.ReplaceAll(word, CheckpointName, newest.Name)
	}
	return program
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
