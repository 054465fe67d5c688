package transfer

import (
	"fmt"
	"io"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/checksum"
	"github.com/goscr/goscr/internal/sys/compress"
)

// probe is the number of bytes at the beginning of a file that decide whether it is
// compressed.
const probe = 512 << 10

// leastGain is the fraction by which they must get smaller: less does not justify the
// time to compress and to decompress.
const leastGain = 1.0 / 16

// pack copies and compresses a file, and reports whether it has done so; if not,
// nothing was copied.
func (c *Copier) pack(p *copying, md meta.Meta) (bool, error) {
	if !c.Compress.On() || p.out.whole(md) {
		return false, nil
	}
	if c.packer == nil {
		var err error
		if c.packer, err = c.Compress.NewWriter(); err != nil {
			return false, err
		}
	}
	shrinks, err := c.shrinks(p)
	if err != nil || !shrinks {
		return false, err
	}
	to := &counted{to: p.out, blind: c.Blind}
	c.packer.Reset(to)
	if err := p.pour(c.packer, io.NewSectionReader(p.in, 0, 1<<62)); err != nil {
		return false, err
	}
	if err := c.packer.Close(); err != nil {
		return false, err
	}
	if to.size >= p.size { // the rest did not get smaller
		p.size, p.crc = 0, 0
		return false, p.out.rewind()
	}
	md.SetStored(meta.Stored{How: c.Compress.Name, Size: to.size, CRC: to.crc, NoCRC: c.Blind})
	return true, nil
}

// whole reports whether a file with the size and time of the uncompressed file is there
// already. Its bytes are compared like those of any earlier copy.
func (t *target) whole(md meta.Meta) bool {
	info, err := t.f.Stat()
	when, known := md.Modified()
	return err == nil && t.regular && t.had > 0 && t.had == md.Size() && known && when.Equal(info.ModTime())
}

// shrinks reports whether the beginning of a file gets smaller by leastGain.
func (c *Copier) shrinks(p *copying) (bool, error) {
	begin := make([]byte, probe)
	n, err := p.in.ReadAt(begin, 0)
	if err != nil && err != io.EOF {
		return false, err
	}
	return float64(c.packer.Size(begin[:n])) < float64(n)*(1-c.gain), nil
}

// counted counts bytes written to a writer or read from a reader, and takes their
// checksum.
type counted struct {
	to    io.Writer
	from  io.Reader
	size  int64
	crc   uint32
	blind bool
	err   error // of the reader, other than its end
}

func (w *counted) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.count(p[:n])
	return n, err
}

func (w *counted) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	w.count(p[:n])
	if err != io.EOF {
		w.err = err
	}
	return n, err
}

func (w *counted) count(p []byte) {
	w.size += int64(len(p))
	if !w.blind {
		w.crc = checksum.Update(w.crc, p)
	}
}

// unpack decompresses a file while it copies it, and reports whether the file was
// compressed; if not, nothing was copied.
func (c *Copier) unpack(p *copying, to io.Writer, md meta.Meta) (bool, error) {
	info, err := p.in.Stat()
	if err != nil {
		return false, err
	}
	md.Find(info.Size())
	s, other := md.Stored()
	if !other {
		return false, nil
	}
	corrupt := func(format string, args ...any) (bool, error) {
		return false, &redundancy.CorruptError{Path: p.in.Name(), Reason: fmt.Sprintf(format, args...)}
	}
	if info.Size() != s.Size || md.Size() < 0 {
		return corrupt("has %d bytes, was stored with %d", info.Size(), s.Size)
	}
	if c.unpacker == nil || c.unpacks != s.How {
		if c.unpacker, err = compress.NewReader(s.How); err != nil {
			return corrupt("%v", err)
		}
		c.unpacks = s.How
	}
	from := &counted{from: p.in, blind: c.Blind}
	r := &unpacking{from: from, c: c, path: p.in.Name(), left: md.Size()}
	if err := r.begin(); err != nil {
		return false, err
	}
	if err := p.pour(to, r); err != nil {
		return false, err
	}
	if !c.Blind && !s.NoCRC && from.crc != s.CRC {
		return corrupt("checksum 0x%08x as it is stored, was stored with 0x%08x", from.crc, s.CRC)
	}
	return true, nil
}

// unpacking decompresses a file while it is read, up to the recorded size. Any error of
// decompression is an error of that file.
type unpacking struct {
	from *counted
	c    *Copier
	path string
	left int64
}

func (r *unpacking) begin() error { return r.of(r.c.unpacker.Reset(r.from)) }

func (r *unpacking) Read(p []byte) (int, error) {
	n, err := r.c.unpacker.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, &redundancy.CorruptError{Path: r.path, Reason: "has more in it than was compressed"}
	}
	return n, r.of(err)
}

func (r *unpacking) of(err error) error {
	switch {
	case err == nil || err == io.EOF:
		return err
	case r.from.err != nil:
		return r.from.err
	}
	return &redundancy.CorruptError{Path: r.path, Reason: fmt.Sprintf("cannot be decompressed: %v", err)}
}
