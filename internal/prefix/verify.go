package prefix

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/checksum"
	"github.com/goscr/goscr/internal/redundancy"
)

// Verified is what was found when all files of a dataset were read.
type Verified struct {
	Files, Bytes int64
	Unknown      int64    // files whose checksum was not recorded
	Problems     []string // sorted
}

// Verify reads every byte of a dataset and compares it with what was recorded.
// What is wrong is in Problems; the error is of a dataset whose list of files
// cannot be read.
func Verify(prefix string, e Entry) (Verified, error) {
	var v Verified
	var mu sync.Mutex
	var readers sync.WaitGroup
	work := make(chan redundancy.File)
	for range max(2, runtime.GOMAXPROCS(0)) {
		readers.Add(1)
		go func() {
			defer readers.Done()
			buf := make([]byte, 1<<20)
			for f := range work {
				size, known, err := verifyFile(f, buf)
				mu.Lock()
				if !f.Meta.Shared() { // which another rank lists too
					v.Files, v.Bytes = v.Files+1, v.Bytes+size
				}
				if !known {
					v.Unknown++
				}
				if err != nil {
					v.Problems = append(v.Problems, strings.TrimPrefix(strings.TrimPrefix(err.Error(), "open "), "lstat "))
				}
				mu.Unlock()
			}
		}()
	}
	err := Walk(prefix, e, func(_ int, files []redundancy.File) error {
		for _, f := range files {
			work <- f
		}
		return nil
	})
	close(work)
	readers.Wait()
	if err != nil {
		return v, err
	}
	if len(v.Problems) == 0 && e.Dir == "" && (int64(e.Files()) != v.Files || e.Size() != v.Bytes) {
		v.Problems = append(v.Problems, fmt.Sprintf("%d files of %d bytes are there, the index says %d of %d", v.Files, v.Bytes, e.Files(), e.Size()))
	}
	slices.Sort(v.Problems)
	return v, nil
}

// verifyFile reads a file; known says whether there is a checksum to compare.
func verifyFile(f redundancy.File, buf []byte) (size int64, known bool, err error) {
	want, known := f.Meta.CRC()
	if err := present(f); err != nil { // as a restart looks at it
		return 0, known, err
	}
	in, err := os.OpenFile(f.Path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, known, err
	}
	defer in.Close()
	var crc uint32
	for {
		n, err := in.Read(buf)
		crc, size = checksum.Update(crc, buf[:n]), size+int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return size, known, err
		}
	}
	switch {
	case f.Meta.Size() != size:
		err = fmt.Errorf("%s has changed from %d to %d bytes while it was read", f.Path, f.Meta.Size(), size)
	case known && crc != want:
		err = fmt.Errorf("%s has checksum 0x%08x, was written with 0x%08x", f.Path, crc, want)
	}
	return size, known, err
}
