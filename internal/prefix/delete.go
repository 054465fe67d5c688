package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Delete removes a dataset, its files, and the directories that become empty from the
// prefix directory. It returns nil if no dataset has the name. It is collective.
func (p *Prefix) Delete(name string) error {
	chosen, err := p.choose(func(x *Index) []Entry {
		if e, ok := x.Find(name); ok {
			return []Entry{e}
		}
		return nil
	})
	for _, e := range chosen {
		if e := p.remove(e, anyFile); err == nil {
			err = e
		}
	}
	return err
}

// Purge removes all datasets. If a dataset cannot be deleted, for example because its
// list of files cannot be read, it is removed from the index with a warning, and its
// files stay. It is collective.
func (p *Prefix) Purge() error {
	all, err := p.choose((*Index).Entries)
	if err != nil {
		return err
	}
	for _, e := range all {
		p.Log.Info("dataset %d (%s) is deleted from %s", e.ID, e.Name, p.Dir)
		if err := p.remove(e, anyFile); err != nil {
			p.Log.WarnJob("dataset %d (%s) cannot be deleted from %s, some of its files stay: %v", e.ID, e.Name, p.Dir, err)
			if err := p.forget(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// Keep removes the oldest checkpoints until at most most usable ones are left. It does
// not remove outputs, or files that a newer dataset has overwritten. It is collective.
func (p *Prefix) Keep(most int) error {
	old, err := p.choose(func(x *Index) []Entry { return x.beyond(most) })
	if err != nil {
		return err
	}
	for _, e := range old {
		p.Log.Info("checkpoint %s is deleted from %s, where SCR_PREFIX_SIZE=%d are kept", e.Name, p.Dir, most)
		if err := p.remove(e, sameFile); err != nil {
			return err
		}
	}
	return nil
}

// beyond returns the checkpoints, incomplete ones included, that are older than the
// newest most usable ones.
func (x *Index) beyond(most int) []Entry {
	var old []Entry
	usable := 0
	for _, e := range x.Entries() {
		switch {
		case !e.Flags().Has(dataset.Checkpoint):
		case usable < most:
			if e.usable() {
				usable++
			}
		case !e.Flags().Has(dataset.Output):
			old = append(old, e)
		}
	}
	return old
}

// choose returns on all ranks the entries that rank 0 selects by calling of, lowest id
// first. It is collective.
func (p *Prefix) choose(of func(*Index) []Entry) ([]Entry, error) {
	list := hash.New()
	err := mpi.OnRoot(p.Comm, func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return err
		}
		for _, e := range of(x) {
			list.Set(strconv.Itoa(e.ID), e.encode())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list, err = hash.Bcast(list, 0, p.Comm)
	var chosen []Entry
	for _, id := range list.Ints() {
		chosen = append(chosen, decodeEntry(id, list.Get(strconv.Itoa(id))))
	}
	return chosen, err
}

// anyFile is for remove: it selects all files of the dataset.
func anyFile(redundancy.File) bool { return true }

// sameFile is for remove: it selects the files that still have the size and the time
// with which they were flushed. The others were written again by a newer dataset.
func sameFile(f redundancy.File) bool {
	info, err := os.Lstat(f.Path)
	when, known := f.Meta.Modified()
	if err != nil {
		return false
	}
	f.Meta.Find(info.Size())
	size := f.Meta.StoredSize()
	return (!known || when.Equal(info.ModTime())) && (size < 0 || size == info.Size())
}

// remove deletes a dataset, and those of its files for which which returns true. It is
// collective; the result is agreed.
func (p *Prefix) remove(e Entry, which func(redundancy.File) bool) error {
	_, files, err := p.files(e.origin())
	if err != nil && e.Complete {
		return err
	}
	// The entry in the index is removed first, so that no job restarts from a dataset
	// of which some files are deleted. (A dataset without a list of files was never
	// completed, and no job restarts from it.)
	err = mpi.OnRoot(p.Comm, func() error {
		return UpdateIndex(p.Dir, func(x *Index) error {
			if x.ByID(e.ID).Name == e.Name {
				x.remove(e.ID)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, f := range files {
		if !which(f) {
			continue
		}
		if e := os.Remove(f.Path); e != nil && !errors.Is(e, fs.ErrNotExist) && err == nil {
			err = e
		}
	}
	if err := mpi.Agree(p.Comm, err); err != nil {
		return err
	}
	for _, f := range files {
		RemoveEmpty(p.Dir, f.Path)
	}
	return p.forget(e)
}

// forget removes a dataset from the index and from flush.scr, and deletes its metadata.
// Its files stay, except those of a dataset that SCR 1.1 wrote. It is collective; the
// result is agreed.
func (p *Prefix) forget(e Entry) error {
	return mpi.OnRoot(p.Comm, func() error {
		err := UpdateIndex(p.Dir, func(x *Index) error { x.remove(e.ID); return nil })
		if err != nil {
			return err
		}
		if err := os.RemoveAll(Dir(p.Dir, e.ID)); err != nil {
			return fmt.Errorf("metadata of dataset %d: %w", e.ID, err)
		}
		if e.Dir != "" && CheckName(e.Dir) == nil { // SCR 1.1 made this directory for this dataset alone
			if err := os.RemoveAll(filepath.Join(p.Dir, e.Dir)); err != nil {
				return err
			}
		}
		return Locate(p.Dir, e.Dataset, InPrefix, false)
	})
}
