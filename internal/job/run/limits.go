package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/job/run/recovery"
	"github.com/goscr/goscr/internal/prefix"
)

// Prerun prepares the prefix directory for the runs of an allocation. It removes two
// records of the previous allocation: how many nodes its runs have used, and that the
// program has finished, or was stopped.
func (j *Job) Prerun() error {
	if err := hash.MakeDirs(filepath.Join(j.Prefix, prefix.Metadata)); err != nil {
		return fmt.Errorf("prefix directory: %w (SCR_PREFIX says where it is)", err)
	}
	over := func(string) bool { return !request.Alive(j.Prefix) }
	if err := errors.Join(halt.Over(j.Prefix, over), halt.Begin(j.Prefix, "", 0)); err != nil {
		return err
	}
	if err := os.Remove(j.nodesFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (j *Job) nodesFile() string { return prefix.NodesFile(j.Prefix) }

// NodesUsed returns how many nodes the last run has used; 0 if no run has called
// SCR_Init yet.
func (j *Job) NodesUsed() (int, error) {
	n, err := prefix.ReadNodes(j.nodesFile())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return n, err
}

// Needed returns how many nodes of the allocation the program needs, and why: the
// parameter or the rule that the number is from.
func (j *Job) Needed(nodes []string) (n int, why string, err error) {
	if n := j.Config.MinNodes; n > 0 {
		return n, "SCR_MIN_NODES", nil
	}
	n, err = j.NodesUsed()
	if err != nil || n > 0 {
		return n, "as many as the last run used", err
	}
	excluded, err := j.Excluded()
	return len(hostlist.Minus(nodes, excluded)), "all, because SCR_MIN_NODES is not set", err
}

// haltReason returns why the job should stop according to the halt file, "" if it should
// not stop.
func (j *Job) haltReason(now time.Time) (string, error) {
	return halt.Reason(j.Prefix, func() time.Time { return time.Time{} }, now)
}

// ShouldStop returns why no run should be started on those of nodes that are not down,
// "" if a run may be started. end is when the allocation ends, zero if not known.
func (j *Job) ShouldStop(nodes []string, down map[string]string, end, now time.Time) (string, error) {
	if why, err := j.timeIsUp(end, now); why != "" || err != nil {
		return why, err
	}
	needed, why, err := j.Needed(nodes)
	if err != nil {
		return "", err
	}
	if left := len(hostlist.Minus(nodes, keys(down))); left < max(needed, 1) {
		return recovery.TooFew(left, needed, why), nil
	}
	return "", nil
}

// timeIsUp returns why no run should be started on whatever nodes, "" if one may be.
func (j *Job) timeIsUp(end, now time.Time) (string, error) {
	if reason, err := j.haltReason(now); err != nil {
		return "", err
	} else if reason != "" {
		return reason + " (scr_halt --remove cancels this)", nil
	}
	if margin := j.Config.HaltTime; !end.IsZero() && !now.Before(end.Add(-margin)) {
		return fmt.Sprintf("the allocation ends at %s, in %v", end.Format(time.DateTime), end.Sub(now).Round(time.Second)), nil
	}
	return "", nil
}
