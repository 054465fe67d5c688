package batch

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// hosts stands for a job without a resource manager. Its nodes are listed in a file;
// which nodes are down, and when the allocation ends, is not known.
type hosts struct{ file string }

func (hosts) Name() string { return "no resource manager" }

func (hosts) JobID(context.Context) (string, error) { return "", nil }

// Nodes returns the nodes in the file, or only this one if there is no file.
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
	// On SIGTERM a launcher ends its ranks; on SIGKILL they would continue without it.
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	return nil
}
