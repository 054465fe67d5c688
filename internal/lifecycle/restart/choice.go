package restart

import (
	"fmt"
	"math"
	"slices"

	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// Chosen is what follows from the choice of a dataset: its series, its number there as a checkpoint, and its history.
type Chosen struct {
	Series     string
	Checkpoint int
	History    int64
}

// SetCurrent makes the dataset called name current: the next run restarts from it, and,
// if again is true, it is offered in this run. Datasets in the cache that would be offered before it are deleted.
func (r *Restart) SetCurrent(name string, again bool) (chosen Chosen, err error) {
	inCache := r.findCached(name, func(*cache.Cached) bool { return true })
	found := []int64{0, 0, math.MinInt64} // id of the dataset, 0 if there is none, and what is chosen
	var series string                     // on rank 0
	take := func(d dataset.Dataset) {
		series = d.Series()
		found[0], found[1], found[2] = int64(d.ID()), int64(d.Checkpoint()), d.History()
	}
	err = mpi.OnRoot(r.World, func() error {
		if inCache != nil {
			take(inCache.Dataset)
		}
		x, err := prefix.ReadIndex(r.Prefix.Dir)
		if err != nil {
			return err
		}
		e, ok := x.Find(name)
		if inCache != nil && (!ok || e.ID < inCache.ID()) {
			return nil // the flush of it will enter it in the index, in place of an older one of its name
		}
		if ok {
			take(e.Dataset)
			found[0] = int64(e.ID)
		}
		if ok && e.Replaced != nil && (inCache == nil || inCache.ID() != e.ID) { // newer ones would leave the cache for one that cannot be used
			return fmt.Errorf("dataset %d (%s): %s", e.ID, name, e.Why())
		}
		return nil
	})
	if err != nil {
		return chosen, err
	}
	if r.World.Allreduce(found, mpi.Max); found[0] == 0 {
		return chosen, &UnknownError{name}
	}
	series = string(mpi.BcastBytes(r.World, []byte(series), 0))
	id := int(found[0])
	if inCache != nil && inCache.ID() != id {
		inCache = nil // the prefix directory has a newer one of the name
	}
	if inCache != nil {
		r.Cache.Happened(inCache, life.OfferedAgain)
	}
	newer := r.after(id)
	leaves := func(d dataset.Dataset) bool {
		// If it has to be fetched, older checkpoints in the cache would be offered before it.
		return newer(d) || inCache == nil && d.Flags().Has(dataset.Checkpoint) && !r.Cache.Unused.OfOtherSize(d.ID())
	}
	err = r.drop(leaves, func(x *prefix.Index) change {
		if e, ok := x.Find(name); inCache != nil && (!ok || e.ID < id) {
			return preferCached(x, id)
		}
		return func(x *prefix.Index) error { return r.mark(x, name) }
	}, false)
	if err != nil {
		return chosen, err
	}
	delete(r.refused.useless, id) // it may be offered even if a restart from it has failed
	settle(r)
	ReleaseKept(r)
	if again {
		err = r.FindAgain()
	} else {
		r.Withdraw()
		_, err = r.Room.Flusher.Contents.Newest(series)
	}
	return Chosen{series, int(found[1]), found[2]}, err
}

// UnknownError says that neither the index nor the cache has a dataset of a name. All ranks get it.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("there is no dataset %q in the index or in the cache", e.Name)
}

// TakeChoice makes the next Find begin with a checkpoint, given by name and id, which a user has chosen with scr_index. "" is for
// none: the choice has no effect, and only ends once the run begins a dataset. record is rank 0's.
func (r *Restart) TakeChoice(name string, id int, record prefix.Choice) {
	if name != "" {
		r.Current = Choice{Name: name, By: "scr_index --current", id: id}
	}
	r.Current.recorded, r.Current.record = true, record
}

// findCached returns the newest dataset called name in the cache of which condition is true, restored, nil if
// there is none.
func (r *Restart) findCached(name string, condition func(*cache.Cached) bool) *cache.Cached {
	for _, c := range slices.Clone(r.Cache.List()) {
		if c.Name() != name || !condition(c) {
			continue
		}
		r.Room.Flusher.Contents.Restore(c)
		if !c.Gone() {
			return c
		}
	}
	return nil
}

// change changes the index.
type change func(*prefix.Index) error

func noChange(*prefix.Index) change { return nil }

// after returns the condition that a dataset has a higher id, and is of use for a job of this
// size: only such a one would be offered before the dataset of that id. Others are kept, since
// the number of ranks may be a mistake.
func (r *Restart) after(id int) func(dataset.Dataset) bool {
	return func(d dataset.Dataset) bool { return d.ID() > id && !r.Cache.Unused.OfOtherSize(d.ID()) }
}

// before returns the condition that a run after a kill would offer a dataset of the cache, and not d,
// which is current in the index: it is newer, or d has to be fetched and is of another job (offerNewer).
func (r *Restart) before(d dataset.Dataset) func(dataset.Dataset) bool {
	newer, foreign := r.after(d.ID()), d.Owner().JobID != r.JobID
	return func(other dataset.Dataset) bool {
		return newer(other) || foreign && other.Flags().Has(dataset.Checkpoint) && !r.Cache.Unused.OfOtherSize(other.ID())
	}
}

// changeIfKnown changes the index if it has a dataset called name. Rank 0 calls it.
func (r *Restart) changeIfKnown(name string, change change) error {
	x, err := prefix.ReadIndex(r.Prefix.Dir)
	if err != nil {
		return err
	}
	if _, ok := x.Lookup(name); !ok {
		return nil
	}
	return prefix.UpdateIndex(r.Prefix.Dir, change)
}

// prefer returns the change of the index x after which a run restarts from the dataset of the
// cache with the given name and id, which the user has chosen, nil if none is needed.
func (r *Restart) prefer(x *prefix.Index, name string, id int) change {
	if _, ok := x.Lookup(name); !ok {
		return preferCached(x, id)
	}
	return func(x *prefix.Index) error {
		err := r.mark(x, name)
		if unset := preferCached(x, id); err == nil && unset != nil {
			err = unset(x)
		}
		return err
	}
}

// preferCached returns the change after which the next run restarts from a dataset of the cache, with the given id, which was chosen: no
// dataset of the index x is current that is newer, which the next run would fetch, and no earlier choice with scr_index is left. It
// returns nil if neither is.
func preferCached(x *prefix.Index, id int) change {
	e, ok := x.Find(x.Current())
	newer := ok && e.ID > id
	if c, made := prefix.Chosen(x); !newer && (!made || c.Of.ID == id) {
		return nil
	}
	return func(x *prefix.Index) error {
		if newer {
			x.UnsetCurrent()
		}
		x.EndChoiceBut(id)
		return nil
	}
}

// mark makes the dataset called name current in the index. With SCR_DROP_AFTER_CURRENT it
// removes newer datasets from the index.
func (r *Restart) mark(x *prefix.Index, name string) error {
	if err := x.SetCurrent(name); err != nil || !r.DropAfter {
		return err
	}
	id, _ := x.Lookup(name)
	for _, later := range x.RemoveAfter(id) {
		r.Log.Info("dataset %s, which is newer than %s, is removed from the index", later, name)
	}
	return nil
}

// drop deletes the datasets of the cache of which condition, which is the same on all ranks, is
// true, after it has recorded the choice (record).
func (r *Restart) drop(condition func(dataset.Dataset) bool, choose func(x *prefix.Index) change, spare bool) error {
	if err := r.record(condition, choose, spare); err != nil {
		return err
	}
	return r.dropLeaving(condition, true)
}

// record records in the index that the datasets of the cache leave it of which condition, which is
// the same on all ranks, is true. choose, which rank 0 calls, returns the change of the index by
// which another dataset is chosen, nil if none is needed. The change and the list of those that leave are written at
// once, before the first of them leaves: a run after a kill continues from what was the newest, or
// from what was chosen, since it deletes the rest of the list (PassOver), and from no
// third one. Flushes are cancelled before, since the next run would complete them. A lack of
// room in the prefix directory is an error only if there is a change, and spare is false.
func (r *Restart) record(condition func(dataset.Dataset) bool, choose func(x *prefix.Index) change, spare bool) error {
	if err := r.Room.Flusher.CancelWhere(condition); err != nil {
		return err
	}
	list := r.Room.Flusher.Contents.Where(condition)
	return mpi.OnRoot(r.World, func() error {
		x, err := prefix.ReadIndex(r.Prefix.Dir)
		if err != nil {
			return err
		}
		change := choose(x)
		if change == nil && len(list) == 0 {
			return nil
		}
		err = prefix.UpdateIndex(r.Prefix.Dir, func(x *prefix.Index) error {
			x.Leave(r.JobID, list)
			if change == nil {
				return nil
			}
			return change(x)
		})
		if change == nil || spare {
			return r.Prefix.Spare(err)
		}
		return err
	})
}

// dropLeaving deletes the datasets of the cache of which condition, which is the same on all
// ranks, is true, and, if listed is true on rank 0, the list of them in the index.
func (r *Restart) dropLeaving(condition func(dataset.Dataset) bool, listed bool) error {
	if err := r.Room.Flusher.DropWhere(condition); err != nil || !listed {
		return err
	}
	r.unlist()
	return nil
}

// unlist deletes the list of the datasets that leave the cache, if the index has one.
func (r *Restart) unlist() {
	r.Prefix.Note(func() error {
		x, err := prefix.ReadIndex(r.Prefix.Dir)
		if err != nil || !x.Leaving(r.JobID) {
			return err
		}
		return prefix.UpdateIndex(r.Prefix.Dir, func(x *prefix.Index) error { x.Left(r.JobID); return nil })
	})
}

// Remove deletes all datasets of the history called name from the cache, of any job size, and calls there to remove them
// from the prefix directory. If one of them was offered, and again is true, it searches
// for another to offer. The newest of the name leaves last: if the job is killed meanwhile, the
// next run does not restart from an older one of that name, which the program does not want either.
func (r *Restart) Remove(name string, history int64, again bool, there func() error) error {
	named := func(d dataset.Dataset) bool { return d.Name() == name && d.Of(history) }
	offered := r.offered != nil && named(r.offered.Dataset)
	if offered {
		r.Withdraw()
	}
	if err := r.Room.Flusher.CancelWhere(named); err != nil {
		return err
	}
	known, ok, err := r.Prefix.Find(prefix.Lookup(name))
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return r.drop(named, noChange, false) },
		there,
	}
	if ok && slices.ContainsFunc(r.Room.Flusher.Contents.Where(named), func(d dataset.Dataset) bool { return d.ID() > known.ID() }) {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if offered && again {
		return r.FindAgain()
	}
	_, err = r.Room.Flusher.Contents.Newest(known.Series())
	return err
}
