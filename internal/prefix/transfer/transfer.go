// Package transfer copies files between the cache and the prefix directory.
// All copies of goscr use it: it has buffers of a fixed size, takes checksums of the
// bytes that it copies, and returns only when a file is on its medium.
//
//	transfer.go  a copy of one file, there and back
//	packed.go    ... that is compressed or decompressed
//	kernel.go    ... by the kernel, if no checksum is needed
//	copying.go   the state of a file while it is copied
//	target.go    the file that is written, which an earlier copy may have begun
//	pace.go      copies that keep to limits
//	stall.go     copies that wait for a file system
//
// None of it needs MPI or other ranks.
package transfer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/compress"
	"github.com/goscr/goscr/internal/sys/sparse"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Copier copies files, one at a time, with one set of buffers.
type Copier struct {
	// Below is the prefix directory: others may be able to write to it. A path below it is opened
	// without following links that they have made.
	Below trust.Root
	// Admit, if there is one, checks the owner of a file that is to be read. After its error the file is not read.
	Admit func(fs.FileInfo) error
	// Bare gives a copy the mode, owner and times of a new file, not those of the
	// original.
	Bare bool
	// Blind takes no checksums, and compares none.
	Blind bool
	// Compress is how Copy stores files that get smaller by it.
	Compress compress.Method
	// Step, if there is one, is told how many bytes of a file of the program are
	// done after each piece. It may take its time; its error ends the copy.
	Step func(bytes int) error
	// Stalled, if there is one, is told when a file system has not answered for 5 s, once
	// for each time, by another goroutine than the one that copies.
	Stalled func(error)
	// Kept counts the bytes that an earlier copy had written already.
	Kept int64

	patience time.Duration // of Stalled
	buffer   []byte
	compared []byte          // what was there before
	dirs     map[string]bool // known to be there
	packer   *compress.Writer
	unpacker *compress.Reader
	unpacks  string  // by which method
	gain     float64 // leastGain
}

// NewCopier returns a copier with a buffer of so many bytes.
func NewCopier(size int) *Copier {
	return &Copier{buffer: make([]byte, max(size, 1)), dirs: map[string]bool{}, gain: leastGain, patience: patience}
}

// Copy makes dst a copy of src, below directories that it makes as needed, and
// returns when it is on its medium. It continues an interrupted copy in dst.
// md describes src: the copy gets its mode, owner and
// times unless c is Bare, and a size or checksum other than md's, or a src that cannot
// be read or is missing, is a *redundancy.CorruptError. Copy records the checksum in md if it has none.
// If c is Blind, only the size counts.
//
// If c compresses, and the file gets smaller by it, Copy records in md how dst is
// stored: pass a clone of a description that is used elsewhere.
func (c *Copier) Copy(src, dst string, md meta.Meta) error {
	md.SetAsWritten()
	pack := func(p *copying) (bool, error) { return c.pack(p, md) }
	err := c.transfer(src, dst, md, pack)
	if of := new(fs.PathError); errors.As(err, &of) && of.Path == src {
		return redundancy.Unreadable(src, err)
	}
	return err
}

// Fetch is Copy in the other direction: src is stored as md says, and dst becomes the
// file that the program wrote.
func (c *Copier) Fetch(src, dst string, md meta.Meta) error {
	return c.transfer(src, dst, md, func(p *copying) (bool, error) { return c.unpack(p, unpacked{p.out}, md) })
}

// Verify reads a file that is stored as md says, and returns its size before it was
// compressed. A file other than md describes is a *redundancy.CorruptError.
func (c *Copier) Verify(src string, md meta.Meta) (int64, error) {
	in, err := c.Below.Of(src).OpenFile(src, os.O_RDONLY|unix.O_NONBLOCK, 0) // do not wait for a pipe
	if err != nil {
		return 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	switch {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("%s is not a regular file", src)
	}
	p := &copying{c: c, in: in}
	done, err := c.unpack(p, io.Discard, md)
	if err == nil && !done {
		err = p.read(info.Size())
	}
	if err == nil {
		err = p.check(src, md)
	}
	return p.size, err
}

// transfer copies a file by first, or as it is if first returns false.
func (c *Copier) transfer(src, dst string, md meta.Meta, first func(*copying) (bool, error)) error {
	w := c.watch(dst)
	defer w.stop()
	in, err := c.Below.Of(src).OpenFile(src, os.O_RDONLY|unix.O_NONBLOCK, 0) // do not wait for a pipe
	if err != nil {
		return err
	}
	defer in.Close()
	from, err := in.Stat()
	if err == nil && c.Admit != nil {
		err = c.Admit(from)
	}
	if err != nil {
		return &fs.PathError{Op: "read", Path: src, Err: err}
	}
	out, err := c.create(dst, from)
	if err != nil {
		return err
	}
	p := &copying{c: c, in: in, out: out, watch: w}
	done, err := first(p)
	if err == nil && !done {
		err = p.plain(from.Size())
	}
	if err == nil && !c.Bare {
		md.RestoreMode(out.f, c.Below.Of(dst), int(from.Sys().(*syscall.Stat_t).Uid))
	}
	if err == nil {
		err = out.finish()
	}
	if e := out.f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = p.check(src, md)
	}
	if err != nil || c.Bare {
		return err
	}
	// Last, as it says that the file is on its medium: on some file systems the time of a
	// file may be there after a power failure when its bytes are not.
	if !md.RestoreTimes(c.Below.Of(dst), dst) {
		return md.RecordTimes(c.Below.Of(dst), dst)
	}
	if !c.Blind {
		return nil
	}
	return syncTimes(c.Below.Of(dst), dst) // the only evidence of what is in it
}

// syncTimes makes the times of a file durable.
func syncTimes(below trust.Root, path string) error {
	f, err := below.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrPermission) { // its owner may not be allowed to read it
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(trust.Sync(f), f.Close())
}

// plain copies a file of so many bytes as it is. If it has got longer, the rest, too, so that this is noticed.
func (p *copying) plain(size int64) error {
	c := p.c
	var extents sparse.Extents
	var out io.Writer = p.out
	for {
		end := int64(math.MaxInt64)
		if p.size < size {
			if !extents.Known(p.size) {
				if extents.Find(p.in, p.size); extents.Doubtful() {
					out = unpacked{p.out}
				}
			}
			n, hole := extents.Alike(p.size, end-p.size)
			if hole {
				if err := p.hole(n); err != nil {
					return err
				}
				continue
			}
			end = p.size + n
		}
		if c.Blind && p.out.fresh() && !extents.Doubtful() {
			if err := p.throughKernel(end); err != nil {
				return err
			}
			if p.size == end {
				continue
			}
		}
		n, err := p.in.ReadAt(c.buffer[:min(int64(len(c.buffer)), end-p.size)], p.size)
		if n > 0 {
			if _, err := out.Write(c.buffer[:n]); err != nil {
				return err
			}
			if err := p.seen(c.buffer[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
