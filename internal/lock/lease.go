package lock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/trust"
)

// Some file systems refuse the locks of fcntl: Lustre that is mounted without -o flock, and some in
// user space. There an Exclusive lock is a lease: a second file, which only one process can make, and whose time
// its holder changes every second. A process that has left its lease alone for long counts as dead, and
// another may take it. A process that was stopped for as long does not notice that.

const (
	leaseSuffix = ".held"
	renewal     = time.Second
)

// lifetime is how long a lease is valid that is not renewed. It is shorter than the time for which a
// run waits for the one before with the same job id.
var lifetime = 8 * time.Second

// unsupported reports whether an error of fcntl means that a file system has no locks.
func unsupported(err error) bool {
	return errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

// lease is the lease of a lock, which the process holds.
type lease struct {
	f    *os.File
	path string
	stop chan struct{} // closed when it is no more to be renewed
	done sync.WaitGroup
}

// takeLease takes the lease of the lock of a file. If another process holds it, it returns nil and no error.
func takeLease(lockFile string) (*lease, error) {
	below, held := trust.Around(lockFile), lockFile+leaseSuffix
	for range 2 {
		f, err := create(held, rand.Text())
		if err == nil {
			l := &lease{f: f, path: held, stop: make(chan struct{})}
			l.done.Add(1)
			go l.renew()
			return l, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		dead, info, err := read(held)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || !expired(held, info) {
			return nil, err
		}
		if err := bury(below, held, dead); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// create makes a lease, whose contents no other has.
func create(held, token string) (*os.File, error) {
	f, err := trust.Around(held).OpenFile(held, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		_, err = f.WriteString(token)
	}
	return f, err
}

// read returns the contents of a lease, and when it was renewed.
func read(held string) (token string, info fs.FileInfo, err error) {
	f, err := trust.Around(held).OpenFile(held, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ESTALE) { // NFS: it was removed
		err = fs.ErrNotExist
	}
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return "", nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, mostSigned))
	return string(data), info, err
}

// bury removes a lease that has expired, with the contents dead. Of those that want to, only the one that can make
// a file with that in its name may do so, and only if the lease is still the same then.
func bury(below trust.Root, held, dead string) error {
	if !plain(dead) {
		return fmt.Errorf("%s is not a lock file: remove it", held)
	}
	grave := held + "." + dead
	f, err := create(grave, dead)
	if errors.Is(err, fs.ErrExist) {
		if info, err := below.Lstat(grave); err == nil && expired(grave, info) { // of a process that was killed here
			return below.Remove(grave)
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _, _ = f.Close(), below.Remove(grave) }()
	now, info, err := read(held)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (now != dead || !expired(held, info)) {
		return nil
	}
	if err != nil {
		return err
	}
	return below.Remove(held)
}

// plain reports whether a text is a token: it becomes part of a name.
func plain(token string) bool {
	return len(token) < 64 && !strings.ContainsFunc(token, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') })
}

// expired reports whether a lease was not renewed for its lifetime. Both times are of the file system's clock: that of
// a new file is now. Who cannot make one compares with the clock of this node.
func expired(held string, info fs.FileInfo) bool {
	now, fresh := time.Now(), held+"."+rand.Text()
	below := trust.Around(held)
	if f, err := below.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
		if info, err := f.Stat(); err == nil {
			now = info.ModTime()
		}
		_ = f.Close()
		_ = below.Remove(fresh)
	}
	return now.Sub(info.ModTime()) > lifetime
}

// leased reports whether a lease of the lock at path is valid.
func leased(path string) bool {
	info, err := trust.Around(path).Lstat(path + leaseSuffix)
	return err == nil && !expired(path+leaseSuffix, info)
}

// renew renews the lease until end is called.
func (l *lease) renew() {
	defer l.done.Done()
	t := time.NewTicker(renewal)
	defer t.Stop()
	now := unix.Timespec{Nsec: unix.UTIME_NOW} // of the file system's clock
	for {
		select {
		case <-l.stop:
			return
		case <-t.C:
			_ = unix.UtimesNanoAt(int(l.f.Fd()), "", []unix.Timespec{now, now}, unix.AT_EMPTY_PATH)
		}
	}
}

// end gives the lease up.
func (l *lease) end() {
	close(l.stop)
	l.done.Wait()
	below := trust.Around(l.path)
	if mine, err := l.f.Stat(); err == nil {
		if there, err := below.Lstat(l.path); err == nil && os.SameFile(mine, there) {
			_ = below.Remove(l.path)
		}
	}
	_ = l.f.Close()
}
