package variables

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A file of variables is, in the byte order of the machine:
//
//	uint64                 number of variables n
//	n × (int32, uint64)    id and size in bytes of each, 12 bytes together, ids ascending
//	the variables          one after the other
//
// It is the format of VELOC 1.8.
const (
	countSize = 8
	entrySize = 12
	// mostEntries is how many variables a file has at most. It bounds what a header that was not written by us makes us allocate.
	mostEntries = 1 << 20
)

// variable is one that is written.
type variable struct {
	id   int
	data []byte
}

// write writes variables to a file, in place of what it had.
func write(path string, list []variable) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	header := binary.NativeEndian.AppendUint64(nil, uint64(len(list)))
	for _, v := range list {
		header = binary.NativeEndian.AppendUint32(header, uint32(int32(v.id)))
		header = binary.NativeEndian.AppendUint64(header, uint64(len(v.data)))
	}
	// Small variables go into one write together with the header; a large one is written from where it is.
	w := bufio.NewWriterSize(f, 64<<10)
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, v := range list {
		if _, err := w.Write(v.data); err != nil {
			return fmt.Errorf("variable %d: %w", v.id, err)
		}
	}
	return w.Flush()
}

// entry is one variable of a file.
type entry struct {
	id     int
	size   int64
	offset int64
}

// saved is a file of variables that is open.
type saved struct {
	f       *os.File
	entries []entry // in the order of the file
}

func (s *saved) close() { _ = s.f.Close() } // it was read only

// openSaved opens a file of variables, and checks that it is whole.
func openSaved(path string) (_ *saved, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // the first error says more
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	entries, err := readHeader(io.NewSectionReader(f, 0, info.Size()), info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s is no file of variables, or is damaged: %w", path, err)
	}
	return &saved{f, entries}, nil
}

// readHeader reads the header of a file of a size.
func readHeader(r io.Reader, size int64) ([]entry, error) {
	r = bufio.NewReader(r)
	var start [countSize]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return nil, fmt.Errorf("it has %d bytes: %w", size, err)
	}
	n := binary.NativeEndian.Uint64(start[:])
	if n > mostEntries || int64(n)*entrySize > size-countSize {
		return nil, fmt.Errorf("its header is for %d variables, and it has %d bytes", n, size)
	}
	offset := countSize + int64(n)*entrySize
	seen := map[int]bool{}
	var list []entry
	for range n {
		var e [entrySize]byte
		if _, err := io.ReadFull(r, e[:]); err != nil {
			return nil, err
		}
		id, length := int(int32(binary.NativeEndian.Uint32(e[:]))), binary.NativeEndian.Uint64(e[4:])
		if seen[id] {
			return nil, fmt.Errorf("variable %d is there twice", id)
		}
		seen[id] = true
		if length > uint64(size-offset) {
			return nil, fmt.Errorf("variable %d has %d bytes from byte %d on, and the file %d", id, length, offset, size)
		}
		list = append(list, entry{id, int64(length), offset})
		offset += int64(length)
	}
	if offset != size {
		return nil, fmt.Errorf("its variables end at byte %d, and it has %d", offset, size)
	}
	return list, nil
}

// fits returns an error if an entry has no memory, or too little.
func (s *saved) fits(into map[int][]byte) error {
	for _, e := range s.entries {
		data, ok := into[e.id]
		switch {
		case !ok:
			return fmt.Errorf("the checkpoint has a variable %d, which is not protected: protect it before the restart", e.id)
		case int64(len(data)) < e.size:
			return fmt.Errorf("variable %d has %d bytes in the checkpoint, and its memory is for %d", e.id, e.size, len(data))
		}
	}
	return nil
}

// read reads all entries into the memory of the variables, which fits. It reads by way of a buffer: in a virtual machine
// whose page tables software shadows, the first access of the kernel to each page of the program took 15 times as long as the copy.
func (s *saved) read(into map[int][]byte) error {
	buf := make([]byte, 64<<10)
	for _, e := range s.entries {
		from := io.NewSectionReader(s.f, e.offset, e.size)
		for data := into[e.id][:e.size]; len(data) > 0; {
			n, err := io.ReadFull(from, buf[:min(len(buf), len(data))])
			if err != nil {
				return fmt.Errorf("variable %d: %w", e.id, err)
			}
			data = data[copy(data, buf[:n]):]
		}
	}
	return nil
}
