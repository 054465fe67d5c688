package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// Selector selects a dataset of the index; ok is false if it finds none. Only rank 0 calls it, see Find. It may change x, which
// is not stored.
type Selector func(x *Index) (e Entry, ok bool)

// Find returns on all ranks the dataset that rank 0 selects from those of this job; ok is false if it selects none. It is
// collective; all ranks get the same result.
func (p *Prefix) Find(selected Selector) (d dataset.Dataset, ok bool, err error) {
	h, err := hash.FromRoot(p.Comm, func() (*hash.Hash, error) {
		var d dataset.Dataset
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return nil, err
		}
		if e, ok := selected(p.Ours.Of(x)); ok {
			d = e.Dataset
		}
		return d.Encode(), nil
	})
	if err != nil {
		return dataset.Dataset{}, false, err
	}
	d = dataset.Decode(h)
	return d, !d.IsZero(), nil
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
	list = hash.Bcast(list, 0, p.Comm)
	var chosen []Entry
	for _, id := range list.Ints() {
		chosen = append(chosen, decodeEntry(id, list.Get(strconv.Itoa(id))))
	}
	return chosen, nil
}

// Candidate selects the next checkpoint to try to restart from: one with an id lower
// than below, or, if below is 0, the first to try.
func Candidate(below int) Selector {
	return func(x *Index) (Entry, bool) { return withoutSeries(x).Next(below) }
}

// withoutSeries returns the index without the datasets of series, which are found by NewestWhere.
func withoutSeries(x *Index) *Index {
	for _, e := range x.own() {
		if e.Series() != "" {
			x.remove(e.ID)
		}
	}
	return x
}

// Newer returns the names of the usable checkpoints with ids higher than than, newest
// first.
func Newer(prefix string, than int) (names []string, err error) {
	x, err := ReadIndex(prefix)
	if err != nil {
		return nil, err
	}
	for _, e := range x.Entries() {
		if e.ID > than && e.usable() && e.Series() == "" {
			names = append(names, e.Name)
		}
	}
	return names, nil
}

// Written selects the newest checkpoint that the program wrote directly to the prefix
// directory (bypass), if a restart should use it before the cache and before checkpoints
// that have to be fetched. Its id must be
//
//   - higher than after, the id of the newest checkpoint in the cache, or 0 if the cache
//     has none;
//   - lower than below;
//   - not higher than that of the current checkpoint, if that is usable.
//
// If after is 0, no newer checkpoint that has to be fetched may exist within these
// bounds.
func Written(after, below int) Selector {
	return func(x *Index) (Entry, bool) {
		x = withoutSeries(x)
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
	}
}

// HasWritten reports whether the index has a checkpoint that Written can select, whatever its bounds.
func HasWritten(x *Index) bool {
	return slices.ContainsFunc(withoutSeries(x).Entries(), func(e Entry) bool { return e.usable() && e.Bypass() })
}

// Later selects the next checkpoint to try to restart from before one in the cache, whose
// id is after. If below is 0, for the first try, that is the current checkpoint, if its id is
// higher than after; for further tries, below is the id of the checkpoint that was tried
// last, and it is the newest usable one with an id between the two. Those of which ours is
// false are left out.
func Later(after, below int, ours func(d dataset.Dataset) bool) Selector {
	return func(x *Index) (Entry, bool) {
		x = withoutSeries(x)
		e, ok := x.Find(x.Current())
		if below > 0 {
			e, ok = x.Next(below)
		}
		for ok && e.usable() && e.ID > after {
			if ours(e.Dataset) {
				return e, true
			}
			e, ok = x.Next(e.ID)
		}
		return Entry{}, false
	}
}

// Lookup selects the checkpoint of a name, if a job can restart from it.
func Lookup(name string) Selector {
	return func(x *Index) (Entry, bool) {
		e, ok := x.Find(name)
		return e, ok && e.usable()
	}
}

// NewestWhere selects the newest usable checkpoint, with an id higher than after and lower than below, of which condition is true.
func NewestWhere(condition func(dataset.Dataset) bool, after, below int) Selector {
	return func(x *Index) (Entry, bool) {
		for _, e := range x.Entries() {
			if e.ID > after && e.ID < below && e.usable() && condition(e.Dataset) {
				return e, true
			}
		}
		return Entry{}, false
	}
}

// Usable selects a dataset if a job can restart from it.
func Usable(d dataset.Dataset) Selector {
	return func(x *Index) (Entry, bool) {
		e := x.ByID(d.ID())
		return e, x.Has(d) && e.usable()
	}
}

// Holds selects a dataset if the prefix directory has all of it, even if no job can restart from it.
func Holds(d dataset.Dataset) Selector {
	return func(x *Index) (Entry, bool) {
		e := x.ByID(d.ID())
		return e, x.Has(d) && e.Complete
	}
}

// Fetched records that a restart has read a dataset, and makes this dataset current, unless a user has made another choice since the run
// has read known, which is rank 0's. It is collective.
func (p *Prefix) Fetched(d dataset.Dataset, known Choice) error {
	return mpi.OnRoot(p.Comm, func() error {
		err := UpdateIndex(p.Dir, func(x *Index) error {
			x.MarkFetched(d.ID(), time.Now())
			if c, made := Chosen(x); made && c.chosen != known.chosen && !c.is(d) {
				return nil
			}
			return x.SetCurrent(x.ByID(d.ID()).Name)
		})
		if err != nil {
			return err
		}
		return Locate(p.Dir, d, InPrefix, true)
	})
}

// Failed records that, and why, a restart from a dataset failed, so that no later restart
// tries it. why is rank 0's. It does nothing if the index does not have that dataset, or has one
// of another job under its id. It is collective.
func (p *Prefix) Failed(d dataset.Dataset, why string) error {
	return mpi.OnRoot(p.Comm, func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil || !x.Has(d) {
			return err
		}
		err = UpdateIndex(p.Dir, func(x *Index) error { x.MarkFailed(d.ID(), why, time.Now()); return nil })
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("cannot record that a restart from dataset %d failed: %w", d.ID(), err)
		}
		return p.Spare(err)
	})
}
