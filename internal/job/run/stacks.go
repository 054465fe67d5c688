package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix"
)

// stacksTime is how long a node may take to write the stacks of its ranks.
const stacksTime = 30 * time.Second

// keepStacks writes the stacks of the ranks on nodes to the files
// .scr/stacks.<run>.<node> in the prefix directory.
func (j *Job) keepStacks(ctx context.Context, number int, nodes []string) {
	control, err := j.Below(ctx, j.ControlBases()[0], "", "")
	if err != nil {
		j.Tell("%v", err)
		return
	}
	kept := 0
	for n, a := range j.OnNodes(ctx, nodes, stacksTime, j.Tool, "stacks", "--cntldir", control) {
		if a.failed() {
			j.Detail("stacks of %s: %s", n, a.lastLine())
			continue
		}
		path := filepath.Join(j.Prefix, prefix.Metadata, fmt.Sprintf("stacks.%d.%s", number, n))
		if err := hash.ReplaceFile(path, []byte(a.Out+"\n"), 0o666); err != nil {
			j.Tell("%v", err)
			return
		}
		kept++
	}
	if kept > 0 {
		j.Tell("the stacks of its ranks are in %s", filepath.Join(j.Prefix, prefix.Metadata, fmt.Sprintf("stacks.%d.*", number)))
	}
}

// Stacks writes the stacks of the ranks on this node to out: of the processes of this user
// that have files in the control directory open, or have libscr.so loaded. It returns how
// many it has found. The error says that no debugger is installed.
func Stacks(ctx context.Context, control string, out io.Writer) (ranks int, err error) {
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
