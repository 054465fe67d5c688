package flush

import (
	"errors"
	"time"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
)

// Flush flushes a dataset while the program waits, unless it is in the prefix directory
// already. If a file in the cache proves corrupt, Flush rebuilds it and copies again.
func (f *Flusher) Flush(c *cache.Cached) error {
	if b := f.find(c); b != nil {
		if err := f.wait(b); err != nil {
			return err
		}
	}
	if f.flushed[c.ID()] || f.Cache.Find(c.ID()) == nil {
		return nil
	}
	if err := f.waitForConflicts(c.Name(), f.names(c)); err != nil {
		return err
	}
	start := time.Now()
	f.Events.Dataset("FLUSH_START", c.Dataset, eventlog.Record{Note: f.Prefix.Dir})
	err := f.copyFiles(c)
	if errors.Is(err, redundancy.ErrCorrupt) {
		if err = f.Cache.Repair(c); err == nil {
			err = f.copyFiles(c)
		}
	}
	return f.conclude(c, start, f.Prefix.Copying, err)
}

func (f *Flusher) copyFiles(c *cache.Cached) error {
	own, _ := redundancy.Split(f.Cache.Files(c.ID()))
	return f.Prefix.Flush(c.Dataset, f.World.Size(), prefix.Parts{f.World.Rank(): own})
}
