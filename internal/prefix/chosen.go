package prefix

import (
	"slices"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// A user chooses the checkpoint of the next restart with scr_index. The run takes it even if the cache has a newer one,
// as if SCR_CURRENT named it:
//
//	CHOSEN
//	  DSET     id of the chosen dataset, which is the current one, too
//	  CREATED  when it was created
//	  NEWEST   highest id of any dataset that the index and flush.scr had when the user chose
//	  LATEST   when the youngest of them was created
//	  WHEN     when the user chose
//
// A choice ends when a run begins a dataset, or another dataset becomes current. It has no effect if a job has completed a
// dataset since: that work counts. Such a dataset has a higher id than NEWEST, or was created after LATEST: a job numbers its
// datasets from below again when its nodes are lost. A dataset that neither index nor flush.scr has, because a run on other
// nodes did not find it, counts as newer if it was created after WHEN, too. Only there two clocks are compared.
const (
	keyChosen = "CHOSEN"
	keyNewest = "NEWEST"
	keyLatest = "LATEST"
	keyWhen   = "WHEN"
)

// Choose makes the next run with a prefix directory restart from a dataset. x is the index of that directory.
func Choose(x *Index, prefix, name string, now time.Time) error {
	if err := x.SetCurrent(name); err != nil {
		return err
	}
	located, err := Locations(prefix)
	if err != nil {
		return err
	}
	newest, latest := 0, time.UnixMicro(0)
	for _, d := range known(x, located) {
		newest = max(newest, d.ID())
		if d.Created().After(latest) {
			latest = d.Created()
		}
	}
	e, _ := x.Find(x.Current())
	h := hash.New()
	h.SetInt(keyDset, int64(e.ID))
	h.SetInt(keyCreated, e.Created().UnixMicro())
	h.SetInt(keyNewest, int64(newest))
	h.SetInt(keyLatest, latest.UnixMicro())
	h.SetInt(keyWhen, now.UnixMicro())
	x.h.Set(keyChosen, h)
	return nil
}

// known returns the datasets that the index and flush.scr have. Their ids are those under which they are entered.
func known(x *Index, located []Located) (list []dataset.Dataset) {
	for _, e := range x.own() {
		list = append(list, e.Dataset)
	}
	for _, l := range located {
		if l.Is(InCache) || l.Is(Flushing) {
			list = append(list, l.Dataset)
		}
	}
	return list
}

// Choice is what a user has chosen.
type Choice struct {
	Of Entry
	h  *hash.Hash
}

// Chosen returns the choice of a user. ok is false if there is none.
func Chosen(x *Index) (c Choice, ok bool) {
	h := x.h.Get(keyChosen)
	id, ok := h.Int(keyDset)
	return Choice{x.ByID(int(id)), h}, ok
}

// Holds reports whether the choice has an effect: the index x has the dataset, and no job has completed another one since. located are the
// datasets of flush.scr, cached those that are complete in the caches of the job.
func (c Choice) Holds(x *Index, located []Located, cached []dataset.Dataset) bool {
	newest, _ := c.h.Int(keyNewest)
	latest, _ := c.h.Int(keyLatest)
	when, _ := c.h.Int(keyWhen)
	newer := func(d dataset.Dataset) bool { return d.ID() > int(newest) || d.Created().UnixMicro() > latest }
	switch {
	case !chose(c.h, c.Of.Dataset) || !c.Of.usable() || x.Current() != "" && !c.Of.Current: // SCR 3.1 may have made another one current
		return false
	case slices.ContainsFunc(known(x, located), newer):
		return false
	}
	return !slices.ContainsFunc(cached, func(d dataset.Dataset) bool { return newer(d) && d.Created().UnixMicro() > when })
}

// End ends the choice, because the run has taken it, or goes on without. If the user has chosen again meanwhile, that stays.
func (c Choice) End(prefix string) error {
	return UpdateIndex(prefix, func(x *Index) error {
		if x.h.Get(keyChosen).Equal(c.h) {
			x.h.Unset(keyChosen)
		}
		return nil
	})
}

// EndChoiceBut ends a choice that is not of the dataset with the given id.
func (x *Index) EndChoiceBut(id int) {
	if c, ok := Chosen(x); ok && c.Of.ID != id {
		x.h.Unset(keyChosen)
	}
}
