package prefix

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/goscr/goscr/internal/progress"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/transfer"
)

// Verified is what was found when all files of a dataset were read.
type Verified struct {
	Files, Bytes int64
	Unknown      int64    // files whose checksum was not recorded
	Problems     []string // sorted
}

// Verify reads every byte of a dataset and compares it with what was recorded.
// What is wrong is in Problems; the error is of a dataset whose list of files
// cannot be read. meter, if there is one, is told how far it is.
func Verify(prefix string, e Entry, meter progress.Meter) (Verified, error) {
	meter = progress.Or(meter)
	meter.Expect(e.Size())
	var v Verified
	var mu sync.Mutex
	var readers sync.WaitGroup
	work := make(chan redundancy.File)
	for range max(2, runtime.GOMAXPROCS(0)) {
		readers.Add(1)
		go func() {
			defer readers.Done()
			c := transfer.NewCopier(1 << 20)
			c.Step = func(bytes int) error { meter.Add(int64(bytes)); return nil }
			for f := range work {
				size, known, err := verifyFile(c, f)
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
func verifyFile(c *transfer.Copier, f redundancy.File) (size int64, known bool, err error) {
	_, known = f.Meta.CRC()
	if err := present(f); err != nil { // as a restart looks at it
		return 0, known, err
	}
	size, err = c.Verify(f.Path, f.Meta)
	return size, known, err
}
