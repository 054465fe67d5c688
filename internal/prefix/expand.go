package prefix

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/transfer"
)

// Expand decompresses the files of a dataset in place, so that programs and SCR 3.1 can
// read them. It returns their number. It replaces a file when all of the new one is on
// its medium, and the list of files is right for both; so an interrupted Expand leaves
// the dataset usable, and can be run again.
func Expand(prefix string, e Entry, c *transfer.Copier) (files int, err error) {
	if !e.Complete || e.Dir != "" {
		return 0, fmt.Errorf("dataset %d (%s) is not complete", e.ID, e.Name)
	}
	if !e.Compressed() {
		return 0, nil
	}
	bring := &Bring{
		Prefix: prefix, Copy: c.Fetch,
		Aside: func(to string) string {
			return filepath.Join(filepath.Dir(to), fmt.Sprintf(".scr.expand.%016x.tmp", rand.Uint64()))
		},
	}
	err = Walk(prefix, e, func(_ int, list []redundancy.File) error {
		for _, f := range list {
			if there, err := asWritten(f); err != nil {
				return err
			} else if there {
				continue
			}
			aside, err := bring.File(f, f.Path)
			if err == nil {
				err = os.Rename(aside.Path, f.Path)
			}
			if err != nil {
				return err
			}
			files++
		}
		return syncNames(prefix, list)
	})
	if err != nil {
		return files, err
	}
	d := e.Dataset
	d.SetCompressed(false)
	d.SetComplete(true)
	if err := (Found{Dataset: d, Complete: true, Owns: e.Owns}).store(prefix); err != nil {
		return files, err
	}
	return files, UpdateIndex(prefix, func(x *Index) error {
		if !x.Has(d) {
			return fmt.Errorf("dataset %d (%s) has left the index", d.ID(), d.Name())
		}
		x.replace(d, true)
		return nil
	})
}

// asWritten reports whether a file is stored as the program wrote it. One that is not
// gets the mode that it has now, if none was recorded.
func asWritten(f redundancy.File) (bool, error) {
	info, err := os.Lstat(f.Path)
	if err != nil {
		return false, err
	}
	f.Meta.Find(info.Size())
	if _, other := f.Meta.Stored(); !other {
		return true, nil
	}
	if f.Meta.Recorded() {
		return false, nil
	}
	size := f.Meta.Size()
	err = f.Meta.Record(f.Path)
	f.Meta.SetSize(size)
	return false, err
}
