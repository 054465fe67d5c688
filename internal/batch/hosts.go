package batch

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// hosts is no resource manager: nodes are listed in a file, and nobody says
// which are lost or when time is up.
type hosts struct{ file string }

func (hosts) Name() string { return "no resource manager" }

func (hosts) JobID(context.Context) (string, error) { return "", nil }

// Nodes is this machine alone if there is no file.
func (h hosts) Nodes(context.Context) ([]string, error) {
	if h.file != "" {
		nodes, _, err := Hosts(h.file)
		return nodes, err
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return parseHosts("host name", name)
}

func (hosts) Down(context.Context, []string) (map[string]string, error) { return nil, nil }

func (hosts) End(context.Context) (time.Time, error) { return time.Time{}, nil }

func (hosts) Kill(_ context.Context, step string) error { return killProcess(step) }

func killProcess(id string) error {
	pid, err := strconv.Atoi(id)
	if err != nil || pid < 2 {
		return fmt.Errorf("%q is not the id of a process", id)
	}
	// Launchers end their ranks when told to end, but not when they are killed.
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	return nil
}
