package prefix

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/transfer"
)

// Expand decompresses the files of a dataset where they are, so that they can be
// read there, and by SCR 3.1. It returns how many there were. A file is replaced
// when all of it is on its medium, and lists of files say of both what it is; so
// one that is cut short leaves the dataset as usable as it was, and can be run
// again.
func Expand(prefix string, e Entry, c *transfer.Copier) (files int, err error) {
	if !e.Complete || e.Dir != "" {
		return 0, fmt.Errorf("dataset %d (%s) is not complete", e.ID, e.Name)
	}
	if !e.Compressed() {
		return 0, nil
	}
	err = Walk(prefix, e, func(_ int, list []redundancy.File) error {
		for _, f := range list {
			done, err := expand(f, c)
			if err != nil {
				return err
			}
			if done {
				files++
			}
		}
		return syncNames(prefix, list)
	})
	if err != nil {
		return files, err
	}
	d := dataset.Dataset{Hash: e.Dataset.Clone()}
	d.SetCompressed(false)
	d.SetComplete(true)
	if err := writeSummary(prefix, d); err != nil {
		return files, err
	}
	return files, UpdateIndex(prefix, func(x *Index) error {
		if !x.Has(d) {
			return fmt.Errorf("dataset %d (%s) has left the index", d.ID(), d.Name())
		}
		describe(x.at(d.ID()), d, true)
		if x.Current() == d.Name() {
			x.setCurrent(keyCurrent, d.Name())
		}
		return nil
	})
}

// expand decompresses a file, and reports whether it had to.
func expand(f redundancy.File, c *transfer.Copier) (bool, error) {
	info, err := os.Lstat(f.Path)
	if err != nil {
		return false, err
	}
	f.Meta.Find(info.Size())
	if _, other := f.Meta.Stored(); !other {
		return false, nil
	}
	if !f.Meta.Recorded() { // was not recorded: as it is now
		size := f.Meta.Size()
		if err := f.Meta.Record(f.Path); err != nil {
			return false, err
		}
		f.Meta.SetSize(size)
	}
	aside, err := os.CreateTemp(filepath.Dir(f.Path), ".scr.expand.*.tmp")
	if err != nil {
		return false, err
	}
	err = aside.Close()
	if err == nil {
		err = c.Fetch(f.Path, aside.Name(), f.Meta)
	}
	if err == nil {
		err = os.Rename(aside.Name(), f.Path)
	}
	if err != nil {
		_ = os.Remove(aside.Name()) // the first error is the one to report
	}
	return err == nil, err
}

// writeSummary describes a dataset of which all files are in the prefix directory.
func writeSummary(prefix string, d dataset.Dataset) error {
	summary := hash.New()
	summary.SetInt(keyVersion, summaryVersion)
	describe(summary, d, true)
	return hash.WriteShared(datasetPath(prefix, d.ID(), summaryFile), summary)
}
