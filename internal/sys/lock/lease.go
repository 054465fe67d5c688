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

	"github.com/goscr/goscr/internal/sys/trust"
)

// Some file systems refuse the locks of fcntl: Lustre that is mounted without -o flock, and some in
// user space. There an Exclusive lock is a lease: a second file, which only one process can create, and to which
// its holder writes every second. A process that has not written to its lease for long counts as dead, and
// another may take it. A process that could not write for so long (it was stopped, or the file system hung) goes
// on as if it had the lock.
//
// Clocks of nodes differ, so no decision depends on a clock alone: who wants to take a lease that looks old watches it
// for its lifetime.

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
	f     *os.File
	path  string
	token string
	count int           // of renewals
	stop  chan struct{} // closed when it is no more to be renewed
	done  sync.WaitGroup
}

// takeLease takes the lease of the lock of a file. If another process holds it, it returns nil and no error. It
// takes as long as a lifetime if the lease looks as if its holder were dead.
func takeLease(lockFile string) (*lease, error) {
	held := lockFile + leaseSuffix
	for range 2 {
		l, err := create(held, lockFile)
		if err == nil {
			l.done.Add(1)
			go l.renew()
			return l, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		was, err := read(held)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, fs.ErrPermission) { // of another user, who alone knows whether it is renewed
			return nil, nil
		}
		if err != nil || !was.dead(held) {
			return nil, err
		}
		if err := bury(held, lockFile, was); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// create makes a lease with a token that no other has. All users who can take the lock can read it.
func create(held, lockFile string) (*lease, error) {
	f, err := trust.Around(held).OpenFile(held, os.O_CREATE|os.O_EXCL|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	l := &lease{f: f, path: held, token: rand.Text(), stop: make(chan struct{})}
	if err := errors.Join(restrict(f, lockFile), l.write()); err != nil {
		_ = trust.Around(held).Remove(held)
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// The contents of a lease: its token, and how often it was renewed.
const leaseText = "%s\n%d\n"

// write renews a lease.
func (l *lease) write() error {
	l.count++
	_, err := l.f.WriteAt(fmt.Appendf(nil, leaseText, l.token, l.count), 0)
	return err
}

// sight is what a process has seen of a lease.
type sight struct {
	token   string
	text    string // with the number of renewals
	renewed time.Time
}

// read looks at a lease.
func read(held string) (s sight, err error) {
	f, err := trust.Around(held).OpenFile(held, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ESTALE) { // NFS: it was removed
		err = fs.ErrNotExist
	}
	if err != nil {
		return s, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return s, err
	}
	data, err := io.ReadAll(io.LimitReader(f, mostSigned))
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w: remove it", held, err)
	}
	s.text, s.renewed = string(data), info.ModTime()
	s.token, _, _ = strings.Cut(s.text, "\n")
	if !plain(s.token) {
		return s, fmt.Errorf("%s is not a lease: remove it", held)
	}
	return s, nil
}

// seen are the leases that this process has looked at, by path.
var seen = struct {
	sync.Mutex
	is map[string]unchanged
}{is: map[string]unchanged{}}

// unchanged is a lease whose text has been the same since a time.
type unchanged struct {
	text  string
	since time.Time
}

// dead reports whether the holder of a lease has not renewed it for its lifetime: as this process has seen, now or in calls
// before. It watches a lease that looks old.
func (s sight) dead(held string) bool {
	seen.Lock()
	u := seen.is[held]
	if u.text != s.text || u.since.IsZero() {
		u = unchanged{s.text, time.Now()}
		seen.is[held] = u
	}
	seen.Unlock()
	for time.Since(u.since) <= lifetime {
		if !s.old() {
			return false
		}
		time.Sleep(renewal / 4)
		if now, err := read(held); err != nil || now.text != s.text {
			return false
		}
	}
	return true
}

// old reports whether a lease looks as if it had not been renewed for its lifetime.
func (s sight) old() bool { return time.Since(s.renewed).Abs() > lifetime }

// bury removes a lease whose holder is dead. Several processes may want to: only the one that creates a file
// named after the token may. What it removes has another name first, and is put back if it is not that lease.
func bury(held, lockFile string, was sight) error {
	below, grave := trust.Around(held), held+"."+was.token
	l, err := create(grave, lockFile)
	if errors.Is(err, fs.ErrExist) {
		digger, err := read(grave)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !digger.dead(grave) {
			return err
		}
		return below.Remove(grave) // of a process that was killed here
	}
	if err != nil {
		return err
	}
	defer func() { _, _ = l.f.Close(), below.Remove(grave) }()
	return remove(held, grave, was.token)
}

// remove removes a lease that has a token, by renaming it first.
func remove(held, to, token string) error {
	below := trust.Around(held)
	if now, err := read(held); err != nil || now.token != token {
		return nil // it has gone already
	}
	if err := below.Rename(held, to); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if moved, err := read(to); err == nil && moved.token != token {
		return below.Link(to, held)
	}
	return nil
}

// plain reports whether a text is a token: it becomes part of a name.
func plain(token string) bool {
	return len(token) < 64 && !strings.ContainsFunc(token, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') })
}

// leased reports whether a process holds the lease of the lock at path, as far as the times of files say.
func leased(path string) bool {
	s, err := read(path + leaseSuffix)
	return err == nil && !s.old()
}

// renew renews the lease until end is called.
func (l *lease) renew() {
	defer l.done.Done()
	t := time.NewTicker(renewal)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-t.C:
			_ = l.write() // the next one may succeed, or others see that it does not
			_ = l.f.Sync()
		}
	}
}

// end gives the lease up.
func (l *lease) end() {
	close(l.stop)
	l.done.Wait()
	mine := l.path + "." + l.token
	if remove(l.path, mine, l.token) == nil {
		_ = trust.Around(mine).Remove(mine)
	}
	_ = l.f.Close()
}
