package flush

import (
	"slices"
	"time"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/prefix"
)

// conclude records how a flush that began at start has ended, and returns err.
func (f *Flusher) conclude(c *cache.Cached, start time.Time, err error) error {
	f.Events.Result("FLUSH", "SUCCESS", c.Dataset, start, err)
	if err != nil {
		f.Taken(err)
		return err
	}
	f.Events.Copied("FLUSH", c.Dataset, c.Desc.Store, f.Prefix.Dir, start)
	f.flushed[c.ID()] = true
	return f.Arrived(c.Dataset)
}

// Arrived deletes the oldest checkpoints in the prefix directory above SCR_PREFIX_SIZE,
// after one has been flushed or written there. A failure to delete them is no error.
func (f *Flusher) Arrived(d dataset.Dataset) error {
	if f.Keep <= 0 || !d.Flags().Has(dataset.Checkpoint) {
		return nil
	}
	// An older one that is still being flushed, and would be deleted before it has
	// files, deletes when it is finished.
	if slices.ContainsFunc(f.running, func(b *background) bool { return b.cached.ID() < d.ID() }) {
		return nil
	}
	if err := f.Prefix.Keep(f.Keep); err != nil {
		f.Log.WarnJob("old checkpoints cannot be deleted from %s: %v", f.Prefix.Dir, err)
	}
	return nil
}

// evictOutput evicts an output that is in the prefix directory, and is no checkpoint,
// from the cache, where it would take the place of checkpoints.
func (f *Flusher) evictOutput(c *cache.Cached) error {
	if c.Flags().Has(dataset.Checkpoint) || !f.flushed[c.ID()] || f.Cache.Find(c.ID()) == nil {
		return nil
	}
	return f.delete(c)
}

// delete deletes a dataset from the cache, which is not being flushed.
func (f *Flusher) delete(c *cache.Cached) error {
	if err := f.Cache.Delete(c.ID()); err != nil {
		return err
	}
	f.left(c)
	return nil
}

// left records that a dataset is leaving the cache.
func (f *Flusher) left(c *cache.Cached) {
	f.Prefix.Note(func() error { return prefix.Locate(f.Prefix.Dir, c.Dataset, prefix.InCache, false) })
	delete(f.flushed, c.ID())
}
