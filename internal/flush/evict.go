package flush

import (
	"slices"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/reddesc"
)

// MakeRoom evicts datasets until a store has room for one more. It waits for their
// flushes, and flushes outputs that are not in the prefix directory.
func (f *Flusher) MakeRoom(store *reddesc.Store) error {
	newest := f.Cache.NewestCheckpoint()
	leaving := f.Cache.Leaving(store, store.Count-1, func(c *cache.Cached) int { return f.worth(c, newest) })
	if newest != nil && !f.flushed[newest.ID()] && slices.Contains(leaving, newest) {
		f.Log.WarnJobOnce("%s=1: a dataset leaves the cache before the next is complete; a failure in between loses it (2 keeps it)",
			f.SizeName(store.Name))
	}
	for _, c := range leaving {
		if err := f.release(c); err != nil {
			return err
		}
	}
	return f.Cache.Evict(leaving)
}

// worth orders the datasets of the cache: those of less worth are evicted first.
func (f *Flusher) worth(c, newest *cache.Cached) int {
	switch {
	case f.find(c) != nil || c == newest && len(f.running) > 0:
		return 2 // evicting a dataset that is being flushed means a wait, and must not be avoided by evicting the newest
	case c.Flags().Has(dataset.Checkpoint) || c.Flags().Has(dataset.Output) && !f.flushed[c.ID()]:
		return 1
	}
	return 0
}

// release flushes a dataset, or waits for its flush, so that it can leave the cache.
func (f *Flusher) release(c *cache.Cached) error {
	if b := f.find(c); b != nil {
		f.Log.Info("dataset %d (%s): its flush has to end before the next dataset has room", c.ID(), c.Name())
		if err := f.wait(b); err != nil {
			return err
		}
	}
	if f.Cache.Find(c.ID()) == nil { // an output, which was evicted when its flush ended
		return nil
	}
	if c.Flags().Has(dataset.Output) && !f.flushed[c.ID()] {
		if err := f.Flush(c); err != nil {
			return err
		}
	}
	f.left(c)
	return nil
}

// Drop deletes a dataset from the cache. If it is being flushed, the flush is cancelled.
func (f *Flusher) Drop(c *cache.Cached) error {
	if b := f.find(c); b != nil {
		if err := f.cancel(b); err != nil {
			return err
		}
	}
	return f.delete(c)
}

// DropWhere drops the datasets for which condition returns true. condition must return
// the same on all ranks.
func (f *Flusher) DropWhere(condition func(*cache.Cached) bool) error {
	for _, c := range slices.Clone(f.Cache.List()) {
		if !condition(c) {
			continue
		}
		f.Log.Info("dataset %d (%s) is deleted from the cache", c.ID(), c.Name())
		if err := f.Drop(c); err != nil {
			return err
		}
	}
	return nil
}
