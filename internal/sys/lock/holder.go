package lock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/sys/trust"
)

// signature is the contents of a lock file, which the holder of an Exclusive lock writes:
//
//	process 17 on node3
//	4                     increases as long as the process runs, if it calls KeepAlive
const signature = "process %d on %s\n%d\n"

// signed is the number of bytes that the holder writes: enough to overwrite the text of any
// earlier holder.
const signed = 128

// lives counts the signs of life that the process has given on all locks.
var lives atomic.Int64

// sign writes the name of the process to the lock file, with a new sign of life. It ignores
// errors: they do not affect the lock itself.
func (l *Lock) sign() {
	node, _ := os.Hostname()
	text := fmt.Appendf(nil, signature, os.Getpid(), node, lives.Add(1))
	_, _ = l.f.WriteAt(append(text, bytes.Repeat([]byte("\n"), max(signed-len(text), 0))...), 0)
}

// Describe writes a text to the lock file, after the name of the process: what the holder of an Exclusive lock
// is. It ignores errors, as sign does.
func (l *Lock) Describe(text string) {
	room := mostSigned - signed
	text = text[:min(len(text), room)]
	_, _ = l.f.WriteAt(append([]byte(text), bytes.Repeat([]byte("\n"), room-len(text))...), signed)
}

// Description returns the text that the holder of a lock, or its last holder, has passed to Describe, "" if it is not known.
func Description(path string) string {
	f, err := trust.Around(path).OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, signed, mostSigned-signed))
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(text), "\n")
}

// KeepAlive shows the processes that wait for the lock, until Release, that this process
// runs. It is for locks that may be held for longer than others would wait for them.
func (l *Lock) KeepAlive() {
	if l == nil || l.stop != nil {
		return
	}
	l.stop = make(chan struct{})
	l.done.Add(1)
	go func() {
		defer l.done.Done()
		t := time.NewTicker(current().notice() / 2)
		defer t.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-t.C:
				l.sign()
				_ = l.f.Sync() // so that other nodes can read it
			}
		}
	}()
}

// Held reports whether a process holds the lock of a file. It returns false if that cannot be known.
func Held(path string) bool {
	held, _ := Ask(path)
	return held
}

// Ask is Held, with an error if that cannot be known: another user may not open the lock file. If
// there is none, nobody holds the lock.
func Ask(path string) (held bool, err error) {
	f, err := trust.Around(path).OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	asked := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &asked); unsupported(err) {
		return leased(path), nil
	} else if err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	return asked.Type != unix.F_UNLCK || leased(path), nil
}

// Holder returns the process that holds the lock of a file, or held it last, for messages:
// "process 17 on node3", or "another process" if it is not known.
func Holder(path string) string {
	who, _, _ := holder(path)
	return who
}

// holder returns the result of Holder as who. stopped is text to add if that process is
// stopped, else "". life is the last sign of life: it changes when the lock is taken, and
// as long as a holder that calls KeepAlive runs.
func holder(path string) (who, stopped, life string) {
	const unknown = "another process"
	f, err := trust.Around(path).OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return unknown, "", ""
	}
	defer f.Close()
	self, _ := os.Hostname()
	var pid int
	var node string
	asked := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
	if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &asked) == nil && asked.Type != unix.F_UNLCK && asked.Pid > 0 {
		pid, node = int(asked.Pid), self // ByProcess is only used for lock files on storage of one node
		life = fmt.Sprint(pid)
	} else if text, err := io.ReadAll(io.LimitReader(f, mostSigned)); err == nil {
		life = string(text)
		line, _, _ := strings.Cut(life, "\n")
		if n, _ := fmt.Sscanf(line, "process %d on %s", &pid, &node); n != 2 || pid <= 0 || !printable(line) {
			return unknown, "", life
		}
	} else {
		return unknown, "", ""
	}
	who = fmt.Sprintf("process %d on %s", pid, node)
	if node == self && isStopped(pid) {
		stopped = fmt.Sprintf(", which is stopped (kill -CONT %d lets it continue),", pid)
	}
	return who, stopped, life
}

func printable(line string) bool {
	return !strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' })
}

// isStopped reports whether a process of this node is stopped, by SIGSTOP or a debugger.
func isStopped(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	i := bytes.LastIndexByte(text, ')') // the name of the program may contain anything
	return err == nil && i >= 0 && len(text) > i+2 && (text[i+2] == 'T' || text[i+2] == 't')
}
