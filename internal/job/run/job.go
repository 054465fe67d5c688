// Package run runs a job in a batch allocation: it starts the program, finds out which
// nodes can be used, starts the program again on those when a run has failed, ends a run
// that hangs, and at the end copies datasets to the prefix directory that are only in the
// caches of nodes.
//
// It does not communicate with the program. It reads what the library writes to the
// prefix directory: which checkpoints are complete and where they are (flush.scr), how
// many nodes a run uses (nodes.scr), whether the program is reading a checkpoint
// (restart.scr), and why the job should stop (halt.scr).
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

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/report"
)

// Job is a job as commands see it: a prefix directory, and the allocation in which the
// command runs.
type Job struct {
	Config  *config.Config
	Prefix  string // absolute
	Manager batch.Manager
	// Out is where Tell writes its lines; nil discards them.
	Out io.Writer
	// ControlDir is the control directory of nodes that are scavenged, "" if it is where
	// the configuration says.
	ControlDir string
	// Tool is the path of the executable that contains the commands to run on nodes.
	Tool string
	// Metrics is the file of metrics of scr_run, nil if there is none.
	Metrics eventlog.Sink
	// Database opens the database of the log, if the job logs to one.
	Database func(eventlog.Database) (eventlog.Sink, error)
}

// Open reads the configuration and finds the resource manager. If prefix is not "", it
// replaces the prefix directory of the configuration. The warnings are about settings
// that have no effect.
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

// Tell writes a line, with the time, about what the command does.
func (j *Job) Tell(format string, args ...any) {
	if j.Out != nil {
		text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
		fmt.Fprintf(j.Out, "SCR: %s %s\n", time.Now().Format("15:04:05"), text)
	}
}

// Detail is like Tell, but writes nothing unless SCR_DEBUG is 1 or more.
func (j *Job) Detail(format string, args ...any) {
	if j.Config.Debug > 0 {
		j.Tell(format, args...)
	}
}

// warn tells an error that the command can go on after; nil is none.
func (j *Job) warn(err error) {
	if err != nil {
		j.Tell("%v", err)
	}
}

// ID returns the id of the job, which is part of the names of its directories on nodes.
// If the configuration does not set it, the id is that of the resource manager.
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

// Nodes returns the nodes of the allocation, including those that are down.
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

// Excluded returns the nodes of SCR_EXCLUDE_NODES, which must not be used.
func (j *Job) Excluded() ([]string, error) {
	nodes, err := hostlist.Expand(j.Config.ExcludeNodes)
	if err != nil {
		return nil, fmt.Errorf("SCR_EXCLUDE_NODES: %w", err)
	}
	return nodes, nil
}

// End returns when the allocation ends; the zero time if that is not known.
func (j *Job) End(ctx context.Context) time.Time {
	end, err := j.Manager.End(ctx)
	if err != nil {
		j.Tell("the end of the allocation is not known: %v", err)
	}
	return end
}

// ControlBases returns the directories on nodes below which control files are.
func (j *Job) ControlBases() []string { return []string{j.Config.CntlBase} }

// CacheBases returns the directories on nodes below which datasets are: SCR_CACHE_BASE,
// and the stores of STORE lines that are enabled and not global.
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

// Below returns the directory of a user's job below a base. If user or id is "", it is
// that of this job.
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

// TestRuntime returns an error for each reason for which the commands of scr_run cannot
// work: the resource manager does not answer, or other nodes cannot be reached.
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

// shell returns the way to run commands on other nodes.
func (j *Job) shell() shell {
	return findShell(j.Config.RemoteShell, j.Manager.Name() == "Slurm")
}

// OnNodes runs a command on nodes at the same time and returns the answer of each, by
// node. limit is how long the command may take on a node.
func (j *Job) OnNodes(ctx context.Context, nodes []string, limit time.Duration, argv ...string) map[string]Answer {
	return onNodes(ctx, j.shell(), nodes, limit, argv, func(left []string) {
		if limit < forever { // else the command is to run for as long as the job
			j.Tell("waiting for %s to answer, each for %v at most: %s", report.Count(len(left), "node"), limit, hostlist.Compress(left))
		}
	})
}
