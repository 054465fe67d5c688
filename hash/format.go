package hash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
)

// A packed hash, as messages and files contain it (SCR Developer's
// Manual, "Binary format"). All integers are big-endian.
//
//	packed hash := count:u32  element × count
//	element     := key:bytes NUL  packed hash
//
// A hash file:
//
//	offset  size  field
//	     0     4  magic      0x951fc3f5
//	     4     2  file type  1 = hash
//	     6     2  version    1
//	     8     8  file size  from the first byte of the header to the last of the file
//	    16     4  flags      bit 0: a CRC-32 follows the data
//	    20     …  packed hash
//	   end     4  CRC-32 (IEEE) over everything before it, if flag bit 0 is set
const (
	fileMagic   = 0x951fc3f5
	fileType    = 1
	fileVersion = 1
	flagCRC     = 1

	headerSize = 20
	crcSize    = 4
	// The smallest element is an empty key with an empty hash.
	minElement = 1 + 4
	// Nothing goscr stores is nested deeper than some 10 levels. The bound
	// keeps a hostile file from exhausting the stack.
	maxDepth = 64
)

// ErrCorrupt is wrapped by the error of every read that found bytes which are
// not a hash.
var ErrCorrupt = errors.New("not a valid hash")

func corrupt(offset int, format string, args ...any) error {
	return fmt.Errorf("%w: at byte %d: %s", ErrCorrupt, offset, fmt.Sprintf(format, args...))
}

// PackSize is the number of bytes that Pack appends.
func (h *Hash) PackSize() int {
	size := 4
	if h != nil {
		for _, e := range h.elements {
			size += len(e.key) + 1 + e.child.PackSize()
		}
	}
	return size
}

// Pack appends the packed form of h to buf. Keys are written in sorted order,
// so that equal hashes are equal bytes.
func (h *Hash) Pack(buf []byte) []byte {
	buf = binary.BigEndian.AppendUint32(buf, uint32(h.Size()))
	if h == nil {
		return buf
	}
	elements := h.elements
	if h.index != nil {
		elements = slices.Clone(elements)
		slices.SortFunc(elements, func(a, b element) int { return strings.Compare(a.key, b.key) })
	}
	for i := range elements {
		buf = append(buf, elements[i].key...)
		buf = append(buf, 0)
		buf = elements[i].child.Pack(buf)
	}
	return buf
}

// Unpack reads the packed hash at the start of buf and returns it with the
// number of bytes it took.
func Unpack(buf []byte) (*Hash, int, error) {
	h := New()
	n, err := h.unpack(string(buf), 0, 0)
	if err != nil {
		return nil, 0, err
	}
	return h, n, nil
}

// unpack reads what is packed at a position into h, which is empty, and returns the position after
// it. The keys are parts of text.
func (h *Hash) unpack(text string, at, depth int) (int, error) {
	if depth > maxDepth {
		return 0, corrupt(at, "nested deeper than %d levels", maxDepth)
	}
	if len(text)-at < 4 {
		return 0, corrupt(at, "%d bytes left, a count needs 4", len(text)-at)
	}
	count := int(uint32(text[at])<<24 | uint32(text[at+1])<<16 | uint32(text[at+2])<<8 | uint32(text[at+3]))
	if most := (len(text) - at - 4) / minElement; count > most {
		return 0, corrupt(at, "count %d, but the bytes left hold at most %d elements", count, most)
	}
	at += 4
	made := children{left: count}
	h.grow(count)
	for range count {
		end := strings.IndexByte(text[at:], 0)
		if end < 0 {
			return 0, corrupt(at, "key without an end")
		}
		key := text[at : at+end]
		if h.find(key) >= 0 {
			return 0, corrupt(at, "key %q twice", key)
		}
		child := made.next()
		next, err := child.unpack(text, at+end+1, depth+1)
		if err != nil {
			return 0, err
		}
		h.add(key, child)
		at = next
	}
	return at, nil
}

// EncodedSize is the number of bytes that Encode returns.
func (h *Hash) EncodedSize() int { return headerSize + h.PackSize() + crcSize }

// Encode returns the bytes of a hash file that holds h.
func (h *Hash) Encode() []byte { return h.EncodeWith(nil) }

// EncodeWith is Encode for h with further keys, which h does not have, and whose hashes are packed already.
func (h *Hash) EncodeWith(packed map[string][]byte) []byte {
	size := h.EncodedSize()
	keys := h.Keys()
	for key, child := range packed {
		size += len(key) + 1 + len(child)
		keys = append(keys, key)
	}
	slices.Sort(keys)
	buf := make([]byte, 0, size)
	buf = binary.BigEndian.AppendUint32(buf, fileMagic)
	buf = binary.BigEndian.AppendUint16(buf, fileType)
	buf = binary.BigEndian.AppendUint16(buf, fileVersion)
	buf = binary.BigEndian.AppendUint64(buf, uint64(size))
	buf = binary.BigEndian.AppendUint32(buf, flagCRC)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(keys)))
	for _, key := range keys {
		buf = append(buf, key...)
		buf = append(buf, 0)
		if child, ok := packed[key]; ok {
			buf = append(buf, child...)
		} else {
			buf = h.Get(key).Pack(buf)
		}
	}
	return binary.BigEndian.AppendUint32(buf, crc32.ChecksumIEEE(buf))
}

// Decode reads the bytes of a hash file.
func Decode(buf []byte) (*Hash, error) {
	size, err := checkHeader(buf)
	if err != nil {
		return nil, err
	}
	if size != uint64(len(buf)) {
		return nil, corrupt(8, "file size %d in a file of %d bytes", size, len(buf))
	}
	data := buf
	if binary.BigEndian.Uint32(buf[16:])&flagCRC != 0 {
		if len(buf) < headerSize+4+crcSize {
			return nil, corrupt(len(buf), "too short for its checksum")
		}
		data = buf[:len(buf)-crcSize]
		want, got := binary.BigEndian.Uint32(buf[len(data):]), crc32.ChecksumIEEE(data)
		if want != got {
			return nil, corrupt(len(data), "checksum 0x%08x, contents give 0x%08x", want, got)
		}
	}
	h := New()
	end, err := h.unpack(string(data), headerSize, 0)
	if err != nil {
		return nil, err
	}
	if end != len(data) {
		return nil, corrupt(end, "%d bytes after the hash", len(data)-end)
	}
	return h, nil
}

// ReadFrom reads a hash that stands in the format of a hash file at the start
// of r, as the header of a redundancy file does, and returns it with the
// number of bytes it took. It reads no further than that. A hash that claims
// more than limit bytes is corrupt.
func ReadFrom(r io.Reader, limit int64) (*Hash, int64, error) {
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, 0, ended(0, headerSize, err)
	}
	size, err := checkHeader(head)
	if err != nil {
		return nil, 0, err
	}
	if limit < headerSize || size < headerSize || size > uint64(limit) {
		return nil, 0, corrupt(8, "hash of %d bytes in %d", size, limit)
	}
	buf := make([]byte, size)
	copy(buf, head)
	if _, err := io.ReadFull(r, buf[headerSize:]); err != nil {
		return nil, 0, ended(headerSize, size, err)
	}
	h, err := Decode(buf)
	return h, int64(size), err
}

// ended tells a hash that is cut short from one that cannot be read.
func ended(offset int, size uint64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return corrupt(offset, "ends before its %d bytes", size)
	}
	return err
}

func checkHeader(buf []byte) (size uint64, err error) {
	if len(buf) < headerSize {
		return 0, corrupt(0, "%d bytes, a header has %d", len(buf), headerSize)
	}
	if magic := binary.BigEndian.Uint32(buf); magic != fileMagic {
		return 0, corrupt(0, "magic 0x%08x, want 0x%08x", magic, uint32(fileMagic))
	}
	if t := binary.BigEndian.Uint16(buf[4:]); t != fileType {
		return 0, corrupt(4, "file type %d, want %d", t, fileType)
	}
	if v := binary.BigEndian.Uint16(buf[6:]); v != fileVersion {
		return 0, corrupt(6, "version %d, want %d", v, fileVersion)
	}
	return binary.BigEndian.Uint64(buf[8:]), nil
}
