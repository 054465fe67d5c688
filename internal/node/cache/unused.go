package cache

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
)

// Unused datasets are in the cache, but not in the list of those that can be used. Another
// run may be able to use them, on other nodes or of another size, so they stay until this
// run has completed a checkpoint of its own. They leave earlier if their room is needed:
//
//   - a store never holds more datasets, used or not, than it is allowed to;
//   - a store has no room for one more dataset;
//   - this run has failed to complete a dataset, possibly for lack of room;
//   - a dataset that this run can use can be restored, or fetched, only without them.
//
// What a program with another prefix directory has written does not leave before that directory
// has it.

// untilOwn informs users how long an unused dataset stays in the cache.
const untilOwn = "it stays there until this run has completed a checkpoint, or needs its room"

// forRoom is the reason, for messages, why an unused dataset leaves early.
const forRoom = "its room is needed"

// unused is a dataset in the cache that this run does not use. All fields are the same on
// all ranks.
type unused struct {
	dataset.Dataset // zero if it is not known
	id              int
	// passed is whether this job could otherwise use the dataset: too much of it is lost to
	// rebuild it on these nodes, or a restart from it has failed.
	passed    bool
	otherSize bool           // a job of another size has written it
	store     *reddesc.Store // that has it on some node, nil if no store of this run has
	// other describes a dataset of a program with another prefix directory, else it is nil. saved
	// is whether that directory has it.
	other *filemap.Description
	saved bool
}

// stays reports whether nobody else has a dataset that another program has written.
func (u unused) stays() bool { return u.other != nil && !u.saved }

// CheckOthers finds out which datasets of other programs may leave: saved says on rank 0 whether the
// prefix directory of a dataset has it. It is collective.
func (k *Cache) CheckOthers(saved func(prefix string, d dataset.Dataset) bool) {
	marks := make([]int64, len(k.unused))
	others := false
	for i, u := range k.unused {
		others = others || u.other != nil
		marks[i] = one(u.other != nil && k.World.Rank() == 0 && saved(u.other.Prefix, u.other.Dataset))
	}
	if !others {
		return
	}
	k.World.Allreduce(marks, mpi.Max)
	for i := range marks {
		u := &k.unused[i]
		u.saved = marks[i] == 1
		switch {
		case u.saved:
			k.Log.Info("dataset %d (%s) in the cache belongs to a program with prefix directory %s, which has it, or a newer checkpoint: it leaves the cache when this run has completed one", u.id, u.other.Name(), u.other.Prefix)
		case u.other != nil:
			k.Log.WarnJob("dataset %d (%s) in the cache belongs to a program with prefix directory %s, this one's is %s: it is not used here, and stays in the cache until that directory has it, or a newer checkpoint "+
				"(give each program its own SCR_JOB_ID; if the directory was moved, make a symbolic link of its old name)", u.id, u.other.Name(), u.other.Prefix, k.Prefix)
		}
	}
}

// leaveUnused leaves a dataset in the cache that this run cannot use. It is collective.
func (k *Cache) leaveUnused(u unused) {
	number := -1
	if len(k.parts.maps.Ranks(u.id)) > 0 {
		number = slices.Index(k.Stores, k.places.place(u.id).store)
	}
	number = mpi.AllreduceOne(k.World, number, mpi.Max)
	if number >= 0 {
		u.store = k.Stores[number]
	}
	k.addUnused(u)
}

func (k *Cache) addUnused(u unused) {
	k.unused = append(k.unused, u)
	slices.SortFunc(k.unused, func(a, b unused) int { return cmp.Compare(a.id, b.id) })
}

// PassOver makes a dataset that can be used an unused one, since a restart from it has
// failed. It is collective.
func (k *Cache) PassOver(c *Cached) {
	k.list = slices.DeleteFunc(k.list, func(other *Cached) bool { return other == c })
	k.addUnused(unused{Dataset: c.Dataset, id: c.ID(), passed: true, store: c.store})
	c.free()
}

// counts reports whether a dataset takes a place of a series in a store. One of which nothing is known does so in each series.
func (u unused) counts(s *reddesc.Store, series string) bool {
	return u.store == s && !u.stays() && (u.Dataset.IsZero() || u.Series() == series)
}

// Unused returns the number of unused datasets of a series in a store that may leave, and how many of these are newer
// than the dataset with id newest. It is the same on all ranks.
func (k *Cache) Unused(s *reddesc.Store, series string, newest int) (all, newer int) {
	for _, u := range k.unused {
		if !u.counts(s, series) {
			continue
		}
		all++
		if u.id > newest {
			newer++
		}
	}
	return all, newer
}

// SizeUnknown is the size of a dataset that is not known yet.
const SizeUnknown = -1

// EvictUnused deletes the oldest unused datasets of a series in a store, so that at most stay of them
// remain. If the store has no room for a new dataset, it deletes all unused datasets. need
// is the size in bytes of the caller's part of the new dataset, or SizeUnknown on all ranks.
// It is collective.
func (k *Cache) EvictUnused(s *reddesc.Store, series string, stay int, need int64) {
	if len(k.unused) == 0 {
		return
	}
	all, _ := k.Unused(s, series, 0)
	surplus := all - stay
	k.dropUnused(forRoom, func(u unused) bool {
		if u.counts(s, series) {
			surplus--
		}
		return u.counts(s, series) && surplus >= 0
	})
	short := k.spoiled
	if !short && len(k.unused) > 0 {
		short = k.short(s, need)
	}
	if !short {
		return
	}
	k.dropUnused(forRoom, func(unused) bool { return true })
}

// short reports whether a store has less free space on some node than a new dataset is going
// to take. need is the size in bytes of the caller's part, or SizeUnknown on all ranks: then
// the new dataset is taken to be as large as the largest in the cache. It is collective.
func (k *Cache) short(s *reddesc.Store, need int64) bool {
	var sizes []int64
	if need != SizeUnknown {
		sizes = append(sizes, need)
	} else {
		for _, c := range k.list {
			sizes = append(sizes, k.parts.size(c.ID()))
		}
		for _, u := range k.unused {
			sizes = append(sizes, k.parts.size(u.id))
		}
	}
	s.Comm.Allreduce(sizes, mpi.Sum)
	free := int64(math.MaxInt64)
	var st unix.Statfs_t
	if s.Comm.Rank() == 0 && unix.Statfs(s.Base, &st) == nil {
		free = int64(min(st.Bavail*uint64(st.Bsize), math.MaxInt64))
	}
	return mpi.Any(k.World, slices.Max(sizes) > free)
}

// DropSuperseded deletes the unused datasets of a series, and those of which nothing is known: the run has
// completed a checkpoint of that series. It is collective.
func DropSuperseded(k *Cache, series string) {
	k.dropUnused("this run has completed a checkpoint", func(u unused) bool { return u.Dataset.IsZero() || u.Series() == series })
}

// KnownUnused returns the unused datasets of which the description is known. It is the same on
// all ranks.
func (k *Cache) KnownUnused() (list []dataset.Dataset) {
	for _, u := range k.unused {
		if !u.Dataset.IsZero() {
			list = append(list, u.Dataset)
		}
	}
	return list
}

// OfOtherSize reports whether an unused dataset was written by a job of another size. It is the
// same on all ranks.
func (k *Cache) OfOtherSize(id int) bool {
	return slices.ContainsFunc(k.unused, func(u unused) bool { return u.id == id && u.otherSize })
}

// DropUnwanted deletes those of KnownUnused for which condition, which is the same on all ranks,
// is true. It is collective.
func (k *Cache) DropUnwanted(condition func(dataset.Dataset) bool) {
	k.dropUnused("the program does not want it", func(u unused) bool { return !u.Dataset.IsZero() && condition(u.Dataset) })
}

// Yield deletes unused datasets that this job could use elsewhere if err, which all ranks
// have in some form, says on any rank that storage is full: what this run can use goes first.
// It reports whether there were any. It is collective.
func (k *Cache) Yield(err error) bool {
	if !slices.ContainsFunc(k.unused, func(u unused) bool { return u.passed }) {
		return false
	}
	if !mpi.Any(k.World, noRoom(err) || errors.Is(err, errRefused)) {
		return false
	}
	k.dropUnused(forRoom, func(u unused) bool { return u.passed })
	return true
}

// dropUnused deletes the unused datasets that leave, oldest first. It is collective.
func (k *Cache) dropUnused(why string, leaves func(unused) bool) {
	for _, u := range slices.Clone(k.unused) {
		if u.stays() || !leaves(u) {
			continue
		}
		k.Log.Info("dataset %d, which this run does not use, leaves the cache: %s", u.id, why)
		k.deleteUnused(u.id)
	}
}

// deleteUnused deletes the unused dataset of an id, if there is one. It is collective.
func (k *Cache) deleteUnused(id int) {
	is := func(u unused) bool { return u.id == id }
	if !slices.ContainsFunc(k.unused, is) {
		return
	}
	k.unused = slices.DeleteFunc(k.unused, is)
	k.foreign = slices.DeleteFunc(k.foreign, func(f Foreign) bool { return f.ID() == id })
	k.Delete(id)
}
