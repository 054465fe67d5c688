package filemap_test

import (
	"fmt"

	"github.com/goscr/goscr/filemap"
)

// A program lists what a job has left on a node: the files of one rank, and descriptors of
// two others, in whose set it is.
func ExampleReadDir() {
	datasets, bad, err := filemap.ReadDir("../testdata/goscr-1/rs/node0/cntl/user/scr.job")
	if err != nil || len(bad) > 0 {
		fmt.Println(err, bad)
	}
	for _, d := range datasets {
		for _, p := range d.Parts {
			fmt.Printf("dataset %d (%s): rank %d: %d of %d files, %s\n", d.ID, d.Name, p.Rank, len(p.Files), p.Expected, p.Protection.Scheme)
		}
	}
	// Output:
	// dataset 1 (ckpt.2): rank 0: 2 of 2 files, RS
	// dataset 1 (ckpt.2): rank 2: 0 of -1 files, RS
	// dataset 1 (ckpt.2): rank 3: 0 of -1 files, RS
}
