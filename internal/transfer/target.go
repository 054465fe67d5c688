package transfer

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// target is a file that is being written. What is there before may be the beginning
// of the same file, from a copy that was interrupted; or all of it; or anything else.
// It is kept as far as it is, byte for byte, what is to be written, and written anew
// from the first piece that is not. Holes and zeros where data should be, as a power
// failure leaves them, are found in this way too.
type target struct {
	f       *os.File
	regular bool
	had     int64 // bytes that it was found with
	at      int64 // bytes that are in place
	stale   bool  // what was found is of no use from here on
	started int64 // bytes whose writing to the medium was started
	c       *Copier
}

// create opens a file to be written, below directories that it makes as needed.
func (c *Copier) create(dst string) (*target, error) {
	if dir := filepath.Dir(dst); !c.dirs[dir] {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
		c.dirs[dir] = true
	}
	mode := fs.FileMode(0o600)
	if c.Bare {
		mode = 0o666
	}
	open := func() (*os.File, error) {
		return os.OpenFile(dst, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
	}
	f, err := open()
	if err == nil && isPipe(f) {
		_, err = f.Close(), unix.ENXIO // its reader would get what no file gets
	}
	// A file from an earlier run may be read-only, or there may be a link or a pipe.
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		switch e := os.Remove(dst); {
		case errors.Is(e, fs.ErrNotExist): // it is the directory that nothing can be made in
			return nil, err
		case e != nil:
			return nil, e
		}
		f, err = open()
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	t := &target{f: f, c: c, regular: info.Mode().IsRegular()}
	if t.regular {
		t.had = info.Size()
	}
	return t, nil
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&fs.ModeNamedPipe != 0
}

// fresh reports whether nothing that was found remains to be compared.
func (t *target) fresh() bool { return t.stale || t.at >= t.had }

// Write puts the next bytes in place.
func (t *target) Write(p []byte) (int, error) {
	kept := 0
	if !t.fresh() {
		var err error
		if kept, err = t.keep(p); err != nil {
			return 0, err
		}
	}
	n, err := t.f.WriteAt(p[kept:], t.at)
	t.moved(int64(n))
	return kept + n, err
}

// keep returns how many of the next bytes are there.
func (t *target) keep(p []byte) (int, error) {
	n := int(min(int64(len(p)), t.had-t.at))
	if len(t.c.compared) < n {
		t.c.compared = make([]byte, max(n, len(t.c.buffer)))
	}
	there := t.c.compared[:n]
	if _, err := t.f.ReadAt(there, t.at); err == nil && bytes.Equal(there, p[:n]) {
		t.at += int64(n)
		t.c.Kept += int64(n)
		return n, nil
	}
	t.stale = true
	return 0, t.f.Truncate(t.at)
}

// rewind begins again from the first byte, with nothing there.
func (t *target) rewind() error {
	t.at, t.started, t.stale = 0, 0, true
	if !t.regular {
		return nil
	}
	return t.f.Truncate(0)
}

// ahead is how many bytes the system may have in memory before they are started on
// their way to the medium, so that finish does not find all of them to do.
const ahead = 8 << 20

// moved takes note of bytes that have been written.
func (t *target) moved(n int64) {
	t.at += n
	if t.at-t.started >= ahead {
		// Of no use on some file systems, and no harm if it fails.
		_ = unix.SyncFileRange(int(t.f.Fd()), t.started, t.at-t.started, unix.SYNC_FILE_RANGE_WRITE)
		t.started = t.at
	}
}

// finish returns when the file is on its medium, and has nothing behind its end.
func (t *target) finish() error {
	if t.had > t.at && !t.stale {
		if err := t.f.Truncate(t.at); err != nil {
			return err
		}
	}
	return t.f.Sync()
}
