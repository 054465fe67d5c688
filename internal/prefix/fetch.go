package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Candidate returns the next dataset to try to restart from, after one with
// the id below (0 to begin). It is collective; all ranks get the same one.
func (p *Prefix) Candidate(below int) (dataset.Dataset, bool, error) {
	return p.find(func(x *Index) (Entry, bool) { return x.Next(below) })
}

// Newer are the names of checkpoints that a restart can use, and that are newer than one.
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
// directory itself, and that goes before what the cache has: it is newer than
// after, the newest there, 0 if there is none. Then it is only returned if none
// that has to be fetched goes before it in turn. It is older than below, and not
// newer than the current one. It is collective; all ranks get the same one.
func (p *Prefix) Written(after, below int) (dataset.Dataset, bool, error) {
	return p.find(func(x *Index) (Entry, bool) {
		newest := below - 1
		if e, ok := x.Entry(x.Current()); ok && e.usable() {
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
		id, ok := x.Lookup(name)
		if !ok {
			return Entry{}, false
		}
		e := x.entry(id)
		return e, e.usable()
	})
}

func (p *Prefix) find(choose func(*Index) (Entry, bool)) (dataset.Dataset, bool, error) {
	var d dataset.Dataset
	err := p.onRoot(func() error {
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
	h, err := hash.Bcast(d.Hash, 0, p.Comm)
	return dataset.Dataset{Hash: h}, h.Size() > 0, err
}

// Listing is what a dataset in the prefix directory consists of.
type Listing struct {
	dataset.Dataset
	Ranks int // of the job that wrote it
	// Files, with their paths in the prefix directory, are the caller's own if the
	// job has as many ranks as the one that wrote them, else a share of all.
	Files []redundancy.File
}

// List reads the summary and the list of files of a dataset, and looks at the
// files. It is collective; the result is agreed.
func (p *Prefix) List(id int) (*Listing, error) {
	old, isOld, err := p.old(id)
	if err != nil {
		return nil, err
	}
	var d dataset.Dataset
	err = p.onRoot(func() (err error) {
		if isOld {
			d, err = old.dataset()
		} else {
			d.Hash, err = readSummary(p.Dir, id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	h, err := hash.Bcast(d.Hash, 0, p.Comm)
	if err != nil {
		return nil, err
	}
	l := &Listing{Dataset: dataset.Dataset{Hash: h}}
	if l.Ranks, l.Files, err = p.files(id); err != nil {
		return nil, err
	}
	totals := []int64{0, 0}
	for _, f := range l.Files {
		if e := present(f); err == nil {
			err = e
		}
		if !f.Meta.Shared() {
			totals[0]++
			totals[1] += f.Meta.Size()
		}
	}
	if err := mpi.AgreeSum(p.Comm, err, totals); err != nil {
		return nil, err
	}
	if int64(l.Dataset.Files()) != totals[0] || l.Size() != totals[1] {
		return nil, mpi.Agree(p.Comm, fmt.Errorf("dataset %d has %d files of %d bytes in all, its summary says %d of %d",
			id, totals[0], totals[1], l.Dataset.Files(), l.Size()))
	}
	return l, nil
}

// files reads the list of files of a dataset, of which each process gets a share.
func (p *Prefix) files(id int) (ranks int, files []redundancy.File, err error) {
	old, isOld, err := p.old(id)
	if err != nil {
		return 0, nil, err
	}
	var items []item
	if isOld {
		ranks, items, err = old.deal(p.Comm)
	} else {
		ranks, items, err = readRank2file(p.Comm, Dir(p.Dir, id))
	}
	if err != nil {
		return 0, nil, err
	}
	for _, it := range items {
		more, e := filesOf(it.entry, p.Dir, ranks)
		if err == nil {
			err = e
		}
		files = append(files, more...)
	}
	return ranks, files, mpi.Agree(p.Comm, err)
}

// readSummary returns the description of a dataset that is complete.
func readSummary(prefix string, id int) (*hash.Hash, error) {
	path := datasetPath(prefix, id, summaryFile)
	h, err := hash.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := dataset.Dataset{Hash: h.Get(keyDset)}
	switch v, _ := h.Int(keyVersion); {
	case v != summaryVersion:
		return nil, fmt.Errorf("%s has version %q, this version of goscr reads version %d", path, h.Text(keyVersion), summaryVersion)
	case !isComplete(h):
		return nil, fmt.Errorf("%s says that the dataset is not complete", path)
	case d.ID() != id:
		return nil, fmt.Errorf("%s is that of dataset %d", path, d.ID())
	}
	return d.Hash, nil
}

// present looks at a file in the prefix directory, and takes from it what the
// list did not say.
func present(f redundancy.File) error {
	info, err := os.Lstat(f.Path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", f.Path)
	}
	f.Meta.Find(info.Size())
	if size := f.Meta.StoredSize(); size >= 0 && size != info.Size() {
		return &redundancy.CorruptError{Path: f.Path, Reason: fmt.Sprintf("has %d bytes, was flushed with %d", info.Size(), size)}
	}
	// Nobody knows the checksum of a file that the program wrote there itself.
	if _, known := f.Meta.CRC(); !known {
		if when, known := f.Meta.Modified(); known && !when.Equal(info.ModTime()) {
			return &redundancy.CorruptError{Path: f.Path, Reason: fmt.Sprintf("was changed at %v, after the dataset was complete",
				info.ModTime().Format(time.DateTime))}
		}
	}
	size := f.Meta.Size()
	if _, other := f.Meta.Stored(); !other {
		size = info.Size()
	}
	if !f.Meta.Recorded() {
		err = f.Meta.Record(f.Path)
	}
	f.Meta.SetSize(size)
	return err
}

// Fetched records that a restart has read a dataset, and that the next is to
// begin with it. It is collective.
func (p *Prefix) Fetched(d dataset.Dataset) error {
	return p.onRoot(func() error {
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
	return p.onRoot(func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil || x.entry(id).Name == "" {
			return err
		}
		err = UpdateIndex(p.Dir, func(x *Index) error { x.MarkFailed(id, time.Now()); return nil })
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("that dataset %d failed could not be recorded: %w", id, err)
		}
		return err
	})
}
