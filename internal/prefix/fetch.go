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
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Candidate returns the next dataset to try to restart from, after one with
// the id below (0 to begin). It is collective; all ranks get the same one.
func (p *Prefix) Candidate(below int) (dataset.Dataset, bool, error) {
	var d dataset.Dataset
	err := p.onRoot(func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return err
		}
		if e, ok := x.Next(below); ok {
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

// List reads the summary of a dataset and gives each rank the list of its own
// files, with their paths in the prefix directory. It is collective; the result
// is agreed.
func (p *Prefix) List(id int) (dataset.Dataset, []redundancy.File, error) {
	d, entry, err := p.entry(id)
	if err != nil {
		return d, nil, err
	}
	files, err := filesOf(entry, p.Dir, p.Comm.Size())
	for _, f := range files {
		if err == nil {
			err = present(f)
		}
	}
	if err := mpi.Agree(p.Comm, err); err != nil {
		return d, nil, err
	}
	totals := []int64{int64(len(files)), 0}
	for _, f := range files {
		totals[1] += f.Meta.Size()
	}
	if err := p.Comm.Allreduce(totals, mpi.Sum); err != nil {
		return d, nil, err
	}
	if int64(d.Files()) != totals[0] || d.Size() != totals[1] {
		return d, nil, mpi.Agree(p.Comm, fmt.Errorf("dataset %d has %d files of %d bytes in all, its summary says %d of %d",
			id, totals[0], totals[1], d.Files(), d.Size()))
	}
	return d, files, nil
}

// entry reads what is recorded of a dataset: its description, and the caller's
// own files.
func (p *Prefix) entry(id int) (dataset.Dataset, *hash.Hash, error) {
	var d dataset.Dataset
	var old *oldSummary
	err := p.onRoot(func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return err
		}
		if dir := x.entry(id).Dir; dir != "" {
			if old, err = readOldSummary(p.Dir, dir, id); err == nil {
				d, err = old.dataset(p.Comm.Size())
			}
			return err
		}
		d.Hash, err = readSummary(p.Dir, id)
		return err
	})
	if err != nil {
		return dataset.Dataset{}, nil, err
	}
	if d.Hash, err = hash.Bcast(d.Hash, 0, p.Comm); err != nil {
		return dataset.Dataset{}, nil, err
	}
	if d.Has(keyDir) {
		entry, err := old.deal(p.Comm)
		return d, entry, err
	}
	entry, err := readRank2file(p.Comm, Dir(p.Dir, id))
	return d, entry, err
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
	case h.Text(keyComplete) != "1":
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
	case f.Meta.Size() >= 0 && f.Meta.Size() != info.Size():
		return &redundancy.CorruptError{Path: f.Path, Reason: fmt.Sprintf("has %d bytes, was flushed with %d", info.Size(), f.Meta.Size())}
	}
	if f.Meta.Text("MODE") == "" {
		return f.Meta.Record(f.Path)
	}
	f.Meta.SetSize(info.Size())
	return nil
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

// Delete removes a dataset with its files, and the directories that leaves
// empty, from the prefix directory. A name that is not there is no error. It is
// collective.
func (p *Prefix) Delete(name string) error {
	id := []int64{0}
	err := p.onRoot(func() error {
		x, err := ReadIndex(p.Dir)
		if err == nil {
			n, _ := x.Lookup(name)
			id[0] = int64(n)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := p.Comm.Allreduce(id, mpi.Max); err != nil {
		return err
	}
	if id[0] == 0 {
		return nil
	}
	d, entry, err := p.entry(int(id[0]))
	if err != nil {
		return err
	}
	dir := Dir(p.Dir, int(id[0]))
	if old := d.Text(keyDir); old != "" {
		dir = filepath.Join(p.Dir, old)
	}
	files, err := filesOf(entry, p.Dir, p.Comm.Size())
	if err := mpi.Agree(p.Comm, err); err != nil {
		return err
	}
	// It leaves the index first: from then on nobody restarts from it.
	err = p.onRoot(func() error {
		return UpdateIndex(p.Dir, func(x *Index) error { x.Remove(name); return nil })
	})
	if err != nil {
		return err
	}
	for _, f := range files {
		if e := os.Remove(f.Path); e != nil && !errors.Is(e, fs.ErrNotExist) && err == nil {
			err = e
		}
	}
	if err := mpi.Agree(p.Comm, err); err != nil {
		return err
	}
	for _, f := range files {
		// Fails, as it should, at the first directory that holds something.
		for d := filepath.Dir(f.Path); d != p.Dir && os.Remove(d) == nil; d = filepath.Dir(d) {
		}
	}
	return p.onRoot(func() error {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		return Locate(p.Dir, dataset.New(int(id[0]), name, dataset.None, 0, dataset.Owner{}, time.Time{}), InPrefix, false)
	})
}
