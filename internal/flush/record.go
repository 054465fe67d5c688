package flush

import (
	"slices"
	"time"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog/phases"
	"github.com/goscr/goscr/internal/prefix"
)

// conclude records the result err of a flush that began at start, and in which the caller's
// copies took some time. It returns err, or an error of its own.
func (f *Flusher) conclude(c *cache.Cached, start time.Time, took time.Duration, err error) error {
	f.Events.Result("FLUSH", "SUCCESS", c.Dataset, start, err)
	if err != nil {
		f.Taken(err)
		return err
	}
	f.Events.Copied("FLUSH", c.Dataset, c.Desc.Store, f.Prefix.Dir, start)
	if err := f.Phases.Log(c.Dataset, phases.Took("FLUSH", start, took)); err != nil {
		return err
	}
	f.flushed[c.ID()] = true
	return f.Arrived(c.Dataset)
}

// Arrived deletes the oldest checkpoints in the prefix directory, so that SCR_PREFIX_SIZE
// of them remain, after d has been flushed or written there. If they cannot be deleted,
// it warns.
func (f *Flusher) Arrived(d dataset.Dataset) error {
	if f.Keep <= 0 || !d.Flags().Has(dataset.Checkpoint) {
		return nil
	}
	// An older checkpoint that is still being flushed could be among those to delete. When
	// its flush ends, Arrived is called again.
	if slices.ContainsFunc(f.running, func(b *background) bool { return b.cached.ID() < d.ID() }) {
		return nil
	}
	if err := f.Prefix.Keep(f.Keep); err != nil {
		f.Log.WarnJob("old checkpoints cannot be deleted from %s: %v", f.Prefix.Dir, err)
	}
	return nil
}

// evictOutput deletes an output from the cache when it is in the prefix directory, unless
// it is a checkpoint too, so that checkpoints have the space.
func (f *Flusher) evictOutput(c *cache.Cached) error {
	if c.Flags().Has(dataset.Checkpoint) || !f.flushed[c.ID()] || f.Cache.Find(c.ID()) == nil {
		return nil
	}
	return f.delete(c)
}

// delete deletes a dataset, which must not be being flushed, from the cache.
func (f *Flusher) delete(c *cache.Cached) error {
	if err := f.Cache.Delete(c.ID()); err != nil {
		return err
	}
	f.left(c)
	return nil
}

// left records that a dataset is being removed from the cache.
func (f *Flusher) left(c *cache.Cached) {
	f.Prefix.Note(func() error { return prefix.Locate(f.Prefix.Dir, c.Dataset, prefix.InCache, false) })
	delete(f.flushed, c.ID())
}
