package redundancy

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/checksum"
	"github.com/goscr/goscr/internal/trust"
)

// Reader reads a redundancy file.
type Reader struct {
	*Header
	f       *os.File
	start   int64 // of the first section: the size of the header
	layout  layout
	windows []window // by section
	scratch []byte   // for a file that is not mapped
	err     error
}

// Open opens a redundancy file and reads its header. The error is a *CorruptError if the
// header cannot be read, or does not match the size of the file.
func Open(path string) (*Reader, error) {
	f, err := trust.Around(path).OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // if it is a pipe, do not wait for a writer
	if err != nil {
		return nil, Unreadable(path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("is not a regular file")
	}
	if err == nil {
		r := &Reader{f: f}
		var header *hash.Hash
		header, r.start, err = hash.ReadFrom(f, min(info.Size(), maxHeader))
		if err == nil {
			r.Header, err = decodeHeader(header)
		}
		if err == nil {
			r.layout, err = r.Header.layout(info.Size())
		}
		if err == nil && r.start+r.layout.size != info.Size() {
			err = fmt.Errorf("has a header of %d bytes and sections of %d, but %d bytes in all", r.start, r.layout.size, info.Size())
		}
		if err == nil {
			r.windows = make([]window, len(r.layout.sections))
			return r, nil
		}
	}
	f.Close()
	return nil, &CorruptError{path, err.Error()}
}

// Each reads a whole block, the n bytes at offset in section i, and passes it to use in
// batches: data[0] is byte from of the block. use must not keep data. Each compares the
// block's checksum, if there is one. If the block cannot be read, use gets zeros; Close
// and Failed return the error.
func (r *Reader) Each(i int, offset int64, n int, use func(from int, data []byte)) {
	at := r.layout.sections[i]
	data, err := r.view(i, r.start+at.start+offset, n)
	crc := uint32(0)
	if err == nil {
		err = guard(func() {
			for from := 0; from < n; from += batch {
				part := data[from:min(from+batch, n)]
				if r.layout.block > 0 {
					crc = checksum.Update(crc, part)
				}
				use(from, part)
			}
		})
	}
	if err != nil {
		r.fail(fmt.Sprintf("byte %d of section %d: %v", offset, i, err))
		use(0, make([]byte, n))
		return
	}
	if r.layout.block == 0 {
		return
	}
	number := at.first + offset/r.layout.block
	if number < int64(len(r.checksums)) && crc != r.checksums[number] {
		r.fail(fmt.Sprintf("block at byte %d of section %d has checksum 0x%08x, was written with 0x%08x", offset, i, crc, r.checksums[number]))
	}
}

// view returns the n bytes at offset at of the file, for section i. They are valid until
// the next view.
func (r *Reader) view(i int, at int64, n int) ([]byte, error) {
	w := &r.windows[i]
	if !w.holds(at, n) {
		w.close()
		if r.layout.size >= small {
			w.mapForReading(r.f, at, n)
		}
	}
	if w.data != nil {
		return w.data[at-w.at:][:n], nil
	}
	if len(r.scratch) < n {
		r.scratch = make([]byte, n)
	}
	_, err := r.f.ReadAt(r.scratch[:n], at)
	return r.scratch[:n], err
}

// ReadBlock fills buf, which must have the size of a whole block, with the block at
// offset in section i. It checks it as Each does.
func (r *Reader) ReadBlock(buf []byte, i int, offset int64) {
	r.Each(i, offset, len(buf), func(from int, data []byte) { copy(buf[from:], data) })
}

func (r *Reader) fail(reason string) {
	if r.err == nil {
		r.err = &CorruptError{r.f.Name(), reason}
	}
}

// Path returns the path of the file.
func (r *Reader) Path() string { return r.f.Name() }

// Failed returns the first error of any call so far.
func (r *Reader) Failed() error { return r.err }

// Close closes the file, and returns the first error of any call.
func (r *Reader) Close() error {
	for i := range r.windows {
		r.windows[i].close()
	}
	if err := r.f.Close(); r.err == nil {
		r.err = err
	}
	return r.err
}

// verifyMade reads a redundancy file, whose header fits has to accept, and compares its
// checksums. It reads piece bytes at a time if the file has no blocks.
func verifyMade(path string, piece int, fits func(*Header) error) error {
	r, err := Open(path)
	if err != nil {
		return err
	}
	if err := fits(r.Header); err != nil {
		return errors.Join(&CorruptError{path, err.Error()}, r.Close())
	}
	block := r.layout.block
	if block == 0 {
		block = int64(piece)
	}
	for i, at := range r.layout.sections {
		for offset := int64(0); offset < at.size && r.err == nil; offset += block {
			r.Each(i, offset, int(min(block, at.size-offset)), func(int, []byte) {})
		}
	}
	return r.Close()
}
