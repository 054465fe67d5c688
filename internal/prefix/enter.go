package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Announce enters a dataset in the index as incomplete, unless it is entered already. It
// is called before the first byte of the dataset is copied.
func Announce(prefix string, d dataset.Dataset) error {
	x, err := ReadIndex(prefix)
	if err != nil {
		return err
	}
	// A run whose storage was full may have deleted the directory, and not the entry.
	directory := func() error { return hash.MakeDirs(Dir(prefix, d.ID())) }
	if x.Has(d) {
		return directory()
	}
	return UpdateIndex(prefix, func(x *Index) error {
		if x.Has(d) {
			return directory()
		}
		if err := x.claim(prefix, d, false); err != nil {
			return err
		}
		// Other processes write to this directory only when the dataset is in the index.
		// It is not, and we hold the lock of the index, so none of their files are lost.
		_ = removeLitter(prefix, d.ID(), nil) // what stays does no harm
		if err := emptyDir(prefix, d.ID()); err != nil {
			return err
		}
		x.Add(d, false, time.Now())
		return nil
	})
}

// emptyDir makes the metadata directory of a dataset, and removes the files that an
// earlier dataset with the same id has left there. It makes the name of the directory
// durable, which must happen before the dataset becomes complete in the index.
func emptyDir(prefix string, id int) error {
	if err := trust.Root(prefix).RemoveAll(Dir(prefix, id)); err != nil {
		return err
	}
	return hash.MakeDirs(Dir(prefix, id))
}

// Incomplete records in the index that a dataset is incomplete, so that no job restarts
// from the files that are in the prefix directory. The error is a *TakenError if a
// complete dataset has the same id.
func Incomplete(prefix string, d dataset.Dataset) error {
	return UpdateIndex(prefix, func(x *Index) error {
		if err := x.claim(prefix, d, false); err != nil {
			return err
		}
		if !x.Has(d) {
			x.Add(d, false, time.Now())
		}
		x.replace(x.ByID(d.ID()).Dataset, false)
		return nil
	})
}

// Add enters a dataset that was found in the prefix directory, complete or not, and does
// not change which dataset is current.
func Add(prefix string, f Found) error {
	return UpdateIndex(prefix, func(x *Index) error { x.addFound(f); return nil })
}

func (x *Index) addFound(f Found) {
	e := Entry{Dataset: f.Dataset, ID: f.ID(), Name: f.Name(), Complete: f.Complete, Flushed: f.Flushed.Format(timestamp), Dir: f.Dir,
		Owns: f.Owns, Replaced: f.Replaced, Retired: f.Retired}
	if f.Retired != nil {
		e.Name = f.Retired.As
	}
	x.enter(e)
}

// Enter enters a dataset that is complete in the prefix directory.
func Enter(prefix string, f Found) error { return conclude(prefix, f, func(string) {}) }

// Complete reports whether a dataset, and not another one with its id, is complete in the
// prefix directory.
func Complete(prefix string, d dataset.Dataset) (bool, error) {
	x, err := ReadIndex(prefix)
	if err != nil {
		return false, err
	}
	return x.Has(d) && x.ByID(d.ID()).Complete, nil
}

// Arrived reports whether all files of a dataset, and not of another one with its id, are
// in the prefix directory: it is complete, or its flush has only to be finished.
func Arrived(prefix string, d dataset.Dataset) (bool, error) {
	x, err := ReadIndex(prefix)
	if err != nil {
		return false, err
	}
	e := x.ByID(d.ID())
	return x.Has(d) && (e.Complete || e.Placing > 0), nil
}

// Repaired is the result of RepairIndex.
type Repaired struct {
	Done  bool    // the index was replaced; false if it can be read
	Aside string  // path to which the damaged index was renamed; "" if there was none
	List  []Found // datasets in the new index
	Bad   []error // one for each dataset that could not be entered
}

// RepairIndex replaces an index that cannot be read by a new one, made from the
// summaries of the datasets, and renames the old one. It does not change an index that
// can be read.
func RepairIndex(prefix string) (Repaired, error) {
	var r Repaired
	aside := metadataPath(prefix, indexFile) + ".damaged"
	done, kept, err := mendIndex(prefix, aside, func(x *Index, damaged error) {
		r.List, r.Bad = Summaries(prefix)
		if damaged != nil { // the index of SCR 1.1 cannot be read either
			old, bad := oldSummaries(prefix)
			r.List, r.Bad = append(r.List, old...), append(append(r.Bad, damaged), bad...)
		}
		for _, f := range r.List {
			x.addFound(f)
		}
	})
	r.Done = done
	if kept {
		r.Aside = aside
	}
	return r, err
}

// CheckIndex returns an error if the prefix directory has complete datasets and no
// index, or cannot be listed. It does not read the index.
func CheckIndex(prefix string) error {
	if _, err := os.Lstat(metadataPath(prefix, indexFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ids, err := IDs(prefix)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if f, err := Summary(prefix, id); err == nil && f.Complete {
			return fmt.Errorf("the index of %s is gone, but not its datasets, such as %d (%s): scr_index --repair -p '%s' makes a new one from them; "+
				"to start from the beginning, remove %s", prefix, f.ID(), f.Name(), prefix, filepath.Join(prefix, Metadata))
		}
	}
	return nil
}

// conclude makes a dataset usable whose files, and the list of them, are all in the prefix
// directory, or records that it is replaced. It calls at before each change.
func conclude(prefix string, f Found, at func(what string)) error {
	at("summary")
	if err := f.store(prefix); err != nil {
		return err
	}
	d := f.Dataset
	var gone []Entry // replaced datasets of the same name, which own no files
	at("index")
	err := UpdateIndex(prefix, func(x *Index) error {
		if err := x.claim(prefix, d, true); err != nil {
			return err
		}
		for _, e := range x.named(d.Name()) {
			if e.ID < d.ID() && e.Replaced != nil && !e.owns() {
				gone = append(gone, e)
			}
		}
		x.enter(Entry{Dataset: d, ID: d.ID(), Name: d.Name(), Complete: f.Replaced == nil, Flushed: time.Now().Format(timestamp), Owns: f.Owns,
			Replaced: f.Replaced})
		if f.Replaced != nil {
			return nil
		}
		// If an older checkpoint is flushed late, the newer one stays current, and one that a user has chosen meanwhile.
		id, _ := x.Lookup(x.Current())
		chosen, ok := Chosen(x)
		if d.Flags().Has(dataset.Checkpoint) && id < d.ID() && !(ok && chosen.Holds(x, nil, nil)) {
			return x.SetCurrent(d.Name())
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range gone { // if it fails, the files that stay do no harm
		_ = trust.Root(prefix).RemoveAll(Dir(prefix, e.ID))
		_ = trust.Root(prefix).RemoveAll(filepath.Join(prefix, retiredDir(e.Dataset))) // of one that had begun to move
	}
	at("flush file")
	return EnterFlushed(prefix, d)
}
