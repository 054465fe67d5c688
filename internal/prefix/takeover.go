package prefix

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/mpi"
)

// losses finds the datasets that own paths of a dataset that is being completed, and
// writes for each a list of the files that it keeps. existing are those of the
// caller's names at which there is a file. An owner that loses one of these loses the other names, too: a user may have deleted
// its file, and with the name it would delete what d writes there. It is collective;
// the result is agreed, and the same on all ranks.
func (c *completion) losses(existing map[string]bool) (list []loss, err error) {
	p, d := c.p, c.d
	names := c.parts.names(c.direct)
	history := d.History()
	if d.Bypass() {
		history = dataset.AnyHistory // the program has written over the files
	}
	older, err := p.owners(history, func(x *Index) ([]Entry, error) { return owning(p.Dir, x, d.ID()) })
	if err != nil {
		return nil, err
	}
	marked := !slices.ContainsFunc(older, func(o owner) bool { return !o.Marked })
	open, rest := maps.Clone(existing), maps.Clone(names)
	for _, o := range older {
		if marked { // then a path has only one owner, and need not be looked up again
			n := mpi.AllreduceOne(p.Comm, len(open), mpi.Sum)
			if n == 0 {
				break
			}
			names = rest
		}
		m, err := p.match(o.origin, c.direct, names)
		if lost, e := isDamage(p.Comm, err); e != nil {
			return nil, e
		} else if lost {
			p.Log.Info("dataset %d: its list of files cannot be compared with that of dataset %d: %v", o.ID, d.ID(), err)
			continue
		}
		if m.common == 0 {
			continue
		}
		found := func(name string, _ bool) bool { return m.found[name] }
		maps.DeleteFunc(open, found)
		maps.DeleteFunc(rest, found)
		l := loss{id: o.ID, left: m.left, retire: o.Retire}
		if m.left > 0 && !l.retire {
			n, _ := listNumber(o.List)
			l.list = listName(n + 1)
			if err := c.writeLeft(l, m); err != nil {
				return nil, err
			}
		}
		list = append(list, l)
	}
	return list, nil
}

// writeLeft writes the list of the files that a dataset keeps. The list has no effect until
// the index names it.
func (c *completion) writeLeft(l loss, m match) error {
	dir := filepath.Join(Dir(c.p.Dir, l.id), l.list)
	err := mpi.OnRoot(c.p.Comm, func() error {
		if err := c.p.root().RemoveAll(dir); err != nil {
			return err
		}
		return hash.MakeDirs(dir)
	})
	if err != nil {
		return err
	}
	var items []rank2file.Item
	for _, it := range m.items {
		left := hash.New()
		for name, fields := range it.Entry.Get(keyFile).All() {
			if !m.lost[c.direct.of(name)] {
				left.At(keyFile).Set(name, fields)
			}
		}
		items = append(items, rank2file.Item{Rank: it.Rank, Entry: left})
	}
	return rank2file.Write(c.p.Comm, dir, m.ranks, items)
}

// takeOver makes the datasets unusable whose files the dataset is about to replace, and records in
// the index that its flush has to be finished. all are all of the caller's files, and existing is that of losses. begun reports whether the index has been changed: then the
// flush can no longer be given up. It is collective; the result is agreed.
func (c *completion) takeOver(all Parts, existing map[string]bool) (begun bool, err error) {
	p, d := c.p, c.d
	list, err := c.losses(existing)
	if err != nil || len(list) == 0 {
		return false, err
	}
	err = mpi.OnRoot(p.Comm, func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return err
		}
		return p.Ours.checkLosses(p.Dir, x, d, list)
	})
	if err != nil {
		return false, err
	}
	var retire []int
	list = slices.DeleteFunc(list, func(l loss) bool {
		if l.retire {
			retire = append(retire, l.id)
		}
		return l.retire
	})
	if err := (retirement{p, d}).all(retire); err != nil || len(list) == 0 {
		return false, err
	}
	for _, files := range all { // to finish the flush, another run needs their temporary names
		if err == nil {
			err = syncNames(p.Dir, files)
		}
	}
	if err := mpi.Agree(p.Comm, err); err != nil {
		return false, err
	}
	err = mpi.OnRoot(p.Comm, func() error {
		p.at("index")
		err := UpdateIndex(p.Dir, func(x *Index) error {
			if err := errors.Join(x.claim(p.Dir, d, true), p.Ours.checkLosses(p.Dir, x, d, list)); err != nil { // again, under the lock
				return err
			}
			if d.Bypass() { // its files were not known when it was entered
				x.replace(d, false)
			}
			x.replaceBy(d, c.ranks, list)
			return nil
		})
		if err != nil { // the index may have been written nevertheless
			x, e := ReadIndex(p.Dir)
			begun = e == nil && x.Has(d) && x.ByID(d.ID()).Placing > 0
			return err
		}
		c.record(list)
		return nil
	})
	if err == nil {
		return true, nil
	}
	return mpi.Any(p.Comm, begun), err
}

// record records in the summaries of datasets, too, that they are replaced, since the
// index can be rebuilt from the summaries. It removes lists that are no longer used.
func (c *completion) record(list []loss) {
	p, d := c.p, c.d
	for _, l := range list {
		p.Log.Info("dataset %d: its files are replaced by %s", l.id, d.Name())
		p.at("summary")
		if err := replaceSummary(p.Dir, d, l); err != nil {
			p.Log.WarnOnce("%v; the summary of dataset %d does not say that %s has replaced it", err, l.id, d.Name())
		}
		found, _ := filepath.Glob(filepath.Join(Dir(p.Dir, l.id), "left.*"))
		for _, dir := range found {
			if filepath.Base(dir) != l.list {
				_ = p.root().RemoveAll(dir) // if it fails, the next loss of files tries again
			}
		}
	}
}
