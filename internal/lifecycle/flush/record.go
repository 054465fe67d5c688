package flush

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// FullError says that the prefix directory has no room for a dataset. All ranks get it.
type FullError struct {
	Err    error // what has failed
	Prefix string
	Free   int64 // bytes
	Want   int64 // size of the dataset in bytes, before compression
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%v: %s", e.Err, e.lack())
}

func (e *FullError) lack() string {
	return fmt.Sprintf("the dataset takes %s, and %s has %s free, or a quota that is less", report.Bytes(e.Want), e.Prefix, report.Bytes(e.Free))
}

func (e *FullError) Unwrap() error { return e.Err }

// conclude records the result err of a flush that began at start, and in which the caller's
// copies took some time. It returns err, which is a *FullError if that is the reason, or an
// error of its own.
func (f *Flusher) conclude(c *cache.Cached, start time.Time, took time.Duration, err error) error {
	f.Events.Result(eventlog.FlushSuccess, eventlog.FlushFail, c.Dataset, start, err)
	if err != nil {
		f.Taken(err)
		return f.explain(c, err)
	}
	f.Events.Copied("FLUSH", c.Dataset, c.Desc.Store, f.Prefix.Dir, start)
	f.Phases.Log(c.Dataset, phases.Took("FLUSH", start, took))
	f.flushed[c.ID()] = fetchable
	if c.Withheld() {
		return nil // older checkpoints of the prefix directory may be those that can be offered
	}
	return f.Arrived(c.Dataset)
}

// explain makes the error of a flush a *FullError if it is one on any rank.
func (f *Flusher) explain(c *cache.Cached, err error) error {
	if !mpi.Any(f.World, errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		return err
	}
	free := int64(0)
	var st unix.Statfs_t
	if f.World.Rank() == 0 && unix.Statfs(f.Prefix.Dir, &st) == nil {
		free = int64(min(st.Bavail*uint64(st.Bsize), math.MaxInt64))
	}
	free = mpi.AllreduceOne(f.World, free, mpi.Max)
	return &FullError{err, f.Prefix.Dir, free, c.Size()}
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
func (f *Flusher) evictOutput(c *cache.Cached) {
	if c.Flags().Has(dataset.Checkpoint) || !f.Flushed(c.ID()) || f.Cache.Find(c.ID()) == nil {
		return
	}
	f.delete(c)
}

// delete deletes a dataset, which must not be being flushed, from the cache.
func (f *Flusher) delete(c *cache.Cached) {
	f.Protector.Cancel(c)
	f.Cache.Delete(c.ID())
	f.left(c)
}

// left records that a dataset is being removed from the cache.
func (f *Flusher) left(c *cache.Cached) {
	f.Prefix.Note(func() error { return prefix.Locate(f.Prefix.Dir, c.Dataset, prefix.InCache, false) })
	delete(f.flushed, c.ID())
}
