package hash

import (
	"errors"
	"io/fs"

	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Files that several processes update (index, halt, flush) have a lock file beside them.
// Since files are replaced, never overwritten, reading them needs no lock. See package
// lock for why the lock is not on the file itself, as SCR's is, and for how a process
// waits.

// LockSuffix is what the name of a lock file has after the name of the file.
const LockSuffix = ".lock"

// Locked is a hash file whose exclusive lock the process holds, between
// LockOpenRead and WriteCloseUnlock.
type Locked struct {
	Hash *Hash // what was read, to be changed and written

	path string
	lock *lock.Lock
}

// ReadOrNew is ReadFile, and returns an empty hash if there is no file.
func ReadOrNew(path string) (*Hash, error) {
	h, err := ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return New(), nil
	}
	return h, err
}

// LockOpenRead takes the exclusive lock of the hash file at path and reads it. Of a
// file that does not exist the hash is empty. The caller must end with WriteCloseUnlock
// or Unlock. It is an error if another process has the lock and shows no sign of life
// for SCR_WAIT_SECONDS.
func LockOpenRead(path string) (*Locked, error) {
	l, err := lock.Wait(path + LockSuffix)
	if err != nil {
		return nil, err
	}
	h, err := ReadOrNew(path)
	if err != nil {
		l.Release()
		return nil, err
	}
	return &Locked{Hash: h, path: path, lock: l}, nil
}

// WriteCloseUnlock replaces the file by the changed hash and releases the lock.
func (l *Locked) WriteCloseUnlock() error {
	defer l.lock.Release()
	return replaceFile(l.path, l.Hash.Encode(), 0o666)
}

// Unlock releases the lock and leaves the file as it was.
func (l *Locked) Unlock() { l.lock.Release() }

// Update changes the hash file at path under its exclusive lock. If change
// returns an error the file stays as it was.
func Update(path string, change func(*Hash) error) error {
	l, err := LockOpenRead(path)
	if err != nil {
		return err
	}
	if err := change(l.Hash); err != nil {
		l.Unlock()
		return err
	}
	return l.WriteCloseUnlock()
}

// UpdateRecord is Update for a file that holds a record. Keys that are of no field stay, see SetFields.
func UpdateRecord[T any](path string, change func(record *T) error) error {
	return Update(path, func(h *Hash) error {
		record := As[T](h)
		if err := change(&record); err != nil {
			return err
		}
		h.SetFields(record)
		return nil
	})
}

// Mend replaces a hash file that is corrupt or missing by a new one, which fill
// fills, and renames the corrupt one, or a link or directory in its place, to aside. It
// holds the lock meanwhile: of several processes that mend a file, only one replaces it.
// Mend does not change a file that can be read; then done is false.
func Mend(path, aside string, fill func(*Hash) error) (done, kept bool, err error) {
	l, err := lock.Wait(path + LockSuffix)
	if err != nil {
		return false, false, err
	}
	defer l.Release()
	_, err = ReadFile(path)
	corrupt := errors.Is(err, ErrCorrupt)
	if !corrupt && !errors.Is(err, fs.ErrNotExist) {
		return false, false, err
	}
	h := New()
	if err := fill(h); err != nil {
		return false, false, err
	}
	if corrupt {
		if err := setAside(path, aside); err != nil {
			return false, false, err
		}
	}
	return true, corrupt, replaceFile(path, h.Encode(), 0o666)
}

// setAside gives what is at path another name. A file keeps its own until another
// replaces it.
func setAside(path, aside string) error {
	below := trust.Around(path)
	info, err := below.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return below.Rename(path, aside)
	}
	if err := below.Remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return below.Link(path, aside)
}
