package redundancy

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/checksum"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/meta"
)

// A redundancy file is a header and a chunk of redundancy data (spec 004).
//
//	header   a hash in the format of a hash file
//	           DSET     / …          the dataset
//	           RANKS    = n          size of the job
//	           GROUP    / RANKS = n  size of the set
//	                      RANK / <rank in the set> / <rank in the job>
//	           CHUNK    = bytes
//	           CURRENT  / RANK, FILES, FILE / <i> / …   the member's own files
//	           PARTNER  / …                             its left neighbour's
//	           BLOCK    = bytes      of which BLOCKCRC has a checksum each
//	           BLOCKCRC = hex        8 digits a block
//	chunk    CHUNK bytes
//
// BLOCK and BLOCKCRC are ours. Checksums are known only when all data has
// been through; since their text has a fixed length, so has the header, and
// it is written last, in the room left for it.
const (
	keyDset     = "DSET"
	keyRanks    = "RANKS"
	keyGroup    = "GROUP"
	keyRank     = "RANK"
	keyChunk    = "CHUNK"
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
		m.At(keyFile).Set(strconv.Itoa(i), f.Meta.Hash)
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
		md := meta.Meta{Hash: m.GetKVInt(keyFile, i)}
		if md.File() == "" || md.Size() < 0 {
			return nil, fmt.Errorf("file %d has no usable name or size", i)
		}
		files[i] = File{filepath.Join(dir, md.File()), md}
	}
	return files, nil
}

// Header is the hash at the start of a redundancy file.
type Header struct{ *hash.Hash }

// NewHeader describes the caller's part of the protection of a dataset by
// chunks of the size given, which are written in blocks.
func NewHeader(j *Job, chunk int64, block int) Header {
	h := Header{hash.New()}
	h.Set(keyDset, j.Dataset.Clone())
	h.SetInt(keyRanks, int64(j.Ranks))
	h.At(keyGroup).SetInt(keyRanks, int64(j.Set.Size()))
	for i, r := range j.Set.Ranks {
		h.At(keyGroup).At(keyRank, strconv.Itoa(i), strconv.Itoa(r))
	}
	h.SetInt(keyChunk, chunk)
	h.SetInt(keyBlock, int64(block))
	return h
}

// Chunk is the size of the chunk in bytes.
func (h Header) Chunk() int64 {
	n, _ := h.Int(keyChunk)
	return n
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

// Partner describes its left neighbour.
func (h Header) Partner() Member { return Member{h.Get(keyPartner)} }

// SetCurrent records the member that writes the file.
func (h Header) SetCurrent(m Member) { h.Set(keyCurrent, m.Hash) }

// PartnerSize is the room that SetPartner takes for a member whose hash has so
// many bytes when packed.
func PartnerSize(packed int) int { return len(keyPartner) + 1 + packed }

// SetPartner records its left neighbour.
func (h Header) SetPartner(m Member) { h.Set(keyPartner, m.Hash) }

// Dataset describes the dataset.
func (h Header) Dataset() dataset.Dataset { return dataset.Dataset{Hash: h.Get(keyDset)} }

// blocks is the number of blocks a chunk has.
func blocks(chunk, block int64) int64 {
	if block == 0 {
		return 0
	}
	return (chunk + block - 1) / block
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
	start  int64 // of the chunk
	header Header
	crcs   []uint32
	err    error
}

// Create begins a redundancy file. header must have its own member set, with
// all it will have but the values of checksums; room is the number of bytes
// that other members' part of it is going to take, packed. Like a Logical, a
// Writer goes on after an error and reports it in the end.
func (j *Job) Create(extension, kind string, header Header, room int) *Writer {
	name := FileName(j.Set, extension)
	w := &Writer{header: header}
	w.crcs = make([]uint32, blocks(header.Chunk(), header.Block()))
	header.setBlockCRCs(w.crcs)
	w.start = int64(header.EncodedSize() + room)
	w.File = File{filepath.Join(j.Dir, name), meta.New(name, kind, j.Ranks)}
	w.Meta.SetSize(w.start + header.Chunk())
	w.err = j.Register(w.File)
	if w.err == nil {
		w.err = os.MkdirAll(filepath.Dir(w.Path), 0o700)
	}
	if w.err == nil && j.Recycle != nil {
		w.err = j.Recycle(w.Path)
	}
	if w.err == nil {
		w.f, w.err = os.OpenFile(w.Path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	}
	return w
}

// WriteBlock stores a block of the chunk. Blocks have the size that the header
// says, except the last.
func (w *Writer) WriteBlock(buf []byte, offset int64) {
	w.crcs[offset/w.header.Block()] = checksum.Update(0, buf)
	if w.err == nil {
		_, w.err = w.f.WriteAt(buf, w.start+offset)
	}
}

// Finish writes the header, with the checksums its members have now, and
// returns the file, or the first error that any call met.
func (w *Writer) Finish() (File, error) {
	if w.f == nil {
		return w.File, w.err
	}
	w.header.setBlockCRCs(w.crcs)
	data := w.header.Encode()
	if int64(len(data)) != w.start && w.err == nil {
		w.err = fmt.Errorf("%s: header of %d bytes in the room of %d", w.Path, len(data), w.start)
	}
	if w.err == nil { // what was there may have been longer
		w.err = w.f.Truncate(w.start + w.header.Chunk())
	}
	if w.err == nil {
		_, w.err = w.f.WriteAt(data, 0)
	}
	crc, left := checksum.Update(0, data), w.header.Chunk()
	for _, block := range w.crcs {
		n := min(left, w.header.Block())
		crc = checksum.Combine(crc, block, n)
		left -= n
	}
	if err := w.f.Close(); w.err == nil {
		w.err = err
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
	f     *os.File
	start int64
	err   error
}

// Open opens a redundancy file and reads its header.
func Open(path string) (*Reader, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		r := &Reader{f: f}
		r.Header.Hash, r.start, err = hash.ReadFrom(f, min(info.Size(), maxHeader))
		if err == nil && (r.Chunk() < 0 || r.start+r.Chunk() != info.Size()) {
			err = fmt.Errorf("%d bytes of header and %d of chunk in %d", r.start, r.Chunk(), info.Size())
		}
		if err == nil {
			return r, nil
		}
	}
	f.Close()
	return nil, &CorruptError{path, err.Error()}
}

// ReadBlock fills buf, which must be a whole block, from offset of the chunk,
// and compares its checksum if there is one. It goes on after an error and
// reports it in Close.
func (r *Reader) ReadBlock(buf []byte, offset int64) {
	n, err := r.f.ReadAt(buf, r.start+offset)
	if n < len(buf) {
		clear(buf[n:])
		r.fail(fmt.Sprintf("byte %d of the chunk: %v", offset, err))
		return
	}
	if r.Block() == 0 {
		return
	}
	want, known := r.blockCRC(offset / r.Block())
	if got := checksum.Update(0, buf); known && got != want {
		r.fail(fmt.Sprintf("block at byte %d of the chunk has checksum 0x%08x, was written with 0x%08x", offset, got, want))
	}
}

func (r *Reader) fail(reason string) {
	if r.err == nil {
		r.err = &CorruptError{r.f.Name(), reason}
	}
}

// Close returns the first error that any call met.
func (r *Reader) Close() error {
	if err := r.f.Close(); r.err == nil {
		r.err = err
	}
	return r.err
}

// VerifyFile reads a redundancy file and compares its checksums.
func VerifyFile(path string, piece int) error {
	r, err := Open(path)
	if err != nil {
		return err
	}
	block := r.Block()
	if block == 0 {
		block = int64(piece)
	}
	buf := make([]byte, min(block, max(r.Chunk(), 1)))
	for at := int64(0); at < r.Chunk() && r.err == nil; at += block {
		r.ReadBlock(buf[:min(block, r.Chunk()-at)], at)
	}
	return r.Close()
}
