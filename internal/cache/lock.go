package cache

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/report"
)

// lock keeps other jobs out of a control directory: two with the same job id would
// take each other's files for their own. It is one that the kernel takes back when
// the process ends, however it does.
type lock struct{ file *os.File }

// lockFile is the file in a control directory that a job locks while it runs.
const lockFile = "lock"

// patience is how long the processes of an earlier run may take to end.
const patience = 10 * time.Second

// takeLock locks a file, and waits so long for an earlier run. job says in messages
// whose it is.
func takeLock(path, job string, patience time.Duration, log *report.Logger) (*lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	begun, told := time.Now(), false
	for ; ; time.Sleep(20 * time.Millisecond) {
		want := unix.Flock_t{Type: unix.F_WRLCK}
		err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &want)
		if err == nil {
			return &lock{f}, nil
		}
		waited := time.Since(begun)
		switch {
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES):
			err = fmt.Errorf("lock %s: %w", f.Name(), err)
		case waited >= patience:
			err = fmt.Errorf("another %s is running on this node%s: give each its own SCR_JOB_ID", job, holder(f))
		default:
			if waited >= patience/10 && !told {
				told = true
				log.Warn("a %s is still running on this node%s: waiting up to %v for it to end", job, holder(f), patience)
			}
			continue
		}
		return nil, errors.Join(err, f.Close())
	}
}

// holder says which process has the lock of a file, for messages; nothing if that
// cannot be told.
func holder(f *os.File) string {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock) != nil || lock.Type == unix.F_UNLCK || lock.Pid <= 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", lock.Pid)
}

// release gives the lock back. A nil lock is none.
func (l *lock) release() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
