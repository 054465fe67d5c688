package lock

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/descriptors"
)

// What a lock file holds. The holder of a lock that is Exclusive writes it.
//
//	process 17 on node3
//	4                     grows as long as the process runs, if it calls KeepAlive
const signature = "process %d on %s\n%d\n"

// signed is the size of what the holder writes: enough to cover what any other has.
const signed = 128

// lives counts the signs of life that the process has given.
var lives atomic.Int64

// sign writes into the lock file who holds the lock, with a sign of life. That it could
// not says nothing about the lock.
func (l *Lock) sign() {
	node, _ := os.Hostname()
	text := fmt.Appendf(nil, signature, os.Getpid(), node, lives.Add(1))
	_, _ = l.f.WriteAt(append(text, bytes.Repeat([]byte("\n"), max(signed-len(text), 0))...), 0)
}

// KeepAlive shows those who wait for the lock, until Release, that the process runs. It
// is for locks that are held for longer than the limit of their wait may be.
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
				_ = l.f.Sync() // for other nodes
			}
		}
	}()
}

// Held reports whether anybody holds the lock of a file.
func Held(path string) bool {
	f, err := descriptors.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	asked := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &asked) == nil && asked.Type != unix.F_UNLCK
}

// Holder says, for messages, who holds the lock of a file or held it last, as in
// "process 17 on node3"; "another process" if that cannot be told.
func Holder(path string) string {
	who, _, _ := holder(path)
	return who
}

// holder is Holder. stopped is an addition about a process that is stopped. life changes
// as long as a holder that calls KeepAlive runs, and when the lock is taken.
func holder(path string) (who, stopped, life string) {
	const unknown, most = "another process", 300
	f, err := descriptors.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return unknown, "", ""
	}
	defer f.Close()
	self, _ := os.Hostname()
	var pid int
	var node string
	asked := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
	if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &asked) == nil && asked.Type != unix.F_UNLCK && asked.Pid > 0 {
		pid, node = int(asked.Pid), self // such locks are in directories of one node
		life = fmt.Sprint(pid)
	} else if text, err := io.ReadAll(io.LimitReader(f, most)); err == nil {
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
		stopped = fmt.Sprintf(", which is stopped (kill -CONT %d lets it go on),", pid)
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
