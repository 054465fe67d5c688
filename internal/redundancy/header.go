package redundancy

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/meta"
)

// A redundancy file is a header and sections of redundancy data.
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
// SCR Developer Guide, "XOR", has the header of XOR files; CHUNKS, COPY, BLOCK and
// BLOCKCRC are ours.
// Checksums are known only when all data has been read; their text has a fixed
// length, and so has the header, which is written last into the room left for it.
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

	maxHeader   = 1 << 30
	minBlock    = 16
	maxBlock    = 1 << 28
	maxSections = 1 << 16
)

// Header describes what a redundancy file holds.
type Header struct {
	Dataset dataset.Dataset
	Ranks   int       // size of the job
	Members []int     // of the set, by their ranks in the job
	Current Member    // whose file it is
	Left    []*Member // the members to its left, the nearest first; nil: not described

	Chunk  int64   // bytes of each section, where they are chunks
	Chunks int     // number of chunks
	Copies []int64 // bytes of each section, where they are copies of the files of Left

	Block     int64    // bytes of a block, which has one checksum; 0: no checksums
	checksums []uint32 // of the blocks, section by section, as far as they are known
}

// Member describes a member of a set and its files, in the order in which they
// make its logical file.
type Member struct {
	Rank  int // in the job, -1 if it is not recorded
	Files []meta.Meta
}

// NewMember describes a member by its rank in the job and its files.
func NewMember(rank int, files []File) Member {
	m := Member{Rank: rank}
	for _, f := range files {
		if _, known := f.Meta.CRC(); !known {
			f.Meta.SetCRC(0) // keeps its place
		}
		m.Files = append(m.Files, f.Meta)
	}
	return m
}

// In returns the member's files with their paths below dir.
func (m Member) In(dir string) []File {
	files := make([]File, len(m.Files))
	for i, md := range m.Files {
		files[i] = File{filepath.Join(dir, md.File()), md}
	}
	return files
}

// Size is the number of bytes of the member's files.
func (m Member) Size() int64 {
	var total int64
	for _, md := range m.Files {
		total += max(md.Size(), 0)
	}
	return total
}

// encode returns the member's part of a header.
func (m Member) encode() *hash.Hash {
	h := hash.New()
	h.SetInt(keyRank, int64(m.Rank))
	h.SetInt(keyFiles, int64(len(m.Files)))
	for i, md := range m.Files {
		h.At(keyFile).Set(strconv.Itoa(i), md.Hash())
	}
	return h
}

// decodeMember decodes the result of encode. Every file has a size, and a name that
// stays within the directory of the dataset.
func decodeMember(h *hash.Hash) (Member, error) {
	m := Member{Rank: -1}
	if n, ok := h.Int(keyRank); ok {
		m.Rank = int(n)
	}
	if n, ok := h.Int(keyFiles); !ok || n < 0 || n != int64(h.Get(keyFile).Size()) {
		return m, fmt.Errorf("%s files recorded, %d described", h.Text(keyFiles), h.Get(keyFile).Size())
	}
	for i := range h.Get(keyFile).Size() {
		md := meta.FromHash(h.GetKVInt(keyFile, i))
		if md.File() == "" || md.Size() < 0 {
			return m, fmt.Errorf("file %d has no usable name or size", i)
		}
		m.Files = append(m.Files, md)
	}
	return m, nil
}

// newHeader describes the caller's part of the protection of a dataset. The scheme
// lays out its sections.
func newHeader(j *Job, current Member) *Header {
	return &Header{Dataset: j.Dataset, Ranks: j.Ranks, Members: j.Set.Ranks, Current: current}
}

// Sections returns the sizes of the sections in bytes.
func (h *Header) Sections() []int64 {
	if h.Copies != nil {
		return h.Copies
	}
	sizes := make([]int64, h.Chunks)
	for i := range sizes {
		sizes[i] = h.Chunk
	}
	return sizes
}

func partnerKey(d int) string {
	if d == 1 {
		return keyPartner
	}
	return keyPartner + strconv.Itoa(d)
}

// encode returns the header as it is in the file.
func (h *Header) encode() *hash.Hash {
	x := hash.New()
	x.Set(keyDset, h.Dataset.Encode())
	x.SetInt(keyRanks, int64(h.Ranks))
	x.At(keyGroup).SetInt(keyRanks, int64(len(h.Members)))
	for i, r := range h.Members {
		x.At(keyGroup).At(keyRank, strconv.Itoa(i), strconv.Itoa(r))
	}
	if h.Copies == nil {
		x.SetInt(keyChunk, h.Chunk)
		if h.Chunks > 1 {
			x.SetInt(keyChunks, int64(h.Chunks))
		}
	}
	for i, size := range h.Copies {
		x.At(keyCopy).SetInt(strconv.Itoa(i), size)
	}
	x.Set(keyCurrent, h.Current.encode())
	for i, m := range h.Left {
		if m != nil {
			x.Set(partnerKey(i+1), m.encode())
		}
	}
	x.SetInt(keyBlock, h.Block)
	text := make([]byte, 0, 8*len(h.checksums))
	for _, crc := range h.checksums {
		text = fmt.Appendf(text, "%08x", crc)
	}
	x.SetValue(keyBlockCRC, string(text))
	return x
}

// decodeHeader decodes the result of encode. A header whose parts contradict each
// other is an error.
func decodeHeader(x *hash.Hash) (*Header, error) {
	h := &Header{Dataset: dataset.Decode(x.Get(keyDset))}
	ranks, _ := x.Int(keyRanks)
	h.Ranks = int(ranks)
	var err error
	if h.Members, err = decodeGroup(x.Get(keyGroup), h.Ranks); err != nil {
		return nil, err
	}
	if h.Current, err = decodeMember(x.Get(keyCurrent)); err != nil {
		return nil, err
	}
	for d := 1; d < len(h.Members); d++ {
		var left *Member
		if p := x.Get(partnerKey(d)); p != nil {
			m, err := decodeMember(p)
			if err != nil {
				return nil, fmt.Errorf("the member %d to the left: %w", d, err)
			}
			left = &m
		}
		h.Left = append(h.Left, left)
	}
	if err := h.decodeSections(x); err != nil {
		return nil, err
	}
	if n, ok := x.Int(keyBlock); ok && n >= minBlock && n <= maxBlock {
		h.Block = n
	}
	for text := x.Text(keyBlockCRC); len(text) >= 8; text = text[8:] {
		crc, err := strconv.ParseUint(text[:8], 16, 32)
		if err != nil {
			return nil, fmt.Errorf("a block has checksum %q", text[:8])
		}
		h.checksums = append(h.checksums, uint32(crc))
	}
	return h, nil
}

// decodeGroup returns the ranks in the job of the members of a set.
func decodeGroup(group *hash.Hash, total int) ([]int, error) {
	n, _ := group.Int(keyRanks)
	members := group.Get(keyRank)
	if n < 1 || n != int64(members.Size()) {
		return nil, fmt.Errorf("a set of %s members, of which %d are listed", group.Text(keyRanks), members.Size())
	}
	ranks := make([]int, n)
	seen := map[int]bool{}
	for m := range ranks {
		rank, ok := members.Int(strconv.Itoa(m))
		if !ok || rank < 0 || rank >= int64(total) || seen[int(rank)] {
			return nil, fmt.Errorf("member %d of the set is rank %q of %d", m, members.Text(strconv.Itoa(m)), total)
		}
		ranks[m] = int(rank)
		seen[int(rank)] = true
	}
	return ranks, nil
}

// decodeSections reads the layout of the sections. A copy must have the size of the
// files that it is a copy of: the member that recovers them awaits as many bytes as
// its files have.
func (h *Header) decodeSections(x *hash.Hash) error {
	copies := x.Get(keyCopy)
	for i := range copies.Size() {
		size, ok := copies.Int(strconv.Itoa(i))
		var files int64
		if i < len(h.Left) && h.Left[i] != nil {
			files = h.Left[i].Size()
		}
		if !ok || files != size {
			return fmt.Errorf("copy %d has %q bytes, of files with %d", i, copies.Text(strconv.Itoa(i)), files)
		}
		h.Copies = append(h.Copies, size)
	}
	if copies != nil {
		return nil
	}
	h.Chunk, _ = x.Int(keyChunk)
	h.Chunks = 1
	if k, ok := x.Int(keyChunks); ok && k > 0 && k < maxSections {
		h.Chunks = int(k)
	}
	return nil
}

// layout holds the positions of the sections of a file and of their blocks.
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

// layout computes the layout. An impossible one, or one beyond limit bytes, is an
// error.
func (h *Header) layout(limit int64) (layout, error) {
	l := layout{block: h.Block}
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
