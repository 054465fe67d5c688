// Package flush decides when to copy datasets from the cache to the prefix directory,
// and copies them.
//
// A flush is due for outputs, for every SCR_FLUSH-th checkpoint, and for the newest
// checkpoint when the job stops. Either the program waits for it (foreground.go), or a
// thread or scr_transfer copies in the background (background.go, with package mover).
// Before a dataset is evicted from the cache, its background flush has to end, and an
// output is flushed if it has not been yet (room.go).
//
//	flusher.go     Flusher: decides whether the flush of a completed dataset is due
//	background.go  Flusher: flushes in the background: start, poll, wait
//	foreground.go  Flusher: flushes while the program waits
//	finish.go      Flusher: flushes datasets at the end of a run
//	running.go     Background: the copies that run while the program computes
//	contents.go    Contents: restores, rebuilds and deletes datasets, and records in flush.scr what the cache has
//	drop.go        Flusher: drops datasets
//	room.go        Room: evicts datasets to make room for the next one
//	leftover.go    Leftovers: flushes datasets of earlier runs at the start of a run
//	record.go      results: records the result of a flush
//
// Room and Leftovers call the Flusher, which does not call them. Package life has what is pure: the states of a dataset,
// and which datasets leave.
//
// Only internal/session and internal/lifecycle/restart call this package. All methods and functions are collective
// over the ranks of the job, and their results are agreed, unless their comment says otherwise.
package flush

import (
	"errors"
	"time"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/lifecycle/protect"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/mpi"
)

// Config has the parameters of a Flusher.
type Config struct {
	World, Node mpi.Comm // all ranks of the job; those on the caller's node
	Cache       *cache.Cache
	Protector   *protect.Protector
	Prefix      *prefix.Prefix
	Log         *report.Logger
	Events      *eventlog.Log // on rank 0
	Phases      *phases.Meter // nil: phases are not measured

	Policy    config.FlushPolicy            // which checkpoints are flushed when they are complete
	Keep      int                           // SCR_PREFIX_SIZE: how many checkpoints stay in the prefix directory; 0: all
	Fetch     bool                          // SCR_FETCH: the next run can fetch what is in the prefix directory
	Async     bool                          // SCR_FLUSH_ASYNC: flush in the background
	Poststage bool                          // SCR_FLUSH_POSTSTAGE: scr_transfer may continue after the session
	Kind      func(store string) mover.Kind // the mover that the user has chosen for a store
	// PollInterval is the shortest time between two polls in a call that a program may make
	// very often.
	PollInterval time.Duration
	Limits       transfer.Limits // of the bandwidth and processor time of a node that copies use
	// Launch starts the process that copies for the node; nil: the command scr_transfer.
	Launch func(control string) error

	// Stopping reports whether the job should stop.
	Stopping func() bool
	// Taken is called with each error of a flush, which may be a *prefix.TakenError on
	// some rank.
	Taken func(error)
	// SizeName returns the parameter that a user can set to make a store hold more
	// datasets.
	SizeName func(store string) string
}

// Flusher flushes the datasets of a session, and waits for what runs in the background.
type Flusher struct {
	Protector  *protect.Protector
	Contents   *Contents
	Background *Background

	config  Config
	results *results
	polled  time.Time // when Poll was last called
}

// Open returns a Flusher. No copy of an earlier run may continue any more (mover.Reset).
func Open(c Config) *Flusher {
	f := &Flusher{
		config: c, Protector: c.Protector, Background: &Background{Config: c},
		Contents: &Contents{cache: c.Cache, protector: c.Protector, prefix: c.Prefix},
		results:  &results{world: c.World, cache: c.Cache, dir: c.Prefix.Dir, events: c.Events, phases: c.Phases, taken: c.Taken},
	}
	if err := f.Background.openMovers(); err != nil {
		c.Log.WarnJob("%v; threads of the processes copy instead", err)
	}
	return f
}

// Completed flushes a dataset that has just been completed, or starts to flush it, if
// that is due. It returns an error if the flush of an output fails. If the flush of a
// checkpoint fails, it only warns, because the checkpoint is in the cache.
func (f *Flusher) Completed(c *cache.Cached) error {
	if !f.due(c) {
		return nil
	}
	if f.waits(c) {
		return f.flushNow(c)
	}
	if c.Protecting() && f.Background.kind(c) == mover.ByDaemon { // scr_transfer may begin to copy at once
		f.config.Cache.Happened(c, life.FlushDelayed)
		return nil
	}
	return f.startOrFlush(c)
}

// startOrFlush starts to flush a dataset in the background. If that fails the program waits.
func (f *Flusher) startOrFlush(c *cache.Cached) error {
	err := f.Start(c)
	if err == nil {
		return nil
	}
	f.config.Log.WarnJob("%v; dataset %s is flushed while the program waits", err, c.Name())
	return f.flushNow(c)
}

// flushNow is Completed for a dataset that is due, while the program waits.
func (f *Flusher) flushNow(c *cache.Cached) error {
	err := f.Flush(c)
	if err == nil {
		f.Contents.evictOutput(c)
		return nil
	}
	if c.Flags().Has(dataset.Output) {
		return err
	}
	if c.Gone() {
		f.config.Log.WarnJob("%v; too much of dataset %s is lost, and it is removed from the cache", err, c.Name())
		return nil
	}
	after := ""
	if errors.As(err, new(*FullError)) {
		after = "; remove files there, or let SCR_PREFIX_SIZE keep fewer checkpoints: goscr flushes the next checkpoint that is due, " +
			"and SCR_Finalize flushes the newest one"
	}
	f.config.Log.WarnJob("%v; dataset %s stays in the cache%s", err, c.Name(), after)
	return nil
}

// due reports whether a dataset that was just completed is to be flushed.
func (f *Flusher) due(c *cache.Cached) bool {
	return f.dueAlways(c) || f.config.Policy.On() && f.config.Stopping()
}

// dueAlways reports whether a dataset is to be flushed also if the job does not stop. It is not collective; the answer is the same on
// all ranks, and each time.
func (f *Flusher) dueAlways(c *cache.Cached) bool {
	return c.Flags().Has(dataset.Output) || f.config.Policy.Due(c.Checkpoint())
}

// waits reports whether the program waits while a dataset is flushed. It does when the
// job should stop, since the time left to its processes is not known.
func (f *Flusher) waits(c *cache.Cached) bool {
	if f.Background.kind(c) == mover.Sync {
		return true
	}
	return f.config.Stopping()
}
