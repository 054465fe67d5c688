package hash

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/descriptors"
)

// Files that several processes update (index, halt, flush) are locked with
// flock on the file itself, as SCR does. Since files are replaced by rename,
// a process that has waited for the lock may hold it on a file that is no
// longer there; it compares the two, and tries again on the new one.

// Locked is a hash file whose exclusive lock the process holds, between
// LockOpenRead and WriteCloseUnlock.
type Locked struct {
	Hash *Hash // what was read, to be changed and written

	path string
	file *os.File
}

// ReadWithLock waits until no process holds the exclusive lock of the hash
// file at path, and reads it.
func ReadWithLock(path string) (*Hash, error) {
	f, err := lock(path, os.O_RDONLY, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOpen(f)
}

// ReadOrNew is ReadWithLock, and returns an empty hash if there is no file.
func ReadOrNew(path string) (*Hash, error) {
	h, err := ReadWithLock(path)
	if errors.Is(err, fs.ErrNotExist) {
		return New(), nil
	}
	return h, err
}

// LockOpenRead takes the exclusive lock of the hash file at path and reads it.
// A file that does not exist is made, with an empty hash in it. The caller
// must end with WriteCloseUnlock or Unlock.
func LockOpenRead(path string) (*Locked, error) {
	f, err := lock(path, os.O_RDWR, unix.LOCK_EX)
	for errors.Is(err, fs.ErrNotExist) {
		if err = createEmpty(path); err != nil {
			return nil, err
		}
		f, err = lock(path, os.O_RDWR, unix.LOCK_EX)
	}
	if err != nil {
		return nil, err
	}
	h, err := readOpen(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Locked{Hash: h, path: path, file: f}, nil
}

// WriteCloseUnlock replaces the file by the changed hash and releases the lock.
func (l *Locked) WriteCloseUnlock() error {
	err := replaceFile(l.path, l.Hash.Encode(), 0o666)
	return errors.Join(err, l.file.Close())
}

// Unlock releases the lock and leaves the file as it was.
func (l *Locked) Unlock() error { return l.file.Close() }

// Update changes the hash file at path under its exclusive lock. If change
// returns an error the file stays as it was.
func Update(path string, change func(*Hash) error) error {
	l, err := LockOpenRead(path)
	if err != nil {
		return err
	}
	if err := change(l.Hash); err != nil {
		return errors.Join(err, l.Unlock())
	}
	return l.WriteCloseUnlock()
}

// Mend replaces a hash file that is corrupt or missing by a new one, which fill
// fills, and renames the corrupt one to aside. It holds the lock meanwhile: of
// several processes that mend a file, only one replaces it. Mend does not change a
// file that can be read; then done is false.
func Mend(path, aside string, fill func(*Hash) error) (done, kept bool, err error) {
	f, err := lock(path, os.O_RDWR, unix.LOCK_EX)
	if errors.Is(err, ErrCorrupt) {
		return mendIrregular(path, aside, fill)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return true, false, Update(path, fill)
	}
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	if _, err := readOpen(f); !errors.Is(err, ErrCorrupt) {
		return false, false, err
	}
	h := New()
	if err := fill(h); err != nil {
		return false, false, err
	}
	if err := os.Remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, false, err
	}
	if err := os.Link(path, aside); err != nil {
		return false, false, err
	}
	return true, true, replaceFile(path, h.Encode(), 0o666)
}

// mendIrregular is Mend where there is a link or a directory in place of the file. It
// locks the directory around it instead, where that is possible.
func mendIrregular(path, aside string, fill func(*Hash) error) (done, kept bool, err error) {
	dir, err := descriptors.Open(filepath.Dir(path))
	if err != nil {
		return false, false, err
	}
	defer dir.Close()
	_ = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, false, Update(path, fill)
	case err != nil:
		return false, false, err
	case info.Mode().IsRegular(): // another process has mended it
		return false, false, nil
	}
	if err := os.Rename(path, aside); err != nil {
		return false, false, err
	}
	return true, true, Update(path, fill)
}

// lock locks the file that path names, and returns it open.
func lock(path string, flags, how int) (*os.File, error) {
	for {
		f, err := open(path, flags)
		if err != nil {
			return nil, err
		}
		for {
			if err = unix.Flock(int(f.Fd()), how); err != unix.EINTR {
				break
			}
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w (its file system must support flock)", path, err)
		}
		held, err := f.Stat()
		if err == nil {
			var there fs.FileInfo
			there, err = os.Lstat(path)
			if err == nil && os.SameFile(held, there) {
				return f, nil
			}
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// createEmpty makes path a hash file with nothing in it, unless there is one.
// The temporary name is random: processes that start together may have the
// same number on their nodes, and would remove each other's file.
func createEmpty(path string) error {
	temporary := fmt.Sprintf("%s.%016x.new", path, rand.Uint64())
	if err := replaceFile(temporary, New().Encode(), 0o666); err != nil {
		return err
	}
	err := os.Link(temporary, path)
	if e := os.Remove(temporary); err == nil {
		err = e
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
