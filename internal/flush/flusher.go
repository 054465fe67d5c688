// Package flush decides when to copy datasets from the cache to the prefix directory,
// and does so.
//
// A flush is due for outputs, for every SCR_FLUSH-th checkpoint, and for the newest
// checkpoint when the job stops. The program waits for it (foreground.go), or goes
// on while a thread or scr_transfer copies (background.go, over package mover). A
// dataset that has to leave the cache is flushed first if it must not be lost, and
// its flush in the background has to end first (evict.go).
//
//	flusher.go     what has been completed: is its flush due?
//	background.go  start, poll, wait, cancel
//	foreground.go  flush while the program waits
//	evict.go       room for the next dataset; datasets that are dropped
//	leftover.go    what earlier runs have left in the cache, at the start of a run
//	finish.go      what has to be flushed at the end of a run
//
// Package scr is the one caller. All methods are collective over the ranks of the
// job unless they say otherwise, and what they return is agreed.
package flush

import (
	"time"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/mover"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/internal/transfer"
	"github.com/goscr/goscr/mpi"
)

// Config is what a Flusher works with.
type Config struct {
	World, Node mpi.Comm // all ranks; those of the node
	Cache       *cache.Cache
	Prefix      *prefix.Prefix
	Log         *report.Logger
	Events      *eventlog.Log // on rank 0

	Every     int                           // SCR_FLUSH: of checkpoints each n-th is flushed, 0: none
	Keep      int                           // SCR_PREFIX_SIZE: checkpoints in the prefix directory, 0: all
	Async     bool                          // SCR_FLUSH_ASYNC: the program goes on
	Poststage bool                          // SCR_FLUSH_POSTSTAGE: scr_transfer may go on after the session
	Kind      func(store string) mover.Kind // what copies the datasets of a store, as the user wants it
	Limits    transfer.Limits               // of what copies take of a node
	// Launch starts what copies for the node; nil is the command scr_transfer.
	Launch func(control string) error

	// Stopping reports whether the job should stop.
	Stopping func() (bool, error)
	// Taken is told of an error that may be a *prefix.TakenError on some rank.
	Taken func(error)
	// SizeName is what a user sets to make a store hold more datasets.
	SizeName func(store string) string
}

// Flusher flushes the datasets of a session.
type Flusher struct {
	Config
	movers  map[mover.Kind]mover.Mover
	running []*background // oldest first, the same on all ranks
	polled  time.Time
	flushed map[int]bool // datasets of the cache that are in the prefix directory, by id
}

// Open returns a Flusher. Copies of an earlier run that go on are stopped.
func Open(c Config) (*Flusher, error) {
	f := &Flusher{Config: c, flushed: map[int]bool{}}
	return f, f.openMovers()
}

// Flushed reports whether a dataset of the cache is in the prefix directory. It is
// not collective.
func (f *Flusher) Flushed(id int) bool { return f.flushed[id] }

// SetFlushed records that a dataset of the cache is in the prefix directory. It is
// not collective.
func (f *Flusher) SetFlushed(id int, there bool) { f.flushed[id] = there }

// Completed flushes a dataset that has just been completed, if that is due. A failed
// flush of a checkpoint is no error, since the cache has it; of an output it is one.
func (f *Flusher) Completed(c *cache.Cached) error {
	due, err := f.due(c)
	if err != nil || !due {
		return err
	}
	waits, err := f.waits(c)
	if err != nil {
		return err
	}
	if !waits {
		if err = f.Start(c); err == nil {
			return nil
		}
		f.Log.WarnJob("%v; dataset %s is flushed while the program waits", err, c.Name())
	}
	if err = f.Flush(c); err == nil {
		return f.evictOutput(c)
	}
	if c.Flags().Has(dataset.Output) {
		return err
	}
	f.Log.WarnJob("%v; dataset %s stays in the cache", err, c.Name())
	return nil
}

// due reports whether a dataset is to be flushed now.
func (f *Flusher) due(c *cache.Cached) (bool, error) {
	if c.Flags().Has(dataset.Output) || f.Every > 0 && c.Checkpoint()%f.Every == 0 {
		return true, nil
	}
	if f.Every <= 0 {
		return false, nil
	}
	return f.Stopping()
}

// waits reports whether the program waits while a dataset is flushed. It does when the
// job should stop, since the time left to its processes is not known.
func (f *Flusher) waits(c *cache.Cached) (bool, error) {
	if f.kind(c) == mover.Sync {
		return true, nil
	}
	return f.Stopping()
}
