package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/redundancy"
)

// A redundancy file of an evicted dataset becomes that of the next dataset, since to
// overwrite a file is faster than to write a new one. In between it has a name that is in no
// filemap; if the run is killed then, the next run removes it.
const sparePattern = "spare.*"

func (x *place) sparePath(rank int) string {
	return filepath.Join(x.dir, fmt.Sprintf("spare.%d", rank))
}

// recycle returns a function that renames the spare file of a rank, if there is one, to a
// path.
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

// keep makes a rank's redundancy file, whose dataset is about to be deleted, the spare file
// of the place.
func (x *place) keep(rank int, f redundancy.File) {
	if x.store == nil { // no dataset will be created in this place
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
			if err := RemoveTree(path); err != nil {
				tellUndeleted(log, err, path)
			}
		}
	}
}
