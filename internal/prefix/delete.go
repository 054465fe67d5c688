package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Delete removes all datasets called name with the files that they own, and directories that
// become empty, from the prefix directory. An unknown name is no error. It is collective.
func (p *Prefix) Delete(name string) error {
	chosen, err := p.choose(func(x *Index) []Entry { return x.named(name) })
	for _, e := range chosen {
		if e := p.remove(e, p.owned); err == nil {
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
		if err := p.remove(e, listedFiles); err != nil {
			p.Log.WarnJob("dataset %d (%s) cannot be deleted from %s, files of it stay: %v", e.ID, e.Name, p.Dir, err)
			if err := p.forget(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// Keep removes the oldest checkpoints until at most most usable ones are left. Outputs
// are kept, and so are files that other datasets own. It is collective.
func (p *Prefix) Keep(most int) error {
	old, err := p.choose(func(x *Index) []Entry { return x.beyond(most) })
	if err != nil {
		return err
	}
	for _, e := range old {
		p.Log.Info("checkpoint %s is deleted from %s, where SCR_PREFIX_SIZE=%d are kept", e.Name, p.Dir, most)
		if err := p.remove(e, p.owned); err != nil {
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
		for _, e := range of(p.Ours.Of(x)) {
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

// listed returns the caller's share of the files on the list of a dataset. It is
// collective; the error is agreed.
func (p *Prefix) listed(e Entry) ([]redundancy.File, error) {
	if e.Replaced != nil && e.Replaced.Left == 0 {
		return nil, nil
	}
	_, files, err := p.files(e.origin())
	return files, err
}

// owned returns those of the listed files that no other dataset owns. Usually that is known
// without comparing lists: a complete dataset owns all the files on its list, if that was
// compared with the lists of older datasets when it was completed, and a dataset that was
// replaced has a list of the files that it still owns. Lists are compared
//
//   - with datasets that were completed without such a comparison, by SCR 3.1 or an older
//     version of goscr;
//   - if e is not complete, since then it owns no file that another dataset lists;
//   - if a file does not look like the one that was listed: a user may have deleted that,
//     and another dataset may have been written to the same path.
//
// It is collective; the error is agreed.
func (p *Prefix) owned(e Entry, files []redundancy.File) ([]redundancy.File, error) {
	strange, err := mpi.Any(p.Comm, slices.ContainsFunc(files, strange))
	if err != nil {
		return nil, err
	}
	compare := strange || !e.Owns || !e.owns()
	others, err := p.owners(func(x *Index) ([]Entry, error) {
		list, err := owning(p.Dir, x, e.ID)
		return slices.DeleteFunc(list, func(o Entry) bool { return !compare && o.Owns }), err
	})
	if err != nil {
		return nil, err
	}
	direct := newNaming(p.Dir)
	names := Parts{0: files}.names(direct)
	for _, o := range others {
		m, err := p.match(o.origin, direct, names)
		if unreadable(err) {
			continue // which files it owns is not known
		}
		if err != nil {
			return nil, err
		}
		for name := range m.found {
			delete(names, name)
		}
	}
	return slices.DeleteFunc(files, func(f redundancy.File) bool { return !names[direct.of(f.Meta.File())] }), nil
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
	files, err := p.listed(e)
	asides := p.asides(e, files)
	if err == nil {
		files, err = which(e, files)
	}
	if !e.owns() {
		files = slices.DeleteFunc(files, func(f redundancy.File) bool { return !written(f) })
	}
	if err != nil && (e.Complete || !unreadable(err)) {
		return err
	}
	// The entry in the index is removed first, so that no job restarts from a dataset
	// of which some files are deleted. (A dataset without a list of files was never
	// completed, and no job restarts from it.)
	err = mpi.OnRoot(p.Comm, func() error {
		return UpdateIndex(p.Dir, func(x *Index) error {
			if x.ByID(e.ID).Name == e.Name {
				x.passOver(e.ID)
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
		if e.Dir != "" && e.Replaced == nil && CheckName(e.Dir) == nil { // a directory that SCR 1.1 made for it alone
			if err := p.root().RemoveAll(filepath.Join(p.Dir, e.Dir)); err != nil {
				return err
			}
		}
		return Locate(p.Dir, e.Dataset, InPrefix, false)
	})
}
