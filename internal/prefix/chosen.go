package prefix

import (
	"fmt"
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
type chosen struct {
	ID      int       `hash:"DSET"`
	Created time.Time `hash:"CREATED"`
	Newest  int       `hash:"NEWEST"`
	Latest  time.Time `hash:"LATEST"`
	When    time.Time `hash:"WHEN"`
}

const keyChosen = "CHOSEN"

// Choose makes the next run with a prefix directory restart from a checkpoint. x is the index of that directory.
func Choose(x *Index, prefix, name string, now time.Time) error {
	if e, ok := x.Find(name); ok && !e.Flags().Has(dataset.Checkpoint) {
		return fmt.Errorf("%s is not a checkpoint, and a run cannot restart from it", name)
	}
	if err := x.SetCurrent(name); err != nil {
		return err
	}
	located, err := Locations(prefix)
	if err != nil {
		return err
	}
	e, _ := x.Find(x.Current())
	c := chosen{ID: e.ID, Created: e.Created(), Latest: time.UnixMicro(0), When: now}
	for _, d := range known(x, located) {
		c.Newest = max(c.Newest, d.ID())
		if d.Created().After(c.Latest) {
			c.Latest = d.Created()
		}
	}
	x.h.Set(keyChosen, hash.Marshal(c))
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
	chosen
}

// Chosen returns the choice of a user. ok is false if there is none.
func Chosen(x *Index) (c Choice, ok bool) {
	c.chosen = hash.As[chosen](x.h.Get(keyChosen))
	c.Of = x.ByID(c.ID)
	return c, c.ID != 0
}

// Holds reports whether the choice has an effect: the index x has the dataset, and no job has completed another one since. located are the
// datasets of flush.scr, cached those that are complete in the caches of the job.
func (c Choice) Holds(x *Index, located []Located, cached []dataset.Dataset) bool {
	newer := func(d dataset.Dataset) bool { return d.ID() > c.Newest || d.Created().After(c.Latest) }
	switch {
	case !c.is(c.Of.Dataset) || !c.Of.usable() || x.Current() != "" && !c.Of.Current: // SCR 3.1 may have made another one current
		return false
	case slices.ContainsFunc(known(x, located), newer):
		return false
	}
	return !slices.ContainsFunc(cached, func(d dataset.Dataset) bool { return newer(d) && d.Created().After(c.When) })
}

// End ends the choice, because the run has taken it, or continues without. If the user has chosen again meanwhile, that stays.
func (c Choice) End(prefix string) error {
	return UpdateIndex(prefix, func(x *Index) error {
		if hash.As[chosen](x.h.Get(keyChosen)) == c.chosen {
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
