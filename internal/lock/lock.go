// Package lock provides locks between processes. Each lock is on a lock file, which
// serves no other purpose and names the holder.
//
// The kernel releases a lock when the process that holds it ends, even if it was killed.
// Locks are record locks of fcntl(2): shared file systems enforce these across nodes, and
// a process can test for one without acquiring it. A hash file that several processes
// change is its own lock file, as in SCR: see package hash.
package lock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/descriptors"
)

// Lock is a lock that the process holds.
type Lock struct{ f *os.File }

// How is the kind of a lock.
type How int

// The kinds of locks. A program that the process executes inherits none of them.
const (
	// Exclusive is a lock with a single holder. A child made by fork(2) that executes no
	// other program also holds it, until the process and all such children have ended.
	Exclusive How = iota
	// Shared is a lock that any number of processes may hold.
	Shared
	// ByProcess is exclusive, and children do not hold it. The process loses it when it
	// closes any of its descriptors of the lock file, so the holder must not call Try,
	// Held or Holder for that file.
	ByProcess
)

// Try acquires a lock. It returns nil if another process holds the lock. It creates the
// lock file if it does not exist, with access for the user only.
func Try(path string, how How) (*Lock, error) { return acquire(path, how, 0o600, false) }

// Wait acquires an exclusive lock, and waits while another process holds it. It creates
// the lock file if it does not exist, with the access that the umask allows: several users
// may share the directory.
func Wait(path string) (*Lock, error) { return acquire(path, Exclusive, 0o666, true) }

func acquire(path string, how How, mode os.FileMode, wait bool) (*Lock, error) {
	f, err := descriptors.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, mode)
	if err != nil {
		return nil, err
	}
	want := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
	if how == Shared {
		want.Type = unix.F_RDLCK
	}
	command := map[bool]int{false: unix.F_OFD_SETLK, true: unix.F_OFD_SETLKW}[wait]
	if how == ByProcess {
		command = map[bool]int{false: unix.F_SETLK, true: unix.F_SETLKW}[wait]
	}
	for {
		if err = unix.FcntlFlock(f.Fd(), command, &want); err != unix.EINTR {
			break
		}
	}
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES):
		return nil, f.Close()
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	l := &Lock{f}
	if how == Exclusive { // for other kinds the kernel knows the process, or there are several
		l.sign()
	}
	return l, nil
}

// sign writes the holder into the lock file, because the kernel does not know the process
// that holds an exclusive lock. An error is ignored: the lock is held all the same.
func (l *Lock) sign() {
	node, _ := os.Hostname()
	_ = l.f.Truncate(0)
	_, _ = l.f.WriteAt(fmt.Appendf(nil, "process %d on %s\n", os.Getpid(), node), 0)
}

// Release releases the lock. It does nothing if l is nil.
func (l *Lock) Release() {
	if l != nil {
		l.f.Close() // an error loses no data
	}
}

// Held reports whether a process holds the lock on a file.
func Held(path string) bool {
	f, err := descriptors.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	asked := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &asked) == nil && asked.Type != unix.F_UNLCK
}

// Holder names the process that holds the lock on a file or held it last, for messages:
// "process 17", "process 17 on node3", or "another process" if it is not known.
func Holder(path string) string {
	const most = 300
	f, err := descriptors.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == nil {
		defer f.Close()
		asked := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
		if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &asked) == nil && asked.Type != unix.F_UNLCK && asked.Pid > 0 {
			return fmt.Sprintf("process %d", asked.Pid)
		}
		text, err := io.ReadAll(io.LimitReader(f, most))
		if line := strings.TrimSpace(string(text)); err == nil && strings.HasPrefix(line, "process ") && !strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
			return line
		}
	}
	return "another process"
}
