package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/sys/sparse"
	"github.com/goscr/goscr/internal/sys/trust"
)

// target is a file that is being written. An earlier copy may have left its beginning,
// or all of it, or another file may be there. Write keeps pieces that are equal byte
// for byte, and writes from the first piece that is not. So it also finds holes and
// zeros that a power failure has left in place of data.
type target struct {
	f       *os.File
	regular bool
	had     int64 // size of the earlier file
	at      int64 // bytes that are in place
	stale   bool  // the rest of the earlier file is of no use
	hole    bool  // the last bytes in place are zeros that were not written
	started int64 // bytes whose write-back was started
	c       *Copier
}

// create opens a file to be written, below directories that it makes as needed. from is the
// original. A file that another user may have left, or that is the original itself, is not
// written to: a new one takes its place.
func (c *Copier) create(dst string, from fs.FileInfo) (*target, error) {
	below := c.Below.Of(dst)
	if dir := filepath.Dir(dst); !c.dirs[dir] {
		if err := below.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
		c.dirs[dir] = true
	}
	mode := fs.FileMode(0o600)
	if c.Bare {
		mode = 0o666
	}
	open := func(flags int) (*os.File, error) { return below.OpenFile(dst, os.O_RDWR|unix.O_NONBLOCK|flags, mode) }
	f, err := open(os.O_CREATE | os.O_EXCL)
	if errors.Is(err, fs.ErrNotExist) { // another rank, whose copy has failed, has removed the empty directory
		if err = below.MkdirAll(filepath.Dir(dst), 0o777); err == nil {
			f, err = open(os.O_CREATE | os.O_EXCL)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		if f, err = open(0); err == nil {
			err = usable(f, below, from)
		}
		// A file from an earlier run may be read-only, or there may be a link or a pipe.
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
			if e := below.Remove(dst); e != nil && !errors.Is(e, fs.ErrNotExist) {
				return nil, e
			}
			f, err = open(os.O_CREATE | os.O_EXCL)
		}
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

// usable closes a file that is there already, and returns an error, if the copy must not be
// written to it: ENXIO if a new file may take its place.
func usable(f *os.File, below trust.Root, from fs.FileInfo) error {
	info, err := f.Stat()
	switch {
	case err != nil:
	case os.SameFile(info, from):
		err = fmt.Errorf("%s: %w", f.Name(), ErrSame)
	case info.Mode()&fs.ModeNamedPipe != 0: // the bytes would go to its reader
		err = unix.ENXIO
	case below != "" && info.Mode().IsRegular() && !trust.Own(info): // they could go to any file of the caller
		err = unix.ENXIO
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// ErrSame is the error of a copy whose target is its source. Nothing was written.
var ErrSame = errors.New("is the file itself that was to be copied there")

// fresh reports whether nothing of the earlier file remains to be compared.
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

// zeros puts zeros in place, at most n, and returns how many. It leaves a hole for them where the file has
// nothing else.
func (t *target) zeros(n int64) (int64, error) {
	if t.fresh() && t.regular {
		t.at, t.hole = t.at+n, true
		return n, nil
	}
	p := sparse.Zero(int(min(n, sparse.Zeros)))
	if !t.regular {
		k, err := t.Write(p)
		return int64(k), err
	}
	if int64(len(p)) > t.had-t.at {
		p = p[:t.had-t.at]
	}
	kept, err := t.keep(p)
	return int64(kept), err // none if the file has something else, and is fresh now
}

// unpacked leaves holes for pages of zeros.
type unpacked struct{ *target }

func (u unpacked) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		run, zero := sparse.Run(rest, u.at)
		if !zero {
			if _, err := u.target.Write(rest[:run]); err != nil {
				return 0, err
			}
			rest = rest[run:]
			continue
		}
		n, err := u.zeros(int64(run))
		if err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// keep returns how many of the next bytes are there already.
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

// rewind truncates the file and begins again from the first byte.
func (t *target) rewind() error {
	t.at, t.started, t.stale, t.hole = 0, 0, true, false
	if !t.regular {
		return nil
	}
	return t.f.Truncate(0)
}

// ahead is the number of unwritten bytes after which write-back is started, so that
// finish need not write all of them.
const ahead = 8 << 20

// moved counts written bytes.
func (t *target) moved(n int64) {
	t.at, t.hole = t.at+n, t.hole && n == 0
	if t.at-t.started >= ahead {
		// Of no use on some file systems, and no harm if it fails.
		_ = unix.SyncFileRange(int(t.f.Fd()), t.started, t.at-t.started, unix.SYNC_FILE_RANGE_WRITE)
		t.started = t.at
	}
}

// finish truncates the file at its end, and returns when it is on its medium.
func (t *target) finish() error {
	if t.had > t.at && !t.stale || t.hole {
		if err := t.f.Truncate(t.at); err != nil {
			return err
		}
	}
	return trust.Sync(t.f)
}
