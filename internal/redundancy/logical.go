package redundancy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/checksum"
)

// Logical is the concatenation of a rank's files, in the order given, followed by
// any number of zeros (SCR Developer Guide, "XOR"). Encoding reads its columns at
// the same time, each from its beginning to its end. The CRC-32 of a file is
// combined from the CRC-32 of its parts in the columns, so no byte is read twice.
//
// Files are read through a mapping (window.go).
//
// One file descriptor is enough.
//
// A Logical that cannot read a file goes on with zeros, since the other
// members wait for its part, and reports the error in Close.
type Logical struct {
	files   []File
	starts  []int64 // offset of each file
	size    int64
	write   bool
	open    map[int]*os.File
	recent  []int // files that are open, the one used last at the end
	windows map[int64]*window
	parts   map[int64][]part
	scratch []byte // for what cannot be mapped
	err     error
}

// part is the CRC-32 of a part of one file that was read in sequence.
type part struct {
	file int
	crc  uint32
	size int64
}

// maxOpen bounds the open files: a rank may have more files than descriptors.
const maxOpen = 64

// OpenLogical returns the files for reading.
func OpenLogical(files []File) *Logical { return newLogical(files, false) }

// CreateLogical returns the files for writing. They are made at once, with
// their directories, in place of what was there.
func CreateLogical(files []File) *Logical {
	l := newLogical(files, true)
	for i, f := range files {
		err := os.MkdirAll(filepath.Dir(f.Path), 0o700)
		if err == nil {
			err = os.Remove(f.Path)
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			_, err = l.file(i)
		}
		if err != nil {
			l.fail(err)
			break
		}
	}
	return l
}

func newLogical(files []File, write bool) *Logical {
	l := &Logical{
		files: files, write: write, open: map[int]*os.File{}, windows: map[int64]*window{}, parts: map[int64][]part{},
	}
	for _, f := range files {
		l.starts = append(l.starts, l.size)
		l.size += max(f.Meta.Size(), 0)
	}
	return l
}

// Size is the sum of the sizes of the files in bytes.
func (l *Logical) Size() int64 { return l.size }

func (l *Logical) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// file returns an open file, and closes the least recently used one if too many are
// open.
func (l *Logical) file(i int) (*os.File, error) {
	if f := l.open[i]; f != nil {
		for k, r := range l.recent {
			if r == i {
				l.recent = append(append(l.recent[:k], l.recent[k+1:]...), i)
				break
			}
		}
		return f, nil
	}
	if len(l.recent) == maxOpen {
		if err := l.closeOldest(); err != nil {
			return nil, err
		}
	}
	flags := os.O_RDONLY | unix.O_NOFOLLOW
	if l.write {
		flags = os.O_RDWR | os.O_CREATE | unix.O_NOFOLLOW
	}
	f, err := os.OpenFile(l.files[i].Path, flags, 0o600)
	for scarce(err) && len(l.recent) > 0 { // other code in the process may use up descriptors
		if err := l.closeOldest(); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(l.files[i].Path, flags, 0o600)
	}
	if err != nil {
		return nil, err
	}
	l.open[i] = f
	l.recent = append(l.recent, i)
	return f, nil
}

func (l *Logical) closeOldest() error {
	oldest := l.recent[0]
	l.recent = l.recent[1:]
	f := l.open[oldest]
	delete(l.open, oldest)
	return f.Close()
}

// scarce reports whether an error means that the machine lacks a resource, and not
// that the file is damaged.
func scarce(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// Unreadable is the error of a file that cannot be read, which counts as corrupt
// unless a later attempt may succeed.
func Unreadable(path string, err error) error {
	if scarce(err) {
		return err
	}
	return &CorruptError{path, err.Error()}
}

// span calls do for each file with bytes among the n from offset: its part begins
// at from in them and at at in the file. It returns how many of the n bytes the
// files cover.
func (l *Logical) span(offset int64, n int, do func(i, from, length int, at int64)) int {
	covered := 0
	// The first file that ends after offset.
	i := sort.Search(len(l.files), func(i int) bool { return l.starts[i]+max(l.files[i].Meta.Size(), 0) > offset })
	for ; i < len(l.files) && covered < n; i++ {
		at := offset + int64(covered) - l.starts[i]
		length := int(min(max(l.files[i].Meta.Size(), 0)-at, int64(n-covered)))
		if length > 0 {
			do(i, covered, length, at)
			covered += length
		}
	}
	return covered
}

// Each passes the n bytes from offset to use, in parts that begin at from. It
// returns how many of them the files cover; the rest is padding. Columns are read
// at the same time; the calls for one column must follow each other without gaps
// from its beginning to its end.
func (l *Logical) Each(offset int64, n int, column int64, use func(from int, data []byte)) (covered int) {
	return l.span(offset, n, func(i, from, length int, at int64) {
		l.pass(column, i, at, length, func(within int, data []byte) { use(from+within, data) })
	})
}

// Read fills buf from offset.
func (l *Logical) Read(buf []byte, offset, column int64) {
	covered := l.Each(offset, len(buf), column, func(from int, data []byte) { copy(buf[from:], data) })
	clear(buf[covered:])
}

// batch is the number of bytes that are processed at a time: they stay in the
// processor's nearest cache between the checksum and use.
const batch = 16 << 10

// pass takes the checksum of a part of a file and passes it to use, which must not
// keep it, in batches that begin at from. Bytes that cannot be read become zeros.
func (l *Logical) pass(column int64, i int, at int64, length int, use func(from int, data []byte)) {
	data, err := l.view(column, i, at, length)
	if err == nil {
		err = guard(func() {
			for from := 0; from < length; from += batch {
				part := data[from:min(from+batch, length)]
				l.addChecksum(column, i, part)
				use(from, part)
			}
		})
	}
	if err != nil {
		l.fail(Unreadable(l.files[i].Path, err))
		use(0, make([]byte, length))
	}
}

// readFile fills buf from a file.
func (l *Logical) readFile(i int, buf []byte, at int64) error {
	f, err := l.file(i)
	n := 0
	if err == nil {
		n, err = f.ReadAt(buf, at)
	}
	if n == len(buf) {
		return nil
	}
	if err == io.EOF {
		err = fmt.Errorf("ends at byte %d of %d", at+int64(n), l.files[i].Meta.Size())
	}
	return err
}

// Write stores buf at offset, and drops padding past the end of the files.
func (l *Logical) Write(buf []byte, offset, column int64) {
	l.span(offset, len(buf), func(i, from, length int, at int64) {
		data := buf[from : from+length]
		l.addChecksum(column, i, data)
		f, err := l.file(i)
		if err == nil {
			_, err = f.WriteAt(data, at)
		}
		if err != nil {
			l.fail(err)
		}
	})
}

func (l *Logical) addChecksum(column int64, i int, data []byte) {
	parts := l.parts[column]
	if n := len(parts); n == 0 || parts[n-1].file != i {
		l.parts[column] = append(parts, part{i, checksum.Update(0, data), int64(len(data))})
		return
	}
	p := &parts[len(parts)-1]
	p.crc = checksum.Update(p.crc, data)
	p.size += int64(len(data))
}

// Checksums returns the CRC-32 of each file, once all of it has been read or written.
func (l *Logical) Checksums() []uint32 {
	var columns []int64
	for c := range l.parts {
		columns = append(columns, c)
	}
	sort.Slice(columns, func(a, b int) bool { return columns[a] < columns[b] })
	crcs := make([]uint32, len(l.files))
	for _, c := range columns {
		for _, p := range l.parts[c] {
			crcs[p.file] = checksum.Combine(crcs[p.file], p.crc, p.size)
		}
	}
	return crcs
}

// Matches compares the checksums with those recorded and returns a
// *CorruptError for the first file that differs.
func (l *Logical) Matches() error {
	for i, crc := range l.Checksums() {
		if want, known := l.files[i].Meta.CRC(); known && crc != want {
			return &CorruptError{l.files[i].Path, fmt.Sprintf("checksum 0x%08x, was written with 0x%08x", crc, want)}
		}
	}
	return nil
}

// Close closes the files, and gives those that were written their recorded mode,
// owner and times. It returns the first error of any call.
func (l *Logical) Close() error {
	for _, w := range l.windows {
		w.close()
	}
	for _, f := range l.open {
		if err := f.Close(); err != nil {
			l.fail(err)
		}
	}
	if l.write && l.err == nil {
		for _, f := range l.files {
			if err := f.Meta.Restore(f.Path); err != nil {
				l.fail(err)
			}
		}
	}
	return l.err
}

// readAll reads the files from beginning to end.
func readAll(files []File, piece int) (*Logical, error) {
	l := OpenLogical(files)
	for i, f := range files {
		size := max(f.Meta.Size(), 0)
		if size == 0 { // only its existence is checked
			if _, err := l.file(i); err != nil {
				l.fail(Unreadable(f.Path, err))
			}
		}
		for at := int64(0); at < size && l.err == nil; at += int64(piece) {
			l.pass(0, i, at, int(min(int64(piece), size-at)), func(int, []byte) {})
		}
	}
	return l, l.Close()
}

// checksums reads the files and returns their checksums.
func checksums(files []File, piece int) ([]uint32, error) {
	l, err := readAll(files, piece)
	return l.Checksums(), err
}

// Verify reads the files and compares their checksums with those recorded.
func Verify(files []File, piece int) error {
	l, err := readAll(files, piece)
	if err != nil {
		return err
	}
	return l.Matches()
}
