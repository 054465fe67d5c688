package prefix

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Expand decompresses the files of a dataset in place, so that programs and SCR 3.1 can
// read them, and returns how many it decompressed. It replaces a file only when all of
// the decompressed one is on its medium, and the list of files describes both versions.
// So the dataset stays usable when Expand is interrupted, and Expand can be run again.
func Expand(prefix string, e Entry, c *transfer.Copier) (files int, err error) {
	if !e.Complete || e.Dir != "" {
		return 0, fmt.Errorf("dataset %d (%s) is not complete", e.ID, e.Name)
	}
	if !e.Compressed() {
		return 0, nil
	}
	c.Below = trust.Root(prefix)
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
				err = f.Below.Rename(aside.Path, f.Path)
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
	if err := (Found{Dataset: d, Complete: true, Owns: e.Owns, Retired: e.Retired}).store(prefix); err != nil {
		return files, err
	}
	return files, UpdateIndex(prefix, func(x *Index) error {
		if !x.Has(d) {
			return fmt.Errorf("dataset %d (%s) was removed from the index meanwhile", d.ID(), d.Name())
		}
		x.replace(d, true)
		return nil
	})
}

// asWritten reports whether a file is stored as the program wrote it. If it is not, and
// the list of files has no mode, owner and times for it, asWritten records the present
// ones in f.Meta, so that the decompressed file gets them.
func asWritten(f redundancy.File) (bool, error) {
	info, err := f.Below.Lstat(f.Path)
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
	err = f.Meta.RecordBelow(f.Below, f.Path)
	f.Meta.SetSize(size)
	return false, err
}
