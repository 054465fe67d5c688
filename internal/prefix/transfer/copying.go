package transfer

import (
	"fmt"
	"io"
	"math"
	"os"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/checksum"
	"github.com/goscr/goscr/internal/sys/sparse"
)

// copying is a file while it is copied, or only read.
type copying struct {
	c   *Copier
	in  *os.File
	out *target

	watch watch

	size int64 // of what the program wrote, so far
	crc  uint32
}

// seen adds bytes that the program wrote to size and checksum.
func (p *copying) seen(data []byte) error {
	if !p.c.Blind {
		p.crc = checksum.Update(p.crc, data)
	}
	return p.done(len(data))
}

func (p *copying) done(n int) error {
	p.size += int64(n)
	if p.c.Step != nil && n > 0 {
		p.watch.stop() // it may rest
		if err := p.c.Step(n); err != nil {
			return err
		}
	}
	p.watch.progress()
	return nil
}

// pour copies the bytes that the program wrote from in to out.
func (p *copying) pour(out io.Writer, in io.Reader) error {
	for {
		n, err := in.Read(p.c.buffer)
		if n > 0 {
			if _, err := out.Write(p.c.buffer[:n]); err != nil {
				return err
			}
			if err := p.seen(p.c.buffer[:n]); err != nil {
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

// read reads the bytes of a file, which has so many, as far as they are no holes. If it has got longer, it reads
// the rest, too.
func (p *copying) read(size int64) error {
	var extents sparse.Extents
	for p.size < size {
		extents.Find(p.in, p.size)
		n, hole := extents.Alike(p.size, size-p.size)
		if hole {
			if err := p.hole(n); err != nil {
				return err
			}
			continue
		}
		end := p.size + n
		if err := p.pour(io.Discard, io.NewSectionReader(p.in, p.size, n)); err != nil || p.size < end {
			return err
		}
	}
	return p.pour(io.Discard, io.NewSectionReader(p.in, p.size, math.MaxInt64-p.size))
}

// hole puts n zeros in place, which need not be read. They count as copied like all others.
func (p *copying) hole(n int64) error {
	const piece = 8 << 20
	for n > 0 {
		some := min(n, piece)
		if p.out != nil {
			var err error
			if some, err = p.out.zeros(some); err != nil {
				return err
			}
		}
		if !p.c.Blind {
			p.crc = checksum.Zeros(p.crc, some)
		}
		if err := p.done(int(some)); err != nil {
			return err
		}
		n -= some
	}
	return nil
}

// check compares the copy with its description, and completes the description.
func (p *copying) check(src string, md meta.Meta) error {
	if want := md.Size(); want >= 0 && want != p.size {
		return &redundancy.CorruptError{Path: src, Reason: meta.WrongSize(p.size, want)}
	}
	if want, known := md.CRC(); known && want != p.crc && !p.c.Blind {
		return &redundancy.CorruptError{Path: src, Reason: fmt.Sprintf("checksum 0x%08x, was written with 0x%08x", p.crc, want)}
	}
	md.SetSize(p.size)
	if !p.c.Blind {
		md.SetCRC(p.crc)
	}
	return nil
}
