package prefix

import (
	"errors"
	"io/fs"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
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

// isRetired reports whether a dataset of a prefix directory is to be retired. One that users have dropped is not, nor one that is damaged.
func isRetired(x *Index, prefix string, e Entry, history int64) (bool, error) {
	if !x.Has(e.Dataset) || !e.retires(history) {
		return false, nil
	}
	_, err := Summary(prefix, e.ID)
	if errors.Is(err, hash.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
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
