// Package lock has locks between processes: a lock is on a file that serves no other
// purpose and names its holder.
//
// The kernel gives a lock back when the process that holds it ends, however it does.
// Locks are records of fcntl, which file systems that nodes share pass on to the
// other nodes; whether there is one can be found out without taking it. Hash files
// that several processes change are locked themselves, as SCR does: see package hash.
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

// How a lock is taken.
type How int

// The ways to take a lock. None of them lets a lock pass to programs that the
// process executes.
const (
	// Exclusive is one of which there is only one holder. Copies of the process that
	// do not execute another program hold it too, until all of them have ended.
	Exclusive How = iota
	// Shared is one that any number may hold.
	Shared
	// ByProcess is Exclusive, but the process alone holds it, and copies of it do not.
	// It is lost when the process closes the lock file, however often it has that open:
	// so the holder must not call Try, Held or Holder for it.
	ByProcess
)

// Try takes a lock, and returns nil if another process holds it. The lock file is
// made if need be, for the user only.
func Try(path string, how How) (*Lock, error) { return take(path, how, 0o600, false) }

// Wait takes a lock as soon as no other process holds it. The lock file, in a directory
// that users may share, is made if need be.
func Wait(path string) (*Lock, error) { return take(path, Exclusive, 0o666, true) }

func take(path string, how How, mode os.FileMode, wait bool) (*Lock, error) {
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
	if how == Exclusive { // the kernel does not say whose it is
		l.sign()
	}
	return l, nil
}

// sign writes into the lock file who holds the lock. That it could not says nothing
// about the lock.
func (l *Lock) sign() {
	node, _ := os.Hostname()
	_ = l.f.Truncate(0)
	_, _ = l.f.WriteAt(fmt.Appendf(nil, "process %d on %s\n", os.Getpid(), node), 0)
}

// Release gives the lock up. Of no lock, which is nil, it does nothing.
func (l *Lock) Release() {
	if l != nil {
		l.f.Close() // there is nothing that could be lost
	}
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
// "process 17" or "process 17 on node3"; "another process" if that cannot be told.
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
