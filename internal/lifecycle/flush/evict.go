package flush

import (
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
)

// Leaving is what has to leave a store before one more dataset is complete in it.
type Leaving struct {
	Datasets []*cache.Cached // those that can be used
	store    *reddesc.Store  // nil: no unused dataset leaves
	series   string          // of the new dataset
	stay     int             // number of unused datasets that may stay in the store
	need     int64           // size in bytes of the caller's part of the new dataset, or cache.SizeUnknown
}

// Leaving returns what has to leave a store before one more dataset of a series is complete in it: each series has
// as many places there as the store has. need
// is the size in bytes of the caller's part of the new dataset, or cache.SizeUnknown on all
// ranks. It waits for the flushes of those that are being flushed, and flushes an output or a
// withheld checkpoint that is not in the prefix directory yet. If that cannot be flushed, it
// stays, and another dataset leaves; Leaving returns an error if that is the newest checkpoint,
// and it is only in the cache. Once this run has completed a checkpoint, a withheld one leaves
// even if it cannot be flushed.
func (f *Flusher) Leaving(store *reddesc.Store, series string, need int64) (Leaving, error) {
	leaving, stay, err := f.free(store, series)
	if err != nil {
		return Leaving{}, err
	}
	if newest := f.Cache.NewestCheckpoint(series); newest != nil && f.flushed[newest.ID()] != fetchable && slices.Contains(leaving, newest) {
		f.Log.WarnJobOnce("%s=1: a dataset leaves the cache before the next is complete; a failure in between loses it (2 keeps it)",
			f.SizeName(store.Name))
	}
	return Leaving{leaving, store, series, stay, need}, nil
}

// Evict deletes datasets, none of which is being flushed, from the cache.
func (f *Flusher) Evict(l Leaving) {
	for _, c := range l.Datasets {
		f.left(c)
	}
	f.Cache.Evict(l.Datasets)
	if l.store == nil {
		return
	}
	f.Cache.Unused.Evict(l.store, l.series, l.stay, l.need)
}

// free returns the datasets of a series that leave a store to make room for one more, once no flush
// needs them, and how many unused ones stay. Flushes end in their order, so it waits for the
// oldest until that is so.
func (f *Flusher) free(store *reddesc.Store, series string) (leaving []*cache.Cached, stay int, err error) {
	var stuck error // why a dataset that must not leave unflushed could not be flushed
	retried := false
	for {
		newest := f.Cache.NewestCheckpoint(series)
		leaving, stay = f.leaving(store, series, newest, stuck != nil)
		unsaved := slices.ContainsFunc(leaving, f.unsaved)
		switch {
		case f.exposes(leaving, series):
			if err := f.waitProtected(); err != nil {
				return nil, 0, err
			}
		case slices.ContainsFunc(leaving, func(c *cache.Cached) bool { return f.find(c) != nil }):
			f.waitOldest()
		case !retried && slices.ContainsFunc(leaving, f.flushFirst):
			retried = true
			stuck = f.flushLeaving(leaving)
		case stuck != nil && (unsaved || newest != nil && f.flushed[newest.ID()] != fetchable && slices.Contains(leaving, newest)):
			return nil, 0, stuck
		case stuck != nil:
			f.Log.WarnJob("%v", stuck)
			return leaving, stay, nil
		default:
			return leaving, stay, nil
		}
	}
}

// leaving selects the datasets that leave a store to make room for one more, and how many of
// the unused ones stay. A dataset that can be fetched again leaves before an unused
// one that is newer than all that can be used: the next run may be able to use that.
func (f *Flusher) leaving(store *reddesc.Store, series string, newest *cache.Cached, stuck bool) (list []*cache.Cached, stay int) {
	id := 0
	if newest != nil {
		id = newest.ID()
	}
	room := store.Count - 1
	used := f.Cache.Leaving(store, series, 0, func(*cache.Cached) int { return 0 })
	all, newer := f.Cache.Unused.Count(store, series, id)
	lost := 0 // used ones that cannot be fetched again, or not yet
	for _, c := range used {
		lost += min(f.worth(c, newest, stuck, f.Fetch), 1)
	}
	stay = max(min(newer, room-lost), min(all, room-len(used)), 0)
	return f.Cache.Leaving(store, series, room-stay, func(c *cache.Cached) int { return f.worth(c, newest, stuck, f.Fetch && stay > 0) }), stay
}

// exposes reports whether the newest dataset of a series that is protected would leave while a newer one is
// being protected, or that one itself, or one that may leave without a flush once that is protected.
func (f *Flusher) exposes(leaving []*cache.Cached, series string) bool {
	current := f.Protector.Dataset()
	return current != nil && (slices.Contains(leaving, current) || slices.Contains(leaving, f.Cache.NewestProtected(series)) ||
		slices.ContainsFunc(leaving, f.unsaved))
}

// waitProtected waits until the dataset that is being protected is so.
func (f *Flusher) waitProtected() error {
	c := f.Protector.Dataset()
	f.Log.Info("dataset %d (%s): its protection has to end before the next dataset has room", c.ID(), c.Name())
	return f.Settle()
}

// waitOldest waits for the flush that was started first.
func (f *Flusher) waitOldest() {
	c := f.running[0].cached
	f.Log.Info("dataset %d (%s): its flush has to end before the next dataset has room", c.ID(), c.Name())
	f.wait(f.running[0])
}

// unsaved reports whether a dataset must not leave before it is in the prefix directory: an
// output, or a withheld checkpoint as long as this run has completed none of its own.
func (f *Flusher) unsaved(c *cache.Cached) bool {
	return f.flushFirst(c) && (c.Flags().Has(dataset.Output) || !f.own)
}

// flushFirst reports whether a dataset that is not in the prefix directory has to be flushed, or
// at least a flush tried, whatever SCR_FLUSH is, before it leaves.
func (f *Flusher) flushFirst(c *cache.Cached) bool {
	return !f.Flushed(c.ID()) && (c.Flags().Has(dataset.Output) || c.Withheld())
}

// flushLeaving flushes those datasets of a list that must be flushed before they leave. It
// warns of those that may leave although they cannot be flushed.
func (f *Flusher) flushLeaving(list []*cache.Cached) error {
	for _, c := range list {
		if !f.flushFirst(c) {
			continue
		}
		what := "output"
		if !c.Flags().Has(dataset.Output) {
			what = "checkpoint"
		}
		err := f.Flush(c)
		switch {
		case err == nil:
		case f.Cache.Find(c.ID()) == nil: // too much of it is lost
			f.Log.WarnJob("%s %s is lost: %v", what, c.Name(), err)
		case !f.unsaved(c):
			f.Log.WarnJob("%s %s, which is not offered, leaves the cache, where the next dataset needs its place, and is nowhere else: %v", what, c.Name(), err)
		default:
			return fmt.Errorf("%s %s cannot leave the cache, where the next dataset needs a place, before it is flushed "+
				"(SCR_Drop gives it up): %w", what, c.Name(), err)
		}
	}
	return nil
}

// worth orders the datasets of the cache: those of less worth are evicted first. The newest
// checkpoint is evicted last, since a restart would need it until the next is complete, and
// so is the newest that is protected; and if unsaved datasets cannot be flushed (stuck), these are, of which there is nothing elsewhere. If
// fetch is true, what is in the prefix directory is worth nothing.
func (f *Flusher) worth(c, newest *cache.Cached, stuck, fetch bool) int {
	switch {
	case stuck && f.unsaved(c):
		return 4
	case fetch && f.flushed[c.ID()] == fetchable:
		return 0
	case c == f.Cache.NewestProtected(c.Series()) || c == newest && c == f.Protector.Dataset():
		return 3
	case c == newest: // its protection has failed
		return 2
	case f.find(c) != nil:
		return 2 // evicting it takes a wait
	case c.Flags().Has(dataset.Checkpoint) || f.unsaved(c):
		return 1
	}
	return 0
}

// drop deletes a dataset from the cache. If it is being flushed, the flush is cancelled.
func (f *Flusher) drop(c *cache.Cached) error {
	if err := f.stop(c); err != nil {
		return err
	}
	f.delete(c)
	return nil
}

// stop cancels the protection and the flush of a dataset.
func (f *Flusher) stop(c *cache.Cached) error {
	f.Protector.Cancel(c)
	if f.later == c {
		f.later = nil
	}
	if b := f.find(c); b != nil {
		return f.cancel(b)
	}
	return nil
}

// PassOver leaves a dataset in the cache that this run shall not use, and that is not to be
// flushed: a restart from it has failed.
func (f *Flusher) PassOver(c *cache.Cached) error {
	if err := f.stop(c); err != nil {
		return err
	}
	f.left(c)
	f.Cache.Unused.PassOver(c)
	return nil
}

// Held returns the datasets of the cache of which condition is true, also unused ones: those that
// DropWhere deletes. It is not collective, and the same on all ranks if
// condition is.
func (f *Flusher) Held(condition func(dataset.Dataset) bool) (list []dataset.Dataset) {
	for _, c := range f.Cache.List() {
		list = append(list, c.Dataset)
	}
	list = append(list, f.Cache.Unused.Known()...)
	return slices.DeleteFunc(list, func(d dataset.Dataset) bool { return !condition(d) })
}

// Halt cancels the protection and the flush of the datasets of which condition, which is the
// same on all ranks, is true. They stay in the cache.
func (f *Flusher) Halt(condition func(dataset.Dataset) bool) error {
	for _, c := range f.Cache.List() {
		if !condition(c.Dataset) {
			continue
		}
		if err := f.stop(c); err != nil {
			return err
		}
	}
	return nil
}

// DropWhere deletes the datasets from the cache of which condition, which is the same on all
// ranks, is true, also unused ones.
func (f *Flusher) DropWhere(condition func(dataset.Dataset) bool) error {
	f.Cache.Unused.DropUnwanted(condition)
	for _, c := range slices.Clone(f.Cache.List()) {
		if !condition(c.Dataset) {
			continue
		}
		f.Log.Info("dataset %d (%s) leaves the cache", c.ID(), c.Name())
		if err := f.drop(c); err != nil {
			return err
		}
	}
	return nil
}
