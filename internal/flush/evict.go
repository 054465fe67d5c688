package flush

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/reddesc"
	"github.com/goscr/goscr/mpi"
)

// MakeRoom makes room for one more dataset in a store: it evicts what Leaving returns.
func (f *Flusher) MakeRoom(store *reddesc.Store) error {
	leaving, err := f.Leaving(store)
	if err != nil {
		return err
	}
	return f.Evict(leaving)
}

// Leaving returns the datasets that have to leave a store before one more is complete in it.
// It waits for the flushes of those that are being flushed, and flushes an output that is
// not in the prefix directory yet. If that output cannot be flushed, it stays, and another
// dataset leaves; Leaving returns an error if that is the newest checkpoint, and it is only
// in the cache.
func (f *Flusher) Leaving(store *reddesc.Store) ([]*cache.Cached, error) {
	leaving, err := f.free(store)
	if err != nil {
		return nil, err
	}
	if newest := f.Cache.NewestCheckpoint(); newest != nil && !f.flushed[newest.ID()] && slices.Contains(leaving, newest) {
		f.Log.WarnJobOnce("%s=1: a dataset leaves the cache before the next is complete; a failure in between loses it (2 keeps it)",
			f.SizeName(store.Name))
	}
	return leaving, nil
}

// Evict deletes datasets, none of which is being flushed, from the cache, and those that
// this run cannot use.
func (f *Flusher) Evict(leaving []*cache.Cached) error {
	for _, c := range leaving {
		f.left(c)
	}
	return f.Cache.Evict(leaving)
}

// free returns the datasets that leave a store to make room for one more, once no flush
// needs them. Flushes end in their order, so it waits for the oldest until that is so.
func (f *Flusher) free(store *reddesc.Store) ([]*cache.Cached, error) {
	var stuck error // why an output could not be flushed
	retried := false
	for {
		newest := f.Cache.NewestCheckpoint()
		leaving := f.Cache.Leaving(store, store.Count-1, func(c *cache.Cached) int { return f.worth(c, newest, stuck != nil) })
		unsaved := slices.ContainsFunc(leaving, f.unsaved)
		switch {
		case slices.ContainsFunc(leaving, func(c *cache.Cached) bool { return f.find(c) != nil }):
			if err := f.waitOldest(); err != nil {
				return nil, err
			}
		case !retried && unsaved:
			retried = true
			if stuck = f.flushOutputs(leaving); stuck != nil && !errors.As(stuck, new(*mpi.AgreedError)) {
				return nil, stuck
			}
		case stuck != nil && (unsaved || newest != nil && !f.flushed[newest.ID()] && slices.Contains(leaving, newest)):
			return nil, stuck
		case stuck != nil:
			f.Log.WarnJob("%v", stuck)
			return leaving, nil
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

// flushOutputs flushes those datasets of a list that are outputs whose flushes have failed.
func (f *Flusher) flushOutputs(list []*cache.Cached) error {
	for _, c := range list {
		if !f.unsaved(c) {
			continue
		}
		err := f.Flush(c)
		switch {
		case err == nil:
		case errors.As(err, new(*mpi.AgreedError)) && f.Cache.Find(c.ID()) == nil: // too much of it is lost
			f.left(c)
			f.Log.WarnJob("output %s is lost: %v", c.Name(), err)
		default:
			return fmt.Errorf("output %s cannot leave the cache, where the next dataset needs a place, before it is flushed "+
				"(SCR_Drop gives it up): %w", c.Name(), err)
		}
	}
	return nil
}

// worth orders the datasets of the cache: those of less worth are evicted first. The newest
// checkpoint is evicted last, since a restart would need it until the next is complete; and
// if outputs cannot be flushed (stuck), these are, of which there is nothing elsewhere.
func (f *Flusher) worth(c, newest *cache.Cached, stuck bool) int {
	switch {
	case stuck && f.unsaved(c):
		return 4
	case c == newest:
		return 3
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
