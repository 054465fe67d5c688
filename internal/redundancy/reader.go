package redundancy

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/sys/checksum"
	"github.com/goscr/goscr/internal/sys/sparse"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Reader reads a redundancy file.
type Reader struct {
	*Header
	scanner scanner
	start   int64 // of the first section: the size of the header
	layout  layout
	extents []sparse.Extents // by section
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
		r := &Reader{scanner: scanner{f: f, size: info.Size()}}
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
			r.extents = make([]sparse.Extents, len(r.layout.sections))
			return r, nil
		}
	}
	f.Close()
	return nil, Unreadable(path, err)
}

// Contents returns the header as a hash, and how many bytes of redundancy data follow it.
func (r *Reader) Contents() (header *hash.Hash, data int64) { return r.encode(), r.layout.size }

// Each reads a whole block, the n bytes at offset in section i, and passes it to use in
// batches: data[0] is byte from of the block. use must not keep data. Each compares the
// block's checksum, if there is one. If the block cannot be read, use gets zeros; Close
// and Failed return the error.
func (r *Reader) Each(i int, offset int64, n int, use func(from int, data []byte)) {
	at := r.layout.sections[i]
	crc := uint32(0)
	err := r.scanner.scan(&r.extents[i], r.start+at.start+offset, n, func(from int, data []byte) {
		if r.layout.block > 0 {
			crc = checksum.Update(crc, data)
		}
		use(from, data)
	})
	if err != nil {
		r.fail(Unreadable(r.Path(), fmt.Errorf("byte %d of section %d: %w", offset, i, err)))
		zeros(0, n, use)
		return
	}
	if r.layout.block == 0 {
		return
	}
	number := at.first + offset/r.layout.block
	if number < int64(len(r.checksums)) && crc != r.checksums[number] {
		r.fail(&CorruptError{r.Path(), fmt.Sprintf("block at byte %d of section %d has checksum 0x%08x, was written with 0x%08x", offset, i, crc, r.checksums[number])})
	}
}

// ReadBlock fills buf, which must have the size of a whole block, with the block at
// offset in section i. It checks it as Each does.
func (r *Reader) ReadBlock(buf []byte, i int, offset int64) {
	r.Each(i, offset, len(buf), func(from int, data []byte) { copy(buf[from:], data) })
}

func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Path returns the path of the file.
func (r *Reader) Path() string { return r.scanner.f.Name() }

// Failed returns the first error of any call so far.
func (r *Reader) Failed() error { return r.err }

// Close closes the file, and returns the first error of any call.
func (r *Reader) Close() error {
	r.scanner.release()
	if err := r.scanner.f.Close(); r.err == nil {
		r.err = err
	}
	return r.err
}

// VerifyMade reads a redundancy file, whose header fits has to accept, and compares its
// checksums, if it has any. It reads piece bytes at a time if the file has no blocks.
func VerifyMade(path string, piece int, fits func(*Header) error) error {
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
