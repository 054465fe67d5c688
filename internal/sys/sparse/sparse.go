// Package sparse finds the holes of files, so that they are not read, and leaves holes in
// the files that it writes: a hole that is written takes room.
package sparse

import (
	"bytes"
	"io"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Extents knows what is around one position of a file that is read: data, or a hole. The zero value
// knows nothing.
type Extents struct {
	from, to int64
	hole     bool
	doubtful bool
}

// Known reports whether Alike may be called for offset at.
func (e *Extents) Known(at int64) bool { return at >= e.from && at < e.to }

// answers are the magic numbers of the file systems whose answers count: tmpfs, ramfs, ext2 to ext4, XFS and
// Btrfs. Others have called data a hole that had just been written (OpenZFS before 2.2.2), and a client
// of a network file system knows only what its server says.
var answers = []int64{unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC}

// Find asks the file system what is at offset at, and may change the position of f. Where its answer does not count, it
// does not know, or the file ends before, it is data, so that the caller reads it and meets the error.
func (e *Extents) Find(f *os.File, at int64) {
	*e = Extents{from: at, to: math.MaxInt64}
	fd := int(f.Fd())
	// A RAM disk looks at every page of a file without holes to find the next one.
	const unit = 512 // of st_blocks
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Blocks*unit >= st.Size {
		return
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil || !slices.Contains(answers, int64(fs.Type)) {
		e.doubtful = true
		return
	}
	end, err := unix.Seek(fd, at, unix.SEEK_HOLE)
	if err != nil {
		return
	}
	if end > at {
		e.to = end
		return
	}
	end, err = unix.Seek(fd, at, unix.SEEK_DATA)
	if err == unix.ENXIO { // no data follows
		end, err = unix.Seek(fd, 0, io.SeekEnd)
	}
	if err == nil && end > at {
		e.to, e.hole = end, true
	}
}

// Doubtful reports whether the file takes less room than its size, and nothing is known of its holes: pages of zeros
// that are read may be in one.
func (e *Extents) Doubtful() bool { return e.doubtful }

// Alike returns how many of the n bytes from offset at, which is known, are data or a hole like the first one, and
// whether it is a hole.
func (e *Extents) Alike(at, n int64) (int64, bool) { return min(n, e.to-at), e.hole }

// page is the unit in which zeros become holes. No common file system has smaller ones.
const page = 4 << 10

// Zeros is the largest number of zeros that a caller needs at once.
const Zeros = 64 << 10

var zeros [Zeros]byte

// Zero returns n zeros, at most Zeros, which must not be changed.
func Zero(n int) []byte { return zeros[:n:n] }

// Run returns how many bytes of buf, which belongs to offset at of a file and is not empty,
// are in pages like the first: with zeros only, or with data.
func Run(buf []byte, at int64) (n int, zero bool) {
	n = min(page-int(at%page), len(buf))
	zero = empty(buf[:n])
	for n < len(buf) {
		next := min(n+page, len(buf))
		if empty(buf[n:next]) != zero {
			break
		}
		n = next
	}
	return n, zero
}

// empty takes no time for data: most of it differs from zero in the first bytes.
func empty(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }

// Write writes buf at offset at of a file, and makes pages of zeros holes. The file had so many bytes before: behind
// them nothing need be done. It reports whether there were such pages; then the file may end before buf does.
func Write(f *os.File, buf []byte, at, had int64) (skipped bool, err error) {
	for len(buf) > 0 {
		n, zero := Run(buf, at)
		if zero && (at >= had || punch(f, at, int64(n)) == nil) {
			skipped = true
		} else if _, err := f.WriteAt(buf[:n], at); err != nil {
			return skipped, err
		}
		buf, at = buf[n:], at+int64(n)
	}
	return skipped, nil
}

func punch(f *os.File, at, n int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n)
}
