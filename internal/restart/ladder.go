package restart

import (
	"errors"
	"slices"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/mpi"
)

// rung is how far down the ladder the search for a checkpoint has come.
type rung int

const (
	named   rung = iota // by the user, with SCR_CURRENT
	cached              // in the cache, or newer in the prefix directory, where the program has written it itself
	fetched             // in the prefix directory
)

// Find goes down the ladder until there is a checkpoint to offer. It fetches one only if
// fetch is set, and then goes on where it stopped before. When it has offered none, the
// run starts from the beginning.
func (r *Restart) Find(fetch bool) error {
	if r.rung == named {
		if err := r.offerNamed(r.Current); err != nil {
			return err
		}
		r.rung = cached
		if r.offered != nil {
			r.rung = fetched
		}
	}
	if r.rung == cached {
		// The newest that is left: as it was in the cache, or rebuilt; an older one where
		// the newer ones have lost too much.
		if c := r.Cache.NewestCheckpoint(); c != nil && !(r.Global && r.Fetch) {
			r.offerCached(c)
		}
		if err := r.offerWritten(); err != nil {
			return err
		}
		r.rung = fetched
	}
	if !fetch || !r.Fetch || r.offered != nil {
		return nil
	}
	// The current one of the index; then an older one, and so on.
	return r.offerFirst(0, r.Prefix.Candidate, r.tellNewer)
}

// FindAgain is Find from the top, when what was offered or what there is has changed.
// It fetches nothing.
func (r *Restart) FindAgain() error {
	r.offered, r.rung = nil, cached
	return r.Find(false)
}

// offerNamed offers the checkpoint of a name, wherever it is. Once it is offered, those
// that are newer leave the cache.
func (r *Restart) offerNamed(name string) error {
	if name == "" {
		return nil
	}
	if err := mpi.OnRoot(r.World, func() error { return r.Prefix.Spare(r.markIfKnown(name)) }); err != nil {
		return err
	}
	for _, c := range r.Cache.List() {
		if c.Name() == name && c.Flags().Has(dataset.Checkpoint) && !r.Global {
			r.offerCached(c)
			return r.DropAfterID(c.ID())
		}
	}
	if r.Fetch {
		d, ok, err := r.Prefix.Lookup(name)
		if err != nil {
			return err
		}
		if ok && r.fetch(d) {
			return r.DropAfterID(d.ID())
		}
	}
	r.Log.WarnJob("SCR_CURRENT names %s, which is no complete checkpoint in the cache or in the index of %s; ignored", name, r.Prefix.Dir)
	return nil
}

// offerWritten offers the newest checkpoint that the program has written to the prefix
// directory itself, if it is newer than what is offered.
func (r *Restart) offerWritten() error {
	if !r.Fetch {
		return nil
	}
	after := 0
	if r.offered != nil {
		after = r.offered.ID()
	}
	next := func(below int) (dataset.Dataset, bool, error) { return r.Prefix.Written(after, below) }
	return r.offerFirst(1<<62, next, nil)
}

// offerFirst offers the first checkpoint of the prefix directory that can be fetched.
// next returns the one to try after the id below. A damaged one is marked, and no run
// tries it again, so that it cannot stop a job from
// starting over and over. failed, if not nil, is called on rank 0 with the first one that
// could not be fetched.
func (r *Restart) offerFirst(below int, next func(below int) (dataset.Dataset, bool, error), failed func(dataset.Dataset) error) error {
	for {
		d, ok, err := next(below)
		if err != nil || !ok {
			return err
		}
		if r.fetch(d) {
			return nil
		}
		if failed != nil {
			r.Prefix.Note(func() error { return failed(d) })
			failed = nil
		}
		below = d.ID()
	}
}

// Fail records that the program could not restart from the checkpoint that is offered,
// and offers the next.
func (r *Restart) Fail() error {
	o := r.offered
	r.useless[o.ID()] = true // whatever else fails, not this one again
	var err error
	if o.cached != nil {
		err = r.Flusher.Drop(o.cached)
	}
	return errors.Join(err, r.Prefix.Failed(o.ID()), r.FindAgain())
}

// DropAfterID deletes datasets from the cache that are newer than the one to restart
// from.
func (r *Restart) DropAfterID(id int) error {
	return r.Flusher.DropWhere(func(c *cache.Cached) bool { return c.ID() > id })
}

// DropCondemned removes from the cache the checkpoint that an earlier run has died of
// while it read it.
func (r *Restart) DropCondemned() error {
	list := slices.Clone(r.Cache.List())
	marks := make([]int64, len(list))
	err := mpi.OnRoot(r.World, func() error {
		condemned, err := prefix.Condemned(r.Prefix.Dir)
		if err != nil {
			r.Log.Warn("%v; a checkpoint that a run has died of may be tried again", err)
		}
		for i, c := range list {
			if condemned[c.ID()] == c.Name() {
				marks[i] = 1
			}
		}
		return r.Prefix.Spare(prefix.EndRestart(r.Prefix.Dir))
	})
	if err != nil {
		return err
	}
	// Only rank 0 has anything but zeros.
	if err := r.World.Allreduce(marks, mpi.Max); err != nil {
		return err
	}
	if !slices.Contains(marks, 1) {
		return nil
	}
	for i, c := range list {
		if marks[i] == 0 {
			continue
		}
		r.Log.Info("the program died while it read checkpoint %s; it is not used again", c.Name())
		if err := errors.Join(r.Flusher.Drop(c), r.Prefix.Failed(c.ID())); err != nil {
			return err
		}
	}
	return mpi.OnRoot(r.World, func() error { return r.Prefix.Spare(prefix.Forgive(r.Prefix.Dir)) })
}

// SetCurrent makes the dataset of a name the one to restart from, in this run, if again
// is set, and in the next. It returns the number that the dataset has as a checkpoint.
// Datasets in the cache that would go before it are dropped.
func (r *Restart) SetCurrent(name string, again bool) (checkpoint int, err error) {
	inCache := r.findCached(name)
	found := []int64{0, 0} // id of the dataset, 0 if there is none; its number as a checkpoint
	err = mpi.OnRoot(r.World, func() error {
		if inCache != nil {
			found[0], found[1] = int64(inCache.ID()), int64(inCache.Checkpoint())
		}
		x, err := prefix.ReadIndex(r.Prefix.Dir)
		if err != nil {
			return err
		}
		e, ok := x.Find(name)
		if !ok && inCache != nil {
			return nil // it will be entered when it is flushed
		}
		if ok {
			found[0], found[1] = int64(e.ID), int64(e.Checkpoint())
		}
		return r.mark(name)
	})
	if err != nil {
		return 0, err
	}
	if err := r.World.Allreduce(found, mpi.Max); err != nil {
		return 0, err
	}
	id := int(found[0])
	if err := r.DropAfterID(id); err != nil {
		return 0, err
	}
	if inCache == nil {
		// It has to be fetched, and what is older would go before it as well.
		if err := r.Flusher.DropWhere(func(c *cache.Cached) bool { return c.Flags().Has(dataset.Checkpoint) }); err != nil {
			return 0, err
		}
	}
	delete(r.useless, id) // it gets another chance
	if again {
		err = r.FindAgain()
	}
	return int(found[1]), err
}

// findCached returns the dataset of a name in the cache, the newest if there are
// several, nil if there is none.
func (r *Restart) findCached(name string) *cache.Cached {
	for _, c := range r.Cache.List() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// markIfKnown is mark for a name that the index may not have. Rank 0 calls it.
func (r *Restart) markIfKnown(name string) error {
	x, err := prefix.ReadIndex(r.Prefix.Dir)
	if err != nil {
		return err
	}
	if _, ok := x.Lookup(name); !ok {
		return nil
	}
	return r.mark(name)
}

// mark makes the dataset of a name the current one of the index. Rank 0 calls it.
func (r *Restart) mark(name string) error {
	return prefix.UpdateIndex(r.Prefix.Dir, func(x *prefix.Index) error {
		if err := x.SetCurrent(name); err != nil || !r.DropAfter {
			return err
		}
		id, _ := x.Lookup(name)
		for _, later := range x.RemoveAfter(id) {
			r.Log.Info("dataset %s, which is newer than %s, leaves the index", later, name)
		}
		return nil
	})
}

// Remove deletes all datasets of a name from the cache, and from the prefix directory as
// there does. If one was offered, the next is, if again is set.
func (r *Restart) Remove(name string, again bool, there func() error) error {
	offered := r.offered != nil && r.offered.Name() == name
	if offered {
		r.Withdraw()
	}
	if err := r.Flusher.DropWhere(func(c *cache.Cached) bool { return c.Name() == name }); err != nil {
		return err
	}
	if err := there(); err != nil || !offered || !again {
		return err
	}
	return r.FindAgain()
}
