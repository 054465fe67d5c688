package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
)

// Announce enters a dataset in the index as incomplete before its first byte is copied,
// unless the index has it already. The entry replaces that of an earlier dataset with
// the same name, whose files are about to be overwritten, so that no job restarts from
// that. The error is a *TakenError if a complete dataset has the same id.
func Announce(prefix string, d dataset.Dataset) error {
	x, err := ReadIndex(prefix)
	if err != nil || x.Has(d) {
		return err
	}
	return UpdateIndex(prefix, func(x *Index) error {
		if x.Has(d) {
			return nil
		}
		if err := x.claim(prefix, d, false); err != nil {
			return err
		}
		// Other processes write below this directory only once the dataset is in the
		// index. As we hold the index's lock, and it is not, nothing of theirs is lost.
		if err := emptyDir(prefix, d.ID()); err != nil {
			return err
		}
		x.Add(d, false, time.Now())
		return nil
	})
}

// emptyDir makes the metadata directory of a dataset, and removes what an earlier
// dataset of the same id has left there. Its name is durable before the index can say
// that the dataset is complete.
func emptyDir(prefix string, id int) error {
	if err := os.RemoveAll(Dir(prefix, id)); err != nil {
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
	x.enter(Entry{Dataset: f.Dataset, ID: f.ID(), Name: f.Name(), Complete: f.Complete, Flushed: f.Flushed.Format(timestamp), Dir: f.Dir})
}

// Enter enters a dataset that is complete in the prefix directory. If it is a checkpoint,
// and newer than the current one, it becomes current.
func Enter(prefix string, f Found) error { return conclude(prefix, f.Dataset) }

// Complete reports whether a dataset, and not another of its id, is complete in
// the prefix directory.
func Complete(prefix string, d dataset.Dataset) (bool, error) {
	x, err := ReadIndex(prefix)
	if err != nil {
		return false, err
	}
	return x.Has(d) && x.ByID(d.ID()).Complete, nil
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
// index. It does not read the index.
func CheckIndex(prefix string) error {
	if _, err := os.Lstat(metadataPath(prefix, indexFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	list, _ := Summaries(prefix)
	for _, f := range list {
		if f.Complete {
			return fmt.Errorf("the index of %s is gone, but not its datasets, such as %d (%s): scr_index --repair -p '%s' makes a new one from them; "+
				"to begin anew, remove %s", prefix, f.ID(), f.Name(), prefix, filepath.Join(prefix, Metadata))
		}
	}
	return nil
}

// checkClaim returns a *TakenError if the index now has another dataset under the id of
// d, which was entered before.
func checkClaim(prefix string, d dataset.Dataset) error {
	x, err := ReadIndex(prefix)
	if err != nil {
		return err
	}
	return x.claim(prefix, d, true)
}

// conclude makes a dataset complete whose files are all in the prefix directory, and
// whose list of files is written: it writes the summary, and then updates the index
// and flush.scr.
func conclude(prefix string, d dataset.Dataset) error {
	if err := writeSummary(prefix, d); err != nil {
		return err
	}
	err := UpdateIndex(prefix, func(x *Index) error {
		if err := x.claim(prefix, d, true); err != nil {
			return err
		}
		x.Add(d, true, time.Now())
		// An older checkpoint may be flushed after a newer one: the newer one stays
		// current.
		id, _ := x.Lookup(x.Current())
		if d.Flags().Has(dataset.Checkpoint) && id < d.ID() {
			return x.SetCurrent(d.Name())
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := Locate(prefix, d, InPrefix, true); err != nil {
		return err
	}
	return Locate(prefix, d, Flushing, false)
}
