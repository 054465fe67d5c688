package flush

import (
	"slices"

	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
)

// stop cancels the protection and the flush of a dataset.
func (f *Flusher) stop(c *cache.Cached) error {
	f.Protector.Cancel(c)
	b := f.Background.find(c)
	if b == nil {
		if c.FlushDue() {
			f.config.Cache.Happened(c, life.FlushFailed)
		}
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
	f.Contents.recordLeaving(c)
	f.config.Cache.Unused.PassOver(c)
	return nil
}

// CancelWhere cancels the protection and the flush of the datasets of which condition, which is the same on all ranks, is
// true. They stay in the cache.
func (f *Flusher) CancelWhere(condition func(dataset.Dataset) bool) error {
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

// DropWhere deletes the datasets from the cache, unused ones too, for which condition is true. condition is the same on all ranks.
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
		if c.Gone() {
			continue
		}
		if err := f.Contents.repair(c); err != nil {
			f.config.Log.WarnJob("dataset %d (%s) is lost with the directories: %v", c.ID(), c.Name(), err)
		}
	}
	return nil
}
