package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/hostlist"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/internal/scavenge"
)

// copyTime bounds the copy of a dataset where the allocation has no known end.
const copyTime = 6 * time.Hour

// Postrun brings home what is only in the nodes: all output, and the newest
// checkpoint that can be had. down are nodes that are known to be lost.
func (j *Job) Postrun(ctx context.Context, down map[string]string) error {
	list, err := prefix.OnlyInCache(j.Prefix)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		j.Detail("nothing is to be scavenged")
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

func (j *Job) scavengeOutput(ctx context.Context, list []prefix.Unflushed, nodes []string, down map[string]string) error {
	var failed error
	for _, d := range list {
		if d.Output {
			failed = errors.Join(failed, j.Scavenge(ctx, d, nodes, down))
		}
	}
	return failed
}

// bringOutput is the postrun of a job whose checkpoints nobody needs any more.
func (l *Loop) bringOutput(ctx context.Context) error {
	list, err := prefix.OnlyInCache(l.Prefix)
	if err != nil {
		return err
	}
	return l.scavengeOutput(ctx, list, l.nodes, l.down)
}

// scavengeNewest goes back from the newest checkpoint until one is home. One
// that is older than what the prefix directory has is not worth it.
func (j *Job) scavengeNewest(ctx context.Context, list []prefix.Unflushed, nodes []string, down map[string]string) error {
	home, err := prefix.NewestFlushed(j.Prefix)
	if err != nil {
		return err
	}
	var failed error
	for _, d := range slices.Backward(list) {
		if !d.Checkpoint || d.Output || d.ID < home {
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

// Scavenge copies a dataset from the nodes to the prefix directory, in two
// rounds: each node copies what its ranks have written; then, if some node could
// not, the others copy what they keep of it. What is still missing is rebuilt.
func (j *Job) Scavenge(ctx context.Context, d prefix.Unflushed, nodes []string, down map[string]string) error {
	began := time.Now()
	up := hostlist.Minus(nodes, keys(down))
	if len(up) == 0 {
		return fmt.Errorf("dataset %s cannot be scavenged: no node is left", d.Name)
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
	if a.Err != nil || a.Status != 0 {
		return fmt.Errorf("dataset %d (%s) could not be made whole: %s", d.ID, d.Name, lastLine(a))
	}
	j.Tell("dataset %d (%s): in the prefix directory, in %v", d.ID, d.Name, time.Since(began).Round(100*time.Millisecond))
	return nil
}

// copyCommand is what each node runs. Options come first, then the nodes that
// are down.
func (j *Job) copyCommand(ctx context.Context, id int) ([]string, error) {
	control, err := j.Below(ctx, j.ControlBases()[0], "", "")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(j.Prefix, prefix.Metadata), 0o777); err != nil {
		return nil, err
	}
	return []string{j.Tool, "copy", "--cntldir", control, "--id", strconv.Itoa(id), "--prefix", j.Prefix,
		"--buf", strconv.FormatInt(j.Config.FileBufSize, 10), "--crc"}, nil
}

// copyRound has nodes copy, and returns those that could not.
func (j *Job) copyRound(ctx context.Context, nodes []string, limit time.Duration, argv []string) (failed []string) {
	answers := j.OnNodes(ctx, nodes, limit, argv...)
	for _, n := range nodes {
		a := answers[n]
		if a.Err == nil && a.Status == 0 {
			continue
		}
		failed = append(failed, n)
		if strings.Contains(a.Out, scavenge.NothingHere) { // as on every spare
			j.Detail("%s: %s", n, scavenge.NothingHere)
			continue
		}
		j.Tell("scr_copy on %s: %s", n, lastLine(a))
	}
	return failed
}

// lastLine is what a command that failed has said last.
func lastLine(a Answer) string {
	if a.Err != nil {
		return a.Err.Error()
	}
	text := strings.TrimSpace(a.Out)
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return orElse(text, fmt.Sprintf("exit status %d", a.Status))
}
