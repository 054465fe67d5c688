package redundancy

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// An overwriter overwrites allocated pages of a file on a RAM disk through memory
// mappings, with stores that bypass the processor's cache. write(2) would load each
// cache line before it writes it, and so evict data that is still needed.
type overwriter struct {
	f       *os.File
	windows map[int]*window // by section
}

// overwrites returns an overwriter for the first n bytes of a file. It returns nil, so
// that the caller uses write(2), if pages are not allocated, since a store to such a page
// faults when memory is full; and if the file is on a disk, where copying takes little
// of the time.
func overwrites(f *os.File, n int64) *overwriter {
	var fs unix.Statfs_t
	var st unix.Stat_t
	fd := int(f.Fd())
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.TMPFS_MAGIC || unix.Fstat(fd, &st) != nil {
		return nil
	}
	const unit = 512 // of st_blocks
	if st.Size < n || st.Blocks*unit < st.Size {
		return nil
	}
	return &overwriter{f: f, windows: map[int]*window{}}
}

// write stores buf, which belongs to a section, at offset at of the file.
func (o *overwriter) write(section int, buf []byte, at int64) error {
	w := o.windows[section]
	if w == nil {
		w = &window{}
		o.windows[section] = w
	}
	for len(buf) > 0 {
		if at < w.at || at >= w.at+int64(len(w.data)) {
			if err := w.move(o.f, at, 1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_POPULATE); err != nil {
				return fmt.Errorf("%s: %w", o.f.Name(), err)
			}
		}
		room := w.data[at-w.at:]
		n := min(len(buf), len(room))
		if err := guard(func() { copyNonTemporal(room[:n], buf[:n]) }); err != nil {
			return fmt.Errorf("%s: byte %d: %w", o.f.Name(), at, err)
		}
		buf, at = buf[n:], at+int64(n)
	}
	return nil
}

func (o *overwriter) close() {
	for _, w := range o.windows {
		w.close()
	}
}
