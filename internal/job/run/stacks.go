package run

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/hostlist"
	"github.com/goscr/goscr/internal/prefix"
)

// stacksTime is how long the debuggers on a node may take together; for tests it can be changed. A
// busy node needs half a minute for a rank.
var stacksTime = 2 * time.Minute

// stacksAnswer is how much later than that the answers of nodes may come.
const stacksAnswer = 30 * time.Second

// keepStacks writes the stacks of the ranks on nodes to the files
// .scr/stacks.<run>.<node> in the prefix directory.
func (j *Job) keepStacks(ctx context.Context, number int, nodes []string) {
	control, err := j.Below(ctx, j.ControlBases()[0], "", "")
	if err != nil {
		j.Tell("%v", err)
		return
	}
	// The run ends then, whatever nodes have done: one that is down may be why it hangs.
	ctx, cancel := context.WithTimeout(ctx, stacksTime+stacksAnswer)
	defer cancel()
	kept, none := 0, map[string][]string{} // none has the nodes of each reason
	for n, a := range j.OnNodes(ctx, nodes, stacksTime+stacksAnswer, j.Tool, "stacks", "--cntldir", control) {
		if a.failed() {
			none[a.lastLine()] = append(none[a.lastLine()], n)
			continue
		}
		path := filepath.Join(j.Prefix, prefix.Metadata, fmt.Sprintf("stacks.%d.%s", number, n))
		if err := hash.ReplaceFile(path, []byte(a.Out+"\n"), 0o666); err != nil {
			j.Tell("%v", err)
			return
		}
		kept++
	}
	say := j.Tell
	if kept > 0 {
		say = j.Detail // nodes without a rank are no surprise
		j.Tell("the stacks of its ranks are in %s", filepath.Join(j.Prefix, prefix.Metadata, fmt.Sprintf("stacks.%d.*", number)))
	}
	for _, why := range slices.Sorted(maps.Keys(none)) {
		say("no stacks of the ranks on %s: %s", hostlist.Compress(none[why]), why)
	}
}

// Stacks writes the stacks of the ranks on this node to out: of the processes of this user
// that have files in the control directory open, or have libscr.so loaded. It returns how
// many it has found. If the time is not enough for all, out says of which there is no stack. The
// error says that no debugger is installed.
func Stacks(ctx context.Context, control string, out io.Writer) (ranks int, err error) {
	ctx, cancel := context.WithTimeout(ctx, stacksTime)
	defer cancel()
	command, err := debugger()
	if err != nil {
		return 0, err
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if pid == os.Getpid() || !isRank(dir, control) {
			continue
		}
		ranks++
		cmd := exec.CommandContext(ctx, command[0], append(command[1:], strconv.Itoa(pid))...)
		cmd.WaitDelay = time.Second
		text, err := cmd.CombinedOutput()
		fmt.Fprintf(out, "process %d: %s\n%s", pid, commandLine(dir), text)
		if err != nil {
			fmt.Fprintf(out, "%s: %v\n", command[0], err)
		}
	}
	return ranks, nil
}

// debugger returns a command that writes the stacks of a process to stdout. The caller
// appends the id of the process.
func debugger() ([]string, error) {
	for _, command := range [][]string{
		{"eu-stack", "-p"},
		{"gdb", "--batch", "--nx", "-ex", "set pagination off", "-ex", "thread apply all backtrace", "-p"},
	} {
		if _, err := exec.LookPath(command[0]); err == nil {
			return command, nil
		}
	}
	return nil, fmt.Errorf("neither eu-stack nor gdb is installed on this node")
}

// isRank reports whether the process with directory dir in /proc is a rank of the job.
func isRank(dir, control string) bool {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil || int(st.Uid) != os.Geteuid() {
		return false
	}
	// Nodes that are simulated on one machine see each other's processes, but have
	// different UTS namespaces, for their host names.
	if mine, err := os.Readlink("/proc/self/ns/uts"); err == nil {
		if its, err := os.Readlink(dir + "/ns/uts"); err == nil && its != mine {
			return false
		}
	}
	if maps, err := os.ReadFile(dir + "/maps"); err == nil && strings.Contains(string(maps), "/libscr.so") {
		return true
	}
	files, _ := filepath.Glob(dir + "/fd/*")
	for _, f := range files {
		if path, err := os.Readlink(f); err == nil && control != "" && strings.HasPrefix(path, control+"/") {
			return true
		}
	}
	return false
}

func commandLine(dir string) string {
	text, _ := os.ReadFile(dir + "/cmdline")
	return strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " "))
}
