package hash

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/sys/trust"
)

// maxFile bounds the files that are read into memory. The largest hash files are the
// leaves of a rank2file, about 1 MB, and the filemap of a rank with very many
// files.
const maxFile = 1 << 30

// WriteFile replaces the hash file at path. A reader, also one after a crash,
// finds the old file or the new one, never a mixture. No
// two processes may write the same path at once unless they hold its lock.
func WriteFile(path string, h *Hash) error {
	return replaceFile(path, h.Encode(), 0o600)
}

// WriteShared is WriteFile for files that others read too: its mode is what
// the umask leaves of rw-rw-rw-.
func WriteShared(path string, h *Hash) error {
	return replaceFile(path, h.Encode(), 0o666)
}

// ReplaceFile replaces the file at path, whatever it holds, in the way of
// WriteFile.
func ReplaceFile(path string, data []byte, mode fs.FileMode) error {
	return replaceFile(path, data, mode)
}

func replaceFile(path string, data []byte, mode fs.FileMode) (err error) {
	// The name is fixed, so that files of killed processes do not pile up. Such a
	// file is removed, not overwritten: its mode may differ, and it may belong to
	// another user of the directory.
	temporary := path + ".tmp"
	below := trust.Around(path)
	if err := below.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := below.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = trust.Sync(f)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = below.Rename(temporary, path)
	}
	if err != nil {
		_ = below.Remove(temporary) // the first error is the one to report
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes renames in dir durable.
func SyncDir(dir string) error { return trust.Around(dir).SyncDir(dir) }

// MakeDirs makes a directory, and those above it, and makes the names of those that it
// made durable.
func MakeDirs(dir string) error {
	below := trust.Around(dir)
	if below.IsDir(dir) == nil {
		return nil
	}
	above := filepath.Dir(dir)
	if above != dir {
		if err := MakeDirs(above); err != nil {
			return err
		}
	}
	if err := below.Mkdir(dir, 0o777); err != nil {
		switch e := below.IsDir(dir); {
		case e == nil: // another process has made it
			return nil
		case errors.Is(e, unix.ENOTDIR):
			return &fs.PathError{Op: "mkdir", Path: dir, Err: unix.ENOTDIR}
		case errors.As(e, new(*trust.LinkError)):
			return e
		}
		return err
	}
	if err := SyncDir(above); err != nil && !errors.Is(err, fs.ErrPermission) { // may be searched, not read
		return err
	}
	return nil
}

// ReadFile reads the hash file at path. If the file does not exist the error
// matches fs.ErrNotExist, if it is not a hash file ErrCorrupt; both name the file.
func ReadFile(path string) (*Hash, error) {
	h, _, err := ReadOwned(path)
	return h, err
}

// ReadOwned is ReadFile, and also returns the owner and the mode that the file has.
func ReadOwned(path string) (*Hash, fs.FileInfo, error) {
	f, err := open(path, os.O_RDONLY)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	h, err := readOpen(f)
	return h, info, err
}

// open opens a file of any kind. O_NONBLOCK has no effect on a regular file, and
// keeps a pipe in its place from blocking the process.
func open(path string, flags int) (*os.File, error) {
	f, err := trust.Around(path).OpenFile(path, flags|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("%s: %w: is a symbolic link, which goscr does not follow for its own files", path, ErrCorrupt)
	case errors.Is(err, unix.EISDIR):
		return nil, notRegular(path)
	}
	return f, err
}

func notRegular(path string) error {
	return fmt.Errorf("%s: %w: is not a regular file", path, ErrCorrupt)
}

func readOpen(f *os.File) (*Hash, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(f.Name())
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s: %w: %d bytes are more than any hash file has", f.Name(), ErrCorrupt, info.Size())
	}
	buf := make([]byte, info.Size())
	n, err := f.ReadAt(buf, 0)
	if n < len(buf) && err == io.EOF {
		return nil, fmt.Errorf("%s: %w: has become shorter than %d bytes while it was read", f.Name(), ErrCorrupt, len(buf))
	}
	if n < len(buf) {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	h, err := Decode(buf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return h, nil
}
