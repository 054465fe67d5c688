package flush

import (
	"slices"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/lifecycle/protect"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
)

// Contents restores, rebuilds and deletes datasets of the cache, of which no background flush runs. It alone records in
// flush.scr what the cache has; package prefix records there what is being flushed, and what the prefix directory has.
type Contents struct {
	cache     *cache.Cache
	protector *protect.Protector
	prefix    *prefix.Prefix
}

// Restore makes a dataset usable that is postponed (see Recovery.Rebuild in the cache). If it cannot be restored it
// is not in the list of the cache afterwards.
func (h *Contents) Restore(c *cache.Cached) {
	if !c.Postponed() {
		return
	}
	h.cache.Recovery.Restore(c)
	h.Record(c)
}

// Record records in flush.scr what Cached returns.
func (h *Contents) Record(c *cache.Cached) { h.enter(Cached(c)) }

func (h *Contents) enter(d prefix.Cached) {
	h.prefix.Note(func() error { return prefix.EnterCached(h.prefix.Dir, d, time.Now()) })
}

// Cached returns what flush.scr has of a dataset of the cache, by its state. It is not collective.
func Cached(c *cache.Cached) prefix.Cached {
	if c.Gone() {
		return prefix.Cached{Dataset: c.Dataset, Gone: true}
	}
	return prefix.Cached{Dataset: c.Dataset, Protected: c.Desc.Protection.String(), Read: !c.Postponed() && !c.Unchecked(),
		Exposed: c.Exposed() || !c.Protected()}
}

// checked records the checksums that a flush has found of a dataset without. copied are the caller's files.
func (h *Contents) checked(c *cache.Cached, copied []redundancy.File) {
	if !c.Unchecked() {
		return
	}
	h.cache.Checked(c, copied)
	h.Record(c)
}

// Newest returns the newest checkpoint of a series in the cache that is not withheld, nil if there is none. It
// restores those that are postponed, newest first, until it has one. A caller that removes the newest checkpoint to
// offer another, or withholds it, calls Newest afterwards: the next one is restored, and goscr learns whether it can
// be fetched.
func (h *Contents) Newest(series string) (*cache.Cached, error) {
	for {
		c := h.cache.NewestCheckpoint(series)
		if c == nil || !c.Postponed() {
			return c, h.checkFetchable(c)
		}
		h.Restore(c)
	}
}

// checkFetchable finds out whether the newest checkpoint of the cache can be fetched, if it was flushed.
func (h *Contents) checkFetchable(c *cache.Cached) error {
	if c == nil || !c.Flushed() {
		return nil
	}
	_, usable, err := h.prefix.Find(prefix.Usable(c.Dataset))
	if err != nil {
		return err
	}
	event := life.FoundFlushed
	if !usable {
		event = life.FoundReplaced
	}
	h.cache.Happened(c, event)
	return nil
}

// repair rebuilds what is corrupt in the cache. If too much of a dataset is lost, the dataset is removed, and an
// older checkpoint takes its place. The error is agreed.
func (h *Contents) repair(c *cache.Cached) error {
	before := c.State
	err := h.cache.Recovery.Repair(c)
	if c.State != before { // it is lost, or redundancy was made that was missing, or is missing now
		h.Record(c)
	}
	if !c.Gone() {
		return err
	}
	if _, failed := h.Newest(c.Series()); failed != nil {
		return failed
	}
	return err
}

// evictOutput deletes an output from the cache when it is in the prefix directory, unless it is a checkpoint too, so
// that checkpoints have the space.
func (h *Contents) evictOutput(c *cache.Cached) {
	if c.Flags().Has(dataset.Checkpoint) || !c.Flushed() || c.Gone() {
		return
	}
	h.delete(c)
}

// delete deletes a dataset, which must not be being flushed, from the cache.
func (h *Contents) delete(c *cache.Cached) {
	h.protector.Cancel(c)
	h.recordLeaving(c)
	h.cache.Delete(c.ID())
}

// recordLeaving records in flush.scr that this run is going to delete a dataset, or not to use it any more.
func (h *Contents) recordLeaving(c *cache.Cached) {
	h.enter(prefix.Cached{Dataset: c.Dataset, Gone: true})
}

// Where returns the datasets of the cache of which condition is true, also unused ones: those that DropWhere deletes.
// It is not collective, and the same on all ranks if condition is.
func (h *Contents) Where(condition func(dataset.Dataset) bool) (list []dataset.Dataset) {
	for _, c := range h.cache.List() {
		list = append(list, c.Dataset)
	}
	list = append(list, h.cache.Unused.Known()...)
	return slices.DeleteFunc(list, func(d dataset.Dataset) bool { return !condition(d) })
}
