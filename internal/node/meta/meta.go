// Package meta describes one file of a dataset: its size, its checksum, and other
// properties that it must have again when it is rebuilt or fetched.
//
// A description is stored as a hash in filemaps, redundancy files and the lists of
// the prefix directory. Only this package knows the keys. Unknown keys, which another
// version may have written, stay.
//
//	FILE         path relative to the directory of the dataset
//	NAME         last element of it
//	TYPE         FULL, XOR or PARTNER
//	RANKS        size of the job that wrote it
//	ORIG, PATH   name as the program gave it; directory it has in the prefix directory
//	SIZE, CRC    bytes, and their CRC-32, which is missing as long as goscr has not read the file
//	COMPLETE     1 once it is whole
//	MODE         permission bits, octal                          from here on not in SCR
//	UID, GID, MTIME, ATIME    owner, and times in nanoseconds since the epoch
//	STORED, STORED_SIZE, STORED_CRC    in the prefix directory, of a file that is compressed
//	SHARED       a rank that has written the same file, and with which it is counted
package meta

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/sys/trust"
)

// ErrIncomplete says that a file was not recorded as whole.
var ErrIncomplete = errors.New("was not completed")

// Types of files.
const (
	Full    = "FULL"    // written by the program
	XOR     = "XOR"     // redundancy written by a scheme
	Partner = "PARTNER" // copy of another rank's file
)

const (
	keyFile       = "FILE"
	keyType       = "TYPE"
	keyRanks      = "RANKS"
	keyOrig       = "ORIG"
	keyPath       = "PATH"
	keyName       = "NAME"
	keySize       = "SIZE"
	keyCRC        = "CRC"
	keyComplete   = "COMPLETE"
	keyMode       = "MODE"
	keyUID        = "UID"
	keyGID        = "GID"
	keyMtime      = "MTIME"
	keyAtime      = "ATIME"
	keyStored     = "STORED"
	keyStoredSize = "STORED_SIZE"
	keyStoredCRC  = "STORED_CRC"
	keyShared     = "SHARED"
)

// Meta is the description of a file. Copies of a Meta share the description; Clone
// makes another. The zero value is no description, in which nothing can be recorded.
type Meta struct{ h *hash.Hash }

// FromHash returns the description in h, not a copy.
func FromHash(h *hash.Hash) Meta { return Meta{h} }

// Hash returns the hash with the description, nil if there is none.
func (m Meta) Hash() *hash.Hash { return m.h }

// MarshalHash is Hash.
func (m Meta) MarshalHash() *hash.Hash { return m.h }

// UnmarshalHash is FromHash.
func (m *Meta) UnmarshalHash(h *hash.Hash) { m.h = h }

// IsZero reports whether there is no description.
func (m Meta) IsZero() bool { return m.h == nil }

// Clone returns a copy of the description, an empty one if there is none.
func (m Meta) Clone() Meta { return Meta{m.h.Clone()} }

// New returns the description of a file of redundancy, or of one whose origin is not known, that is about
// to be written. file is its path relative to the directory of the dataset.
func New(file, kind string, ranks int) Meta {
	return Meta{hash.NewValues(keyFile, file, keyName, filepath.Base(file), keyType, kind, keyRanks, strconv.Itoa(ranks), keyComplete, no)}
}

// NewFull returns the description of a file of the program that is about to be written. orig is the name that
// the program gave, and dir the directory that the file has in the prefix directory.
func NewFull(file string, ranks int, orig, dir string) Meta {
	return Meta{hash.NewValues(keyFile, file, keyName, filepath.Base(file), keyType, Full, keyRanks, strconv.Itoa(ranks), keyComplete, no,
		keyOrig, orig, keyPath, dir)}
}

// Label is the path relative to the directory of the dataset as it was recorded,
// unchecked: it is for comparisons and messages.
func (m Meta) Label() string { return m.h.Text(keyFile) }

// File is the path relative to the directory of the dataset. It is empty if it
// would leave that directory.
func (m Meta) File() string {
	if file := m.Label(); filepath.IsLocal(file) {
		return file
	}
	return ""
}

// Type is the type of the file.
func (m Meta) Type() string { return m.h.Text(keyType) }

// SetComplete records whether the file is whole.
func (m Meta) SetComplete(complete bool) {
	value := no
	if complete {
		value = yes
	}
	m.h.SetValue(keyComplete, value)
}

// Values of keyComplete.
const no, yes = "0", "1"

// Complete reports whether the file was recorded as whole.
func (m Meta) Complete() bool { return m.h.Text(keyComplete) == yes }

// Size is the number of bytes of the file, -1 if that is not known.
func (m Meta) Size() int64 {
	if n, ok := m.h.Int(keySize); ok && n >= 0 {
		return n
	}
	return -1
}

// SetSize records the number of bytes.
func (m Meta) SetSize(n int64) { m.h.SetInt(keySize, n) }

// CRC is the CRC-32 of the contents, if it is known.
func (m Meta) CRC() (uint32, bool) {
	return m.crc(keyCRC)
}

func (m Meta) crc(key string) (uint32, bool) {
	n, err := strconv.ParseUint(m.h.Text(key), 0, 32)
	return uint32(n), err == nil
}

// SetCRC records the CRC-32 of the contents. Its text has a fixed length, so that the
// size of a description is known before the checksum.
func (m Meta) SetCRC(crc uint32) { m.h.SetValue(keyCRC, crcText(crc)) }

func crcText(crc uint32) string { return fmt.Sprintf("0x%08x", crc) }

// Stored describes a file that is not stored as the program wrote it.
type Stored struct {
	How   string // method of compression
	Size  int64  // bytes
	CRC   uint32 // of these bytes
	NoCRC bool   // the checksum is not known
}

// Stored says how the file is stored, if that is not as the program wrote it.
func (m Meta) Stored() (s Stored, other bool) {
	s.How, other = m.h.Value(keyStored)
	if !other {
		return Stored{}, false
	}
	s.Size = -1
	if n, ok := m.h.Int(keyStoredSize); ok {
		s.Size = n
	}
	crc, known := m.crc(keyStoredCRC)
	s.CRC, s.NoCRC = crc, !known
	return s, true
}

// SetStored records how the file is stored.
func (m Meta) SetStored(s Stored) {
	m.SetAsWritten()
	m.h.SetValue(keyStored, s.How)
	m.h.SetInt(keyStoredSize, s.Size)
	if !s.NoCRC {
		m.h.SetValue(keyStoredCRC, crcText(s.CRC))
	}
}

// SetAsWritten records that the file is stored as the program wrote it.
func (m Meta) SetAsWritten() {
	for _, key := range []string{keyStored, keyStoredSize, keyStoredCRC} {
		m.h.Unset(key)
	}
}

// Find decides by the size of a file in the prefix directory whether it is compressed,
// as recorded, or was written again as it was: compressed it is smaller.
func (m Meta) Find(size int64) {
	if s, other := m.Stored(); other && size != s.Size && size == m.Size() {
		m.SetAsWritten()
	}
}

// StoredSize is the number of bytes that the file has as stored, -1 if that is not
// known.
func (m Meta) StoredSize() int64 {
	if s, other := m.Stored(); other {
		return s.Size
	}
	return m.Size()
}

// SetShared records that another rank has written the file too, and counts it.
func (m Meta) SetShared(rank int) { m.h.SetInt(keyShared, int64(rank)) }

// SetCounted records that no other rank counts the file.
func (m Meta) SetCounted() { m.h.Unset(keyShared) }

// Shared reports whether the file is counted with another rank.
func (m Meta) Shared() bool { return m.h.Has(keyShared) }

// The keys that identify the contents of a file, and those of its other properties.
var (
	contentKeys = []string{keySize, keyCRC, keyShared, keyStored, keyStoredSize, keyStoredCRC}
	recordKeys  = []string{keyMode, keyUID, keyGID, keyMtime, keyAtime}
)

// CopyContent copies to another description what this one says of the contents: size
// and checksum, how the file is stored, and whether another rank counts it.
func (m Meta) CopyContent(to Meta) { m.copy(to, contentKeys) }

// CopyRecord copies mode, owner and times to another description.
func (m Meta) CopyRecord(to Meta) { m.copy(to, recordKeys) }

func (m Meta) copy(to Meta, keys []string) {
	for _, key := range keys {
		if value, ok := m.h.Value(key); ok {
			to.h.SetValue(key, value)
		}
	}
}

// Recorded reports whether Record has taken mode, owner and times.
func (m Meta) Recorded() bool { return m.h.Text(keyMode) != "" }

// Modified is when the file was written last, if that is known.
func (m Meta) Modified() (t time.Time, known bool) {
	ns, known := m.h.Int(keyMtime)
	return time.Unix(0, ns), known
}

// Record takes size, mode, owner and times from the file at path.
func (m Meta) Record(path string) error { return m.RecordBelow("", path) }

// RecordBelow is Record for a file below a directory.
func (m Meta) RecordBelow(below trust.Root, path string) error {
	info, err := below.Lstat(path)
	if err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	m.SetSize(st.Size)
	m.h.SetValue(keyMode, strconv.FormatUint(uint64(st.Mode&0o7777), 8))
	m.h.SetInt(keyUID, int64(st.Uid))
	m.h.SetInt(keyGID, int64(st.Gid))
	m.recordTimes(info)
	return nil
}

func (m Meta) recordTimes(info fs.FileInfo) {
	m.h.SetInt(keyMtime, info.ModTime().UnixNano())
	m.h.SetInt(keyAtime, time.Unix(info.Sys().(*syscall.Stat_t).Atim.Unix()).UnixNano())
}

// Check checks, without reading it, that the file at path exists, was recorded as
// whole, and has its size.
func (m Meta) Check(path string) error { return m.check("", path, m.Size()) }

// CheckBelow is Check for a file below a directory.
func (m Meta) CheckBelow(below trust.Root, path string) error { return m.check(below, path, m.Size()) }

// CheckStored is Check for a file below a directory that may be compressed.
func (m Meta) CheckStored(below trust.Root, path string) error {
	if info, err := below.Lstat(path); err == nil {
		m.Find(info.Size())
	}
	return m.check(below, path, m.StoredSize())
}

func (m Meta) check(below trust.Root, path string, size int64) error {
	if !m.Complete() {
		return fmt.Errorf("%s %w", path, ErrIncomplete)
	}
	info, err := below.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	if info.Size() != size {
		return fmt.Errorf("%s %s", path, WrongSize(info.Size(), size))
	}
	return nil
}

// WrongSize says that a file has another size than its description has.
func WrongSize(got, want int64) string {
	text := fmt.Sprintf("has %d bytes, should have %d", got, want)
	if got > want {
		text += ": it was written to after its dataset was completed, perhaps because the program closed it later"
	}
	return text
}
