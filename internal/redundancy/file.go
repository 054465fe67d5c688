package redundancy

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/checksum"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/meta"
)

// A redundancy file is a header and sections of redundancy data (spec 004).
//
//	header   a hash in the format of a hash file
//	           DSET     / …          the dataset
//	           RANKS    = n          size of the job
//	           GROUP    / RANKS = n  size of the set
//	                      RANK / <rank in the set> / <rank in the job>
//	           CHUNK    = bytes      of a section, where all have the same size
//	           CHUNKS   = k          number of sections, if there is more than one
//	           COPY     / <i> = bytes   of each section, where they are copies of files
//	           CURRENT  / RANK, FILES, FILE / <i> / …   the member's own files
//	           PARTNER  / …                             its left neighbour's
//	           PARTNER2 / …                             and so on, k of them
//	           BLOCK    = bytes      of each section, of which BLOCKCRC has a checksum each
//	           BLOCKCRC = hex        8 digits a block, section by section
//	sections one after the other
//
// CHUNKS, COPY, BLOCK and BLOCKCRC are ours. Checksums are known only when all data has
// been through; since their text has a fixed length, so has the header, and
// it is written last, in the room left for it.
const (
	keyDset     = "DSET"
	keyRanks    = "RANKS"
	keyGroup    = "GROUP"
	keyRank     = "RANK"
	keyChunk    = "CHUNK"
	keyChunks   = "CHUNKS"
	keyCopy     = "COPY"
	keyCurrent  = "CURRENT"
	keyPartner  = "PARTNER"
	keyFiles    = "FILES"
	keyFile     = "FILE"
	keyBlock    = "BLOCK"
	keyBlockCRC = "BLOCKCRC"

	maxHeader = 1 << 30
	minBlock  = 16
	maxBlock  = 1 << 28
)

// Member is the part of a header that describes one member and its files.
type Member struct{ *hash.Hash }

// NewMember describes a member by its rank in the job and its files, in the
// order in which they make its logical file.
func NewMember(rank int, files []File) Member {
	m := Member{hash.New()}
	m.SetInt(keyRank, int64(rank))
	m.SetInt(keyFiles, int64(len(files)))
	for i, f := range files {
		if _, known := f.Meta.CRC(); !known {
			f.Meta.SetCRC(0) // keeps its place
		}
		m.At(keyFile).Set(strconv.Itoa(i), f.Meta.Hash())
	}
	return m
}

// Rank is the member's rank in the job, -1 if it is not recorded.
func (m Member) Rank() int {
	if n, ok := m.Int(keyRank); ok {
		return int(n)
	}
	return -1
}

// Files returns the member's files with the paths they have below dir.
func (m Member) Files(dir string) ([]File, error) {
	n, ok := m.Int(keyFiles)
	if !ok || n < 0 || n != int64(m.Get(keyFile).Size()) {
		return nil, fmt.Errorf("%s files recorded, %d described", m.Text(keyFiles), m.Get(keyFile).Size())
	}
	files := make([]File, n)
	for i := range files {
		md := meta.FromHash(m.GetKVInt(keyFile, i))
		if md.File() == "" || md.Size() < 0 {
			return nil, fmt.Errorf("file %d has no usable name or size", i)
		}
		files[i] = File{filepath.Join(dir, md.File()), md}
	}
	return files, nil
}

// Header is the hash at the start of a redundancy file.
type Header struct{ *hash.Hash }

// NewHeader describes the caller's part of the protection of a dataset, whose
// sections are written in blocks. What they are is set with SetChunks or
// SetCopies.
func NewHeader(j *Job, block int) Header {
	h := Header{hash.New()}
	h.Set(keyDset, j.Dataset.Encode())
	h.SetInt(keyRanks, int64(j.Ranks))
	h.At(keyGroup).SetInt(keyRanks, int64(j.Set.Size()))
	for i, r := range j.Set.Ranks {
		h.At(keyGroup).At(keyRank, strconv.Itoa(i), strconv.Itoa(r))
	}
	h.SetInt(keyBlock, int64(block))
	return h
}

// SetChunks makes the sections n chunks of the size given.
func (h Header) SetChunks(chunk int64, n int) {
	h.SetInt(keyChunk, chunk)
	if n > 1 {
		h.SetInt(keyChunks, int64(n))
	}
}

// SetCopies makes the sections copies of the sizes given.
func (h Header) SetCopies(sizes []int64) {
	for i, size := range sizes {
		h.At(keyCopy).SetInt(strconv.Itoa(i), size)
	}
}

// Chunk is the size of a chunk in bytes.
func (h Header) Chunk() int64 {
	n, _ := h.Int(keyChunk)
	return n
}

// Sections returns the sizes of the sections in bytes.
func (h Header) Sections() []int64 {
	var sizes []int64
	if copies := h.Get(keyCopy); copies != nil {
		for i := range copies.Size() {
			n, _ := copies.Int(strconv.Itoa(i))
			sizes = append(sizes, n)
		}
		return sizes
	}
	n := int64(1)
	if k, ok := h.Int(keyChunks); ok && k > 0 && k < 1<<16 {
		n = k
	}
	for range n {
		sizes = append(sizes, h.Chunk())
	}
	return sizes
}

// Block is the size of the blocks in bytes, 0 if there are no checksums.
func (h Header) Block() int64 {
	if n, ok := h.Int(keyBlock); ok && n >= minBlock && n <= maxBlock {
		return n
	}
	return 0
}

// Current describes the member that wrote the file.
func (h Header) Current() Member { return Member{h.Get(keyCurrent)} }

func partnerKey(d int) string {
	if d == 1 {
		return keyPartner
	}
	return keyPartner + strconv.Itoa(d)
}

// Partner describes the member d to the left.
func (h Header) Partner(d int) Member { return Member{h.Get(partnerKey(d))} }

// SetCurrent records the member that writes the file.
func (h Header) SetCurrent(m Member) { h.Set(keyCurrent, m.Hash) }

// SetPartner records the member d to the left.
func (h Header) SetPartner(d int, m Member) { h.Set(partnerKey(d), m.Hash) }

// Dataset describes the dataset.
func (h Header) Dataset() dataset.Dataset { return dataset.Decode(h.Get(keyDset)) }

// layout is where the sections of a file and their blocks are.
type layout struct {
	block    int64
	sections []section
	size     int64 // of all sections
	blocks   int64 // in all sections
}

type section struct {
	start, size int64 // in the data
	first       int64 // number of its first block
}

// layout works out where everything is. It is an error if that is nowhere, or
// beyond limit bytes.
func (h Header) layout(limit int64) (layout, error) {
	l := layout{block: h.Block()}
	for _, size := range h.Sections() {
		if size < 0 || size > limit-l.size {
			return l, fmt.Errorf("a section of %d bytes in %d", size, limit)
		}
		l.sections = append(l.sections, section{l.size, size, l.blocks})
		l.size += size
		if l.block > 0 {
			l.blocks += (size + l.block - 1) / l.block
		}
	}
	return l, nil
}

func (h Header) blockCRC(i int64) (uint32, bool) {
	text := h.Text(keyBlockCRC)
	if int64(len(text)) < 8*(i+1) {
		return 0, false
	}
	n, err := strconv.ParseUint(text[8*i:8*i+8], 16, 32)
	return uint32(n), err == nil
}

func (h Header) setBlockCRCs(crcs []uint32) {
	text := make([]byte, 0, 8*len(crcs))
	for _, crc := range crcs {
		text = fmt.Appendf(text, "%08x", crc)
	}
	h.SetValue(keyBlockCRC, string(text))
}

// FileName is the name of a member's redundancy file: the member, the set and
// its size can be read off it.
func FileName(s *Set, extension string) string {
	return fmt.Sprintf(".scr/%d_of_%d_in_%d.%s", s.Me()+1, s.Size(), s.ID, extension)
}

// Writer writes a redundancy file.
type Writer struct {
	File
	f      *os.File
	start  int64 // of the data
	header Header
	layout layout
	crcs   []uint32
	over   *overwriter // if the file has its pages already
	err    error
}

// Create begins a redundancy file. header must have its own member set, with
// all it will have but the values of checksums; room is the number of bytes
// that other members' part of it is going to take, packed. Like a Logical, a
// Writer goes on after an error and reports it in the end.
func (j *Job) Create(extension, kind string, header Header, room int) *Writer {
	name := FileName(j.Set, extension)
	w := &Writer{header: header}
	w.layout, _ = header.layout(math.MaxInt64) // of sizes that are our own
	w.crcs = make([]uint32, w.layout.blocks)
	header.setBlockCRCs(w.crcs)
	w.start = int64(header.EncodedSize() + room)
	w.File = File{filepath.Join(j.Dir, name), meta.New(name, kind, j.Ranks)}
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

// open opens the file the first time it is called.
func (w *Writer) open() bool {
	if w.err == nil && w.f == nil {
		w.f, w.err = os.OpenFile(w.Path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if w.err == nil {
			w.over = overwrites(w.f, w.start+w.layout.size)
		}
	}
	return w.err == nil
}

// WriteBlock stores a block of a section. Blocks have the size that the header
// says, except the last of each section.
func (w *Writer) WriteBlock(buf []byte, i int, offset int64) {
	at := w.layout.sections[i]
	w.crcs[at.first+offset/w.layout.block] = checksum.Update(0, buf)
	if !w.open() {
		return
	}
	if place := w.start + at.start + offset; w.over != nil {
		w.err = w.over.write(i, buf, place)
	} else {
		_, w.err = w.f.WriteAt(buf, place)
	}
}

// Finish writes the header, with the checksums its members have now, and
// returns the file, or the first error that any call met.
func (w *Writer) Finish() (File, error) {
	w.header.setBlockCRCs(w.crcs)
	data := w.header.Encode()
	if int64(len(data)) != w.start && w.err == nil {
		w.err = fmt.Errorf("%s: header of %d bytes in the room of %d", w.Path, len(data), w.start)
	}
	if w.over != nil {
		w.over.close()
	}
	if w.open() {
		_, w.err = w.f.WriteAt(data, 0)
	}
	if w.err == nil { // what was there may have been longer
		w.err = w.f.Truncate(w.start + w.layout.size)
	}
	crc := checksum.Update(0, data)
	for _, at := range w.layout.sections {
		for offset := int64(0); offset < at.size; offset += w.layout.block {
			block := w.crcs[at.first+offset/w.layout.block]
			crc = checksum.Combine(crc, block, min(w.layout.block, at.size-offset))
		}
	}
	if w.f != nil {
		if err := w.f.Close(); w.err == nil {
			w.err = err
		}
	}
	w.Meta.SetCRC(crc)
	w.Meta.SetComplete(true)
	if w.err == nil {
		w.err = w.Meta.Record(w.Path)
	}
	return w.File, w.err
}

// Reader reads a redundancy file.
type Reader struct {
	Header
	f       *os.File
	start   int64
	layout  layout
	windows []window // by section
	scratch []byte   // for what cannot be mapped
	err     error
}

// Open opens a redundancy file and reads its header.
func Open(path string) (*Reader, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) // a pipe in its place is not waited for
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("is not a regular file")
	}
	if err == nil {
		r := &Reader{f: f}
		r.Header.Hash, r.start, err = hash.ReadFrom(f, min(info.Size(), maxHeader))
		if err == nil {
			r.layout, err = r.Header.layout(info.Size())
		}
		if err == nil && r.start+r.layout.size != info.Size() {
			err = fmt.Errorf("%d bytes of header and %d of data in %d", r.start, r.layout.size, info.Size())
		}
		if err == nil {
			r.windows = make([]window, len(r.layout.sections))
			return r, nil
		}
	}
	f.Close()
	return nil, &CorruptError{path, err.Error()}
}

// Each passes a whole block of n bytes, from offset of a section, to use, in
// bites with where they begin, which must not keep them. It compares its checksum
// if there is one. It goes on after an error, with zeros for what cannot be read,
// and reports it in Close.
func (r *Reader) Each(i int, offset int64, n int, use func(from int, data []byte)) {
	at := r.layout.sections[i]
	data, err := r.view(i, r.start+at.start+offset, n)
	crc := uint32(0)
	if err == nil {
		err = guard(func() {
			for from := 0; from < n; from += bite {
				part := data[from:min(from+bite, n)]
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
	if want, known := r.blockCRC(at.first + offset/r.layout.block); known && crc != want {
		r.fail(fmt.Sprintf("block at byte %d of section %d has checksum 0x%08x, was written with 0x%08x", offset, i, crc, want))
	}
}

// view returns a part of the file, which is good until the next view of the same
// section.
func (r *Reader) view(i int, at int64, n int) ([]byte, error) {
	w := &r.windows[i]
	if !w.holds(at, n) {
		w.close()
		if r.layout.size >= small {
			w.look(r.f, at, n)
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

// ReadBlock fills buf, which must be a whole block, from offset of a section, as
// Each passes it.
func (r *Reader) ReadBlock(buf []byte, i int, offset int64) {
	r.Each(i, offset, len(buf), func(from int, data []byte) { copy(buf[from:], data) })
}

func (r *Reader) fail(reason string) {
	if r.err == nil {
		r.err = &CorruptError{r.f.Name(), reason}
	}
}

// Close returns the first error that any call met.
func (r *Reader) Close() error {
	for i := range r.windows {
		r.windows[i].close()
	}
	if err := r.f.Close(); r.err == nil {
		r.err = err
	}
	return r.err
}

// Verify reads some sections and compares their checksums.
func (r *Reader) Verify(piece int, sections ...int) {
	block := r.layout.block
	if block == 0 {
		block = int64(piece)
	}
	for _, i := range sections {
		size := r.layout.sections[i].size
		for at := int64(0); at < size && r.err == nil; at += block {
			r.Each(i, at, int(min(block, size-at)), func(int, []byte) {})
		}
	}
}

// VerifyAll reads a member's files, of which those a scheme made are redundancy
// files, and compares their checksums.
func VerifyAll(files []File, piece int) error {
	own, made := Split(files)
	if err := Verify(own, piece); err != nil {
		return err
	}
	for _, f := range made {
		if err := verifyMade(f.Path, piece); err != nil {
			return err
		}
	}
	return nil
}

// verifyMade reads a redundancy file and compares its checksums.
func verifyMade(path string, piece int) error {
	r, err := Open(path)
	if err != nil {
		return err
	}
	for i := range r.layout.sections {
		r.Verify(piece, i)
	}
	return r.Close()
}

// checkCopies compares the sizes of sections that are copies with those of the
// files that they are copies of: who gets a copy awaits as many bytes as its
// files have.
func (h Header) checkCopies() error {
	if h.Get(keyCopy) == nil {
		return nil
	}
	for i, size := range h.Sections() {
		var files int64
		for _, md := range h.Partner(i + 1).Get(keyFile).All() {
			files += max(meta.FromHash(md).Size(), 0)
		}
		if files != size {
			return fmt.Errorf("copy %d has %d bytes, of files with %d", i, size, files)
		}
	}
	return nil
}

// OpenOwn opens a member's redundancy file and finds its other files in the
// order in which they were protected.
func (j *Job) OpenOwn(files []File) (*Reader, []File, error) {
	_, made := Split(files)
	if len(made) != 1 {
		return nil, nil, fmt.Errorf("%d redundancy files where there should be 1", len(made))
	}
	reader, err := Open(made[0].Path)
	if err != nil {
		return nil, nil, err
	}
	own, err := reader.Current().Files(j.Dir)
	if err == nil {
		err = reader.checkCopies()
	}
	if err != nil {
		err = &CorruptError{Path: made[0].Path, Reason: err.Error()}
	}
	return reader, own, err
}
