// Package transfer copies files between the cache and the prefix directory.
// It is the one copy loop of goscr: buffers of a fixed size, a checksum taken
// from the bytes as they pass, and a file that counts as written only once it
// is on its medium.
package transfer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/checksum"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/meta"
)

// Copier copies files with one buffer.
type Copier struct {
	// Bare leaves a copy with the mode, owner and times of a file that is made
	// anew, and not with those of what it is a copy of.
	Bare bool
	// Blind takes no checksums, and compares none.
	Blind bool

	buffer []byte
	dirs   map[string]bool // known to be there
}

// NewCopier returns a copier with a buffer of so many bytes.
func NewCopier(size int) *Copier {
	return &Copier{buffer: make([]byte, max(size, 1)), dirs: map[string]bool{}}
}

// Copy makes dst a copy of src, below directories that it makes as needed, and
// returns when it is on its medium. md describes src: the copy gets its mode,
// owner and times unless c is Bare, and a size or checksum other than md's is a
// *redundancy.CorruptError. A checksum that md has not is recorded in it.
// If c is Blind, only the size counts.
func (c *Copier) Copy(src, dst string, md meta.Meta) error {
	in, err := os.OpenFile(src, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.create(dst)
	if err != nil {
		return err
	}
	size, crc, err := c.stream(out, in)
	if err == nil {
		err = out.Sync()
	}
	if e := out.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if want := md.Size(); want >= 0 && want != size {
		return &redundancy.CorruptError{Path: src, Reason: fmt.Sprintf("has %d bytes, should have %d", size, want)}
	}
	if want, known := md.CRC(); known && want != crc && !c.Blind {
		return &redundancy.CorruptError{Path: src, Reason: fmt.Sprintf("checksum 0x%08x, was written with 0x%08x", crc, want)}
	}
	md.SetSize(size)
	if !c.Blind {
		md.SetCRC(crc)
	}
	if c.Bare {
		return nil
	}
	return md.Restore(dst)
}

func (c *Copier) create(dst string) (*os.File, error) {
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
		return os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
	}
	f, err := open()
	// A file from an earlier run may be read-only, or a link or a pipe may stand
	// there, which would have to wait for a reader.
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		if err := os.Remove(dst); err != nil {
			return nil, err
		}
		return open()
	}
	return f, err
}

func (c *Copier) stream(out io.Writer, in io.Reader) (size int64, crc uint32, err error) {
	for {
		n, err := in.Read(c.buffer)
		if n > 0 {
			if !c.Blind {
				crc = checksum.Update(crc, c.buffer[:n])
			}
			if _, err := out.Write(c.buffer[:n]); err != nil {
				return size, crc, err
			}
			size += int64(n)
		}
		if err == io.EOF {
			return size, crc, nil
		}
		if err != nil {
			return size, crc, err
		}
	}
}
