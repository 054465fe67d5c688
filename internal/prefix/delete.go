package prefix

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Delete removes all datasets of a history called name with the files that they own, and directories that
// become empty, from the prefix directory. An unknown name is no error. It is collective.
func (p *Prefix) Delete(name string, history int64) error {
	chosen, err := p.choose(func(x *Index) []Entry {
		return slices.DeleteFunc(x.named(name), func(e Entry) bool { return !e.Of(history) })
	})
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

// Discard deletes a retired dataset with its files, for commands: without its entry in the index nobody would find them.
func Discard(prefix string, e Entry) error {
	return alone(prefix, func(p *Prefix) error { return p.remove(e, p.owned) })
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

// beyond returns the checkpoints, incomplete ones included, that are older in their series than the
// newest most usable ones of the history of the newest. Those of other histories, as far as these are kept, are left out.
func (x *Index) beyond(most int) (old []Entry) {
	series := map[string][]Entry{}
	for _, e := range x.Entries() {
		series[e.Series()] = append(series[e.Series()], e)
	}
	for _, name := range slices.Sorted(maps.Keys(series)) {
		old = append(old, beyond(series[name], most)...)
	}
	return old
}

// beyond is Index.beyond for the datasets of one series, newest first.
func beyond(list []Entry, most int) (old []Entry) {
	present := dataset.UnknownHistory
	if i := slices.IndexFunc(list, func(e Entry) bool { return e.Complete && e.Flags().Has(dataset.Checkpoint) }); i >= 0 {
		present = list[i].History()
	}
	kept := histories(list, present)
	own, usable := 0, 0
	for _, e := range list {
		mine := present == dataset.AnyHistory || e.History() == present
		switch {
		case !e.Flags().Has(dataset.Checkpoint):
		case mine && own < most, !mine && (kept[e.History()] || usable < most), e.Current:
			if e.usable() {
				usable++
			}
			if e.usable() && mine {
				own++
			}
		case !e.Flags().Has(dataset.Output):
			old = append(old, e)
		}
	}
	return old
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
// A retired dataset owns what has moved to its directory.
//
// It is collective; the error is agreed.
func (p *Prefix) owned(e Entry, files []redundancy.File) ([]redundancy.File, error) {
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
