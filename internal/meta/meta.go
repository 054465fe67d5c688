// Package meta describes one file of a dataset: which rank wrote it, how many
// bytes it has to have and with what checksum, and what else about it must be
// the same when it is rebuilt or fetched (spec 000 §5).
package meta

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
)

// Types of files.
const (
	Full    = "FULL"    // written by the program
	XOR     = "XOR"     // redundancy written by a scheme
	Partner = "PARTNER" // copy of another rank's file
)

// Keys of the fields, as in the original and in spec 002.
const (
	keyFile     = "FILE" // path relative to the dataset's directory
	keyType     = "TYPE"
	keyRanks    = "RANKS" // size of the job that wrote it
	keyOrig     = "ORIG"  // name as the program gave it
	keyPath     = "PATH"  // directory it has in the prefix directory
	keyName     = "NAME"  // last element of its name
	keySize     = "SIZE"
	keyCRC      = "CRC"
	keyComplete = "COMPLETE"

	// Not in the original, which restores contents only.
	keyMode  = "MODE" // permission bits, octal
	keyUID   = "UID"
	keyGID   = "GID"
	keyMtime = "MTIME" // nanoseconds since the epoch
	keyAtime = "ATIME"
)

// Fields of a file that is kept in another form than the program wrote it, which
// in the prefix directory it may be.
const (
	KeyStored     = "STORED"      // how: the name of a method of compression
	KeyStoredSize = "STORED_SIZE" // bytes it has there
	KeyStoredCRC  = "STORED_CRC"  // ... and their checksum
)

// KeyShared is the field of a file that several ranks have written, for all but
// the one of them with whom it is counted.
const KeyShared = "SHARED"

// Meta is the hash that describes a file.
type Meta struct{ *hash.Hash }

// New returns the description of a file that is about to be written. file is
// its path relative to the directory of the dataset.
func New(file, kind string, ranks int) Meta {
	m := Meta{hash.New()}
	m.SetValue(keyFile, file)
	m.SetValue(keyName, filepath.Base(file))
	m.SetValue(keyType, kind)
	m.SetInt(keyRanks, int64(ranks))
	m.SetValue(keyComplete, "0")
	return m
}

// SetOrigin records the name the program gave and the directory that the file
// has in the prefix directory.
func (m Meta) SetOrigin(orig, dir string) {
	m.SetValue(keyOrig, orig)
	m.SetValue(keyPath, dir)
}

// File is the path relative to the directory of the dataset. It is empty
// unless it leads to somewhere below that directory.
func (m Meta) File() string {
	if file := m.Text(keyFile); filepath.IsLocal(file) {
		return file
	}
	return ""
}

// Type is the type of the file.
func (m Meta) Type() string { return m.Text(keyType) }

// SetComplete records whether the file is whole.
func (m Meta) SetComplete(complete bool) {
	m.SetValue(keyComplete, map[bool]string{true: "1", false: "0"}[complete])
}

// Complete reports whether the file was recorded as whole.
func (m Meta) Complete() bool { return m.Text(keyComplete) == "1" }

// Size is the number of bytes the file has to have, -1 if that is not known.
func (m Meta) Size() int64 {
	if n, ok := m.Int(keySize); ok && n >= 0 {
		return n
	}
	return -1
}

// SetSize records the number of bytes.
func (m Meta) SetSize(n int64) { m.SetInt(keySize, n) }

// CRC is the CRC-32 of the contents, if it is known.
func (m Meta) CRC() (uint32, bool) {
	return m.crc(keyCRC)
}

func (m Meta) crc(key string) (uint32, bool) {
	n, err := strconv.ParseUint(m.Text(key), 0, 32)
	return uint32(n), err == nil
}

// SetCRC records the CRC-32 of the contents. Its text always has the same
// length, so that a description can be laid out before the checksum is known.
func (m Meta) SetCRC(crc uint32) { m.SetValue(keyCRC, crcText(crc)) }

func crcText(crc uint32) string { return fmt.Sprintf("0x%08x", crc) }

// Stored is how a file is kept that is not as the program wrote it.
type Stored struct {
	How   string // method of compression
	Size  int64  // bytes
	CRC   uint32 // of these bytes
	NoCRC bool   // which nobody took
}

// Stored says how the file is kept, if that is not as the program wrote it.
func (m Meta) Stored() (s Stored, other bool) {
	s.How, other = m.Value(KeyStored)
	if !other {
		return Stored{}, false
	}
	s.Size = -1
	if n, ok := m.Int(KeyStoredSize); ok {
		s.Size = n
	}
	crc, known := m.crc(KeyStoredCRC)
	s.CRC, s.NoCRC = crc, !known
	return s, true
}

// SetStored records how the file is kept.
func (m Meta) SetStored(s Stored) {
	m.SetAsWritten()
	m.SetValue(KeyStored, s.How)
	m.SetInt(KeyStoredSize, s.Size)
	if !s.NoCRC {
		m.SetValue(KeyStoredCRC, crcText(s.CRC))
	}
}

// SetAsWritten records that the file is kept as the program wrote it.
func (m Meta) SetAsWritten() {
	for _, key := range []string{KeyStored, KeyStoredSize, KeyStoredCRC} {
		m.Unset(key)
	}
}

// Find takes into account how many bytes a file has that may be kept in another
// form: whoever brought it there last may have brought it as it was written. Which
// of the two it is can be told from the size, since the other form is smaller.
func (m Meta) Find(size int64) {
	if s, other := m.Stored(); other && size != s.Size && size == m.Size() {
		m.SetAsWritten()
	}
}

// StoredSize is the number of bytes that the file has where it is kept, -1 if that
// is not known.
func (m Meta) StoredSize() int64 {
	if s, other := m.Stored(); other {
		return s.Size
	}
	return m.Size()
}

// Shared reports whether the file is counted with another rank.
func (m Meta) Shared() bool { return m.Has(KeyShared) }

// Modified is when the file was written last, if that is known.
func (m Meta) Modified() (t time.Time, known bool) {
	ns, known := m.Int(keyMtime)
	return time.Unix(0, ns), known
}

// Record takes size, mode, owner and times from the file at path.
func (m Meta) Record(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is not a regular file", path)
	}
	m.SetSize(st.Size)
	m.SetValue(keyMode, strconv.FormatUint(uint64(st.Mode&0o7777), 8))
	m.SetInt(keyUID, int64(st.Uid))
	m.SetInt(keyGID, int64(st.Gid))
	m.SetInt(keyMtime, st.Mtim.Nano())
	m.SetInt(keyAtime, st.Atim.Nano())
	return nil
}

// Restore gives the file at path the mode, owner and times that were recorded.
// An owner that only root may set is left as it is.
func (m Meta) Restore(path string) error {
	uid, haveUID := m.Int(keyUID)
	gid, haveGID := m.Int(keyGID)
	if haveUID && haveGID {
		if err := os.Lchown(path, int(uid), int(gid)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	// After chown, which clears the set-id bits.
	if mode, err := strconv.ParseUint(m.Text(keyMode), 8, 12); err == nil {
		if err := unix.Fchmodat(unix.AT_FDCWD, path, uint32(mode), 0); err != nil {
			return &fs.PathError{Op: "chmod", Path: path, Err: err}
		}
	}
	mtime, haveMtime := m.Int(keyMtime)
	atime, haveAtime := m.Int(keyAtime)
	if haveMtime && haveAtime {
		return os.Chtimes(path, time.Unix(0, atime), time.Unix(0, mtime))
	}
	return nil
}

// Check says what is wrong with the file at path, judged without reading it:
// that it is there, was recorded as whole, and has its size.
func (m Meta) Check(path string) error { return m.check(path, m.Size()) }

// CheckKept is Check for a file where it may be kept in another form.
func (m Meta) CheckKept(path string) error {
	if info, err := os.Lstat(path); err == nil {
		m.Find(info.Size())
	}
	return m.check(path, m.StoredSize())
}

func (m Meta) check(path string, size int64) error {
	if !m.Complete() {
		return fmt.Errorf("%s was not completed", path)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	if info.Size() != size {
		return fmt.Errorf("%s has %d bytes, should have %d", path, info.Size(), size)
	}
	return nil
}
