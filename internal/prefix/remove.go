package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// choose returns on all ranks the entries that rank 0 selects by calling of, lowest id
// first. It is collective.
func (p *Prefix) choose(of func(*Index) []Entry) ([]Entry, error) {
	list := hash.New()
	err := mpi.OnRoot(p.Comm, func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return err
		}
		for _, e := range of(p.Ours.Of(x)) {
			list.Set(strconv.Itoa(e.ID), e.encode())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list = hash.Bcast(list, 0, p.Comm)
	var chosen []Entry
	for _, id := range list.Ints() {
		chosen = append(chosen, decodeEntry(id, list.Get(strconv.Itoa(id))))
	}
	return chosen, nil
}

// strange reports whether there is a file that does not look like the one that was
// listed. It compares whole seconds, since some file systems do not store fractions.
func strange(f redundancy.File) bool {
	info, err := f.Below.Lstat(f.Path)
	if err != nil {
		return false
	}
	f.Meta.Find(info.Size())
	when, known := f.Meta.Modified()
	return !known || when.Unix() != info.ModTime().Unix() || f.Meta.StoredSize() != info.Size()
}

// written reports whether the file at the path of one that was listed has the listed
// contents, or, if no checksum is known, its size and time. A dataset that was never complete
// lists files that may not have got there: what is there then is the user's.
func written(f redundancy.File) bool {
	if info, err := f.Below.Lstat(f.Path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	if _, known := f.Meta.CRC(); !known {
		return !strange(f)
	}
	_, err := reader(string(f.Below)).Verify(f.Path, f.Meta)
	return err == nil
}

// listedFiles returns all of the listed files, whichever dataset owns them.
func listedFiles(_ Entry, files []redundancy.File) ([]redundancy.File, error) { return files, nil }

// remove deletes a dataset, and of its listed files those that the function which returns.
// It is collective; the result is agreed.
func (p *Prefix) remove(e Entry, which func(Entry, []redundancy.File) ([]redundancy.File, error)) error {
	var files []redundancy.File // the caller's share of the list
	var err error
	if e.Replaced == nil || e.Replaced.Left > 0 {
		_, files, err = p.files(e.origin())
	}
	asides := p.asides(e, files)
	if err == nil {
		files, err = which(e, files)
	}
	if !e.owns() {
		files = slices.DeleteFunc(files, func(f redundancy.File) bool { return !written(f) })
	}
	if err != nil && e.Complete {
		return err
	}
	// The entry in the index is removed first, so that no job restarts from a dataset
	// of which some files are deleted. (A dataset without a list of files was never
	// completed, and no job restarts from it.)
	err = mpi.OnRoot(p.Comm, func() error {
		return UpdateIndex(p.Dir, func(x *Index) error {
			if x.ByID(e.ID).Name == e.Name {
				x.passOver(e.ID, false)
				x.remove(e.ID)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	err = DiscardAsides(p.Dir, asides)
	for _, f := range files {
		if e := p.root().Remove(f.Path); e != nil && !errors.Is(e, fs.ErrNotExist) && err == nil {
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

// asides returns the temporary files that an interrupted flush of a dataset may have left:
// those of the given files, and those on the caller's share of the lists of single ranks.
func (p *Prefix) asides(e Entry, files []redundancy.File) (list []redundancy.File) {
	if e.owns() {
		return nil
	}
	for _, f := range files {
		list = append(list, redundancy.File{Path: Aside(f.Path, e.ID, ByFlush), Meta: f.Meta, Below: p.root()})
	}
	ranks, _ := PartsOf(p.Dir, e.ID) // usually there are none
	for i, rank := range ranks {
		if i%p.Comm.Size() != p.Comm.Rank() {
			continue
		}
		if part, err := ReadPart(p.Dir, e.ID, rank); err == nil {
			own, _ := redundancy.Split(part.Files)
			list = append(list, own...)
		}
	}
	return list
}

// forget removes the metadata of a dataset. It is collective; the result is agreed.
func (p *Prefix) forget(e Entry) error {
	return mpi.OnRoot(p.Comm, func() error {
		err := UpdateIndex(p.Dir, func(x *Index) error { x.remove(e.ID); return nil })
		if err != nil {
			return err
		}
		if err := removeLitter(p.Dir, e.ID, nil); err != nil {
			return err
		}
		if err := p.root().RemoveAll(Dir(p.Dir, e.ID)); err != nil {
			return fmt.Errorf("metadata of dataset %d: %w", e.ID, err)
		}
		if err := p.root().RemoveAll(filepath.Join(p.Dir, retiredDir(e.Dataset))); err != nil {
			return err
		}
		if e.Dir != "" && e.Replaced == nil && CheckName(e.Dir) == nil { // a directory that SCR 1.1 made for it alone
			if err := p.root().RemoveAll(filepath.Join(p.Dir, e.Dir)); err != nil {
				return err
			}
		}
		return Locate(p.Dir, e.Dataset, InPrefix, false)
	})
}
