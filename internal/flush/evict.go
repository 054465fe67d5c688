package flush

import (
	"slices"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/reddesc"
)

// MakeRoom makes room for one more dataset in a store. A dataset that is being flushed
// leaves once its flush has ended, and an output once it is in the prefix directory.
func (f *Flusher) MakeRoom(store *reddesc.Store) error {
	leaving, err := f.free(store)
	if err != nil {
		return err
	}
	if newest := f.Cache.NewestCheckpoint(); newest != nil && !f.flushed[newest.ID()] && slices.Contains(leaving, newest) {
		f.Log.WarnJobOnce("%s=1: a dataset leaves the cache before the next is complete; a failure in between loses it (2 keeps it)",
			f.SizeName(store.Name))
	}
	for _, c := range leaving {
		f.left(c)
	}
	return f.Cache.Evict(leaving)
}

// free returns the datasets that leave a store to make room for one more, once no flush
// needs them. Flushes end in their order, so it waits for the oldest until that is so.
func (f *Flusher) free(store *reddesc.Store) ([]*cache.Cached, error) {
	retried := false
	for {
		newest := f.Cache.NewestCheckpoint()
		leaving := f.Cache.Leaving(store, store.Count-1, func(c *cache.Cached) int { return f.worth(c, newest) })
		switch {
		case slices.ContainsFunc(leaving, func(c *cache.Cached) bool { return f.find(c) != nil }):
			if err := f.waitOldest(); err != nil {
				return nil, err
			}
		case !retried && slices.ContainsFunc(leaving, f.unsaved):
			retried = true
			if err := f.flushOutputs(); err != nil {
				return nil, err
			}
		default:
			return leaving, nil
		}
	}
}

// waitOldest waits for the flush that was started first.
func (f *Flusher) waitOldest() error {
	c := f.running[0].cached
	f.Log.Info("dataset %d (%s): its flush has to end before the next dataset has room", c.ID(), c.Name())
	return f.wait(f.running[0])
}

// unsaved reports whether a dataset is an output that is not in the prefix directory,
// because its flush has failed.
func (f *Flusher) unsaved(c *cache.Cached) bool {
	return c.Flags().Has(dataset.Output) && !f.flushed[c.ID()]
}

// flushOutputs flushes the outputs whose flushes have failed.
func (f *Flusher) flushOutputs() error {
	for _, c := range slices.Clone(f.Cache.List()) {
		if f.unsaved(c) {
			if err := f.Flush(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// worth orders the datasets of the cache: those of less worth are evicted first.
func (f *Flusher) worth(c, newest *cache.Cached) int {
	switch {
	case c == newest && len(f.running) > 0:
		return 3 // waiting for a flush makes room, so the newest checkpoint stays
	case f.find(c) != nil:
		return 2 // evicting it takes a wait
	case c.Flags().Has(dataset.Checkpoint) || f.unsaved(c):
		return 1
	}
	return 0
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

// DropWhere drops the datasets of which condition, which is the same on all ranks, is
// true.
func (f *Flusher) DropWhere(condition func(*cache.Cached) bool) error {
	for _, c := range slices.Clone(f.Cache.List()) {
		if !condition(c) {
			continue
		}
		f.Log.Info("dataset %d (%s) leaves the cache", c.ID(), c.Name())
		if err := f.Drop(c); err != nil {
			return err
		}
	}
	return nil
}
