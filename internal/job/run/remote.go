package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/job/hostlist"
)

// Answer is the result of a command on a node.
type Answer struct {
	Out    string // stdout and stderr
	Status int    // exit status
	Err    error  // the command could not be run, or has not ended in time

	took time.Duration // until it ended, if it ran for this node alone
}

// failed reports whether the command could not be run, or its exit status is not 0.
func (a Answer) failed() bool { return a.Err != nil || a.Status != 0 }

// lastLine returns the error of a command that failed: Err, or its last line of output.
func (a Answer) lastLine() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	text := strings.TrimSpace(a.Out)
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return cmp.Or(text, fmt.Sprintf("exit status %d", a.Status))
}

// fanOut is how many connections are open at a time, if each node needs its own.
const fanOut = 64

// notice is the time after which a line says for which nodes a command waits; for tests it
// can be changed.
var notice = 5 * time.Second

// onNodes runs a command on nodes at the same time and returns the answer of each. limit
// is how long the command may take on a node. On this node, the command is run directly,
// before it is run on the others. tell is called with the nodes that have not answered, if
// that takes long.
func onNodes(ctx context.Context, by shell, nodes []string, limit time.Duration, argv []string, tell func(nodes []string)) map[string]Answer {
	q := &question{shell: by, limit: limit, argv: argv, answers: map[string]Answer{}, slots: make(chan struct{}, fanOut)}
	late := time.AfterFunc(notice, func() {
		if left := q.pending(nodes); len(left) > 0 {
			tell(left)
		}
	})
	defer late.Stop()
	rest := nodes
	if self, err := os.Hostname(); err == nil {
		for _, n := range nodes {
			if here(n, self) {
				q.answer(n, locally(ctx, limit, argv))
				rest = hostlist.Minus(rest, []string{n})
			}
		}
	}
	q.ask(ctx, rest)
	return q.answers
}

// question is a command to run on nodes, with the answers of the nodes.
type question struct {
	shell shell
	limit time.Duration
	argv  []string
	slots chan struct{} // a semaphore that limits how many connections are open

	mu      sync.Mutex
	answers map[string]Answer
}

// ask runs the command on nodes. If the shell can reach many nodes by one command, that
// is tried first. A node that is down can prevent such a command from running on any of
// its nodes; so it is repeated in fanOut groups for the nodes that have not answered, and
// finally on each of these alone. In this way the time that a node costs which is down
// does not grow with the number of nodes.
func (q *question) ask(ctx context.Context, nodes []string) {
	size := 1
	if q.shell.together != nil && len(nodes) > 1 {
		nodes = q.askTogether(ctx, nodes)
		size = (len(nodes) + fanOut - 1) / fanOut
	}
	if len(nodes) == 0 {
		return
	}
	var wg sync.WaitGroup
	for group := range slices.Chunk(nodes, size) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if len(group) == 1 {
				q.askAlone(ctx, group[0])
			} else {
				q.ask(ctx, group)
			}
		}()
	}
	wg.Wait()
}

// askTogether runs one command for all nodes, and returns those that have not answered.
func (q *question) askTogether(ctx context.Context, nodes []string) []string {
	q.slots <- struct{}{}
	answers, _ := together(ctx, q.shell, q.limit, nodes, q.argv)
	<-q.slots
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.Copy(q.answers, answers)
	return hostlist.Minus(nodes, keys(answers))
}

// askAlone runs the command on one node.
func (q *question) askAlone(ctx context.Context, node string) {
	q.slots <- struct{}{}
	a := q.shell.alone(ctx, q.limit, node, q.argv)
	<-q.slots
	q.answer(node, a)
}

func (q *question) answer(node string, a Answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answers[node] = a
}

// pending returns those of the nodes that have not answered.
func (q *question) pending(nodes []string) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return hostlist.Minus(nodes, keys(q.answers))
}

// here reports whether node is the name of this node, whose host name is self. Either
// name may include the domain.
func here(node, self string) bool {
	return node == self || node == "localhost" || strings.HasPrefix(node, self+".") || strings.HasPrefix(self, node+".")
}

func keys[V any](m map[string]V) []string { return slices.Collect(maps.Keys(m)) }

// shell is a way to run commands on other nodes.
type shell struct {
	needs string // name of the executable that must be installed
	// together returns a command line for many nodes, to which the result of script is
	// appended. Each line of its output must begin with the name of a node and a colon.
	// It is nil if the shell can reach only one node at a time.
	together func(nodes []string, limit time.Duration) []string
	// width is on how many nodes the command of together runs at a time; 0: all.
	width int
	// script returns the arguments that make the command of together run argv, and print
	// exitMark and the exit status after it.
	script func(argv []string) []string
	// alone runs argv on one node.
	alone func(ctx context.Context, limit time.Duration, node string, argv []string) Answer
}

var (
	srunShell = shell{needs: "srun", together: srunCommand, script: srunScript, alone: srunAlone}
	pdshShell = shell{needs: "pdsh", together: pdshCommand, width: fanOut, script: pdshScript, alone: sshAlone}
	sshShell  = shell{needs: "ssh", alone: sshAlone}
)

// findShell returns the shell for a value of SCR_REMOTE_SHELL. AUTO selects srun under
// Slurm, otherwise pdsh if it is installed, otherwise ssh.
func findShell(name string, underSlurm bool) shell {
	if name == "AUTO" {
		name = "SSH"
		if _, err := exec.LookPath("pdsh"); err == nil {
			name = "PDSH"
		}
		if underSlurm {
			name = "SRUN"
		}
	}
	switch name {
	case "SRUN":
		return srunShell
	case "PDSH":
		return pdshShell
	}
	return sshShell
}

// exitMark begins the line with the exit status of a command, which follows its output.
const exitMark = "scr-exit-status"

// srunCommand starts one process on each node. With SLURM_OVERLAP these processes share
// processors with the program; otherwise srun would wait until the program ends. If one
// process fails, the others continue.
func srunCommand(nodes []string, _ time.Duration) []string {
	n := strconv.Itoa(len(nodes))
	return []string{"env", "SLURM_OVERLAP=1", "SLURM_KILL_BAD_EXIT=0", "srun", "--nodes=" + n, "--ntasks=" + n, "--ntasks-per-node=1",
		"--nodelist=" + strings.Join(nodes, ","), "--no-kill", "--quiet", "--mpi=none", "--input=none", "--mem=0", "--immediate=10"}
}

// srunScript prints the name of the node at the beginning of each line. srun itself can
// only print the number of the task.
func srunScript(argv []string) []string {
	return append([]string{"sh", "-c", `out=$("$@" 2>&1); rc=$?
		printf '%s\n` + exitMark + ` %s\n' "$out" "$rc" | sed "s/^/$SLURMD_NODENAME: /"`, "sh"}, argv...)
}

// srunAlone runs a command on one node by srun. After a job was cancelled, Slurm starts
// no more job steps, although the batch script may run for some time (KillWait); then
// srunAlone uses ssh. If srun does not reach the node, the error contains its message.
func srunAlone(ctx context.Context, limit time.Duration, node string, argv []string) Answer {
	srun := shell{together: srunCommand, script: srunScript}
	answers, all := together(ctx, srun, limit, []string{node}, argv)
	if a, ok := answers[node]; ok {
		return a
	}
	if slurmIsDone(all.Out) {
		return sshAlone(ctx, limit, node, argv)
	}
	if all.Err == nil {
		all.Err = errors.New(cmp.Or(all.lastLine(), "no answer"))
	}
	return Answer{Err: fmt.Errorf("srun does not reach it: %w", all.Err)}
}

// slurmIsDone reports whether the output of srun says that the job is ending.
func slurmIsDone(text string) bool {
	return strings.Contains(text, "has expired") || strings.Contains(text, "xpired or invalid job") || strings.Contains(text, "already completing")
}

func pdshCommand(nodes []string, limit time.Duration) []string {
	return []string{"env", "PDSH_RCMD_TYPE=ssh", "pdsh", "-f", strconv.Itoa(fanOut), "-t", strconv.Itoa(seconds(connectTime(limit))), "-u", strconv.Itoa(seconds(limit)), "-w", strings.Join(nodes, ",")}
}

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// connectTime is how long ssh waits for a connection if a node may take limit to answer.
func connectTime(limit time.Duration) time.Duration { return min(20*time.Second, limit/3) }

// pdshScript returns one argument, which the shell on the node executes. pdsh replaces
// sequences that begin with %, so each % is doubled.
func pdshScript(argv []string) []string {
	// The first echo ends the last line of output, if the command has not done that.
	text := quote(argv) + " 2>&1; rc=$?; echo; echo " + exitMark + " $rc"
	return []string{strings.ReplaceAll(text, "%", "%%")}
}

// checkNode refuses what ssh would take for an option.
func checkNode(node string) error {
	if node == "" || node[0] == '-' {
		return fmt.Errorf("%q is not the name of a node", node)
	}
	return nil
}

// sshAlone runs a command on one node by ssh. It needs keys without a passphrase, because
// it runs without a terminal.
func sshAlone(ctx context.Context, limit time.Duration, node string, argv []string) Answer {
	if err := checkNode(node); err != nil {
		return Answer{Err: err}
	}
	a := locally(ctx, limit, []string{"ssh", "-n", "-o", "BatchMode=yes", "-o", fmt.Sprintf("ConnectTimeout=%d", seconds(connectTime(limit))), "-o", "StrictHostKeyChecking=no", node, quote(argv)})
	if a.Err == nil && a.Status == 255 { // the status of ssh itself when it fails
		line, _, _ := strings.Cut(strings.TrimSpace(a.Out), "\n")
		a.Err = fmt.Errorf("ssh does not reach it: %s", line)
	}
	return a
}

// quote returns a command line that a shell splits into argv.
func quote(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// drainTime is how long the output of a command that has ended is waited for: another
// process, which it has left behind, may have it open, too.
const drainTime = 5 * time.Second

// locally runs a command on this node.
func locally(ctx context.Context, limit time.Duration, argv []string) Answer {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = drainTime
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err := cmd.Run()
	a := Answer{Out: strings.TrimSpace(out.String()), Err: err, took: time.Since(began)}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		a.Err = fmt.Errorf("no answer within %v", limit)
	case errors.As(err, &exit) && exit.Exited():
		a.Status, a.Err = exit.ExitCode(), nil
	}
	return a
}

// together runs a command on many nodes and separates their answers. A node whose exit
// status is missing in the output has not answered, and is not in answers. all is the
// answer of the command that reached the nodes, with the output of all of them.
func together(ctx context.Context, by shell, limit time.Duration, nodes, argv []string) (answers map[string]Answer, all Answer) {
	total := limit
	if by.width > 0 {
		total *= time.Duration((len(nodes) + by.width - 1) / by.width)
	}
	all = locally(ctx, total, append(by.together(nodes, limit), by.script(argv)...))
	lines := map[string][]string{}
	answers = map[string]Answer{}
	known := map[string]bool{}
	for _, n := range nodes {
		known[n] = true
	}
	for line := range strings.Lines(all.Out) {
		node, text, ok := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		node = strings.TrimSuffix(node, ":") // an empty line of output has no space after the colon
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
	return answers, all
}
