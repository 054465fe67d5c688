// Package processes reads which processes run on this machine, from /proc.
//
// scr_checkpoint finds a job by the process id of its launcher, and rank 0 of a job finds
// its launcher, as far as both are on one machine.
package processes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// root is where the kernel shows processes; tests replace it.
var root = "/proc"

// Process is a process of this machine, as it was when it was read.
type Process struct {
	PID, Parent int
	State       byte     // R, S, T (stopped), Z, ...
	Started     uint64   // ticks since the machine has started: another process of the same PID has another value
	Argv        []string // nil for a process of the kernel, or one that has ended
	UID         int
}

func path(pid int, file string) string { return filepath.Join(root, strconv.Itoa(pid), file) }

// Read returns a process. The error says whether there is none (fs.ErrNotExist).
func Read(pid int) (Process, error) {
	text, err := os.ReadFile(path(pid, "stat"))
	if err != nil {
		return Process{}, missing(pid, err)
	}
	p := Process{PID: pid}
	// The name, in parentheses, may contain anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return p, fmt.Errorf("process %d: %s is %q", pid, path(pid, "stat"), text)
	}
	p.State = fields[0][0]
	p.Parent, _ = strconv.Atoi(fields[1])
	p.Started, _ = strconv.ParseUint(fields[19], 10, 64)
	if info, err := os.Stat(path(pid, "")); err == nil {
		p.UID = int(info.Sys().(*syscall.Stat_t).Uid)
	}
	p.Argv, err = Argv(pid)
	return p, err
}

// Argv returns the command line of a process.
func Argv(pid int) ([]string, error) {
	line, err := os.ReadFile(path(pid, "cmdline"))
	if err != nil {
		return nil, missing(pid, err)
	}
	return split(line), nil
}

func missing(pid int, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("there is no process %d on this machine: %w", pid, fs.ErrNotExist)
	}
	return err
}

// split splits strings that end with NUL.
func split(text []byte) []string {
	text = bytes.TrimSuffix(text, []byte{0})
	if len(text) == 0 {
		return nil
	}
	return strings.Split(string(text), "\x00")
}

// Environ returns the environment that a process was started with, NAME=value.
func Environ(pid int) ([]string, error) {
	text, err := os.ReadFile(path(pid, "environ"))
	if err != nil {
		return nil, missing(pid, err)
	}
	return split(text), nil
}

// Variable returns a variable of an environment.
func Variable(environ []string, name string) (value string, ok bool) {
	for _, v := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Dir returns the working directory of a process.
func Dir(pid int) (string, error) {
	dir, err := os.Readlink(path(pid, "cwd"))
	if err != nil {
		return "", missing(pid, err)
	}
	return dir, nil
}

// Above returns a process's parent, the parent of that, and so on.
func Above(pid int) (list []Process) {
	for {
		p, err := Read(pid)
		if err != nil || p.Parent <= 0 || len(list) > 1000 {
			return list
		}
		above, err := Read(p.Parent)
		if err != nil {
			return list
		}
		list = append(list, above)
		pid = above.PID
	}
}

// All returns all processes that can be read.
func All() (list []Process) {
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, err := Read(pid); err == nil {
				list = append(list, p)
			}
		}
	}
	return list
}

// Below returns the children of a process, their children, and so on.
func Below(pid int) (list []Process) {
	all := All()
	for below := []int{pid}; len(below) > 0; below = below[1:] {
		for _, p := range all {
			if p.Parent == below[0] && p.PID != pid && !slices.ContainsFunc(list, func(q Process) bool { return q.PID == p.PID }) {
				list = append(list, p)
				below = append(below, p.PID)
			}
		}
	}
	return list
}
