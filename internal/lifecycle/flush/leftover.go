package flush

import (
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// Leftovers flushes what earlier runs, or a part of this run that it does not continue, have left in the cache.
type Leftovers struct {
	flusher *Flusher
	cache   *cache.Cache
	prefix  *prefix.Prefix
	log     *report.Logger
	policy  config.FlushPolicy
	ranks   int // of this job
}

// NewLeftovers returns the Leftovers of a session.
func NewLeftovers(f *Flusher) *Leftovers {
	c := f.config
	return &Leftovers{flusher: f, cache: c.Cache, prefix: c.Prefix, log: c.Log, policy: c.Policy, ranks: c.World.Size()}
}

// Flush flushes datasets of earlier runs in the cache: outputs, withheld checkpoints, and, if
// checkpoints is true, all checkpoints, including those of jobs of another size. If a flush fails, Flush
// warns. Only with checkpoints, and for the newest one, it returns the error: a program
// that itself reads the newest checkpoint in the prefix directory would otherwise restart
// from an older one without a message.
func (l *Leftovers) Flush(checkpoints bool) error {
	l.flushForeign(checkpoints)
	if checkpoints {
		if _, err := l.flusher.Contents.Newest(""); err != nil {
			return err
		}
	}
	for _, c := range slices.Backward(slices.Clone(l.cache.List())) { // oldest first, so that the newest becomes current
		if c.Flushed() || !held(c).MustFlush() && !(checkpoints && c.Flags().Has(dataset.Checkpoint)) {
			continue
		}
		err := l.flusher.Flush(c)
		if err == nil {
			l.flusher.Contents.evictOutput(c)
		}
		if err != nil && checkpoints && c == l.cache.NewestCheckpoint(c.Series()) {
			return fmt.Errorf("%w (SCR_FLUSH_ON_RESTART and SCR_GLOBAL_RESTART require that it is flushed)", err)
		}
		switch {
		case err == nil:
		case c.Withheld():
			l.log.WarnJob("%v; checkpoint %s, which is not offered, stays in the cache until it is flushed (before it leaves, or in SCR_Finalize), or until "+
				"this run has completed a checkpoint and another dataset needs the place", err, c.Name())
		default:
			l.log.WarnJob("%v; dataset %s stays in the cache", err, c.Name())
		}
	}
	return nil
}

// flushForeign handles checkpoints that a job of another size has written. If flush is
// true, it flushes them, oldest first, and warns if it cannot. Else it flushes outputs and the newest, since the number
// of ranks may be a mistake (saveForeign). It deletes no older checkpoint for that (keepAll).
func (l *Leftovers) flushForeign(flush bool) {
	list := l.cache.Unused.Foreign()
	if !flush {
		defer l.flusher.keepAll()()
		l.saveForeign(list)
		return
	}
	for _, d := range slices.Backward(list) {
		if err := l.flushParts(d); err != nil {
			l.log.WarnJob("dataset %d (%s), which %d ranks have written, cannot be flushed: %v; it stays in the cache until this run has completed a checkpoint, or needs its room",
				d.ID(), d.Name(), d.Ranks, err)
		}
	}
}

// saveForeign flushes, of the datasets that jobs of another size have written, outputs, and the newest checkpoint unless
// SCR_FLUSH=0; and says what becomes of them. list is newest first.
func (l *Leftovers) saveForeign(list []cache.Foreign) {
	if len(list) == 0 {
		return
	}
	i := slices.IndexFunc(list, func(d cache.Foreign) bool { return d.Flags().Has(dataset.Checkpoint) })
	newest := list[max(i, 0)]
	state := "it is not flushed, with SCR_FLUSH=0, or as it is neither a checkpoint nor an output"
	for _, d := range list {
		output := d.Flags().Has(dataset.Output)
		if !output && (i < 0 || d.ID() != newest.ID() || !l.policy.On()) {
			continue
		}
		_, there, err := l.prefix.Find(prefix.Holds(d.Dataset)) // also one from which a restart has failed
		if err == nil && !there {
			err = l.flushParts(d)
		}
		switch {
		case err != nil && d.ID() != newest.ID():
			l.log.WarnJob(deleted, d.Name(), err)
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
	l.log.WarnJob("%s in the cache%s was written by %s, this run has %d: end this run and start with %s to restart from it; %s. What is in the cache is deleted once "+
		"this run has completed a checkpoint, or needs its room. If the program can read checkpoints of another number of ranks: SCR_GLOBAL_RESTART=1",
		newest.Name(), older, ranks, l.ranks, ranks, state)
}

// deleted is what happens to a dataset that the run does not continue from.
const deleted = "dataset %s, from which this run does not continue, cannot be flushed: %v; it is deleted once this run has completed a checkpoint, or needs its room"

// SaveAbandoned flushes a checkpoint of the cache from which the run does not continue, since it would be deleted. If it cannot be flushed,
// SaveAbandoned warns. With SCR_FLUSH=0 it flushes none.
func (l *Leftovers) SaveAbandoned(c *cache.Cached) {
	if !l.policy.On() || c == nil || c.Flushed() {
		return
	}
	defer l.flusher.keepAll()()
	if err := l.flusher.Flush(c); err != nil {
		l.log.WarnJob(deleted, c.Name(), err)
	}
}

// flushParts flushes a dataset of a job of another size. Each process copies the files of
// some of that job's ranks.
func (l *Leftovers) flushParts(d cache.Foreign) error {
	if _, there, err := l.prefix.Find(prefix.Usable(d.Dataset)); err != nil || there {
		return err
	}
	parts, err := l.cache.Unused.Parts(d)
	if err != nil {
		return err
	}
	if err := l.prefix.NewFlush(d.Dataset, d.Ranks, parts).Run(); err != nil {
		return err
	}
	return l.flusher.Arrived(d.Dataset)
}

// Resume starts again the background flushes of datasets in the cache that an earlier run
// has not finished. missing are the datasets of which files are missing in the prefix
// directory.
func (l *Leftovers) Resume(missing []dataset.Dataset) {
	for _, c := range slices.Backward(slices.Clone(l.cache.List())) {
		begun := slices.ContainsFunc(missing, func(d dataset.Dataset) bool { return d.ID() == c.ID() })
		if !begun || c.Flushed() || l.flusher.Background.kind(c) == mover.Sync {
			continue
		}
		if err := l.flusher.Start(c); err != nil {
			l.log.WarnJob("%v; dataset %s stays in the cache", err, c.Name())
		}
	}
}
