package prefix

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/goscr/goscr/internal/observe/progress"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
)

// Verified is the result of Verify.
type Verified struct {
	Files, Bytes int64    // files of the dataset, and bytes read; a file of several ranks counts once
	Unknown      int64    // files without a recorded checksum
	Problems     []string // what is wrong with files, sorted
}

// Verify reads every byte of a dataset, and compares sizes and checksums with those that
// were recorded. It reports differences in Problems; it returns an error only if the
// list of files cannot be read. meter, which may be nil, is told the progress in bytes.
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
			c := reader(prefix)
			c.Step = func(bytes int) error { meter.Add(int64(bytes)); return nil }
			for f := range work {
				size, known, err := verifyFile(c, f)
				mu.Lock()
				v.Files, v.Bytes = v.Files+1, v.Bytes+size
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
		for _, f := range redundancy.Counted(files) {
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

// verifyFile reads a file and compares size and checksum with those recorded. known is
// false if no checksum was recorded. A panic is an error: a goroutine calls verifyFile.
func verifyFile(c *transfer.Copier, f redundancy.File) (size int64, known bool, err error) {
	defer report.Recover(&err)
	_, known = f.Meta.CRC()
	if err := Present(f); err != nil { // a restart makes the same checks
		return 0, known, err
	}
	size, err = c.Verify(f.Path, f.Meta)
	return size, known, err
}
