package batch

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/job/hostlist"
)

// flux is Flux. The instance in which the batch script runs is the allocation.
// This was written from flux-core's manual, and has not been run under Flux.
type flux struct{ environ Environ }

func (flux) Name() string { return "Flux" }

func (f flux) JobID(ctx context.Context) (string, error) {
	// In a program, FLUX_JOB_ID is the id of that run and differs between runs, so the
	// instance is asked first.
	text, err := output(ctx, "flux", "getattr", "jobid")
	if id := strings.TrimSpace(text); err == nil && id != "" {
		return id, nil
	}
	if id := f.environ.first("FLUX_JOB_ID"); id != "" {
		return id, nil
	}
	return "", err
}

func (flux) Nodes(ctx context.Context) ([]string, error) {
	text, err := output(ctx, "flux", "getattr", "hostlist")
	if err != nil {
		return nil, err
	}
	return parseHosts("flux getattr hostlist", text)
}

func (flux) Down(ctx context.Context, nodes []string) (map[string]string, error) {
	text, err := output(ctx, "flux", "resource", "list", "--no-header", "--states=down", "--format={nodelist}")
	if err != nil {
		return nil, err
	}
	list, err := hostlist.Expand(text)
	if err != nil {
		return nil, fmt.Errorf("flux resource list: %w", err)
	}
	down := map[string]string{}
	for _, n := range hostlist.Intersection(nodes, list) {
		down[n] = "Flux says down"
	}
	return down, nil
}

func (flux) End(ctx context.Context) (time.Time, error) {
	now := time.Now()
	text, err := output(ctx, "flux", "job", "timeleft")
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	switch {
	case err != nil || math.IsNaN(seconds) || seconds < 0:
		return time.Time{}, fmt.Errorf("flux job timeleft: %q is not a number of seconds", strings.TrimSpace(text))
	case seconds > maxLeft.Seconds(): // flux prints infinity
		return time.Time{}, nil
	}
	return now.Add(time.Duration(seconds * float64(time.Second))), nil
}

// maxLeft is longer than any allocation that has an end.
const maxLeft = 100 * 365 * 24 * time.Hour

func (flux) Kill(ctx context.Context, step string) error {
	_, err := output(ctx, "flux", "job", "kill", "--signal=SIGKILL", step)
	return err
}
