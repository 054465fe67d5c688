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

	"github.com/goscr/goscr/internal/hostlist"
)

// Answer is what a command on a node has said.
type Answer struct {
	Out    string // both its outputs
	Status int    // its exit status
	Err    error  // it could not be run, or has not answered in time
}

// failed reports whether the command could not be run or has returned an error.
func (a Answer) failed() bool { return a.Err != nil || a.Status != 0 }

// lastLine is what a command that failed has said last.
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

// fanOut is how many connections there are at a time where each node takes one
// of its own.
const fanOut = 64

// notice is the time after which a line says for which nodes a command waits; for tests it
// can be changed.
var notice = 5 * time.Second

// onNodes runs a command on nodes at the same time and returns the answer of each. limit
// is what a node may take. On this node the command runs without the shell. tell is called
// with the nodes that have not answered, if that takes long.
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

// question is a command for nodes, with their answers.
type question struct {
	shell shell
	limit time.Duration
	argv  []string
	slots chan struct{} // taken by each command that runs

	mu      sync.Mutex
	answers map[string]Answer
}

// ask asks nodes with one command where the shell has one for many. A node that
// is lost can keep all others of that command from being asked at all, so those
// that have not answered are asked once more in smaller groups, and at last
// each alone: what a lost node costs does not grow with the number of nodes.
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

// askTogether returns those that have not answered.
func (q *question) askTogether(ctx context.Context, nodes []string) []string {
	q.slots <- struct{}{}
	answers, _ := together(ctx, q.shell, q.limit, nodes, q.argv)
	<-q.slots
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.Copy(q.answers, answers)
	return hostlist.Minus(nodes, keys(answers))
}

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

// here reports whether a node is this one, whose host name is self. Either name may
// be with its domain.
func here(node, self string) bool {
	return node == self || node == "localhost" || strings.HasPrefix(node, self+".") || strings.HasPrefix(self, node+".")
}

func keys[V any](m map[string]V) []string { return slices.Collect(maps.Keys(m)) }

// shell is a way to run commands on other nodes.
type shell struct {
	needs string // the command that has to be there
	// together is the command line for many nodes at once, to which a script
	// is added; each line of output begins with the node's name and a colon.
	// nil if there is none.
	together func(nodes []string, limit time.Duration) []string
	// width is how many of them it asks at a time; 0: all.
	width int
	// script is what it is given.
	script func(argv []string) []string
	alone  func(ctx context.Context, limit time.Duration, node string, argv []string) Answer
}

var (
	srunShell = shell{needs: "srun", together: srunCommand, script: srunScript, alone: srunAlone}
	pdshShell = shell{needs: "pdsh", together: pdshCommand, width: fanOut, script: pdshScript, alone: sshAlone}
	sshShell  = shell{needs: "ssh", alone: sshAlone}
)

// findShell returns the shell of a name that SCR_REMOTE_SHELL accepts; for AUTO it is
// srun under Slurm, else pdsh where it is installed, else ssh.
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

// exitMark begins the line with the exit status of a command, after what it has printed.
const exitMark = "scr-exit-status"

// srunCommand starts one process on each node. It shares the processors with
// the program, or would wait for it to end, and does not fail as a whole.
func srunCommand(nodes []string, _ time.Duration) []string {
	n := strconv.Itoa(len(nodes))
	return []string{"env", "SLURM_OVERLAP=1", "SLURM_KILL_BAD_EXIT=0", "srun", "--nodes=" + n, "--ntasks=" + n, "--ntasks-per-node=1",
		"--nodelist=" + strings.Join(nodes, ","), "--no-kill", "--quiet", "--mpi=none", "--input=none", "--mem=0", "--immediate=10"}
}

// srunScript puts the name of the node before each line: srun would write the number of
// the task.
func srunScript(argv []string) []string {
	return append([]string{"sh", "-c", `out=$("$@" 2>&1); rc=$?
		printf '%s\n` + exitMark + ` %s\n' "$out" "$rc" | sed "s/^/$SLURMD_NODENAME: /"`, "sh"}, argv...)
}

// srunAlone returns what srun says if it does not reach the node. In a job that was
// cancelled, Slurm starts nothing more, although the batch script goes on for a while
// (KillWait); then ssh may still reach the node.
func srunAlone(ctx context.Context, limit time.Duration, node string, argv []string) Answer {
	srun := shell{together: srunCommand, script: srunScript}
	answers, said := together(ctx, srun, limit, []string{node}, argv)
	if a, ok := answers[node]; ok {
		return a
	}
	if slurmIsDone(said.Out) {
		return sshAlone(ctx, limit, node, argv)
	}
	if said.Err == nil {
		said.Err = errors.New(cmp.Or(said.lastLine(), "no answer"))
	}
	return Answer{Err: fmt.Errorf("srun does not reach it: %w", said.Err)}
}

// slurmIsDone recognizes what srun says of a job that is ending.
func slurmIsDone(text string) bool {
	return strings.Contains(text, "has expired") || strings.Contains(text, "xpired or invalid job") || strings.Contains(text, "already completing")
}

func pdshCommand(nodes []string, limit time.Duration) []string {
	return []string{"env", "PDSH_RCMD_TYPE=ssh", "pdsh", "-f", strconv.Itoa(fanOut), "-t", "5", "-u", strconv.Itoa(seconds(limit)), "-w", strings.Join(nodes, ",")}
}

// seconds rounds up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

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

// together runs a command on many nodes and separates the answers. A node whose exit
// status is missing has not answered; all is what the command said for all of them.
func together(ctx context.Context, by shell, limit time.Duration, nodes, argv []string) (answers map[string]Answer, all Answer) {
	whole := limit
	if by.width > 0 {
		whole *= time.Duration((len(nodes) + by.width - 1) / by.width)
	}
	all = locally(ctx, whole, append(by.together(nodes, limit), by.script(argv)...))
	lines := map[string][]string{}
	answers = map[string]Answer{}
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
	return answers, all
}
