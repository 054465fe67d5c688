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
	"github.com/goscr/goscr/internal/processes"
)

// The ranks of a job that has stopped are listed in stopped/<node>.scr, one file a node,
// until they are continued:
//
//	BOOT = <id>                   of the kernel of the node
//	PID / <pid> / STARTED = <n>   ticks; the number of a process may be given again
const (
	stoppedDir = "stopped"

	keyBoot    = "BOOT"
	keyPID     = "PID"
	keyStarted = "STARTED"
)

// Stopped are the processes of a node that have stopped.
type Stopped struct {
	Node  string
	boot  string
	ranks map[int]uint64 // when each process was started, by its id
}

func stoppedPath(prefix, node string) string {
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
// stop themselves.
func RecordStopped(prefix, node string, pids []int) error {
	h := hash.New()
	h.SetValue(keyBoot, bootID())
	for _, pid := range pids {
		p, err := processes.Read(pid)
		if err != nil {
			return err
		}
		h.At(keyPID, strconv.Itoa(pid)).SetValue(keyStarted, strconv.FormatUint(p.Started, 10))
	}
	path := stoppedPath(prefix, node)
	if err := hash.MakeDirs(filepath.Dir(path)); err != nil {
		return err
	}
	return hash.WriteShared(path, h)
}

// ForgetStopped records that the processes of a node go on.
func ForgetStopped(prefix, node string) error {
	if err := os.Remove(stoppedPath(prefix, node)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// StoppedNodes returns the nodes whose processes have stopped.
func StoppedNodes(prefix string) (list []Stopped, err error) {
	paths, err := filepath.Glob(stoppedPath(prefix, "*"))
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
		s := Stopped{Node: strings.TrimSuffix(filepath.Base(path), ".scr"), boot: h.Text(keyBoot), ranks: map[int]uint64{}}
		for _, pid := range h.Get(keyPID).Ints() {
			s.ranks[pid], _ = strconv.ParseUint(h.Get(keyPID, strconv.Itoa(pid)).Text(keyStarted), 10, 64)
		}
		list = append(list, s)
	}
	return list, nil
}

// Here reports whether the processes run under this kernel.
func (s Stopped) Here() bool { return s.boot != "" && s.boot == bootID() }

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
