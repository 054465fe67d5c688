package flush

import (
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
)

// Room makes room in the cache for the next dataset: it selects what leaves, waits for its flush, and flushes it
// first if nothing else has it.
type Room struct {
	flusher  *Flusher
	cache    *cache.Cache
	contents *Contents
	log      *report.Logger
	fetch    bool                      // Config.Fetch
	sizeName func(store string) string // Config.SizeName
	own      bool                      // this run has completed a checkpoint
}

// Supersede records that this run has completed a checkpoint of its own: withheld ones that cannot be flushed may
// leave the cache from now on. It is not collective, but all ranks call it.
func (r *Room) Supersede() { r.own = true }

// Leaving is what has to leave a store before one more dataset is complete in it.
type Leaving struct {
	Datasets []*cache.Cached // those that can be used
	store    *reddesc.Store  // nil: no unused dataset leaves
	series   string          // of the new dataset
	stay     int             // number of unused datasets that may stay in the store
	need     int64           // size in bytes of the caller's part of the new dataset, or cache.SizeUnknown
}

// Leaving returns what has to leave a store before one more dataset of a series is complete in it: each series has
// as many places there as the store has. need is the size in bytes of the caller's part of the new dataset, or
// cache.SizeUnknown on all ranks. It waits for the flushes of those that are being flushed, and flushes an output or
// a withheld checkpoint that is not in the prefix directory yet. If that cannot be flushed, it stays, and another
// dataset leaves; Leaving returns an error if that is the newest checkpoint, and it is only in the cache. Once this
// run has completed a checkpoint, a withheld one leaves even if it cannot be flushed.
func (r *Room) Leaving(store *reddesc.Store, series string, need int64) (Leaving, error) {
	leaving, stay, err := r.free(store, series)
	if err != nil {
		return Leaving{}, err
	}
	if newest := r.cache.NewestCheckpoint(series); newest != nil && !r.contents.fetchable(newest) && slices.Contains(leaving, newest) {
		r.log.WarnJobOnce("%s=1: a dataset leaves the cache before the next is complete; a failure in between loses it (2 keeps it)",
			r.sizeName(store.Name))
	}
	return Leaving{leaving, store, series, stay, need}, nil
}

// Evict deletes datasets, none of which is being flushed, from the cache.
func (r *Room) Evict(l Leaving) {
	for _, c := range l.Datasets {
		r.contents.left(c)
	}
	r.cache.Evict(l.Datasets)
	if l.store != nil {
		r.cache.Unused.Evict(l.store, l.series, l.stay, l.need)
	}
}

// free returns the datasets of a series that leave a store to make room for one more, once no flush needs them, and
// how many unused ones stay. Flushes end in their order, so it waits for the oldest until that is so.
func (r *Room) free(store *reddesc.Store, series string) (leaving []*cache.Cached, stay int, err error) {
	var stuck error // why a dataset that must not leave unflushed could not be flushed
	retried := false
	for {
		newest := r.cache.NewestCheckpoint(series)
		leaving, stay = r.leaving(store, series, newest, stuck != nil)
		switch {
		case r.exposes(leaving, series):
			c := r.flusher.Protector.Dataset()
			r.log.Info("dataset %d (%s): its protection has to end before the next dataset has room", c.ID(), c.Name())
			if err := r.flusher.Settle(); err != nil {
				return nil, 0, err
			}
		case slices.ContainsFunc(leaving, func(c *cache.Cached) bool { return r.flusher.Background.find(c) != nil }):
			oldest := r.flusher.Background.oldest()
			r.log.Info("dataset %d (%s): its flush has to end before the next dataset has room", oldest.cached.ID(), oldest.cached.Name())
			r.flusher.wait(oldest)
		case !retried && slices.ContainsFunc(leaving, r.contents.flushFirst):
			retried = true
			stuck = r.flushLeaving(leaving)
		case stuck != nil && (slices.ContainsFunc(leaving, r.unsaved) || newest != nil && !r.contents.fetchable(newest) && slices.Contains(leaving, newest)):
			return nil, 0, stuck
		case stuck != nil:
			r.log.WarnJob("%v", stuck)
			return leaving, stay, nil
		default:
			return leaving, stay, nil
		}
	}
}

// leaving selects the datasets that leave a store to make room for one more, and how many of the unused ones stay. A
// dataset that can be fetched again leaves before an unused one that is newer than all that can be used: the next
// run may be able to use that.
func (r *Room) leaving(store *reddesc.Store, series string, newest *cache.Cached, stuck bool) (list []*cache.Cached, stay int) {
	id := 0
	if newest != nil {
		id = newest.ID()
	}
	room := store.Count - 1
	used := r.cache.Leaving(store, series, 0, func(*cache.Cached) int { return 0 })
	all, newer := r.cache.Unused.Count(store, series, id)
	lost := 0 // used ones that cannot be fetched again, or not yet
	for _, c := range used {
		lost += min(r.worth(c, newest, stuck, r.fetch), 1)
	}
	stay = max(min(newer, room-lost), min(all, room-len(used)), 0)
	return r.cache.Leaving(store, series, room-stay, func(c *cache.Cached) int { return r.worth(c, newest, stuck, r.fetch && stay > 0) }), stay
}

// exposes reports whether the newest dataset of a series that is protected would leave while a newer one is being
// protected, or that one itself, or one that may leave without a flush once that is protected.
func (r *Room) exposes(leaving []*cache.Cached, series string) bool {
	current := r.flusher.Protector.Dataset()
	return current != nil && (slices.Contains(leaving, current) || slices.Contains(leaving, r.cache.NewestProtected(series)) ||
		slices.ContainsFunc(leaving, r.unsaved))
}

// unsaved reports whether a dataset must not leave before it is in the prefix directory: an output, or a withheld
// checkpoint as long as this run has completed none of its own.
func (r *Room) unsaved(c *cache.Cached) bool {
	return r.contents.flushFirst(c) && (c.Flags().Has(dataset.Output) || !r.own)
}

// flushLeaving flushes those datasets of a list that must be flushed before they leave. It warns of those that may
// leave although they cannot be flushed.
func (r *Room) flushLeaving(list []*cache.Cached) error {
	for _, c := range list {
		if !r.contents.flushFirst(c) {
			continue
		}
		what := "output"
		if !c.Flags().Has(dataset.Output) {
			what = "checkpoint"
		}
		err := r.flusher.Flush(c)
		switch {
		case err == nil:
		case r.cache.Find(c.ID()) == nil: // too much of it is lost
			r.log.WarnJob("%s %s is lost: %v", what, c.Name(), err)
		case !r.unsaved(c):
			r.log.WarnJob("%s %s, which is not offered, leaves the cache, where the next dataset needs its place, and is nowhere else: %v", what, c.Name(), err)
		default:
			return fmt.Errorf("%s %s cannot leave the cache, where the next dataset needs a place, before it is flushed "+
				"(SCR_Drop gives it up): %w", what, c.Name(), err)
		}
	}
	return nil
}

// worth orders the datasets of the cache: those of less worth are evicted first. The newest checkpoint is evicted
// last, since a restart would need it until the next is complete, and so is the newest that is protected; and if
// unsaved datasets cannot be flushed (stuck), these are, of which there is nothing elsewhere. If fetch is true, what
// is in the prefix directory is worth nothing.
func (r *Room) worth(c, newest *cache.Cached, stuck, fetch bool) int {
	switch {
	case stuck && r.unsaved(c):
		return 4
	case fetch && r.contents.fetchable(c):
		return 0
	case c == r.cache.NewestProtected(c.Series()) || c == newest && c == r.flusher.Protector.Dataset():
		return 3
	case c == newest: // its protection has failed
		return 2
	case r.flusher.Background.find(c) != nil:
		return 2 // evicting it takes a wait
	case c.Flags().Has(dataset.Checkpoint) || r.unsaved(c):
		return 1
	}
	return 0
}

// stop cancels the protection and the flush of a dataset.
func (f *Flusher) stop(c *cache.Cached) error {
	f.Protector.Cancel(c)
	if f.later == c {
		f.later = nil
	}
	b := f.Background.find(c)
	if b == nil {
		return nil
	}
	err := f.Background.cancel(b)
	f.results.fail(c, b.start, transfer.ErrStopped)
	f.config.Log.Info("dataset %d (%s): its flush is cancelled", c.ID(), c.Name())
	return err
}

// PassOver leaves a dataset in the cache that this run shall not use, and that is not to be flushed: a restart from
// it has failed.
func (f *Flusher) PassOver(c *cache.Cached) error {
	if err := f.stop(c); err != nil {
		return err
	}
	f.Contents.left(c)
	f.config.Cache.Unused.PassOver(c)
	return nil
}

// Halt cancels the protection and the flush of the datasets of which condition, which is the same on all ranks, is
// true. They stay in the cache.
func (f *Flusher) Halt(condition func(dataset.Dataset) bool) error {
	for _, c := range f.config.Cache.List() {
		if !condition(c.Dataset) {
			continue
		}
		if err := f.stop(c); err != nil {
			return err
		}
	}
	return nil
}

// DropWhere deletes the datasets from the cache of which condition, which is the same on all ranks, is true, also
// unused ones.
func (f *Flusher) DropWhere(condition func(dataset.Dataset) bool) error {
	f.config.Cache.Unused.DropUnwanted(condition)
	for _, c := range slices.Clone(f.config.Cache.List()) {
		if !condition(c.Dataset) {
			continue
		}
		f.config.Log.Info("dataset %d (%s) leaves the cache", c.ID(), c.Name())
		if err := f.stop(c); err != nil {
			return err
		}
		f.Contents.delete(c)
	}
	return nil
}

// Remake makes directories of the cache again that somebody has removed under the running job, and what datasets
// have lost with them. It is collective; the error is agreed.
func (f *Flusher) Remake() error {
	damaged, err := f.config.Cache.Remake()
	if err != nil {
		return err
	}
	for _, c := range damaged {
		if b := f.Background.find(c); b != nil {
			f.wait(b)
		}
		if f.config.Cache.Find(c.ID()) == nil {
			continue
		}
		if err := f.Contents.repair(c); err != nil {
			f.config.Log.WarnJob("dataset %d (%s) is lost with the directories: %v", c.ID(), c.Name(), err)
		}
	}
	return nil
}
