package redundancy

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// A redundancy file is a header and sections of redundancy data.
//
//	header   a hash in the format of a hash file
//	           DSET     / …          the dataset
//	           RANKS    = n          size of the job
//	           GROUP    / RANKS = n  size of the set
//	                      RANK / <rank in the set> / <rank in the job>
//	           CHUNK    = bytes      size of a section, if sections are chunks
//	           CHUNKS   = k          number of sections, if there is more than one
//	           COPY     / <i> = bytes   size of section i, if sections are copies of files
//	           CURRENT  / RANK, FILES, FILE / <i> / …   the member's own files
//	           PARTNER  / …                             the files of its left neighbour
//	           PARTNER2 / …                             ... of the next one, and so on, k in all
//	           BLOCK    = bytes      size of the blocks into which each section is divided
//	           BLOCKCRC = hex        CRC-32 of each block, 8 digits each, section by section
//	sections one after the other
//
// The header of XOR files is that of SCR (SCR Developer Guide, "XOR"). CHUNKS, COPY,
// BLOCK and BLOCKCRC are additions of goscr.
// The checksums are known only when all data has been read. Their text has a fixed
// length, so the length of the header is known before: space is left for it at the
// beginning of the file, and it is written last.
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

// Header is the header of a redundancy file.
type Header struct {
	Dataset dataset.Dataset
	Ranks   int       // size of the job
	Members []int     // ranks in the job of the members of the set
	Current Member    // the member that the file belongs to
	Left    []*Member // its neighbours to the left, the nearest first; nil: not described

	Chunk  int64   // bytes of each section, if sections are chunks
	Chunks int     // number of chunks
	Copies []int64 // bytes of each section, if sections are copies of the files of Left; else nil

	Block     int64    // bytes of a block, which has one checksum; 0: no checksums
	checksums []uint32 // CRC-32 of blocks, section by section; 0 for blocks not yet written
}

// Member describes a member of a set and its files, in the order in which its logical
// file contains them.
type Member struct {
	Rank  int // in the job; -1 if it is not recorded
	Files []meta.Meta
}

// NewMember describes a member by its rank in the job and its files.
func NewMember(rank int, files []File) Member {
	m := Member{Rank: rank}
	for _, f := range files {
		if _, known := f.Meta.CRC(); !known {
			f.Meta.SetCRC(0) // so that the header has its final length, see spaceFor
		}
		m.Files = append(m.Files, f.Meta)
	}
	return m
}

// In returns the member's files with their paths below dir.
func (m Member) In(dir string) []File {
	files := make([]File, len(m.Files))
	for i, md := range m.Files {
		files[i] = File{Path: filepath.Join(dir, md.File()), Meta: md}
	}
	return files
}

// Size returns the sum of the sizes of the member's files in bytes.
func (m Member) Size() int64 {
	var total int64
	for _, md := range m.Files {
		total += max(md.Size(), 0)
	}
	return total
}

// encode returns the hash that describes the member in a header.
func (m Member) encode() *hash.Hash {
	h := hash.New()
	h.SetInt(keyRank, int64(m.Rank))
	h.SetInt(keyFiles, int64(len(m.Files)))
	for i, md := range m.Files {
		h.At(keyFile).Set(strconv.Itoa(i), md.Hash())
	}
	return h
}

// decodeMember decodes the result of encode. It is an error if a file has no size, or no
// name that is below the directory of the dataset.
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

// newHeader returns the header of the caller's redundancy file, without the layout of
// its sections, which the scheme's LayOut or LayOutLost sets.
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

// partnerKey returns the key of the neighbour d places to the left.
func partnerKey(d int) string {
	if d == 1 {
		return keyPartner
	}
	return keyPartner + strconv.Itoa(d)
}

// encode returns the header's hash in the file.
func (h *Header) encode() *hash.Hash {
	x := h.fields()
	x.Set(keyCurrent, h.Current.encode())
	for i, m := range h.Left {
		if m != nil {
			x.Set(partnerKey(i+1), m.encode())
		}
	}
	return x
}

// fields returns what encode does, without the descriptions of members.
func (h *Header) fields() *hash.Hash {
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
	x.SetInt(keyBlock, h.Block)
	text := make([]byte, 0, 8*len(h.checksums))
	for _, crc := range h.checksums {
		text = fmt.Appendf(text, "%08x", crc)
	}
	x.SetValue(keyBlockCRC, string(text))
	return x
}

// decodeHeader decodes the result of encode. It returns an error if the fields of the
// header contradict each other.
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
				return nil, fmt.Errorf("neighbour %d to the left: %w", d, err)
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
			return nil, fmt.Errorf("%q is not the checksum of a block", text[:8])
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
		return nil, fmt.Errorf("the set has %q members, and %d are listed", group.Text(keyRanks), members.Size())
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
// files of which it is a copy, because the member that recovers these files waits for
// that number of bytes.
func (h *Header) decodeSections(x *hash.Hash) error {
	copies := x.Get(keyCopy)
	for i := range copies.Size() {
		size, ok := copies.Int(strconv.Itoa(i))
		var files int64
		if i < len(h.Left) && h.Left[i] != nil {
			files = h.Left[i].Size()
		}
		if !ok || files != size {
			return fmt.Errorf("copy %d has %q bytes, the files have %d", i, copies.Text(strconv.Itoa(i)), files)
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

// layout has the positions of the sections of a file and of their blocks.
type layout struct {
	block    int64 // bytes of a block
	sections []section
	size     int64 // bytes of all sections
	blocks   int64 // number of blocks in all sections
}

type section struct {
	start, size int64 // bytes, start from the end of the header
	first       int64 // number of its first block
}

// layout computes the layout. It returns an error if a section has a negative size, or
// all sections together have more than limit bytes.
func (h *Header) layout(limit int64) (layout, error) {
	l := layout{block: h.Block}
	for _, size := range h.Sections() {
		if size < 0 || size > limit-l.size {
			return l, fmt.Errorf("a section has %d bytes, the file %d", size, limit)
		}
		l.sections = append(l.sections, section{l.size, size, l.blocks})
		l.size += size
		if l.block > 0 {
			l.blocks += (size + l.block - 1) / l.block
		}
	}
	return l, nil
}
