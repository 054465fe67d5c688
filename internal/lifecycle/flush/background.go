package flush

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Start starts to flush a dataset in the background, unless it is postponed and cannot be restored.
func (f *Flusher) Start(c *cache.Cached) error {
	f.Contents.Restore(c)
	if c.Gone() {
		return nil
	}
	f.waitAll(f.Background.conflicts(c.Name(), f.Background.names(c)))
	start := time.Now()
	f.results.begin(c)
	there, err := f.Background.start(c, start)
	switch {
	case err != nil:
		f.results.fail(c, start, err)
	case there:
		if err = f.conclude(c, start, 0, nil); err == nil {
			f.Contents.evictOutput(c)
		}
	}
	return err
}

// WaitForName waits for the flush of a dataset called name. If that ended after a new
// dataset of the same name was entered in the index, it would replace the new entry.
func (f *Flusher) WaitForName(name string) {
	f.waitAll(f.Background.conflicts(name, nil))
}

// Running returns how many background flushes have not ended. It is not collective.
func (f *Flusher) Running() int {
	n := len(f.Background.running)
	if c := f.Protector.Dataset(); c != nil && c.FlushDue() {
		n++
	}
	return n
}

// Poll finishes the protection that has ended on all ranks, and the flushes whose files all ranks
// have copied. While ranks are still at it, that costs one reduction.
func (f *Flusher) Poll() error {
	oldest := f.Background.oldest()
	if f.Protector.Dataset() == nil && (oldest == nil || !oldest.begun) {
		return nil
	}
	f.polled = time.Now()
	ended := []int64{0, int64(f.Background.copied())}
	if f.Protector.Ended() {
		ended[0] = 1
	}
	f.config.World.Allreduce(ended, mpi.Min)
	list := slices.Clone(f.Background.running[:ended[1]])
	if ended[0] == 1 {
		if err := f.WaitForProtection(); err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(b *running) bool { return !slices.Contains(f.Background.running, b) }) // it may have waited for some
	}
	f.waitAll(list)
	return nil
}

// PollDue reports whether to call Poll: the caller has protected its files, or those of the oldest
// flush are copied, and the last poll was not within PollInterval. Rank 0 decides by it for all
// ranks. It is not collective.
func (f *Flusher) PollDue() bool {
	oldest := f.Background.oldest()
	return time.Since(f.polled) >= f.config.PollInterval && (f.Protector.Ended() || oldest != nil && oldest.copy.Ended())
}

// WaitForProtection waits until no dataset is being protected, and starts the flush that has waited for
// that. It is collective.
func (f *Flusher) WaitForProtection() error {
	c := f.Protector.Dataset()
	if c == nil {
		return nil
	}
	failed := f.Protector.Wait() // to record that it is protected
	if !c.FlushDue() {
		return failed
	}
	if err := f.startOrFlush(c); failed == nil {
		failed = err
	}
	f.Background.BeginCopies() // the program may not complete another dataset
	return failed
}

// Complete is Protector.Complete. It waits for the protection of the dataset before.
func (f *Flusher) Complete(c *cache.Cached, failed error, wait bool) error {
	if before := f.Protector.Dataset(); before != nil {
		f.config.Log.Info("dataset %d (%s): its protection has to end before dataset %d is complete", before.ID(), before.Name(), c.ID())
		if err := f.WaitForProtection(); err != nil {
			return err
		}
	}
	return f.Protector.Complete(c, failed, wait)
}

// safe waits until a dataset is protected, if it is being protected.
func (f *Flusher) safe(c *cache.Cached) error {
	if !c.Protecting() {
		return nil
	}
	return f.WaitForProtection()
}

// WaitAll waits until nothing is being protected or flushed. If the newest dataset of the cache was to be flushed and is not, WaitAll
// flushes it: its flush has failed, or an earlier run ended before it began. It is collective; the error is agreed.
func (f *Flusher) WaitAll() error {
	err := f.WaitForProtection()
	f.waitAll(f.Background.running)
	if err != nil {
		return err
	}
	list := f.config.Cache.List()
	if len(list) == 0 || !f.dueAlways(list[0]) || list[0].Flushed() {
		return nil
	}
	c := list[0]
	if err := f.Flush(c); err != nil {
		return fmt.Errorf("dataset %s could not be flushed: %w", c.Name(), err)
	}
	if !c.Flushed() {
		return mpi.Agree(f.config.World, fmt.Errorf("too much of dataset %s is lost, and it could not be flushed", c.Name()))
	}
	f.Contents.evictOutput(c)
	return nil
}

// waitAll waits for background flushes, in the order of list.
func (f *Flusher) waitAll(list []*running) {
	for _, b := range slices.Clone(list) {
		f.wait(b)
	}
}

// wait waits for a flush and finishes it. If the flush has failed, wait only warns,
// because the dataset is still in the cache. It is flushed again while the program waits:
// at once if files in the cache were corrupt, which are rebuilt first; else an output
// before it is evicted or in Finalize, and the newest checkpoint in Finalize.
func (f *Flusher) wait(b *running) {
	err := f.finish(b)
	var agreed *mpi.AgreedError
	if !errors.As(err, &agreed) {
		return
	}
	corrupt := errors.Is(err, redundancy.ErrCorrupt)
	// Only the rank with the error warns.
	if agreed.Err != nil {
		why := agreed.Err.Error()
		if full := new(FullError); errors.As(err, &full) {
			why += ": " + full.lack()
		}
		after := "unless there is a newer one by then, Finalize flushes it"
		switch {
		case corrupt:
			after = "it is rebuilt, and flushed while the program waits"
		case b.cached.Flags().Has(dataset.Output):
			after = "it is flushed while the program waits, when it leaves or in Finalize"
		}
		f.config.Log.Warn("flush of dataset %d (%s) in the background: %v; it stays in the cache: %s", b.cached.ID(), b.cached.Name(), why, after)
	}
	if !corrupt {
		return
	}
	err = f.Contents.repair(b.cached)
	if err == nil {
		err = f.Flush(b.cached)
	}
	if err == nil {
		f.Contents.evictOutput(b.cached)
		return
	}
	f.config.Log.WarnJob("flush of dataset %d (%s) again: %v", b.cached.ID(), b.cached.Name(), err)
}

// finish waits until the files of a flush are copied, and makes its dataset complete
// in the prefix directory.
func (f *Flusher) finish(b *running) error {
	c := b.cached
	if err := f.safe(c); err != nil {
		return err
	}
	f.Background.BeginCopies() // a mover may copy datasets in order, so b may wait for earlier ones
	files, err := f.Background.complete(b)
	if err == nil {
		f.Contents.checked(c, files)
	}
	err = errors.Join(err, f.Background.forgetCopy(c))
	if err := f.conclude(c, b.start, b.took(), err); err != nil {
		return err
	}
	f.Contents.evictOutput(c)
	return nil
}
