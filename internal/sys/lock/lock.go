// Package lock provides locks between processes. Each lock is on a lock file, which
// serves no other purpose and names the holder.
//
//	lock.go    take a lock and release it
//	holder.go  find out which process holds it
//	lease.go   locks where the file system has none of the kernel
//	file.go    open a lock file
//	wait.go    wait for its holder, with a message and a limit
//
// The kernel releases a lock when the process that holds it ends, for whatever reason.
// Locks are fcntl record locks, since file systems that nodes share support these between
// nodes, and since a process can test for such a lock without taking it.
//
// The lock file is separate from the data, because any user who can open a file can lock
// it, and other users may read the data. Only users who can write to the directory of a lock
// file, and so could delete the data that the lock protects, can open the lock file.
package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/sys/trust"
)

// Lock is a lock that the process holds.
type Lock struct {
	f    *os.File
	stop chan struct{} // closed when the goroutine of KeepAlive has to end; nil if there is none
	done sync.WaitGroup
	told bool // OnHold has been called

	lease *lease // nil if the kernel has the lock
}

// tellLease is done once a process has told that it has leases.
var tellLease sync.Once

// How is the kind of a lock.
type How int

// The kinds of locks. A program that the process executes inherits none of them.
const (
	// Exclusive is a lock with a single holder. If the holder forks, a child that executes
	// no other program holds it too: the lock is released when all of them have ended, unless
	// OnHold makes the child close it.
	Exclusive How = iota
	// Shared is a lock that any number of processes may hold.
	Shared
	// ByProcess is exclusive, and children do not hold it. The process loses it when it
	// closes any of its descriptors of the lock file, so the holder must not call Try,
	// Held or Holder for that file.
	ByProcess
	// SharedByProcess is like Shared, with the properties of ByProcess.
	SharedByProcess
)

// OnHold is called, if it is not nil, with the descriptor of each Exclusive lock that the process takes, and
// with held false before it releases the lock. A library in a program that forks closes these
// descriptors in the child: it may outlive the process, and would hold the lock.
var OnHold func(descriptor int, held bool)

// request returns the command of fcntl(2) and the record with which a lock is taken.
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

// Try takes a lock. If another process holds it, Try returns nil and no error. It creates
// the lock file if there is none.
func Try(path string, how How) (*Lock, error) {
	for {
		f, err := open(path)
		if err != nil {
			return nil, err
		}
		switch err := set(f, how); {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES):
			return nil, f.Close()
		case err != nil && how == Exclusive && unsupported(err):
			held, err := takeLease(path)
			if held == nil {
				return nil, errors.Join(err, f.Close())
			}
			tellLease.Do(func() {
				current().Tell(fmt.Sprintf("the file system of %s has no locks of fcntl (Lustre has them with the mount option flock), so goscr uses lease files (%s%s): "+
					"if a process is killed, others wait %v for its lock", path, filepath.Base(path), leaseSuffix, lifetime))
			})
			l := &Lock{f: f, lease: held}
			l.sign()
			l.KeepAlive()
			return l, nil
		case err != nil:
			return nil, errors.Join(fmt.Errorf("lock %s: %w (its file system must support locks of fcntl)", path, err), f.Close())
		}
		l := &Lock{f: f}
		if there, err := trust.Around(path).Lstat(path); err == nil {
			if held, err := f.Stat(); err == nil && os.SameFile(held, there) {
				if how == Exclusive && leased(path) { // by a process of a node that mounts the file system without locks
					return nil, f.Close()
				}
				if how == Exclusive { // the kernel does not report the holder of such a lock
					l.sign()
					if OnHold != nil {
						OnHold(int(f.Fd()), true)
						l.told = true
					}
				}
				return l, nil
			}
		}
		f.Close() // the file was removed, and other processes will lock a new one
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

// Share changes a lock that was taken ByProcess to SharedByProcess, so that other processes
// may take it in that way. The lock is never free in between.
func (l *Lock) Share() error { return set(l.f, SharedByProcess) }

// Release releases the lock. It does nothing if l is nil.
func (l *Lock) Release() {
	if l == nil {
		return
	}
	if l.stop != nil {
		close(l.stop)
		l.done.Wait()
		l.stop = nil
	}
	if l.lease != nil {
		l.lease.end()
		l.lease = nil
	}
	if l.told {
		OnHold(int(l.f.Fd()), false)
	}
	// Closing is not enough: a child that fork has made shares the lock until it runs for the first
	// time, and closes its descriptor. A lock ByProcess ends when the file is closed.
	unix.FcntlFlock(l.f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Len: 1})
	l.f.Close() // an error of close has no effect on the lock
}
