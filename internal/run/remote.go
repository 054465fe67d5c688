package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/hostlist"
)

// Answer is what a command on a node has said.
type Answer struct {
	Out    string // both its outputs
	Status int    // its exit status
	Err    error  // it could not be run, or has not answered in time
}

// fanOut is how many connections there are at a time where each node takes one
// of its own.
const fanOut = 64

// OnNodes runs a command on nodes at the same time and returns the answer of
// each. A node that has not answered within the time is asked once more, alone,
// because one that is lost can keep the others from being asked at all.
func (j *Job) OnNodes(ctx context.Context, nodes []string, limit time.Duration, argv ...string) map[string]Answer {
	answers := map[string]Answer{}
	rest := nodes
	if self, err := os.Hostname(); err == nil {
		for _, n := range nodes {
			if here(n, self) {
				answers[n] = locally(ctx, limit, argv)
				rest = hostlist.Minus(rest, []string{n})
			}
		}
	}
	shell := j.shell()
	if shell.together != nil && len(rest) > 1 {
		for n, a := range together(ctx, limit, shell.together(rest), rest, shell.script(argv)) {
			answers[n] = a
		}
		rest = hostlist.Minus(rest, keys(answers))
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, fanOut)
	for _, n := range rest {
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer wg.Done()
			a := shell.alone(ctx, limit, n, argv)
			mu.Lock()
			answers[n] = a
			mu.Unlock()
			<-slots
		}()
	}
	wg.Wait()
	return answers
}

// here reports whether a node is this one, whose host name is self. Either name may
// be with its domain.
func here(node, self string) bool {
	return node == self || node == "localhost" || strings.HasPrefix(node, self+".") || strings.HasPrefix(self, node+".")
}

func keys[V any](m map[string]V) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}

// shell is a way to run commands on other nodes.
type shell struct {
	needs string // the command that has to be there
	// together is the command line for many nodes at once, to which a script
	// is added; each line of output begins with the node's name and a colon.
	// nil if there is none.
	together func(nodes []string) []string
	// script is what it is given.
	script func(argv []string) []string
	alone  func(ctx context.Context, limit time.Duration, node string, argv []string) Answer
}

func (j *Job) shell() shell {
	kind := j.Config.String("SCR_REMOTE_SHELL")
	if kind == "AUTO" {
		kind = "SSH"
		if _, err := exec.LookPath("pdsh"); err == nil {
			kind = "PDSH"
		}
		if j.Manager.Name() == "Slurm" {
			kind = "SRUN"
		}
	}
	switch kind {
	case "SRUN":
		return shell{"srun", srunCommand, srunScript, srunAlone}
	case "PDSH":
		return shell{"pdsh", pdshCommand, pdshScript, sshAlone}
	}
	return shell{"ssh", nil, nil, sshAlone}
}

// exitMark is what tells the exit status of a command from what it prints.
const exitMark = "scr-exit-status"

// srunCommand starts one process on each node. It shares the processors with
// the program, or would wait for it to end, and does not fail as a whole.
func srunCommand(nodes []string) []string {
	n := strconv.Itoa(len(nodes))
	return []string{"env", "SLURM_OVERLAP=1", "SLURM_KILL_BAD_EXIT=0", "srun", "--nodes=" + n, "--ntasks=" + n, "--ntasks-per-node=1",
		"--nodelist=" + strings.Join(nodes, ","), "--no-kill", "--quiet", "--mpi=none", "--input=none", "--mem=0", "--immediate=10"}
}

// srunScript marks lines by itself: srun would by the number of the task.
func srunScript(argv []string) []string {
	return append([]string{"sh", "-c", `out=$("$@" 2>&1); rc=$?
		printf '%s\n` + exitMark + ` %s\n' "$out" "$rc" | sed "s/^/$SLURMD_NODENAME: /"`, "sh"}, argv...)
}

func srunAlone(ctx context.Context, limit time.Duration, node string, argv []string) Answer {
	one := []string{node}
	if a, ok := together(ctx, limit, srunCommand(one), one, srunScript(argv))[node]; ok {
		return a
	}
	return Answer{Err: errors.New("srun does not reach it")}
}

func pdshCommand(nodes []string) []string {
	return []string{"env", "PDSH_RCMD_TYPE=ssh", "pdsh", "-f", strconv.Itoa(fanOut), "-t", "5", "-w", strings.Join(nodes, ",")}
}

// pdshScript is one argument: pdsh hands it to the shell on the node, and
// takes % for its own.
func pdshScript(argv []string) []string {
	// The empty line is for commands whose last line has no end.
	text := quote(argv) + " 2>&1; rc=$?; echo; echo " + exitMark + " $rc"
	return []string{strings.ReplaceAll(text, "%", "%%")}
}

// sshAlone needs keys that ask for no password, as it cannot ask.
func sshAlone(ctx context.Context, limit time.Duration, node string, argv []string) Answer {
	a := locally(ctx, limit, []string{"ssh", "-n", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "StrictHostKeyChecking=no", node, quote(argv)})
	if a.Err == nil && a.Status == 255 { // ssh itself
		line, _, _ := strings.Cut(strings.TrimSpace(a.Out), "\n")
		a.Err = fmt.Errorf("ssh does not reach it: %s", line)
	}
	return a
}

// quote writes a command line for a shell.
func quote(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// locally runs a command on this node.
func locally(ctx context.Context, limit time.Duration, argv []string) Answer {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	a := Answer{Out: strings.TrimSpace(out.String()), Err: err}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		a.Err = fmt.Errorf("no answer within %v", limit)
	case errors.As(err, &exit) && exit.Exited():
		a.Status, a.Err = exit.ExitCode(), nil
	}
	return a
}

// together runs a command on many nodes and takes the answers apart. A node
// that has not told its exit status has not answered.
func together(ctx context.Context, limit time.Duration, command, nodes, script []string) map[string]Answer {
	all := locally(ctx, limit, append(command, script...))
	lines := map[string][]string{}
	answers := map[string]Answer{}
	known := map[string]bool{}
	for _, n := range nodes {
		known[n] = true
	}
	for line := range strings.Lines(all.Out) {
		node, text, ok := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		node = strings.TrimSuffix(node, ":") // of an empty line
		if !known[node] {
			continue
		}
		var status int
		if n, _ := fmt.Sscanf(text, exitMark+" %d", &status); ok && n == 1 {
			answers[node] = Answer{Out: strings.TrimSpace(strings.Join(lines[node], "\n")), Status: status}
			continue
		}
		lines[node] = append(lines[node], text)
	}
	return answers
}
