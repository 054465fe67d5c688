package flush

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/observe/report"
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

// results records how flushes begin and end: in the state of the dataset, the event log and the account of phases. It
// gives errors to the session.
type results struct {
	world  mpi.Comm
	cache  *cache.Cache
	dir    string // the prefix directory
	events *eventlog.Log
	phases *phases.Meter
	taken  func(error) // Config.Taken
}

// begin records that the flush of a dataset begins.
func (r *results) begin(c *cache.Cached) {
	r.cache.Happened(c, life.FlushStarted)
	r.events.Dataset(eventlog.FlushStart, c.Dataset, eventlog.Record{Note: r.dir})
}

// fail records that a flush that began at start has failed, or was not even started.
func (r *results) fail(c *cache.Cached, start time.Time, err error) {
	r.cache.Happened(c, life.FlushFailed)
	r.events.Result(eventlog.FlushSuccess, eventlog.FlushFail, c.Dataset, start, err)
}

// end records the result err of a flush that began at start, and in which the caller's copies took some time. It
// returns err, which is a *FullError if that is the reason.
func (r *results) end(c *cache.Cached, start time.Time, took time.Duration, err error) error {
	if err != nil {
		r.fail(c, start, err)
		r.taken(err)
		return r.explain(c, err)
	}
	r.cache.Happened(c, life.FlushEnded)
	r.events.Result(eventlog.FlushSuccess, eventlog.FlushFail, c.Dataset, start, nil)
	r.events.Copied("FLUSH", c.Dataset, c.Desc.Store, r.dir, start)
	r.phases.Log(c.Dataset, phases.Took("FLUSH", start, took))
	return nil
}

// explain makes the error of a flush a *FullError if it is one on any rank.
func (r *results) explain(c *cache.Cached, err error) error {
	if !mpi.Any(r.world, errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		return err
	}
	free := int64(0)
	var st unix.Statfs_t
	if r.world.Rank() == 0 && unix.Statfs(r.dir, &st) == nil {
		free = int64(min(st.Bavail*uint64(st.Bsize), math.MaxInt64))
	}
	free = mpi.AllreduceOne(r.world, free, mpi.Max)
	return &FullError{err, r.dir, free, c.Size()}
}

// conclude records the result err of a flush as results.end does. If the dataset is flushed, older ones may leave the prefix
// directory.
func (f *Flusher) conclude(c *cache.Cached, start time.Time, took time.Duration, err error) error {
	if err := f.results.end(c, start, took, err); err != nil {
		return err
	}
	if c.Withheld() {
		return nil // older checkpoints of the prefix directory may be those that can be offered
	}
	return f.Arrived(c.Dataset)
}

// Arrived is called for each dataset that has come to the prefix directory: by a flush, or written there by the program. It deletes the
// oldest checkpoints, so that SCR_PREFIX_SIZE of them remain. If they cannot be deleted, it warns.
func (f *Flusher) Arrived(d dataset.Dataset) error {
	if f.config.Keep <= 0 || !d.Flags().Has(dataset.Checkpoint) {
		return nil
	}
	// An older checkpoint that is still being flushed could be among those to delete. When
	// its flush ends, Arrived is called again.
	if slices.ContainsFunc(f.Background.running, func(b *running) bool { return b.cached.ID() < d.ID() }) {
		return nil
	}
	if err := f.config.Prefix.Keep(f.config.Keep); err != nil {
		f.config.Log.WarnJob("old checkpoints cannot be deleted from %s: %v", f.config.Prefix.Dir, err)
	}
	return nil
}

// keepAll keeps SCR_PREFIX_SIZE from deleting older checkpoints of a computation that the run does not continue,
// until end is called.
func (f *Flusher) keepAll() (end func()) {
	keep := f.config.Keep
	f.config.Keep = 0
	return func() { f.config.Keep = keep }
}
