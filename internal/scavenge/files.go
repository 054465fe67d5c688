package scavenge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/prefix"
)

// written returns the entry of a dataset in the index, which is an error if the
// program has written it to the prefix directory itself and not come to its end: of
// that there is nothing in any cache.
func written(prefixDir string, id int) (prefix.Entry, error) {
	x, err := prefix.ReadIndex(prefixDir)
	if err != nil {
		return prefix.Entry{}, err
	}
	e := x.ByID(id)
	if e.Bypass() && !e.Complete {
		err = fmt.Errorf("dataset %d (%s) was written to the prefix directory by the program, which did not complete it: "+
			"there is nothing of it in the caches to make it whole", id, e.Name)
	}
	return e, err
}

// lock waits for a lock among all nodes, that of a file which it makes in the
// directory of a dataset. The directory itself would not do: some file systems lock
// only what is open for writing.
func lock(dir, name string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o666)
	if err != nil {
		return nil, err
	}
	return hold(f)
}

// hold takes the lock of an open file.
func hold(f *os.File) (unlock func(), err error) {
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}

// syncFile returns when a file is on its medium.
func syncFile(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) { // may be one that its owner must not read
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
