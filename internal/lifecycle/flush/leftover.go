package flush

import (
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// FlushLeft flushes datasets of earlier runs in the cache: outputs, withheld checkpoints, and, if
// checkpoints is true, all checkpoints, including those of jobs of another size. If a flush fails, FlushLeft
// warns. Only with checkpoints, and for the newest one, it returns the error: a program
// that itself reads the newest checkpoint in the prefix directory would otherwise restart
// from an older one without a message.
func (f *Flusher) FlushLeft(checkpoints bool) error {
	f.flushForeign(checkpoints)
	if checkpoints {
		if _, err := f.Newest(""); err != nil {
			return err
		}
	}
	for _, c := range slices.Backward(slices.Clone(f.Cache.List())) { // oldest first, so that the newest becomes current
		if f.Flushed(c.ID()) || !f.flushFirst(c) && !(checkpoints && c.Flags().Has(dataset.Checkpoint)) {
			continue
		}
		err := f.Flush(c)
		if err == nil {
			f.evictOutput(c)
		}
		if err != nil && checkpoints && c == f.Cache.NewestCheckpoint(c.Series()) {
			return fmt.Errorf("%w (SCR_FLUSH_ON_RESTART and SCR_GLOBAL_RESTART require that it is flushed)", err)
		}
		switch {
		case err == nil:
		case c.Withheld():
			f.Log.WarnJob("%v; checkpoint %s, which is not offered, stays in the cache until it is flushed (before it leaves, or in SCR_Finalize), or until "+
				"this run has completed a checkpoint and another dataset needs the place", err, c.Name())
		default:
			f.Log.WarnJob("%v; dataset %s stays in the cache", err, c.Name())
		}
	}
	return nil
}

// flushForeign handles checkpoints that a job of another size has written. If flush is
// true, it flushes them, oldest first, and warns if it cannot. Else it flushes outputs and the newest, since the number
// of ranks may be a mistake (saveForeign). It deletes no older checkpoint for that (keepAll).
func (f *Flusher) flushForeign(flush bool) {
	list := f.Cache.Unused.Foreign()
	if !flush {
		defer keepAll(f)()
		saveForeign(f, list)
		return
	}
	for _, d := range slices.Backward(list) {
		if err := f.flushParts(d); err != nil {
			f.Log.WarnJob("dataset %d (%s), which %d ranks have written, cannot be flushed: %v; it stays in the cache until this run has completed a checkpoint, or needs its room",
				d.ID(), d.Name(), d.Ranks, err)
		}
	}
}

// saveForeign flushes, of the datasets that jobs of another size have written, outputs, and the newest checkpoint unless
// SCR_FLUSH=0; and says what becomes of them. list is newest first.
func saveForeign(f *Flusher, list []cache.Foreign) {
	if len(list) == 0 {
		return
	}
	i := slices.IndexFunc(list, func(d cache.Foreign) bool { return d.Flags().Has(dataset.Checkpoint) })
	newest := list[max(i, 0)]
	state := "it is not flushed, with SCR_FLUSH=0, or as it is neither a checkpoint nor an output"
	for _, d := range list {
		output := d.Flags().Has(dataset.Output)
		if !output && (i < 0 || d.ID() != newest.ID() || !f.Policy.On()) {
			continue
		}
		_, there, err := f.Prefix.Find(prefix.Holds(d.Dataset)) // also one from which a restart has failed
		if err == nil && !there {
			err = f.flushParts(d)
		}
		switch {
		case err != nil && d.ID() != newest.ID():
			f.Log.WarnJob(deleted, d.Name(), err)
		case err != nil:
			state = "it cannot be flushed: " + err.Error()
		case d.ID() == newest.ID():
			state = "it is in the prefix directory"
		}
	}
	older := ""
	if n := len(list) - 1; n > 0 {
		older = fmt.Sprintf(", and %s besides,", report.Count(n, "dataset"))
	}
	ranks := report.Count(newest.Ranks, "rank")
	f.Log.WarnJob("%s in the cache%s was written by %s, this run has %d: end this run and start with %s to restart from it; %s. What is in the cache is deleted once "+
		"this run has completed a checkpoint, or needs its room. If the program can read checkpoints of another number of ranks: SCR_GLOBAL_RESTART=1",
		newest.Name(), older, ranks, f.World.Size(), ranks, state)
}

// deleted is what happens to a dataset that the run does not continue from.
const deleted = "dataset %s, from which this run does not continue, cannot be flushed: %v; it is deleted once this run has completed a checkpoint, or needs its room"

// keepAll keeps SCR_PREFIX_SIZE from deleting older checkpoints of a computation that the run does not continue, until end is
// called.
func keepAll(f *Flusher) (end func()) {
	keep := f.Keep
	f.Keep = 0
	return func() { f.Keep = keep }
}

// SaveAbandoned flushes a checkpoint of the cache from which the run does not continue, since it would be deleted. If it cannot be flushed,
// SaveAbandoned warns. With SCR_FLUSH=0 it flushes none.
func SaveAbandoned(f *Flusher, c *cache.Cached) {
	if !f.Policy.On() || c == nil || f.Flushed(c.ID()) {
		return
	}
	defer keepAll(f)()
	if err := f.Flush(c); err != nil {
		f.Log.WarnJob(deleted, c.Name(), err)
	}
}

// flushParts flushes a dataset of a job of another size. Each process copies the files of
// some of that job's ranks.
func (f *Flusher) flushParts(d cache.Foreign) error {
	if _, there, err := f.Prefix.Find(prefix.Usable(d.Dataset)); err != nil || there {
		return err
	}
	parts, err := f.Cache.Unused.Parts(d)
	if err != nil {
		return err
	}
	if err := f.Prefix.NewFlush(d.Dataset, d.Ranks, parts).Run(); err != nil {
		return err
	}
	return f.Arrived(d.Dataset)
}

// Resume starts again the background flushes of datasets in the cache that an earlier run
// has not finished. missing are the datasets of which files are missing in the prefix
// directory.
func (f *Flusher) Resume(missing []dataset.Dataset) {
	for _, c := range slices.Backward(slices.Clone(f.Cache.List())) {
		begun := slices.ContainsFunc(missing, func(d dataset.Dataset) bool { return d.ID() == c.ID() })
		if !begun || f.Flushed(c.ID()) || f.kind(c) == mover.Sync {
			continue
		}
		if err := f.Start(c); err != nil {
			f.Log.WarnJob("%v; dataset %s stays in the cache", err, c.Name())
		}
	}
}
