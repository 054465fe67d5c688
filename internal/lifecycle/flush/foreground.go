package flush

import (
	"errors"
	"fmt"
	"time"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Flush flushes a dataset while the program waits, unless it is in the prefix directory
// already, or is postponed and cannot be
// restored. If a file in the cache proves corrupt, Flush rebuilds it and copies again.
func (f *Flusher) Flush(c *cache.Cached) error {
	if err := f.safe(c); err != nil {
		return err
	}
	f.Restore(c)
	if b := f.find(c); b != nil {
		f.wait(b)
		if !f.Flushed(c.ID()) && f.Cache.Find(c.ID()) == nil {
			return mpi.Agree(f.World, fmt.Errorf("dataset %d (%s) was lost while it was flushed", c.ID(), c.Name()))
		}
	}
	if f.Flushed(c.ID()) || f.Cache.Find(c.ID()) == nil {
		return nil
	}
	f.waitForConflicts(c.Name(), f.names(c))
	start := time.Now()
	f.Events.Dataset(eventlog.FlushStart, c.Dataset, eventlog.Record{Note: f.Prefix.Dir})
	took, err := f.copyFiles(c)
	if errors.Is(err, redundancy.ErrCorrupt) {
		if err = f.repair(c); err == nil {
			took, err = f.copyFiles(c)
		}
	}
	return f.conclude(c, start, took, err)
}

// repair rebuilds what is corrupt in the cache. If too much of a dataset is lost, the dataset is removed, and
// an older checkpoint takes its place. The error is agreed.
func (f *Flusher) repair(c *cache.Cached) error {
	err := f.Cache.Recovery.Repair(c)
	if err == nil || f.Cache.Find(c.ID()) != nil {
		return err
	}
	f.left(c)
	if _, failed := f.Newest(c.Series()); failed != nil {
		return failed
	}
	return err
}

// copyFiles flushes a dataset, and returns how long the caller's copies took.
func (f *Flusher) copyFiles(c *cache.Cached) (took time.Duration, err error) {
	own, _ := redundancy.Split(f.Cache.Files(c.ID()))
	flush := f.Prefix.NewFlush(c.Dataset, f.World.Size(), prefix.Parts{f.World.Rank(): own})
	if err = flush.Run(); err == nil {
		f.checked(c, own)
	}
	return flush.Copying, err
}
