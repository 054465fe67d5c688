package redundancy

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/sys/checksum"
	"github.com/goscr/goscr/internal/sys/sparse"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Logical is the concatenation of a rank's files, in the order given, followed by
// any number of zeros (SCR Developer Guide, "XOR"). Callers divide it into columns,
// numbered in the order of their offsets, and read them in turn, each sequentially. The
// CRC-32 of a file is combined from those of its parts in the columns, so that no byte is
// read twice.
//
// Holes are not read, and pages of zeros not written: a file that is rebuilt takes no more room than before. If the
// process has few file descriptors left, one is enough.
//
// If a file cannot be read, a Logical returns zeros for it, because the other members
// of the set wait for data from this one; Close returns the error.
type Logical struct {
	files   []File
	starts  []int64 // offset of each file
	size    int64   // sum of the sizes of the files
	write   bool
	open    map[int]*os.File
	recent  []int             // open files, the most recently used one last
	columns map[int64]*column // by number
	scanner scanner
	behind  bool            // Job.Behind
	pace    func(int) error // Job.Pace
	err     error
}

// column is what is known of a column after what has been read or written of it.
type column struct {
	parts   []part
	extents sparse.Extents // of the file of the last part, if it is read
}

// part is the CRC-32 of consecutive bytes of one file that are in one column.
type part struct {
	file int
	crc  uint32
	size int64
}

// maxOpen limits the number of open files: a rank may have more files than descriptors.
const maxOpen = 64

// OpenLogical returns the files for reading.
func OpenLogical(files []File) *Logical { return newLogical(files, false) }

// openLogical returns a member's files for Encode.
func (j *Job) openLogical(files []File) *Logical {
	l := OpenLogical(files)
	l.behind, l.pace = j.Behind, j.Pace
	return l
}

// CreateLogical returns the files for writing. It creates the files and their
// directories, and replaces existing files.
func CreateLogical(files []File) *Logical {
	l := newLogical(files, true)
	for i, f := range files {
		err := f.Below.MkdirAll(filepath.Dir(f.Path), 0o700)
		if err == nil {
			err = f.Below.Remove(f.Path)
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
		files: files, write: write, open: map[int]*os.File{}, columns: map[int64]*column{},
	}
	for _, f := range files {
		l.starts = append(l.starts, l.size)
		l.size += max(f.Meta.Size(), 0)
	}
	return l
}

// Size returns the sum of the sizes of the files in bytes.
func (l *Logical) Size() int64 { return l.size }

func (l *Logical) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// file returns file i, and opens it if it is not open. If too many are open, it closes
// the least recently used one.
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
	flags := os.O_RDONLY | unix.O_NONBLOCK // if it is a pipe, do not wait for a writer
	if l.write {
		flags = os.O_RDWR | os.O_CREATE
	}
	f, err := openFile(l.behind, l.files[i], flags)
	for scarce(err) && len(l.recent) > 0 { // the program may have used up the descriptors
		if err := l.closeOldest(); err != nil {
			return nil, err
		}
		f, err = openFile(l.behind, l.files[i], flags)
	}
	if err != nil {
		return nil, err
	}
	l.open[i] = f
	l.recent = append(l.recent, i)
	return f, nil
}

// openFile opens a file. While the C interface runs a call, it holds the descriptors 0 to 2 anyway.
func openFile(behind bool, f File, flags int) (*os.File, error) {
	if behind || f.Below != "" {
		return f.Below.OpenFile(f.Path, flags, 0o600)
	}
	return os.OpenFile(f.Path, flags|unix.O_NOFOLLOW, 0o600)
}

func (l *Logical) closeOldest() error {
	oldest := l.recent[0]
	l.recent = l.recent[1:]
	f := l.open[oldest]
	delete(l.open, oldest)
	return f.Close()
}

// scarce reports whether an error means that the process or the system has run out of a
// resource, and not that the file is damaged.
func scarce(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// Unreadable returns the error to report for a file that cannot be read: a *CorruptError,
// unless a resource is scarce, when a later attempt may succeed. It gives the cause.
func Unreadable(path string, err error) error {
	if scarce(err) {
		return err
	}
	var call *fs.PathError
	if errors.As(err, &call) {
		return &CorruptError{path, unread + call.Err.Error()}
	}
	if errors.As(err, new(syscall.Errno)) || errors.As(err, new(*trust.LinkError)) {
		return &CorruptError{path, unread + err.Error()}
	}
	return &CorruptError{path, err.Error()}
}

// span calls do for each file that overlaps the n bytes from offset. length bytes
// overlap; the first of them is byte from of the n bytes, and byte at of file i. span
// returns how many of the n bytes are in files.
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

// Each reads the n bytes from offset and passes them to use in batches: data[0] is byte
// from of the n bytes. use must not keep data. Each returns how many of the n bytes are
// in files; the rest, to which use is not applied, is padding. Calls for different
// columns may alternate. Those for one column must read it from its beginning to its
// end without gaps.
func (l *Logical) Each(offset int64, n int, column int64, use func(from int, data []byte)) (covered int) {
	return l.span(offset, n, func(i, from, length int, at int64) {
		l.pass(column, i, at, length, func(within int, data []byte) { use(from+within, data) })
	})
}

// Read fills buf from offset. Padding is zeros. Columns are read as by Each.
func (l *Logical) Read(buf []byte, offset, column int64) {
	covered := l.Each(offset, len(buf), column, func(from int, data []byte) { copy(buf[from:], data) })
	clear(buf[covered:])
}

// pass reads length bytes at offset at of file i, adds them to the checksum of the
// column, and passes them to use in batches: data[0] is byte from of the length bytes.
// use must not keep data. If the file cannot be read, use gets zeros. With a pace, nothing is read any more
// after an error: the result is of no use, and the others only wait for the exchange to end.
func (l *Logical) pass(column int64, i int, at int64, length int, use func(from int, data []byte)) {
	if l.pace != nil && l.err != nil {
		zeros(0, length, use)
		return
	}
	p := l.part(column, i)
	f, err := l.file(i)
	if err == nil {
		l.scanner.f, l.scanner.size = f, l.files[i].Meta.Size()
		err = l.scanner.scan(&l.columns[column].extents, at, length, func(from int, data []byte) {
			p.add(data)
			use(from, data)
		})
	}
	if err != nil {
		l.fail(Unreadable(l.files[i].Path, err))
		zeros(0, length, use)
	}
	if l.pace != nil {
		if err := l.pace(length); err != nil {
			l.fail(err)
		}
	}
}

// part returns the part of a column that ends with the next byte of it, which is in file i.
func (l *Logical) part(number int64, i int) *part {
	c := l.columns[number]
	if c == nil {
		c = &column{}
		l.columns[number] = c
	}
	if n := len(c.parts); n == 0 || c.parts[n-1].file != i {
		*c = column{parts: append(c.parts, part{file: i})}
	}
	return &c.parts[len(c.parts)-1]
}

func (p *part) add(data []byte) {
	p.crc = checksum.Update(p.crc, data)
	p.size += int64(len(data))
}

// Write stores buf at offset, except the bytes that are past the end of the files.
func (l *Logical) Write(buf []byte, offset, column int64) {
	l.span(offset, len(buf), func(i, from, length int, at int64) {
		data := buf[from : from+length]
		l.part(column, i).add(data)
		f, err := l.file(i)
		skipped := false
		if err == nil {
			skipped, err = sparse.Write(f, data, at, 0)
		}
		if size := l.files[i].Meta.Size(); err == nil && skipped && at+int64(length) == size {
			err = f.Truncate(size)
		}
		if err != nil {
			l.fail(err)
		}
	})
}

// Checksums returns the CRC-32 of each file. All of it must have been read or written.
func (l *Logical) Checksums() []uint32 {
	crcs := make([]uint32, len(l.files))
	for _, number := range slices.Sorted(maps.Keys(l.columns)) {
		for _, p := range l.columns[number].parts {
			crcs[p.file] = checksum.Combine(crcs[p.file], p.crc, p.size)
		}
	}
	return crcs
}

// Matches compares the checksums with those recorded in the files' descriptions, and
// returns a *CorruptError for the first file that differs.
func (l *Logical) Matches() error {
	for i, crc := range l.Checksums() {
		if want, known := l.files[i].Meta.CRC(); known && crc != want {
			return &CorruptError{l.files[i].Path, fmt.Sprintf("checksum 0x%08x, was written with 0x%08x", crc, want)}
		}
	}
	return nil
}

// Close closes the files, and sets the recorded mode, owner and times of those that were
// written. It returns the first error of any call.
func (l *Logical) Close() error {
	l.Release()
	if l.write && l.err == nil {
		for _, f := range l.files {
			if err := f.Meta.Restore(f.Below, f.Path); err != nil {
				l.fail(err)
			}
		}
	}
	return l.err
}

// Release closes the files, if they are open.
func (l *Logical) Release() {
	l.scanner.release()
	for i, f := range l.open {
		if err := f.Close(); err != nil {
			l.fail(err)
		}
		delete(l.open, i)
	}
	l.recent = nil
}

// readAll reads files from beginning to end, piece bytes at a time. It returns the closed
// Logical, which has the checksums.
func readAll(l *Logical, piece int) (*Logical, error) {
	files := l.files
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

// checksums reads the files of a member and returns the CRC-32 of each.
func (j *Job) checksums(files []File) ([]uint32, error) {
	l, err := readAll(j.openLogical(files), j.Piece)
	return l.Checksums(), err
}

// Verify reads the files, piece bytes at a time, and compares their checksums with those
// recorded. It returns a *CorruptError for the first file that differs. It leaves out files
// that are counted with another rank, which verifies them.
func Verify(files []File, piece int) error {
	l, err := readAll(OpenLogical(Counted(files)), piece)
	if err != nil {
		return err
	}
	return l.Matches()
}
