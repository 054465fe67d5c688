package batch

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// lsf is IBM Spectrum LSF. This was written from its manual, and has not been run under
// LSF.
type lsf struct{ environ Environ }

func (lsf) Name() string { return "LSF" }

func (l lsf) JobID(context.Context) (string, error) { return l.environ.first("LSB_JOBID"), nil }

// Nodes reads LSB_MCPU_HOSTS, "host slots host slots ...". If that is empty it reads the
// list LSB_HOSTS or the file LSB_DJOB_HOSTFILE, which name a host once for each slot.
func (l lsf) Nodes(context.Context) ([]string, error) {
	var nodes []string
	slots := map[string]int{}
	words := strings.Fields(l.environ.first("LSB_MCPU_HOSTS"))
	for i := 0; i+1 < len(words); i += 2 {
		n, err := strconv.Atoi(words[i+1])
		if err != nil {
			return nil, fmt.Errorf("LSB_MCPU_HOSTS: %q is not a number of slots", words[i+1])
		}
		nodes = append(nodes, words[i])
		slots[words[i]] += n
	}
	if len(nodes) == 0 {
		nodes = strings.Fields(l.environ.first("LSB_HOSTS"))
		for _, n := range nodes {
			slots[n]++
		}
	}
	if path := l.environ.first("LSB_DJOB_HOSTFILE"); len(nodes) == 0 && path != "" {
		var err error
		if nodes, slots, err = Hosts(path); err != nil {
			return nil, err
		}
		if slots[nodes[0]] == 0 {
			slots[nodes[0]] = 1 // Hosts returns 0 for a host that is named once
		}
	}
	nodes, err := parseHosts("LSB_MCPU_HOSTS", strings.Join(nodes, " "))
	if err != nil {
		return nil, err
	}
	return withoutLaunchNode(nodes, slots), nil
}

// withoutLaunchNode removes the launch node. Systems with jsrun list the node that runs the
// batch script first; it has one slot, while the others have many, and runs no ranks.
func withoutLaunchNode(nodes []string, slots map[string]int) []string {
	if len(nodes) < 2 || slots[nodes[0]] != 1 {
		return nodes
	}
	for _, n := range nodes[1:] {
		if slots[n] <= 1 {
			return nodes
		}
	}
	return nodes[1:]
}

func (l lsf) Down(ctx context.Context, nodes []string) (map[string]string, error) {
	text, err := output(ctx, "bhosts", append([]string{"-w"}, nodes...)...)
	if err != nil {
		return nil, err
	}
	ours := byShortName(nodes)
	down := map[string]string{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[1] != "unavail" && words[1] != "unreach" && words[1] != "closed_LIM" {
			continue
		}
		if n, ok := ours[short(words[0])]; ok {
			down[n] = "LSF says " + words[1]
		}
	}
	return down, nil
}

// End computes the end from the time that is left. bjobs writes that as "hours:minutes L",
// or as "-" if there is no limit.
func (l lsf) End(ctx context.Context) (time.Time, error) {
	now := time.Now()
	id, _ := l.JobID(ctx)
	text, err := output(ctx, "bjobs", "-noheader", "-o", "time_left", id)
	if err != nil {
		return time.Time{}, err
	}
	text = strings.TrimSpace(text)
	if text == "-" || text == "" {
		return time.Time{}, nil
	}
	var hours, minutes uint16
	var kind string
	if n, _ := fmt.Sscanf(text, "%d:%d %s", &hours, &minutes, &kind); n < 2 {
		return time.Time{}, fmt.Errorf("bjobs: %q is not a time", text)
	}
	if kind == "X" || kind == "E" && hours == 0 && minutes == 0 { // no time is left
		return now, nil
	}
	return now.Add(time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute), nil
}

func (lsf) Kill(ctx context.Context, step string) error {
	_, err := output(ctx, "jskill", "-s", "9", step)
	return err
}
