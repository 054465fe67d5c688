package flush

import (
	"slices"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/reddesc"
)

// MakeRoom makes room for one more dataset in a store. A dataset that is being flushed
// leaves once its flush has ended, and an output once it is in the prefix directory. need is
// the size in bytes of the caller's part of the new dataset, 0 if it is not known.
func (f *Flusher) MakeRoom(store *reddesc.Store, need int64) error {
	leaving, stay, err := f.free(store)
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
	if err := f.Cache.Evict(leaving); err != nil {
		return err
	}
	return f.Cache.EvictUnused(store, stay, need)
}

// free returns the datasets that leave a store to make room for one more, once no flush
// needs them, and how many unused ones stay. Flushes end in their order, so it waits for the
// oldest until that is so.
func (f *Flusher) free(store *reddesc.Store) (leaving []*cache.Cached, stay int, err error) {
	retried := false
	for {
		leaving, stay = f.leaving(store)
		switch {
		case slices.ContainsFunc(leaving, func(c *cache.Cached) bool { return f.find(c) != nil }):
			if err := f.waitOldest(); err != nil {
				return nil, 0, err
			}
		case !retried && slices.ContainsFunc(leaving, f.unsaved):
			retried = true
			if err := f.flushOutputs(); err != nil {
				return nil, 0, err
			}
		default:
			return leaving, stay, nil
		}
	}
}

// leaving selects the datasets that leave a store to make room for one more, and how many of
// the unused ones stay. A dataset that can be fetched again leaves before an unused
// one that is newer than all that can be used: the next run may be able to use that.
func (f *Flusher) leaving(store *reddesc.Store) (list []*cache.Cached, stay int) {
	newest, id := f.Cache.NewestCheckpoint(), 0
	if newest != nil {
		id = newest.ID()
	}
	room := store.Count - 1
	used := f.Cache.Leaving(store, 0, func(*cache.Cached) int { return 0 })
	all, newer := f.Cache.Unused(store, id)
	lost := 0 // used ones that cannot be fetched again, or not yet
	for _, c := range used {
		lost += min(f.worth(c, newest, true), 1)
	}
	stay = max(min(newer, room-lost), min(all, room-len(used)), 0)
	return f.Cache.Leaving(store, room-stay, func(c *cache.Cached) int { return f.worth(c, newest, stay > 0) }), stay
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

// worth orders the datasets of the cache: those of less worth are evicted first. If fetch is
// true, a checkpoint is worth nothing that is in the prefix directory.
func (f *Flusher) worth(c, newest *cache.Cached, fetch bool) int {
	switch {
	case c == newest && len(f.running) > 0:
		return 3 // waiting for a flush makes room, so the newest checkpoint stays
	case f.find(c) != nil:
		return 2 // evicting it takes a wait
	case fetch && f.flushed[c.ID()]:
		return 0
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
	return f.delete(c)
}

// stop cancels the flush of a dataset, if it is being flushed.
func (f *Flusher) stop(c *cache.Cached) error {
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
	return f.Cache.PassOver(c)
}

// DropWhere deletes the datasets from the cache of which condition, which is the same on all
// ranks, is true, also such as were passed over.
func (f *Flusher) DropWhere(condition func(dataset.Dataset) bool) error {
	if err := f.Cache.DropPassed(condition); err != nil {
		return err
	}
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
