// Package meta reads what SCR and goscr record of a file of a dataset: its size, its checksum,
// and whether it was completed.
//
// Filemaps, redundancy files and the lists of a prefix directory hold these records
// (SCR Developer Guide, "Meta data"). Package filemap returns those of a node's cache.
package meta

import (
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
)

// Full is the type of a file that the program has written. Files of another type are
// redundancy files, which have the name of their scheme.
const Full = meta.Full

// File is the record of a file. The zero value records nothing.
type File struct {
	Name     string    // path relative to the directory of the dataset; "" if it would leave that directory
	Type     string    // Full, or the scheme of a redundancy file
	Complete bool      // all of it was written
	Size     int64     // bytes, -1 if it is not recorded
	CRC      uint32    // CRC-32 (IEEE) of the contents, if HasCRC
	HasCRC   bool      // goscr has read the whole file
	Modified time.Time // when it was written last; the zero time if it is not recorded
}

// FromHash returns the record in h; nil is an empty one.
func FromHash(h *hash.Hash) File {
	m := meta.FromHash(h)
	f := File{Name: m.File(), Type: m.Type(), Complete: m.Complete(), Size: m.Size()}
	f.CRC, f.HasCRC = m.CRC()
	f.Modified, _ = m.Modified()
	return f
}

// Check returns an error if the file at path is not there, was not completed, or has not the
// size that is recorded. It does not read the file.
func (f File) Check(path string) error {
	file, err := f.open(path)
	if err != nil {
		return err
	}
	return file.Close()
}

// Verify reads the file at path, and returns an error if it is not what the record says.
// Without a checksum in the record, Verify checks what Check checks.
func (f File) Verify(path string) error {
	file, err := f.open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if !f.HasCRC {
		return nil
	}
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, file); err != nil {
		return err
	}
	if got := sum.Sum32(); got != f.CRC {
		return fmt.Errorf("%s: the contents have the CRC-32 %08x, recorded is %08x", path, got, f.CRC)
	}
	return nil
}

// open opens a file that has the recorded size. It follows no link, and waits for no writer of a pipe.
func (f File) open(path string) (*os.File, error) {
	if !f.Complete {
		return nil, fmt.Errorf("%s %w", path, meta.ErrIncomplete)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("not a regular file")}
	case info.Size() != f.Size:
		err = fmt.Errorf("%s has %d bytes, should have %d", path, info.Size(), f.Size)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
