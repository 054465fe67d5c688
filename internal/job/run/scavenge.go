package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/node/scavenge"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
)

// copyTime limits the copy of a dataset if the end of the allocation is not known.
const copyTime = 6 * time.Hour

// Postrun copies datasets to the prefix directory that are only in the caches of nodes:
// all outputs, and the newest checkpoint that is complete or can be rebuilt. down are the
// nodes that are down, with the reasons; if it is nil, Postrun checks the nodes.
func (j *Job) Postrun(ctx context.Context, down map[string]string) error {
	list, err := prefix.OnlyInCache(j.Prefix)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		j.Detail("there is nothing to scavenge")
		return nil
	}
	nodes, err := j.Nodes(ctx)
	if err != nil {
		return err
	}
	if down == nil {
		if down, err = j.Down(ctx, nodes, nil, false); err != nil {
			return err
		}
	}
	return errors.Join(j.scavengeOutput(ctx, list, nodes, down), j.scavengeNewest(ctx, list, nodes, down))
}

// scavengeOutput scavenges the outputs in list. It continues after an error.
func (j *Job) scavengeOutput(ctx context.Context, list []prefix.Unflushed, nodes []string, down map[string]string) error {
	var failed error
	for _, d := range list {
		if d.Output {
			failed = errors.Join(failed, j.Scavenge(ctx, d, nodes, down))
		}
	}
	return failed
}

// postrunOutput is Postrun for outputs only.
func (j *Job) postrunOutput(ctx context.Context, nodes []string, down map[string]string) error {
	list, err := prefix.OnlyInCache(j.Prefix)
	if err != nil {
		return err
	}
	return j.scavengeOutput(ctx, list, nodes, down)
}

// scavengeNewest tries to scavenge checkpoints, the newest first, until it has succeeded
// with one. It does not try those that are older than the newest one in the prefix
// directory.
func (j *Job) scavengeNewest(ctx context.Context, list []prefix.Unflushed, nodes []string, down map[string]string) error {
	flushed, err := prefix.NewestFlushed(j.Prefix)
	if err != nil {
		return err
	}
	var failed error
	for _, d := range slices.Backward(list) {
		if !d.Checkpoint || d.Output || d.ID < flushed {
			continue
		}
		if err := j.Scavenge(ctx, d, nodes, down); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		return nil
	}
	return failed
}

// Scavenge copies a dataset from the nodes to the prefix directory in two rounds. In the
// first, each node copies the files of its own ranks. In the second, if some nodes are
// down or have failed, the other nodes copy the files of these nodes' ranks of which they
// have copies (PARTNER). Then scr_index --build rebuilds missing files.
func (j *Job) Scavenge(ctx context.Context, d prefix.Unflushed, nodes []string, down map[string]string) error {
	began := time.Now()
	err := j.scavenge(ctx, d, nodes, down)
	j.logScavenge(ctx, d, began, err)
	return err
}

// scavenge is Scavenge without the log.
func (j *Job) scavenge(ctx context.Context, d prefix.Unflushed, nodes []string, down map[string]string) error {
	began := time.Now()
	up := hostlist.Minus(nodes, keys(down))
	if len(up) == 0 {
		return fmt.Errorf("dataset %d (%s) cannot be scavenged: no node is left", d.ID, d.Name)
	}
	limit := copyTime
	if end, err := j.Manager.End(ctx); err == nil && !end.IsZero() {
		limit = max(time.Until(end), answerTime)
	}
	argv, err := j.copyCommand(ctx, d.ID)
	if err != nil {
		return err
	}
	j.Tell("dataset %d (%s): scavenge from %d of %s", d.ID, d.Name, len(up), report.Count(len(nodes), "node"))
	lost := hostlist.Intersection(nodes, keys(down))
	failed := j.copyRound(ctx, up, limit, append(argv, lost...))
	lost = append(lost, failed...)
	if rest := hostlist.Minus(up, failed); len(lost) > 0 && len(rest) > 0 {
		j.copyRound(ctx, rest, limit, append(append(slices.Clone(argv), "--partner"), lost...))
	}
	a := locally(ctx, limit, []string{j.Tool, "index", "--prefix", j.Prefix, "--build", strconv.Itoa(d.ID)})
	if a.failed() {
		return fmt.Errorf("dataset %d (%s) could not be completed: %s", d.ID, d.Name, a.lastLine())
	}
	j.Tell("dataset %d (%s): in the prefix directory after %v", d.ID, d.Name, time.Since(began).Round(100*time.Millisecond))
	return nil
}

// copyCommand returns the command that each node runs. The caller appends more options,
// and then the nodes that are down.
func (j *Job) copyCommand(ctx context.Context, id int) ([]string, error) {
	control := j.ControlDir
	if control == "" {
		var err error
		if control, err = j.Below(ctx, j.ControlBases()[0], "", ""); err != nil {
			return nil, err
		}
	}
	if err := hash.MakeDirs(filepath.Join(j.Prefix, prefix.Metadata)); err != nil {
		return nil, err
	}
	return []string{j.Tool, "copy", "--cntldir", control, "--id", strconv.Itoa(id), "--prefix", j.Prefix,
		"--buf", strconv.FormatInt(j.Config.FileBufSize, 10), "--crc"}, nil
}

// copyRound runs argv on nodes, and returns those on which it failed.
func (j *Job) copyRound(ctx context.Context, nodes []string, limit time.Duration, argv []string) (failed []string) {
	answers := j.OnNodes(ctx, nodes, limit, argv...)
	for _, n := range nodes {
		a := answers[n]
		if !a.failed() {
			continue
		}
		failed = append(failed, n)
		if strings.Contains(a.Out, scavenge.NothingHere) { // normal on spare nodes
			j.Detail("%s: %s", n, scavenge.NothingHere)
			continue
		}
		j.Tell("scr_copy on %s: %s", n, a.lastLine())
	}
	return failed
}
