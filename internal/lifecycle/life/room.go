package life

import (
	"slices"

	"github.com/goscr/goscr/internal/prefix/dataset"
)

// Room is what is known when a dataset of a series needs a place in a store.
type Room struct {
	Held   []Held   // the datasets of that series in the cache, newest first
	Places int      // that the series has in the store
	Unused []Unused // those that have such a place and may leave it, in the order in which they leave
	Fetch  bool     // SCR_FETCH: the next run can fetch what is in the prefix directory
	Own    bool     // this run has protected a checkpoint of any series, or written one to the prefix directory
	// Protecting is whether the redundancy of some dataset, of any series, is being made.
	Protecting bool
	Tried      bool // the datasets that MustFlush were flushed, or a flush was tried
	Stuck      bool // that has failed for one that is Unsaved
}

// Held is a dataset in the cache.
type Held struct {
	dataset.Dataset
	State
	Here bool // in the store in which a place is needed
}

// Unused is a dataset in the cache that this run does not use.
type Unused struct {
	ID     int
	Failed bool // a restart from it has failed: no run is offered it unless a user asks for it
}

// Step is what to do next to make room.
type Step int

const (
	Evict              Step = iota // the datasets that leave can be deleted
	WaitForProtection              // wait until nothing is being protected any more
	WaitForFlush                   // wait for the flush that was started first
	FlushThoseThatMust             // flush those of which MustFlush is true
	Refuse                         // there is no room unless datasets leave that are nowhere else
)

// Next returns what to do next to make room; the datasets that leave, as indices of Held; and how many of the unused
// ones stay. It is called again after each step until it returns Evict or Refuse.
func (r *Room) Next() (step Step, leaving []int, stay int) {
	newest, last := r.newest(func(h Held) bool { return true }), r.last()
	leaving, stay = r.leaving(newest)
	some := func(condition func(i int) bool) bool { return slices.ContainsFunc(leaving, condition) }
	switch {
	case r.exposes(leaving):
		return WaitForProtection, leaving, stay
	case some(func(i int) bool { return r.Held[i].copy == flushing }):
		return WaitForFlush, leaving, stay
	case !r.Tried && some(func(i int) bool { return r.Held[i].MustFlush() }):
		return FlushThoseThatMust, leaving, stay
	case r.Stuck && some(func(i int) bool { return r.Unsaved(i) || (i == newest || i == last) && !r.Held[i].Fetchable() }):
		return Refuse, leaving, stay
	}
	return Evict, leaving, stay
}

// Risky reports whether the newest checkpoint is among those that leave, and is nowhere else, because the store has one place.
func (r *Room) Risky(leaving []int) bool {
	newest := r.newest(func(Held) bool { return true })
	return r.Places <= 1 && newest >= 0 && !r.Held[newest].Fetchable() && slices.Contains(leaving, newest)
}

// MustFlush reports whether goscr tries to flush a dataset before it leaves, whatever SCR_FLUSH is.
func (h Held) MustFlush() bool {
	return !h.Flushed() && (h.Flags().Has(dataset.Output) || h.Withheld())
}

// safe reports whether a dataset is verified, and survives the loss of a node, as far as its scheme can do that.
func (h Held) safe() bool { return h.stage == protected && !h.Exposed() }

// last returns the checkpoint that leaves after all others, -1 if there is none: the newest that is safe; or, if none
// is, the newest that was protected.
func (r *Room) last() int {
	if i := r.newest(Held.safe); i >= 0 {
		return i
	}
	return r.newest(Held.Protected)
}

// Unsaved reports whether a dataset must not leave before it is in the prefix directory: an output, or a withheld
// checkpoint unless Own is true.
func (r *Room) Unsaved(i int) bool {
	h := r.Held[i]
	return h.MustFlush() && (h.Flags().Has(dataset.Output) || !r.Own)
}

// newest returns the newest checkpoint that is not withheld and of which condition is true, -1 if there is none.
func (r *Room) newest(condition func(Held) bool) int {
	return slices.IndexFunc(r.Held, func(h Held) bool { return h.Flags().Has(dataset.Checkpoint) && !h.Withheld() && condition(h) })
}

// leaving selects the datasets that leave the store, and how many of the unused ones stay. An unused dataset that is newer
// than the newest checkpoint stays longer than one that can be fetched: the next run may be able to use it, unless a
// restart from it has failed.
func (r *Room) leaving(newest int) (leaving []int, stay int) {
	id := 0
	if newest >= 0 {
		id = r.Held[newest].ID()
	}
	var here []int // oldest first
	for i := len(r.Held) - 1; i >= 0; i-- {
		if r.Held[i].Here {
			here = append(here, i)
		}
	}
	newer := 0
	for _, unused := range r.Unused {
		if unused.ID > id && !unused.Failed {
			newer++
		}
	}
	needed := 0 // used ones that are worth keeping
	for _, i := range here {
		needed += min(r.worth(i, newest, r.Fetch), 1)
	}
	room := r.Places - 1
	stay = max(min(newer, room-needed), min(len(r.Unused), room-len(here)), 0)
	fetch := r.Fetch && stay > 0
	slices.SortStableFunc(here, func(a, b int) int { return r.worth(a, newest, fetch) - r.worth(b, newest, fetch) })
	return here[:max(len(here)-max(room-stay, 0), 0)], stay
}

// worth orders the datasets: those of less worth leave first. A restart may need the newest checkpoint, and the newest that
// is safe, so they leave late. Only unsaved datasets that cannot be flushed leave later. If fetch is true, what is in
// the prefix directory is worth nothing.
func (r *Room) worth(i, newest int, fetch bool) int {
	h := r.Held[i]
	switch {
	case r.Stuck && r.Unsaved(i):
		return 4
	case fetch && h.Fetchable():
		return 0
	case i == r.last() || i == newest && h.Protecting():
		return 3
	case i == newest: // it would not survive the loss of a node
		return 2
	case h.copy == flushing:
		return 2 // it cannot leave before its flush has ended
	case h.Flags().Has(dataset.Checkpoint) || r.Unsaved(i):
		return 1
	}
	return 0
}

// exposes reports whether the datasets that leave have to wait for a protection: one of them is the last checkpoint, the
// one that is being protected, or unsaved (a withheld one may leave without a flush once Own is true).
func (r *Room) exposes(leaving []int) bool {
	last := r.last()
	return r.Protecting && slices.ContainsFunc(leaving, func(i int) bool {
		return i == last || r.Held[i].Protecting() || r.Unsaved(i)
	})
}
