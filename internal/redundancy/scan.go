package redundancy

import (
	"fmt"
	"io"
	"os"

	"github.com/goscr/goscr/internal/sys/sparse"
)

// batch is the number of bytes that are processed at a time. They stay in the L1 cache
// from the checksum until they are used.
const batch = 16 << 10

// readSize is the number of bytes of a read. They stay in the L2 cache until they are processed.
const readSize = 64 << 10

// small is the size of files whose holes are not looked for: that takes as long as reading them.
const small = 32 << 10

// A scanner reads a file: a part of it sequentially, or several by turns, each with extents of its own. Holes are not read.
type scanner struct {
	f       *os.File
	size    int64 // that the file is to have
	scratch []byte
}

// scan reads the n bytes at offset at, and passes them to use in batches: data[0] is byte from of them. use must not keep
// data. extents is what scan has found out in the part of the file that the caller reads.
func (s *scanner) scan(extents *sparse.Extents, at int64, n int, use func(from int, data []byte)) error {
	for done := 0; done < n; {
		offset, length, hole := at+int64(done), min(n-done, readSize), false
		if s.size >= small {
			if !extents.Known(offset) {
				extents.Find(s.f, offset)
			}
			var alike int64
			alike, hole = extents.Alike(offset, int64(n-done))
			length = int(alike)
			if !hole {
				length = min(length, readSize)
			}
		}
		if hole {
			zeros(done, length, use)
		} else if err := s.read(offset, done, length, use); err != nil {
			return err
		}
		done += length
	}
	return nil
}

// read reads n bytes at offset at, and passes them to use, the first as byte from.
func (s *scanner) read(at int64, from, n int, use func(from int, data []byte)) error {
	if len(s.scratch) < n {
		s.scratch = grown(s.scratch, n)
	}
	data := s.scratch[:n]
	got, err := s.f.ReadAt(data, at)
	if err == io.EOF && got < n {
		return fmt.Errorf("ends at byte %d of %d", at+int64(got), s.size)
	}
	if err != nil && err != io.EOF {
		return err
	}
	for done := 0; done < n; done += batch {
		use(from+done, data[done:min(done+batch, n)])
	}
	return nil
}

// release leaves the buffer to others.
func (s *scanner) release() { s.scratch = giveUp(s.scratch) }

// zeros passes n zeros to use in batches, the first as byte from.
func zeros(from, n int, use func(from int, data []byte)) {
	for done := 0; done < n; done += batch {
		use(from+done, sparse.Zero(min(batch, n-done)))
	}
}
