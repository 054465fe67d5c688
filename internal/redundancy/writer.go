package redundancy

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/sys/checksum"
	"github.com/goscr/goscr/internal/sys/sparse"
)

// fileName returns the name of the caller's redundancy file, relative to the directory
// of the dataset: it contains the number of the member from 1, the size of the set, and
// the set's id.
func fileName(s *Set, extension string) string {
	return fmt.Sprintf(".scr/%d_of_%d_in_%d.%s", s.Me()+1, s.Size(), s.ID, extension)
}

// Made returns the caller's redundancy file, without its size. scheme is the value of TYPE in a
// descriptor.
func (j *Job) Made(scheme string) File {
	name := fileName(j.Set, strings.ToLower(scheme))
	return File{Path: filepath.Join(j.Dir, name), Meta: meta.New(name, scheme, j.Ranks)}
}

// Writer writes a redundancy file.
type Writer struct {
	File
	f       *os.File
	start   int64 // of the first section: the space for the header
	header  *Header
	members descriptions
	layout  layout
	had     int64 // bytes of a recycled file
	behind  bool  // Job.Behind
	err     error
}

// newWriter returns a Writer of the caller's redundancy file. header must be complete, except for the values of checksums,
// and members must have the sizes of the descriptions of members. After an error a Writer ignores what it is given, and
// Finish returns the error.
func (j *Job) newWriter(scheme string, header *Header, members descriptions) *Writer {
	w := &Writer{header: header, members: members, behind: j.Behind}
	w.layout, _ = header.layout(math.MaxInt64) // fails only for sizes read from a damaged file
	header.checksums = make([]uint32, w.layout.blocks)
	w.start = int64(header.fields().EncodedSize() + members.size())
	w.File = j.Made(scheme)
	w.Meta.SetSize(w.start + w.layout.size)
	w.err = j.Register(w.File)
	if w.err == nil {
		w.err = os.MkdirAll(filepath.Dir(w.Path), 0o700)
	}
	if w.err == nil && j.Recycle != nil {
		w.err = j.Recycle(w.Path)
	}
	return w
}

// open opens the file the first time it is called, and reports whether there was no
// error so far.
func (w *Writer) open() bool {
	if w.err == nil && w.f == nil {
		w.f, w.err = openFile(w.behind, w.File, os.O_RDWR|os.O_CREATE)
		if w.err == nil {
			w.had, w.err = w.f.Seek(0, io.SeekEnd)
		}
	}
	return w.err == nil
}

// WriteBlock stores the block at offset in section i. buf must have the size of a block
// in the header, or of the rest of the section if that is less.
func (w *Writer) WriteBlock(buf []byte, i int, offset int64) {
	at := w.layout.sections[i]
	w.header.checksums[at.first+offset/w.layout.block] = checksum.Update(0, buf)
	if w.open() {
		_, w.err = sparse.Write(w.f, buf, w.start+at.start+offset, w.had)
	}
}

// Finish writes the header, in which the checksums and the descriptions of all members
// are complete by now, and closes the file. It returns the file, or the first error of
// any call.
func (w *Writer) Finish() (File, error) {
	data := w.header.fields().EncodeWith(w.members)
	if int64(len(data)) != w.start && w.err == nil {
		w.err = fmt.Errorf("%s: the header has %d bytes, there is space for %d", w.Path, len(data), w.start)
	}
	if w.open() {
		_, w.err = w.f.WriteAt(data, 0)
	}
	if w.err == nil { // a recycled file may be longer, and one with zeros at its end shorter
		w.err = w.f.Truncate(w.start + w.layout.size)
	}
	crc := checksum.Update(0, data)
	for _, at := range w.layout.sections {
		for offset := int64(0); offset < at.size; offset += w.layout.block {
			block := w.header.checksums[at.first+offset/w.layout.block]
			crc = checksum.Combine(crc, block, min(w.layout.block, at.size-offset))
		}
	}
	if w.f != nil {
		if err := w.f.Close(); w.err == nil {
			w.err = err
		}
		w.f = nil
	}
	w.Meta.SetCRC(crc)
	w.Meta.SetComplete(true)
	if w.err == nil {
		w.err = w.Meta.Record(w.Path)
	}
	return w.File, w.err
}

// release closes the file if an error or a panic has passed Finish by. Until then a file that is deleted
// takes its room.
func (w *Writer) release() {
	if w.f != nil {
		_ = w.f.Close() // what was written is of no use
		w.f = nil
	}
}
