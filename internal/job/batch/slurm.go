package batch

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/job/hostlist"
)

// slurm is Slurm 20.11 or later. It has been run under 22.05.
type slurm struct{ environ Environ }

func (slurm) Name() string { return "Slurm" }

func (s slurm) JobID(context.Context) (string, error) { return s.id(), nil }

func (s slurm) id() string { return s.environ.first("SLURM_JOB_ID", "SLURM_JOBID") }

// Nodes reads the environment first: its list still has the nodes that Slurm has removed
// from the job since.
func (s slurm) Nodes(ctx context.Context) ([]string, error) {
	if list := s.environ.first("SLURM_JOB_NODELIST", "SLURM_NODELIST"); list != "" {
		return parseHosts("SLURM_JOB_NODELIST", list)
	}
	list, _, err := s.job(ctx)
	return list, err
}

// job returns the nodes that the job has now, and the time it has left in Slurm's format.
func (s slurm) job(ctx context.Context) (nodes []string, left string, err error) {
	text, err := output(ctx, "squeue", "--noheader", "--jobs="+s.id(), "--format=%N|%L")
	if err != nil {
		return nil, "", err
	}
	list, left, ok := strings.Cut(strings.TrimSpace(text), "|")
	if !ok {
		return nil, "", fmt.Errorf("squeue does not know job %s: it has ended, or it runs on another cluster", s.id())
	}
	if list != "" { // empty if the job has lost its last node
		nodes, err = parseHosts("squeue", list)
	}
	return nodes, left, err
}

// Down returns the nodes that Slurm has removed from the job, and those in a state in which
// nothing can be started on them. A node that works again after a failure is up for Slurm
// and still not one of the job's, so states alone are not enough.
func (s slurm) Down(ctx context.Context, nodes []string) (map[string]string, error) {
	left, _, err := s.job(ctx)
	if err != nil {
		return nil, err
	}
	down := map[string]string{}
	for _, n := range hostlist.Minus(nodes, left) {
		down[n] = "Slurm has removed it from the job"
	}
	text, err := output(ctx, "sinfo", "--noheader", "--Node", "--nodes="+hostlist.Compress(nodes), "--format=%N|%T|%E")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), "|", 3)
		if len(fields) != 3 || !slices.Contains(nodes, fields[0]) || !slurmLost(fields[1]) {
			continue
		}
		down[fields[0]] = "Slurm says " + fields[1]
		if fields[2] != "" && fields[2] != "none" {
			down[fields[0]] += " (" + fields[2] + ")"
		}
	}
	return down, nil
}

// slurmLost reports whether nothing can be started on a node in this state. A state such as
// draining only keeps new jobs away. Slurm appends a star if the node does not answer.
func slurmLost(state string) bool {
	if strings.HasSuffix(state, "*") {
		return true
	}
	state = strings.TrimRight(strings.ToLower(state), "~#!%$@+^-")
	for _, lost := range []string{"down", "fail", "error", "power", "reboot", "unk"} {
		if strings.HasPrefix(state, lost) {
			return true
		}
	}
	return false
}

// End reads the environment, where later releases of Slurm put the end, or else asks
// squeue for the time that is left.
func (s slurm) End(ctx context.Context) (time.Time, error) {
	const variable = "SLURM_JOB_END_TIME"
	if text := s.environ.first(variable); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("%s: %q is not a number of seconds since 1970", variable, text)
		}
		return time.Unix(seconds, 0), nil
	}
	now := time.Now()
	_, left, err := s.job(ctx)
	if err != nil || left == "UNLIMITED" || left == "NOT_SET" || left == "INVALID" {
		return time.Time{}, err
	}
	d, err := slurmDuration(left)
	if err != nil {
		return time.Time{}, fmt.Errorf("squeue: time left: %w", err)
	}
	return now.Add(d), nil
}

// slurmDuration reads [days-][[hours:]minutes:]seconds.
func slurmDuration(text string) (time.Duration, error) {
	days, clock, ok := strings.Cut(text, "-")
	if !ok {
		days, clock = "0", text
	}
	parts := append([]string{days}, strings.Split(clock, ":")...)
	units := []int64{1, 60, 3600}
	var seconds int64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil || len(parts) > 4 {
			return 0, fmt.Errorf("%q is not a time", text)
		}
		unit := int64(86400)
		if i > 0 {
			unit = units[len(parts)-1-i]
		}
		seconds += int64(n) * unit
	}
	if seconds > int64(math.MaxInt64/time.Second) {
		return 0, fmt.Errorf("%q is longer than 292 years", text)
	}
	return time.Duration(seconds) * time.Second, nil
}

func (s slurm) Kill(ctx context.Context, step string) error {
	if !strings.Contains(step, ".") {
		step = s.id() + "." + step
	}
	_, err := output(ctx, "scancel", "--signal=KILL", step)
	return err
}

// Steps returns the ids of the job's steps that srun has started.
func (s slurm) Steps(ctx context.Context) ([]string, error) {
	text, err := output(ctx, "squeue", "--noheader", "--steps", "--jobs="+s.id(), "--format=%i")
	if err != nil {
		return nil, err
	}
	var steps []string
	for _, id := range strings.Fields(text) {
		// The steps batch, extern and interactive, which have no number, run no program.
		if _, step, _ := strings.Cut(id, "."); step != "" && strings.Trim(step, "0123456789") == "" {
			steps = append(steps, id)
		}
	}
	return steps, nil
}
