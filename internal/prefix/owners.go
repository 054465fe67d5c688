package prefix

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// A path in the prefix directory is owned by one dataset: the complete one that lists it. Paths are compared
// without the symbolic links in them (naming.go).
// When a dataset is completed, it takes over those of its paths at which there is a file.
// The earlier owners are found by comparing lists, not times. They are then no longer
// complete, and keep a list of the files that they still own.

// owner is a dataset that may own paths.
type owner struct {
	origin
	Name   string `hash:"NAME"`
	Marked bool   `hash:"OWNS,omitempty"`   // it has OWNS in the index: no older dataset owns any of its paths
	Retire bool   `hash:"RETIRE,omitempty"` // it is retired when d needs its names; see losses
}

// owners returns, on all ranks, the datasets that rank 0 chooses, in its order, for one of some history.
func (p *Prefix) owners(history int64, choose func(x *Index) ([]Entry, error)) (list []owner, err error) {
	type owners struct {
		List []owner `hash:"DSET"`
	}
	var own []owner
	err = mpi.OnRoot(p.Comm, func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return err
		}
		entries, err := choose(x)
		for _, e := range entries {
			retires, err := isRetired(x, p.Dir, e, history)
			if err != nil {
				return err
			}
			own = append(own, owner{e.origin(), e.Name, e.Owns, retires})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	all := hash.As[owners](hash.Bcast(hash.Marshal(owners{own}), 0, p.Comm))
	for i := range own { // on rank 0
		all.List[i].dir = own[i].dir
	}
	return all.List, nil
}

// owning returns the datasets that own paths, except the one with id but: those in the
// index, newest first, and then those that were removed from it but not deleted.
func owning(prefix string, x *Index, but int) (list []Entry, err error) {
	for _, e := range x.own() {
		if e.owns() && e.ID != but && !e.moved() {
			list = append(list, e)
		}
	}
	ids, err := IDs(prefix)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Backward(ids) {
		if id == but || !x.ByID(id).IsZero() {
			continue
		}
		f, err := Summary(prefix, id)
		if errors.As(err, new(*fs.PathError)) && !errors.Is(err, fs.ErrNotExist) { // it is not known whether it owns any
			return nil, err
		}
		if err == nil && f.Complete && f.Retired == nil {
			list = append(list, Entry{Dataset: f.Dataset, ID: id, Name: f.Name(), Complete: true, Owns: f.Owns})
		}
	}
	return list, nil
}

// match is the result of looking up names, on all ranks, in the list of a dataset.
type match struct {
	ranks int              // of the job that wrote it
	items []rank2file.Item // the caller's share of the list
	lost  map[string]bool  // the names in items that any rank has looked up, without links
	found map[string]bool  // the names looked up by the caller that are on the list
	// how many names on the whole list were looked up, and how many were not
	common, left int
}

// match looks up the caller's names, which are without links, in the list of a dataset. It is collective; the result
// is agreed.
func (p *Prefix) match(o origin, n *naming, names map[string]bool) (m match, err error) {
	m.lost, m.found = map[string]bool{}, map[string]bool{}
	m.ranks, err = p.entries(o, func(_ int, items []rank2file.Item) error {
		m.items = append(m.items, items...)
		return nil
	})
	if err != nil {
		return m, err
	}
	var share, open []string
	listed := map[string]bool{}
	shared := 0
	for _, it := range m.items {
		for name, fields := range it.Entry.Get(keyFile).All() {
			if name = n.of(name); !listed[name] { // SCR 3.1 may list two names of one file
				listed[name] = true
				share = append(share, name)
			}
			if meta.FromHash(fields).Shared() {
				shared++
			}
			if names[name] { // usual, since a rank tends to write the same names again
				m.lost[name], m.found[name] = true, true
			}
		}
	}
	for name := range names {
		open = append(open, name)
	}
	rest := slices.DeleteFunc(slices.Clone(open), func(name string) bool { return m.found[name] })
	totals := []int64{int64(len(rest)), int64(len(share)), int64(shared)}
	p.Comm.Allreduce(totals, mpi.Sum)
	// Of a file that several ranks have listed, those that others have listed are found too.
	compare := totals[2] > 0
	if !compare {
		open, compare = rest, totals[0] > 0
	}
	if compare && totals[1] > 0 {
		found, lost, err := redundancy.Common(p.Comm, open, share)
		if err != nil {
			return m, err
		}
		maps.Copy(m.found, found)
		maps.Copy(m.lost, lost)
	}
	lost := mpi.AllreduceOne(p.Comm, int64(len(m.lost)), mpi.Sum)
	m.common, m.left = int(lost), int(totals[1]-lost)
	return m, nil
}

// isDamage reports whether an error of a list means that it is damaged, and not only that it cannot be read now: the dataset
// of such a list cannot be used, and there is no need to take paths from it. It is collective; other errors are returned.
func isDamage(c mpi.Comm, err error) (bool, error) {
	if err == nil {
		return false, nil
	}
	var agreed *mpi.AgreedError
	passing := errors.As(err, &agreed) && errors.As(agreed.Err, new(unix.Errno)) && !errors.Is(agreed.Err, fs.ErrNotExist)
	if mpi.Any(c, passing) {
		return false, err
	}
	return true, nil
}

// losses finds the datasets that own paths of a dataset that is being completed, and
// writes for each a list of the files that it keeps. names are those of the caller's names
// that newer datasets do not own (late.go), and existing those of them at which there is a
// file. An owner that loses one of these loses the other names, too: a user may have deleted
// its file, and with the name it would delete what d writes there. It is collective;
// the result is agreed, and the same on all ranks.
func (p *Prefix) losses(d dataset.Dataset, direct *naming, names, existing map[string]bool) (list []loss, err error) {
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
		m, err := p.match(o.origin, direct, names)
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
			if err := p.writeLeft(l, m, direct); err != nil {
				return nil, err
			}
		}
		list = append(list, l)
	}
	return list, nil
}

// writeLeft writes the list of the files that a dataset keeps. The list has no effect until
// the index names it.
func (p *Prefix) writeLeft(l loss, m match, direct *naming) error {
	dir := filepath.Join(Dir(p.Dir, l.id), l.list)
	err := mpi.OnRoot(p.Comm, func() error {
		if err := p.root().RemoveAll(dir); err != nil {
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
			if !m.lost[direct.of(name)] {
				left.At(keyFile).Set(name, fields)
			}
		}
		items = append(items, rank2file.Item{Rank: it.Rank, Entry: left})
	}
	return rank2file.Write(p.Comm, dir, m.ranks, items)
}

// takeOver makes the datasets unusable whose files d is about to replace, and records in
// the index that the flush of d has to be finished. names and existing are those of losses. begun reports whether the index has been changed: then the
// flush can no longer be given up. It is collective; the result is agreed.
func (p *Prefix) takeOver(d dataset.Dataset, ranks int, parts Parts, n *naming, names, existing map[string]bool) (begun bool, err error) {
	list, err := p.losses(d, n, names, existing)
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
	if err := retireAll(p, retire, d.History()); err != nil || len(list) == 0 {
		return false, err
	}
	for _, files := range parts { // to finish the flush, another run needs their temporary names
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
			x.replaceBy(d, ranks, list)
			return nil
		})
		if err != nil { // the index may have been written nevertheless
			x, e := ReadIndex(p.Dir)
			begun = e == nil && x.Has(d) && x.ByID(d.ID()).Placing > 0
			return err
		}
		p.replaced(d, list)
		return nil
	})
	if err == nil {
		return true, nil
	}
	return mpi.Any(p.Comm, begun), err
}

// replaced records in the summaries of datasets, too, that they are replaced, since the
// index can be rebuilt from the summaries. It removes lists that are no longer used.
func (p *Prefix) replaced(d dataset.Dataset, list []loss) {
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
