// Package run runs a job in a batch allocation: it starts the program, finds out which
// nodes can be used, starts it again on those when a run has failed, ends a run that
// hangs, and at the end copies to the prefix directory what only the nodes have.
//
// It never talks to the program. What it knows of the program is what the library writes
// to the prefix directory: which checkpoints are complete and where they are
// (flush.scr), how many nodes a run has used (nodes.scr), and why the job should
// stop (halt.scr).
package run

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/batch"
	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/hostlist"
	"github.com/goscr/goscr/internal/report"
)

// Job is the job that a command is about: a prefix directory, and the
// allocation that the command runs in.
type Job struct {
	Config  *config.Config
	Prefix  string
	Manager batch.Manager
	// Out takes the lines that tell what is done; nil discards them.
	Out io.Writer
	// Tool is the program that has the commands which are run on nodes.
	Tool string
}

// Open reads the configuration and finds the resource manager. A prefix that is not "" wins over the
// configuration. The warnings are about settings without effect.
func Open(prefix string) (j *Job, warnings []string, err error) {
	if prefix != "" {
		if prefix, err = filepath.Abs(prefix); err != nil {
			return nil, nil, err
		}
	}
	cfg, warnings, err := config.Read(prefix)
	if err != nil {
		return nil, nil, err
	}
	m, err := batch.Of(cfg, nil)
	if err != nil {
		return nil, nil, err
	}
	return &Job{Config: cfg, Prefix: cfg.Prefix, Manager: m}, warnings, nil
}

// Tell writes a line about what is done.
func (j *Job) Tell(format string, args ...any) {
	if j.Out != nil {
		text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
		fmt.Fprintf(j.Out, "SCR: %s %s\n", time.Now().Format("15:04:05"), text)
	}
}

// Detail is Tell with SCR_DEBUG=1 or more.
func (j *Job) Detail(format string, args ...any) {
	if j.Config.Debug > 0 {
		j.Tell(format, args...)
	}
}

// ID is the id that names the job's directories on its nodes. Where the
// configuration leaves it open, the manager knows better than the environment.
func (j *Job) ID(ctx context.Context) (string, error) {
	id := j.Config.JobID
	if j.Config.Source(&j.Config.JobID).Level != config.Default {
		return id, nil
	}
	known, err := j.Manager.JobID(ctx)
	if err != nil || known == "" {
		return id, err
	}
	return known, nil
}

// Nodes are the nodes of the allocation, lost ones included.
func (j *Job) Nodes(ctx context.Context) ([]string, error) {
	if list := j.Config.Nodelist; list != "" {
		nodes, err := hostlist.Expand(list)
		if err != nil {
			return nil, fmt.Errorf("SCR_NODELIST: %w", err)
		}
		return hostlist.Union(nodes), nil
	}
	return j.Manager.Nodes(ctx)
}

// Excluded are the nodes that the user does not want to be used.
func (j *Job) Excluded() ([]string, error) {
	nodes, err := hostlist.Expand(j.Config.ExcludeNodes)
	if err != nil {
		return nil, fmt.Errorf("SCR_EXCLUDE_NODES: %w", err)
	}
	return nodes, nil
}

// End is when the allocation ends; zero if that is not known.
func (j *Job) End(ctx context.Context) time.Time {
	end, err := j.Manager.End(ctx)
	if err != nil {
		j.Tell("the end of the allocation is not known: %v", err)
	}
	return end
}

// ControlBases and CacheBases are the directories in the nodes below which
// control files and datasets are.
func (j *Job) ControlBases() []string { return []string{j.Config.CntlBase} }

// CacheBases also has the stores of STORE lines.
func (j *Job) CacheBases() []string {
	list := []string{j.Config.CacheBase}
	for _, s := range j.Config.Stores {
		if s.Enabled.Or(true) && s.View.Value != "GLOBAL" && !slices.Contains(list, s.Path) {
			list = append(list, s.Path)
		}
	}
	slices.Sort(list[1:])
	return list
}

// Below returns the job's directory below a base. A user or id that is "" is
// the job's.
func (j *Job) Below(ctx context.Context, base, user, id string) (string, error) {
	if user == "" {
		user = j.Config.UserName
	}
	var err error
	if id == "" {
		id, err = j.ID(ctx)
	}
	return filepath.Join(base, user, "scr."+id), err
}

// TestRuntime returns all that keeps the commands from working.
func (j *Job) TestRuntime(ctx context.Context) []error {
	var bad []error
	nodes, err := j.Nodes(ctx)
	if err != nil {
		return []error{err}
	}
	if _, err := j.Manager.Down(ctx, nodes); err != nil {
		bad = append(bad, err)
	}
	if _, err := j.Manager.End(ctx); err != nil {
		bad = append(bad, err)
	}
	if _, err := exec.LookPath(j.shell().needs); err != nil && len(nodes) > 1 {
		bad = append(bad, fmt.Errorf("other nodes cannot be reached: %w", err))
	}
	return bad
}

// shell is how commands are run on other nodes.
func (j *Job) shell() shell {
	return findShell(j.Config.RemoteShell, j.Manager.Name() == "Slurm")
}

// OnNodes runs a command on nodes at the same time and returns the answer of
// each. limit is what a node may take.
func (j *Job) OnNodes(ctx context.Context, nodes []string, limit time.Duration, argv ...string) map[string]Answer {
	return onNodes(ctx, j.shell(), nodes, limit, argv, func(left []string) {
		if limit < forever { // else the command is to run for as long as the job
			j.Tell("waiting for %s to answer, each for %v at most: %s", report.Count(len(left), "node"), limit, hostlist.Compress(left))
		}
	})
}
