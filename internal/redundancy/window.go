package redundancy

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/sys/sparse"
)

// A window maps a part of a file into memory: the part around the current position in a
// column of a Logical, or in a section of a redundancy file. It saves one copy of the
// bytes. It is small, because mapped pages count as memory of the program.
type window struct {
	file    int   // index in Logical.files
	at      int64 // offset of data in the file, a multiple of the page size
	data    []byte
	extents sparse.Extents // pages of a hole are not touched: on a RAM disk they would be allocated
}

// windowSize is large enough that mapping costs little per byte.
const windowSize = 1 << 20

func (w *window) close() {
	if len(w.data) > 0 {
		_ = unix.Munmap(w.data) // fails only for unmapped memory
		w.data = nil
	}
}

// view returns the first n of length bytes at offset at of file i, for a column: data, which is valid until
// the next view, or nil for a hole.
func (l *Logical) view(column int64, i int, at int64, length int) (data []byte, n int, err error) {
	w := l.windows[column]
	if w == nil {
		w = &window{}
		l.windows[column] = w
	}
	if w.file != i {
		w.close()
		w.file, w.extents = i, sparse.Extents{}
	}
	if l.files[i].Meta.Size() < small {
		data, err = l.read(i, at, length)
		return data, length, err
	}
	if !w.extents.Known(at) {
		f, err := l.file(i)
		if err != nil {
			return nil, length, err
		}
		w.extents.Find(f, at)
	}
	alike, hole := w.extents.Alike(at, int64(length))
	if n = int(alike); hole {
		return nil, n, nil
	}
	if !l.behind && !w.holds(at, n) {
		f, err := l.file(i)
		if err != nil {
			return nil, n, err
		}
		w.mapForReading(f, at, n)
	}
	if w.data == nil {
		data, err = l.read(i, at, n)
		return data, n, err
	}
	return w.data[at-w.at:][:n], n, nil
}

// read returns n bytes at offset at of file i, valid until the next call, without a mapping.
func (l *Logical) read(i int, at int64, n int) ([]byte, error) {
	if len(l.scratch) < n {
		l.scratch = grown(l.scratch, n)
	}
	return l.scratch[:n], l.readFile(i, l.scratch[:n], at)
}

// small is the size of files below which mapping costs more than copying.
const small = 32 << 10

// mapForReading maps a part of a file for sequential reading. It leaves the window without
// data if that fails; some file systems do not support mappings.
func (w *window) mapForReading(f *os.File, at int64, length int) {
	if w.move(f, at, length, unix.PROT_READ, 0) == nil {
		_ = unix.Madvise(w.data, unix.MADV_SEQUENTIAL) // then the kernel also need not mark each page as accessed
	}
}

// holds reports whether length bytes at offset at of the file are in the window.
func (w *window) holds(at int64, length int) bool {
	return at >= w.at && at+int64(length) <= w.at+int64(len(w.data))
}

// move maps a part of a file that includes at least the length bytes at offset at. It
// returns an error if the file is shorter than that, or cannot be mapped.
func (w *window) move(f *os.File, at int64, length, protection, flags int) error {
	w.close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	page := int64(os.Getpagesize())
	start := at / page * page
	least := at - start + int64(length)
	n := min(max(windowSize+page, least), info.Size()-start)
	if n < least { // another process has truncated it
		return fmt.Errorf("ends before byte %d", at+int64(length))
	}
	data, err := unix.Mmap(int(f.Fd()), start, int(n), protection, unix.MAP_SHARED|flags)
	if err != nil {
		return err
	}
	w.at, w.data = start, data
	return nil
}

// errFault is the error of an access to a mapping.
var errFault = errors.New("bus error")

// guard calls f, which accesses a mapping, and returns an error if the access faults
// (SIGBUS), because the file was truncated after it was mapped, or its disk failed. Callers
// read the same bytes without a mapping to find the cause.
func guard(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover().(type) {
		case nil:
		case interface {
			runtime.Error
			Addr() uintptr
		}:
			err = errFault
		default:
			panic(p)
		}
	}()
	f()
	return nil
}
