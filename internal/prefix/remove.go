package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

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

// removal deletes a dataset with its files.
type removal struct {
	p   *Prefix
	e   Entry
	all bool // all of the listed files, whichever dataset owns them
}

// run deletes the dataset. It is collective; the result is agreed.
func (r removal) run() error {
	p, e := r.p, r.e
	var files []redundancy.File // the caller's share of the list
	var err error
	if e.Replaced == nil || e.Replaced.Left > 0 {
		_, files, err = p.files(e.origin())
	}
	asides := r.asides(files)
	if err == nil && !r.all {
		files, err = r.owned(files)
	}
	if !e.owns() {
		files = slices.DeleteFunc(files, func(f redundancy.File) bool { return !written(f) })
	}
	if err != nil && e.moved() { // its list is damaged, but its files are in a directory of its own, which forget removes
		var lost bool
		if lost, err = isDamage(p.Comm, err); lost {
			files = nil
		}
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
	return r.forget()
}

// owned returns those of the listed files that no other dataset owns. Usually that is known
// without comparing lists: a complete dataset owns all the files on its list, if that was
// compared with the lists of older datasets when it was completed, and a dataset that was
// replaced has a list of the files that it still owns. Lists are compared
//
//   - with datasets that were completed without such a comparison, by SCR 3.1 or an older
//     version of goscr;
//   - if the dataset is not complete, since then it owns no file that another dataset lists;
//   - if a file does not look like the one that was listed: a user may have deleted that,
//     and another dataset may have been written to the same path.
//
// A retired dataset owns what has moved to its directory.
//
// It is collective; the error is agreed.
func (r removal) owned(files []redundancy.File) ([]redundancy.File, error) {
	p, e := r.p, r.e
	strange := mpi.Any(p.Comm, slices.ContainsFunc(files, strange))
	compare := strange || !e.Owns || !e.owns()
	others, err := p.owners(dataset.AnyHistory, func(x *Index) ([]Entry, error) {
		list, err := owning(p.Dir, x, e.ID)
		return slices.DeleteFunc(list, func(o Entry) bool { return !compare && o.Owns }), err
	})
	if err != nil {
		return nil, err
	}
	direct := newNaming(p.Dir)
	moved := func(f redundancy.File) bool { return e.Retired != nil && f.Path != filepath.Join(p.Dir, f.Meta.File()) }
	names := Parts{0: slices.DeleteFunc(slices.Clone(files), moved)}.names(direct)
	for _, o := range others {
		m, err := p.match(o.origin, direct, names)
		if lost, e := isDamage(p.Comm, err); e != nil {
			return nil, e
		} else if lost {
			continue // which files it owns is not known
		}
		for name := range m.found {
			delete(names, name)
		}
	}
	return slices.DeleteFunc(files, func(f redundancy.File) bool { return !moved(f) && !names[direct.of(f.Meta.File())] }), nil
}

// asides returns the temporary files that an interrupted flush of the dataset may have left:
// those of the given files, and those on the caller's share of the lists of single ranks.
func (r removal) asides(files []redundancy.File) (list []redundancy.File) {
	p, e := r.p, r.e
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

// forget removes the metadata of the dataset. It is collective; the result is agreed.
func (r removal) forget() error {
	p, e := r.p, r.e
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
