package batch

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/job/hostlist"
)

// pbs is PBS Pro, OpenPBS and Torque, whose commands and variables are mostly the same.
// This was written from their manuals, and has not been run under any of them.
type pbs struct{ environ Environ }

func (pbs) Name() string { return "PBS" }

func (p pbs) JobID(context.Context) (string, error) { return p.environ.first("PBS_JOBID"), nil }

func (p pbs) Nodes(context.Context) ([]string, error) {
	path := p.environ.first("PBS_NODEFILE")
	if path == "" {
		return nil, fmt.Errorf("PBS_NODEFILE is not set, so the nodes of the job are not known")
	}
	nodes, _, err := Hosts(path)
	return nodes, err
}

// Down reads the list of nodes that have a problem, lines of "name states [comment]". A
// node that is only offline is not down: it accepts no new jobs, but runs this one.
func (p pbs) Down(ctx context.Context, nodes []string) (map[string]string, error) {
	text, err := output(ctx, "pbsnodes", "-l")
	if err != nil {
		return nil, err
	}
	ours := byShortName(nodes)
	down := map[string]string{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		for state := range strings.SplitSeq(words[1], ",") {
			n, ok := ours[short(words[0])]
			if ok && (state == "down" || state == "unknown" || state == "state-unknown" || state == "stale") {
				down[n] = "PBS says " + words[1]
			}
		}
	}
	return down, nil
}

func (p pbs) End(ctx context.Context) (time.Time, error) {
	now := time.Now()
	id, _ := p.JobID(ctx)
	text, err := output(ctx, "qstat", "-f", id)
	if err != nil {
		return time.Time{}, err
	}
	return pbsEnd(text, now)
}

// pbsEnd reads the full display of a job, in which each line is "name = value". Torque
// prints the seconds that remain; the others print when the job started, and its limit.
func pbsEnd(text string, now time.Time) (time.Time, error) {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, " = ")
		fields[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	if left := fields["Walltime.Remaining"]; left != "" {
		n, err := strconv.ParseUint(left, 10, 31)
		if err != nil {
			return time.Time{}, fmt.Errorf("qstat: Walltime.Remaining = %q is not a number of seconds", left)
		}
		return now.Add(time.Duration(n) * time.Second), nil
	}
	limit := fields["Resource_List.walltime"]
	start := fields["stime"]
	if start == "" {
		start = fields["start_time"]
	}
	if limit == "" || start == "" {
		return time.Time{}, nil
	}
	d, err := slurmDuration(limit)
	if err != nil {
		return time.Time{}, fmt.Errorf("qstat: Resource_List.walltime: %w", err)
	}
	began, err := time.ParseInLocation(time.ANSIC, start, time.Local)
	if err != nil {
		return time.Time{}, fmt.Errorf("qstat: start of the job: %w", err)
	}
	return began.Add(d), nil
}

// Kill ends a process: under PBS, launchers such as mpirun are ordinary processes.
func (pbs) Kill(_ context.Context, step string) error { return killProcess(step) }

// alps is ALPS on Cray systems, which launches programs for PBS. Nodes have numbers;
// nid00012 is node 12. This was written from the manuals of aprun and apstat, and has not
// been run under ALPS.
type alps struct{ pbs }

func (alps) Name() string { return "ALPS" }

// Nodes runs a command on every node, because the node file of PBS lists only the node on
// which the batch script runs.
func (a alps) Nodes(ctx context.Context) ([]string, error) {
	count := a.environ.first("PBS_NUM_NODES", "PBS_NNODES")
	if n, err := strconv.Atoi(count); err != nil || n < 1 {
		return nil, fmt.Errorf("PBS_NUM_NODES=%q is not a number of nodes; set SCR_NODELIST instead", count)
	}
	text, err := output(ctx, "aprun", "-q", "-n", count, "-N", "1", "cat", "/proc/cray_xt/nid")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, word := range strings.Fields(text) {
		n, err := strconv.ParseUint(word, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("aprun: %q is not the number of a node", word)
		}
		names = append(names, fmt.Sprintf("nid%05d", n))
	}
	return parseHosts("aprun", hostlist.Compress(names))
}

// Down reads the table of apstat, whose columns begin with NID Arch State.
func (a alps) Down(ctx context.Context, nodes []string) (map[string]string, error) {
	text, err := output(ctx, "apstat", "-n")
	if err != nil {
		return nil, err
	}
	state := map[string]string{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		if n, err := strconv.ParseUint(words[0], 10, 31); err == nil {
			state[fmt.Sprintf("nid%05d", n)] = words[2]
		}
	}
	down := map[string]string{}
	for _, n := range nodes {
		if s, ok := state[n]; ok && s != "UP" {
			down[n] = "ALPS says " + s
		}
	}
	return down, nil
}

func (alps) Kill(ctx context.Context, step string) error {
	_, err := output(ctx, "apkill", "-9", step)
	return err
}
