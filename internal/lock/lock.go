// Package lock provides locks between processes. Each lock is on a lock file, which
// serves no other purpose and names the holder.
//
//	lock.go    take a lock and release it
//	holder.go  who holds it
//	wait.go    wait for its holder: never in silence, and not forever
//
// The kernel gives a lock back when the process that holds it ends, however it does.
// Locks are records of fcntl, which file systems that nodes share pass on to the
// other nodes; whether there is one can be found out without taking it.
//
// A lock is not on the data, which others may read: whoever can open a file can lock it.
// Only those who can write to the directory of a lock file, and so could delete what the
// lock protects, can open the lock file.
package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/descriptors"
)

// Lock is a lock that the process holds.
type Lock struct {
	f    *os.File
	stop chan struct{} // closed when KeepAlive has to end; nil before
	done sync.WaitGroup
}

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
	// SharedByProcess is Shared in the same way.
	SharedByProcess
)

// request returns the command of fcntl and the record for a way to take a lock.
func (how How) request() (command int, record unix.Flock_t) {
	record = unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
	if how == Shared || how == SharedByProcess {
		record.Type = unix.F_RDLCK
	}
	if how == ByProcess || how == SharedByProcess {
		return unix.F_SETLK, record
	}
	return unix.F_OFD_SETLK, record
}

// Try takes a lock, and returns nil if another process holds it. The lock file is
// made if need be.
func Try(path string, how How) (*Lock, error) {
	for {
		f, err := open(path)
		if err != nil {
			return nil, err
		}
		switch err := set(f, how); {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES):
			return nil, f.Close()
		case err != nil:
			return nil, errors.Join(fmt.Errorf("lock %s: %w (its file system must support locks of fcntl)", path, err), f.Close())
		}
		l := &Lock{f: f}
		if there, err := os.Lstat(path); err == nil {
			if held, err := f.Stat(); err == nil && os.SameFile(held, there) {
				if how == Exclusive { // the kernel does not say whose it is
					l.sign()
				}
				return l, nil
			}
		}
		f.Close() // the file has been removed: others lock another one of that name
	}
}

// set sets the lock of an open lock file.
func set(f *os.File, how How) error {
	command, record := how.request()
	for {
		if err := unix.FcntlFlock(f.Fd(), command, &record); err != unix.EINTR {
			return err
		}
	}
}

// open opens a lock file, and makes it if need be.
func open(path string) (*os.File, error) {
	const flags = os.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := descriptors.OpenFile(path, flags|os.O_CREATE, 0o600)
	if err != nil {
		if info, e := os.Lstat(path); e == nil && errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w: the lock file belongs to user %d, who alone can take the lock; remove it if no process of that user works here", err, owner(info).Uid)
		}
		return nil, err
	}
	if err := restrict(f, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func owner(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// restrict leaves access to a lock file to those who can write to its directory. That it
// could not is no error: then fewer can take the lock, or the file system has no modes.
func restrict(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("lock %s: is not a regular file", path)
	}
	dir, err := os.Stat(filepath.Dir(path))
	self := os.Geteuid()
	if err != nil || self != 0 && int(owner(info).Uid) != self {
		return nil
	}
	group := owner(info).Gid
	if self == 0 && owner(info).Uid == 0 && owner(dir).Uid != 0 { // an administrator helps a user, whose lock it is
		if f.Chown(int(owner(dir).Uid), int(owner(dir).Gid)) == nil {
			group = owner(dir).Gid
		}
	}
	mode := os.FileMode(0o600)
	if dir.Mode()&0o020 != 0 && group == owner(dir).Gid {
		mode |= 0o060
	}
	if dir.Mode()&0o002 != 0 && dir.Mode()&os.ModeSticky == 0 {
		mode |= 0o006
	}
	if info.Mode().Perm() != mode {
		_ = f.Chmod(mode)
	}
	return nil
}

// Share makes a lock that was taken ByProcess one that other processes may take
// SharedByProcess. At no time in between is it free.
func (l *Lock) Share() error { return set(l.f, SharedByProcess) }

// Release releases the lock. It does nothing if l is nil.
func (l *Lock) Release() {
	if l == nil {
		return
	}
	if l.stop != nil {
		close(l.stop)
		l.done.Wait()
	}
	l.f.Close() // there is nothing that could be lost
}
