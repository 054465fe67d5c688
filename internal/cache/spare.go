package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/report"
)

// A redundancy file of an evicted dataset is used again for the next dataset. In
// between it has a name that is in no filemap, and that the next run removes.
const sparePattern = "spare.*"

func (x *place) sparePath(rank int) string {
	return filepath.Join(x.dir, fmt.Sprintf("spare.%d", rank))
}

// recycle returns a function that puts the spare file of a rank, if there is one,
// at a path.
func (x *place) recycle(rank int) func(path string) error {
	return func(path string) error {
		if !x.spare {
			return nil
		}
		x.spare = false
		err := os.Rename(x.sparePath(rank), path)
		if errors.Is(err, fs.ErrNotExist) { // the user has removed it
			return nil
		}
		return err
	}
}

// keep renames a rank's redundancy file of a dataset that is about to be deleted to
// the spare one.
func (x *place) keep(rank int, f redundancy.File) {
	if x.store == nil { // it will get no other dataset
		return
	}
	if f.Meta.Check(f.Path) == nil && os.Rename(f.Path, x.sparePath(rank)) == nil {
		x.spare = true
	}
}

// dropSpares deletes the spare files of a rank.
func (p *places) dropSpares(rank int) error {
	var failed error
	for _, x := range p.all {
		if !x.spare {
			continue
		}
		x.spare = false
		failed = cmp.Or(failed, remove(x.sparePath(rank)))
	}
	return failed
}

// removeOldSpares removes the spare files that a killed run has left.
func (p *places) removeOldSpares(log *report.Logger) {
	for _, x := range p.all {
		if !p.leads(x) {
			continue
		}
		spares, _ := match(x.dir, sparePattern)
		for _, path := range spares {
			if err := removeTree(path); err != nil {
				tellUndeleted(log, err, path)
			}
		}
	}
}
