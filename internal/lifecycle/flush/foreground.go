package flush

import (
	"errors"
	"fmt"
	"time"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Flush flushes a dataset while the program waits, unless it is in the prefix directory already, or is postponed and
// cannot be restored. If a file in the cache proves corrupt, Flush rebuilds it and copies again.
func (f *Flusher) Flush(c *cache.Cached) error {
	if err := f.safe(c); err != nil {
		return err
	}
	f.Contents.Restore(c)
	if b := f.Background.find(c); b != nil {
		f.wait(b)
		if !c.Flushed() && c.Gone() {
			return mpi.Agree(f.config.World, fmt.Errorf("dataset %d (%s) was lost while it was flushed", c.ID(), c.Name()))
		}
	}
	if c.Flushed() || c.Gone() {
		return nil
	}
	f.waitAll(f.Background.conflicts(c.Name(), f.Background.names(c)))
	start := time.Now()
	f.results.begin(c)
	took, err := f.copyFiles(c)
	if errors.Is(err, redundancy.ErrCorrupt) {
		if err = f.Contents.repair(c); err == nil {
			took, err = f.copyFiles(c)
		}
	}
	return f.conclude(c, start, took, err)
}

// copyFiles flushes a dataset, and returns how long the caller's copies took.
func (f *Flusher) copyFiles(c *cache.Cached) (took time.Duration, err error) {
	own, _ := redundancy.Split(f.config.Cache.Files(c.ID()))
	flush := f.config.Prefix.NewFlush(c.Dataset, f.config.World.Size(), prefix.Parts{f.config.World.Rank(): own})
	if err = flush.Run(); err == nil {
		f.Contents.checked(c, own)
	}
	return flush.Copying, err
}
