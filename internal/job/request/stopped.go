package request

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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
const (
	stoppedDir = "stopped"

	keyBoot    = "BOOT"
	keyGate    = "GATE"
	keyPID     = "PID"
	keyStarted = "STARTED"
)

// Stopped are the processes of a node that have stopped.
type Stopped struct {
	Node  string
	boot  string
	gate  bool           // they wait for debuggers
	ranks map[int]uint64 // when each process was started, by its id
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
	h := hash.New()
	h.SetValue(keyBoot, bootID())
	if gate {
		h.SetInt(keyGate, 1)
	}
	for _, pid := range pids {
		p, err := processes.Read(pid)
		if err != nil {
			return err
		}
		h.At(keyPID, strconv.Itoa(pid)).SetValue(keyStarted, strconv.FormatUint(p.Started, 10))
	}
	path := StoppedPath(prefix, node)
	if err := hash.MakeDirs(filepath.Dir(path)); err != nil {
		return err
	}
	return hash.WriteShared(path, h)
}

// ForgetStopped records that the processes of a node go on.
func ForgetStopped(prefix, node string) error {
	if err := os.Remove(StoppedPath(prefix, node)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// LeaveGate records that a process of a node goes on that has waited for a debugger. The last one
// removes the record. If there is none, because all were continued, LeaveGate makes none.
func LeaveGate(prefix, node string, pid int) error {
	l, err := hash.LockOpenRead(StoppedPath(prefix, node))
	if err != nil {
		return err
	}
	waiting := l.Hash.Get(keyPID)
	waiting.Unset(strconv.Itoa(pid))
	if waiting.Size() > 0 {
		return l.WriteCloseUnlock()
	}
	defer l.Unlock()
	return ForgetStopped(prefix, node)
}

// openGate has all processes of a node go on that wait for debuggers. It holds the lock of the
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
		if errors.Is(err, fs.ErrNotExist) { // it goes on just now
			continue
		}
		if err != nil {
			return nil, err
		}
		s := Stopped{Node: strings.TrimSuffix(filepath.Base(path), ".scr"), boot: h.Text(keyBoot), gate: h.Text(keyGate) == "1", ranks: map[int]uint64{}}
		for _, pid := range h.Get(keyPID).Ints() {
			s.ranks[pid], _ = strconv.ParseUint(h.Get(keyPID, strconv.Itoa(pid)).Text(keyStarted), 10, 64)
		}
		list = append(list, s)
	}
	return list, nil
}

// Here reports whether the processes can be continued from here: they run under this kernel, or
// look for themselves whether they are to go on.
func (s Stopped) Here() bool { return s.gate || s.boot != "" && s.boot == bootID() }

// PIDs returns the ids of the processes, lowest first.
func (s Stopped) PIDs() []int {
	h := hash.New() // Ints sorts its keys
	for pid := range s.ranks {
		h.At(strconv.Itoa(pid))
	}
	return h.Ints()
}

// Continue has the processes of a node go on that run under this kernel, and returns how
// many there were. Those that have ended are passed over.
func (s Stopped) Continue(prefix string) (n int, err error) {
	if s.gate {
		return len(s.ranks), openGate(prefix, s.Node)
	}
	for pid, started := range s.ranks {
		p, e := processes.Read(pid)
		if e != nil || p.Started != started {
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
