package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/mpi"
)

// Candidate returns the next dataset to try to restart from, older than the id below (0
// to begin). It is collective; all ranks get the same one.
func (p *Prefix) Candidate(below int) (dataset.Dataset, bool, error) {
	return p.find(func(x *Index) (Entry, bool) { return x.Next(below) })
}

// Newer returns the names of usable checkpoints with ids above than.
func Newer(prefix string, than int) (names []string, err error) {
	x, err := ReadIndex(prefix)
	if err != nil {
		return nil, err
	}
	for _, e := range x.Entries() {
		if e.ID > than && e.usable() {
			names = append(names, e.Name)
		}
	}
	return names, nil
}

// Written returns the newest checkpoint that the program wrote to the prefix
// directory itself, if a restart prefers it to the cache: it is newer than after, the
// newest in the cache. If the cache has none, after is 0, and no checkpoint that has to
// be fetched may be newer. It is older than below, and not newer than the current one.
// It is collective; all ranks get the same one.
func (p *Prefix) Written(after, below int) (dataset.Dataset, bool, error) {
	return p.find(func(x *Index) (Entry, bool) {
		newest := below - 1
		if e, ok := x.Find(x.Current()); ok && e.usable() {
			newest = min(newest, e.ID)
		}
		for _, e := range x.Entries() {
			switch {
			case e.ID > newest || !e.usable():
			case e.ID <= after:
				return Entry{}, false
			case e.Bypass():
				return e, true
			case after == 0:
				return Entry{}, false
			}
		}
		return Entry{}, false
	})
}

// Lookup returns the dataset of a name. It is collective; all ranks get the same.
func (p *Prefix) Lookup(name string) (dataset.Dataset, bool, error) {
	return p.find(func(x *Index) (Entry, bool) {
		e, ok := x.Find(name)
		return e, ok && e.usable()
	})
}

func (p *Prefix) find(choose func(*Index) (Entry, bool)) (dataset.Dataset, bool, error) {
	var d dataset.Dataset
	err := mpi.OnRoot(p.Comm, func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return err
		}
		if e, ok := choose(x); ok {
			d = e.Dataset
		}
		return nil
	})
	if err != nil {
		return dataset.Dataset{}, false, err
	}
	d, err = p.tell(d)
	return d, !d.IsZero(), err
}

// Fetched records that a restart has read a dataset, and that the next is to
// begin with it. It is collective.
func (p *Prefix) Fetched(d dataset.Dataset) error {
	return mpi.OnRoot(p.Comm, func() error {
		err := UpdateIndex(p.Dir, func(x *Index) error {
			x.MarkFetched(d.ID(), time.Now())
			return x.SetCurrent(d.Name())
		})
		if err != nil {
			return err
		}
		return Locate(p.Dir, d, InPrefix, true)
	})
}

// Failed records that a restart from a dataset failed, so that no later one
// tries it. A dataset that is not in the index is not entered. It is
// collective.
func (p *Prefix) Failed(id int) error {
	return mpi.OnRoot(p.Comm, func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil || x.ByID(id).Name == "" {
			return err
		}
		err = UpdateIndex(p.Dir, func(x *Index) error { x.MarkFailed(id, time.Now()); return nil })
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("that dataset %d failed could not be recorded: %w", id, err)
		}
		return p.Spare(err)
	})
}
