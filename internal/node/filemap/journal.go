package filemap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/sys/descriptors"
	"github.com/goscr/goscr/internal/sys/trust"
)

// A filemap on disk is a hash file and a journal. The hash file is replaced as a
// whole, which for a rank with 10,000 files takes long; so files that are registered
// one by one are appended to the journal, each with one write, and enter the hash
// file when the dataset completes.
//
// The journal of filemap_0.scrinfo is filemap_0.scrinfo.<n>.journal, where n is the
// value of JOURNAL in the hash file. Fold writes a hash file that names journal n+1,
// so that a process killed at any instant leaves either the old file and all of its
// journal, or the new file and a journal that is not read any more.
//
//	record := length:u32  crc:u32  packed hash of length bytes      big-endian
//
// The hash is a filemap with one file, whose description is left out unless the file
// is complete: files that are not are only ever deleted. The CRC-32 is that of the
// packed hash. A process that was killed may leave part of a record at the end; the
// file that it names was not made.
const (
	keyJournal       = "JOURNAL"
	recordHeader     = 8
	journalExtension = ".journal"
)

// Store is a Map that is kept on disk.
type Store struct {
	Map

	path    string
	number  int64
	good    int64 // bytes of the journal with valid records
	journal *os.File
	record  record // scratch
	// disk is what hash file and journal hold, nil if that is not known. A run that
	// changes nothing writes nothing: the storage may be full.
	disk *hash.Hash
}

// record is a filemap with one file, in memory and packed.
type record struct {
	h        hash.Hash
	id, rank int
	files    *hash.Hash // of the rank's dataset
	packed   []byte     // with the header
}

// set makes the record that of a file. Those of one dataset differ in the file only.
func (r *record) set(id, rank int, path string, md meta.Meta) []byte {
	if r.files == nil || r.id != id || r.rank != rank {
		r.h.UnsetAll()
		r.id, r.rank = id, rank
		r.files = r.h.At(keyRank, strconv.Itoa(rank), keyDataset, strconv.Itoa(id), keyFile)
	}
	file := r.files.At(path)
	if md.Complete() {
		file.Set(keyMeta, md.Hash())
	}
	r.packed = append(r.packed[:0], make([]byte, recordHeader)...)
	r.packed = r.h.Pack(r.packed)
	r.files.Unset(path)
	data := r.packed[recordHeader:]
	binary.BigEndian.PutUint32(r.packed, uint32(len(data)))
	binary.BigEndian.PutUint32(r.packed[4:], crc32.ChecksumIEEE(data))
	return r.packed
}

// OpenStore reads the filemap at path with its journal. If there is none it begins
// an empty one, which is on disk after the first Fold or AddFile.
func OpenStore(path string) (*Store, error) {
	s := &Store{path: path}
	h, err := hash.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.Map = *FromHash(h)
	s.number, _ = h.Int(keyJournal)
	data, err := readJournal(s.journalPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s.replay(data)
	s.disk = s.Map.Hash().Clone()
	return s, nil
}

// readJournal reads a journal. Another user may read it, so it must be a regular file.
func readJournal(path string) ([]byte, error) {
	f, err := trust.Root("").OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	return io.ReadAll(f)
}

func (s *Store) journalPath() string { return s.journalOf(s.number) }

func (s *Store) journalOf(number int64) string {
	return s.path + "." + strconv.FormatInt(number, 10) + journalExtension
}

// replay enters the files of all valid records, and records where these end.
func (s *Store) replay(data []byte) {
	for len(data) >= recordHeader {
		length := int(binary.BigEndian.Uint32(data))
		crc := binary.BigEndian.Uint32(data[4:])
		data = data[recordHeader:]
		if length > len(data) || crc32.ChecksumIEEE(data[:length]) != crc {
			return
		}
		h, _, err := hash.Unpack(data[:length])
		if err != nil {
			return
		}
		s.enter(FromHash(h))
		s.good += int64(recordHeader + length)
		data = data[length:]
	}
}

// enter enters the files of a record, in place of entries of the same files.
func (s *Store) enter(record *Map) {
	for _, id := range record.Datasets() {
		for _, rank := range record.Ranks(id) {
			for _, path := range record.Files(id, rank) {
				s.Map.AddFile(id, rank, path, record.Meta(id, rank, path))
			}
		}
	}
}

// AddFile enters a file and returns once the entry is in the journal. It takes
// the same time for the first file and the ten-thousandth.
func (s *Store) AddFile(id, rank int, path string, md meta.Meta) error {
	if s.journal == nil {
		if err := s.begin(); err != nil {
			return err
		}
	}
	data := s.record.set(id, rank, path, md)
	// A record that was written in part is overwritten by the next.
	if _, err := s.journal.WriteAt(data, s.good); err != nil {
		return err
	}
	s.good += int64(len(data))
	s.disk = nil
	s.Map.AddFile(id, rank, path, md)
	return nil
}

// Sync makes all entries durable against a failure of the machine.
func (s *Store) Sync() error {
	if s.journal == nil {
		return nil
	}
	return trust.Sync(s.journal)
}

// begin opens the journal, below a hash file that names it.
func (s *Store) begin() error {
	if _, err := os.Lstat(s.path); errors.Is(err, fs.ErrNotExist) {
		if err := s.Fold(); err != nil {
			return err
		}
	}
	f, err := descriptors.OpenFile(s.journalPath(), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := f.Truncate(s.good); err != nil {
		f.Close()
		return err
	}
	s.journal = f
	return nil
}

// Fold writes the whole map to its hash file, and begins a new journal; unless nothing
// has changed since OpenStore.
func (s *Store) Fold() error {
	if s.disk != nil && s.disk.Equal(s.Map.Hash()) {
		return nil
	}
	s.disk = nil
	old := s.journalPath()
	// An earlier filemap of this name may have left a journal of the next number.
	if err := os.Remove(s.journalOf(s.number + 1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.Map.Hash().SetInt(keyJournal, s.number+1)
	err := hash.WriteFile(s.path, s.Map.Hash())
	s.Map.Hash().Unset(keyJournal)
	if err != nil {
		return fmt.Errorf("filemap: %w", err)
	}
	s.number++
	s.good = 0
	if s.journal != nil {
		s.journal.Close()
		s.journal = nil
	}
	if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Remake writes a filemap again that may be gone from the disk, or of which a part is.
func (s *Store) Remake() error {
	s.disk = nil
	return s.Fold()
}

// New reports whether there is no filemap on disk yet.
func (s *Store) New() bool {
	_, err := os.Lstat(s.path)
	return errors.Is(err, fs.ErrNotExist)
}

// Close closes the journal. The files stay.
func (s *Store) Close() error {
	if s.journal == nil {
		return nil
	}
	f := s.journal
	s.journal = nil
	return f.Close()
}

// RemoveStore deletes the filemap at path and its journals.
func RemoveStore(path string) error {
	s, err := OpenStore(path)
	if err == nil {
		err = os.Remove(s.journalPath())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, hash.ErrCorrupt) {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// JournalPattern matches the names of journals in a control directory.
const JournalPattern = Pattern + ".*" + journalExtension

// Journals returns the paths of all journals of the filemap at path.
func Journals(path string) []string {
	entries, _ := os.ReadDir(filepath.Dir(path)) // none can be read if the directory cannot
	var found []string
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		if _, err := strconv.ParseInt(strings.TrimSuffix(number, journalExtension), 10, 64); ok && err == nil && strings.HasSuffix(number, journalExtension) {
			found = append(found, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return found
}

// OldJournal reports whether the journal at path is not read any more: its filemap is
// gone or names another. It must not be asked while the filemap may change.
func OldJournal(path string) bool {
	path = strings.TrimSuffix(path, journalExtension)
	dot := strings.LastIndexByte(path, '.')
	n, err := strconv.ParseInt(path[dot+1:], 10, 64)
	if dot < 0 || err != nil {
		return false
	}
	h, err := hash.ReadFile(path[:dot])
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	current, _ := h.Int(keyJournal)
	return err == nil && n != current
}
