package request

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/sys/processes"
)

// The ranks of a job that has stopped are listed in stopped/<node>.scr, one file a node,
// until they are continued:
//
//	BOOT = <id>                   of the kernel of the node
//	GATE = 1                      they wait for debuggers, and are continued by the removal of the file
//	PID / <pid> / STARTED = <n>   ticks; the number of a process may be given again
const stoppedDir = "stopped"

type stopped struct {
	Boot  string          `hash:"BOOT"`
	Gate  bool            `hash:"GATE,omitempty"`
	Ranks map[int]process `hash:"PID,omitempty"`
}

type process struct {
	Started uint64 `hash:"STARTED"`
}

// Stopped are the processes of a node that have stopped.
type Stopped struct {
	Node string
	stopped
}

// StoppedPath is the path of the file about a node in a prefix directory.
func StoppedPath(prefix, node string) string {
	return filepath.Join(prefix, ".scr", stoppedDir, strings.ReplaceAll(node, "/", "_")+".scr")
}

// bootID identifies the kernel that runs here, since it was started.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		text = nil
	}
	return strings.TrimSpace(string(text))
}

// RecordStopped records that processes of a node, the caller among them, are about to
// stop themselves, or, at a gate, to wait for debuggers.
func RecordStopped(prefix, node string, pids []int, gate bool) error {
	s := stopped{Boot: bootID(), Gate: gate, Ranks: map[int]process{}}
	for _, pid := range pids {
		p, err := processes.Read(pid)
		if err != nil {
			return err
		}
		s.Ranks[pid] = process{p.Started}
	}
	path := StoppedPath(prefix, node)
	if err := hash.MakeDirs(filepath.Dir(path)); err != nil {
		return err
	}
	return hash.WriteShared(path, hash.Marshal(s))
}

// ForgetStopped records that the processes of a node continue.
func ForgetStopped(prefix, node string) error {
	if err := os.Remove(StoppedPath(prefix, node)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// LeaveGate records that a process of a node continues that has waited for a debugger. The last one
// removes the record. If there is none, because all were continued, LeaveGate makes none.
func LeaveGate(prefix, node string, pid int) error {
	l, err := hash.LockOpenRead(StoppedPath(prefix, node))
	if err != nil {
		return err
	}
	s := hash.As[stopped](l.Hash)
	if delete(s.Ranks, pid); len(s.Ranks) > 0 {
		l.Hash.SetFields(s)
		return l.WriteCloseUnlock()
	}
	defer l.Unlock()
	return ForgetStopped(prefix, node)
}

// openGate has all processes of a node continue that wait for debuggers. It holds the lock of the
// record, since a process that leaves at the same time would write the record again.
func openGate(prefix, node string) error {
	l, err := hash.LockOpenRead(StoppedPath(prefix, node))
	if err != nil {
		return err
	}
	defer l.Unlock()
	return ForgetStopped(prefix, node)
}

// StoppedNodes returns the nodes whose processes have stopped.
func StoppedNodes(prefix string) (list []Stopped, err error) {
	paths, err := filepath.Glob(StoppedPath(prefix, "*"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		h, err := hash.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // it continues just now
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Stopped{strings.TrimSuffix(filepath.Base(path), ".scr"), hash.As[stopped](h)})
	}
	return list, nil
}

// Here reports whether the processes can be continued from here: they run under this kernel, or
// look for themselves whether they are to continue.
func (s Stopped) Here() bool { return s.Gate || s.Boot != "" && s.Boot == bootID() }

// PIDs returns the ids of the processes, lowest first.
func (s Stopped) PIDs() []int { return slices.Sorted(maps.Keys(s.Ranks)) }

// Continue has the processes of a node continue that run under this kernel, and returns how
// many there were. Those that have ended are passed over.
func (s Stopped) Continue(prefix string) (n int, err error) {
	if s.Gate {
		return len(s.Ranks), openGate(prefix, s.Node)
	}
	for pid, was := range s.Ranks {
		p, e := processes.Read(pid)
		if e != nil || p.Started != was.Started {
			continue
		}
		// A process that has written its number may not have stopped yet.
		for limit := time.Now().Add(time.Second); e == nil && p.State != 'T' && time.Now().Before(limit); p, e = processes.Read(pid) {
			time.Sleep(time.Millisecond)
		}
		if e := unix.Kill(pid, unix.SIGCONT); e != nil {
			err = errors.Join(err, fmt.Errorf("process %d on %s: %w", pid, s.Node, e))
			continue
		}
		n++
	}
	if err == nil {
		err = ForgetStopped(prefix, s.Node)
	}
	return n, err
}
