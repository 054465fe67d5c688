// Package batch asks the resource manager about the allocation in which a job runs,
// and writes the command lines that start a program on the nodes that are up.
//
// A Manager knows the allocation: its id, its nodes, when it ends, and which nodes are
// down. A Launcher knows one command that starts programs. The two are independent,
// because people run mpirun under Slurm. Both run the system's commands and link none
// of its libraries, so that one binary works on every system; the output of the commands
// is checked before it is used.
package batch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/job/hostlist"
)

// Manager answers questions about the allocation. Methods with a context run commands
// of the resource manager, which may be slow or missing.
type Manager interface {
	// Name is the usual name of the resource manager, for messages.
	Name() string
	// JobID is the id of the allocation, "" if there is none.
	JobID(ctx context.Context) (string, error)
	// Nodes returns the nodes of the allocation as it was granted, lost ones
	// included, in the manager's order.
	Nodes(ctx context.Context) ([]string, error)
	// Down returns the nodes among those given that the manager knows to be down, each
	// with the reason.
	Down(ctx context.Context, nodes []string) (map[string]string, error)
	// End is when the allocation ends; zero if it has no end.
	End(ctx context.Context) (time.Time, error)
	// Kill ends a program that runs in the allocation. Its id is the one that the
	// manager's launcher gave it, such as a job step of Slurm or a job of Flux; without a
	// manager it is a process id.
	Kill(ctx context.Context, step string) error
}

// Environ looks up a variable, as os.LookupEnv does.
type Environ func(name string) (string, bool)

// Managers are the names that SCR_RESOURCE_MANAGER accepts, besides AUTO.
var Managers = []string{"SLURM", "FLUX", "LSF", "PBS", "ALPS", "NONE"}

// Settings are what a user may configure about the manager.
type Settings struct {
	Name     string    // one of Managers, or AUTO
	HostFile string    // file with the names of the nodes, for a job without a manager
	End      time.Time // when the allocation ends; if zero, the manager is asked
}

// Find returns the manager with the name in the settings. If that is AUTO, it returns the
// one whose variables are in the environment.
func Find(s Settings, environ Environ) (Manager, error) {
	if environ == nil {
		environ = os.LookupEnv
	}
	m, err := s.manager(environ)
	if err != nil || s.End.IsZero() {
		return m, err
	}
	return configured{m, s.End}, nil
}

// Of returns the manager that a job's configuration asks for.
func Of(c *config.Config, environ Environ) (Manager, error) {
	s := Settings{Name: c.ResourceManager, HostFile: c.HostFile}
	if seconds := c.EndTime; seconds > 0 {
		s.End = time.Unix(int64(seconds), 0)
	}
	return Find(s, environ)
}

// configured is a manager with the end of the allocation that a user configured.
type configured struct {
	Manager
	end time.Time
}

func (c configured) End(context.Context) (time.Time, error) { return c.end, nil }

func (s Settings) manager(environ Environ) (Manager, error) {
	name := s.Name
	if name == "AUTO" {
		name = detect(environ)
	}
	switch name {
	case "SLURM":
		return slurm{environ}, nil
	case "FLUX":
		return flux{environ}, nil
	case "LSF":
		return lsf{environ}, nil
	case "PBS":
		return pbs{environ}, nil
	case "ALPS":
		return alps{pbs{environ}}, nil
	case "NONE":
		return hosts{s.HostFile}, nil
	}
	return nil, fmt.Errorf("there is no resource manager %q; it must be one of %s", name, strings.Join(Managers, ", "))
}

// detect finds the manager by its variables. The innermost counts: a Flux instance is
// often started within an allocation of another manager, and ALPS launches for PBS.
func detect(environ Environ) string {
	has := func(name string) bool { text, _ := environ(name); return text != "" }
	switch {
	case has("FLUX_URI"):
		return "FLUX"
	case has("SLURM_JOB_ID") || has("SLURM_JOBID"):
		return "SLURM"
	case has("LSB_JOBID"):
		return "LSF"
	case has("PBS_JOBID") && has("ALPS_APP_ID"), has("PBS_JOBID") && has("BASIL_RESERVATION_ID"):
		return "ALPS"
	case has("PBS_JOBID"):
		return "PBS"
	}
	return "NONE"
}

// InJob reports whether the process runs in a job of a resource manager.
func InJob(environ Environ) bool { return detect(environ) != "NONE" }

// first returns the first of several variables that is set.
func (e Environ) first(names ...string) string {
	for _, name := range names {
		if text, _ := e(name); text != "" {
			return text
		}
	}
	return ""
}

// commandTimeout is how long a command of a resource manager may take. It is longer than
// the 10 s after which Slurm's commands give up by default, whose message is better.
const commandTimeout = 30 * time.Second

// output runs a command and returns its output. An error contains the first line that
// the command wrote to stderr.
func output(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second // a child of the command may keep the pipes open
	// Dates and numbers in the output are parsed, so they must not depend on the locale.
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	line, _, _ := strings.Cut(strings.TrimSpace(problems.String()), "\n")
	if line != "" {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, line)
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s: command not found; is the resource manager's directory in PATH?", name)
	}
	return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
}

// parseHosts expands a list of hosts and removes duplicates. from says in errors where
// the text came from.
func parseHosts(from, text string) ([]string, error) {
	nodes, err := hostlist.Expand(text)
	if err == nil && len(nodes) == 0 {
		err = errors.New("names no node")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return hostlist.Union(nodes), nil
}

// Hosts reads a file with the name of a host on each line, in whichever of the
// usual forms:
//
//	node1
//	node1 slots=4
//	node1:4
//
// or with a line for each slot. A # starts a comment. slots is 0 for a host that is
// named once and without a number.
func Hosts(path string) (nodes []string, slots map[string]int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("the list of nodes, one on a line (SCR_HOST_FILE): %w", err)
	}
	defer f.Close()
	slots = map[string]int{}
	named := map[string]int{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		name, count, err := hostLine(words)
		if err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		nodes = append(nodes, name...)
		for _, host := range name {
			slots[host] += count
			named[host]++
		}
	}
	if err := lines.Err(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(nodes) == 0 {
		return nil, nil, fmt.Errorf("%s: names no node", path)
	}
	for host, lines := range named {
		if slots[host] == 0 && lines > 1 {
			slots[host] = lines
		}
	}
	return hostlist.Union(nodes), slots, nil
}

// hostLine reads one line, which may name several hosts by a range.
func hostLine(words []string) (names []string, slots int, err error) {
	list, count, found := strings.Cut(words[0], ":")
	for _, word := range words[1:] {
		if value, ok := strings.CutPrefix(word, "slots="); ok {
			count, found = value, true
		}
	}
	if found {
		if _, err := fmt.Sscanf(count, "%d", &slots); err != nil || slots < 1 {
			return nil, 0, fmt.Errorf("%q is not a number of slots", count)
		}
	}
	names, err = hostlist.Expand(list)
	return names, slots, err
}

// short removes the domain from the name of a host, since only some commands of a manager
// write the domain.
func short(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name
}

// byShortName maps the short name of each node to its name in the allocation.
func byShortName(nodes []string) map[string]string {
	m := map[string]string{}
	for _, n := range nodes {
		m[short(n)] = n
	}
	return m
}
