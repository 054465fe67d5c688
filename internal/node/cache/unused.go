package cache

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goscr/goscr/internal/lifecycle/life"
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
	passed          bool           // this job could otherwise use it: too much is lost to rebuild it on these nodes, or a restart from it has failed,
	failed          bool           // ... and this is settled: no run is offered it unless a user asks for it
	otherSize       bool           // a job of another size has written it
	store           *reddesc.Store // that has it on some node, nil if no store of this run has
	// other describes a dataset of a program with another prefix directory, else it is nil. saved
	// is whether that directory has it.
	other *filemap.Description
	saved bool
}

// stays reports whether nobody else has a dataset that another program has written.
func (u unused) stays() bool { return u.other != nil && !u.saved }

// UnusedList has the unused datasets in the cache. It decides which of them leave. It is the same on all ranks.
type UnusedList struct {
	usable  *UsableList
	parts   *parts
	stores  []*reddesc.Store
	prefix  string    // of the job
	list    []unused  // oldest first
	foreign []Foreign // those of list that jobs of another size have written, newest first
	spoiled bool      // this run has failed to complete a dataset, possibly for lack of room
}

// CheckOthers finds out which datasets of other programs may leave: saved says on rank 0 whether the
// prefix directory of a dataset has it. It is collective.
func (l *UnusedList) CheckOthers(saved func(prefix string, d dataset.Dataset) bool) {
	marks := make([]int64, len(l.list))
	others := false
	for i, u := range l.list {
		others = others || u.other != nil
		marks[i] = one(u.other != nil && l.parts.world.Rank() == 0 && saved(u.other.Prefix, u.other.Dataset))
	}
	if !others {
		return
	}
	l.parts.world.Allreduce(marks, mpi.Max)
	for i := range marks {
		u := &l.list[i]
		u.saved = marks[i] == 1
		switch {
		case u.saved:
			l.parts.log.Info("dataset %d (%s) in the cache belongs to a program with prefix directory %s, which has it, or a newer checkpoint: it leaves the cache when this run has completed one", u.id, u.other.Name(), u.other.Prefix)
		case u.other != nil:
			l.parts.log.WarnJob("dataset %d (%s) in the cache belongs to a program with prefix directory %s, this one's is %s: it is not used here, and stays in the cache until that directory has it, or a newer checkpoint "+
				"(give each program its own SCR_JOB_ID; if the directory was moved, make a symbolic link of its old name)", u.id, u.other.Name(), u.other.Prefix, l.prefix)
		}
	}
}

// leave leaves a dataset in the cache that this run cannot use. It is collective.
func (l *UnusedList) leave(u unused) {
	number := -1
	if len(l.parts.maps.Ranks(u.id)) > 0 {
		number = slices.Index(l.stores, l.parts.places.place(u.id).store)
	}
	number = mpi.AllreduceOne(l.parts.world, number, mpi.Max)
	if number >= 0 {
		u.store = l.stores[number]
	}
	l.add(u)
}

// leaveForeign is leave for a dataset that a job of another size has written. err is nil if the dataset
// can be flushed, else the reason why it cannot.
func (l *UnusedList) leaveForeign(id int, f Foreign, err error) {
	if err == nil {
		l.foreign = append(l.foreign, f)
	} else {
		l.parts.log.WarnJob("dataset %d in the cache, which %d ranks have written, cannot be used: %v; %s", id, f.Ranks, err, untilOwn)
	}
	l.leave(unused{Dataset: f.Dataset, id: id, otherSize: true})
}

// ErrOtherProgram says that the number of a dataset is that of one that another program needs.
var ErrOtherProgram = errors.New("the dataset cannot be stored")

// MakeWay deletes the unused dataset of an id, if there is one: it cannot stay beside one that is made or fetched again. It is
// an error if another program needs it. It is collective; the error is agreed.
func (l *UnusedList) MakeWay(id int) error {
	for _, u := range l.list {
		if u.id == id && u.stays() { // on all ranks
			return mpi.Agree(l.parts.world, fmt.Errorf("%w: the cache has a dataset %d, too, which is %s of another program and not yet in %s: run that program again, so that it flushes it, "+
				"delete it with scr_clean, or give this one its own SCR_JOB_ID", ErrOtherProgram, id, u.other.Name(), u.other.Prefix))
		}
	}
	l.delete(id)
	return nil
}

func (l *UnusedList) add(u unused) {
	l.list = append(l.list, u)
	slices.SortFunc(l.list, func(a, b unused) int { return cmp.Compare(a.id, b.id) })
}

// PassOver makes a dataset that can be used an unused one, since a restart from it has
// failed. Condemn says that no later run can use it, either. It is collective.
func (l *UnusedList) PassOver(c *Cached) {
	l.usable.remove(c.ID())
	l.parts.leaves(c)
	l.add(unused{Dataset: c.Dataset, id: c.ID(), passed: true, store: c.store})
	c.free()
}

// Condemn records that no run is offered some datasets, as a restart from them has failed. They are not among Foreign any more, since they
// are not to be flushed. It is not collective, but all ranks call it.
func (l *UnusedList) Condemn(list ...dataset.Dataset) {
	l.foreign = slices.DeleteFunc(l.foreign, func(f Foreign) bool { return slices.ContainsFunc(list, f.Same) })
	for i, u := range l.list {
		l.list[i].failed = u.failed || slices.ContainsFunc(list, u.Same)
	}
}

// counts reports whether a dataset takes a place of a series in a store. One of which nothing is known does so in each series.
func (u unused) counts(s *reddesc.Store, series string) bool {
	return u.store == s && !u.stays() && (u.Dataset.IsZero() || u.Series() == series)
}

// Places returns the unused datasets of a series in a store that may leave, in the order in which they leave: first those
// from which a restart has failed, and the oldest first. It is the same on all ranks.
func (l *UnusedList) Places(s *reddesc.Store, series string) (list []life.Unused) {
	var others []life.Unused
	for _, u := range l.list {
		switch {
		case !u.counts(s, series):
		case u.failed:
			list = append(list, life.Unused{ID: u.id, Failed: true})
		default:
			others = append(others, life.Unused{ID: u.id})
		}
	}
	return append(list, others...)
}

// SizeUnknown is the size of a dataset that is not known yet.
const SizeUnknown = -1

// Evict deletes those of Places that leave. If the store has no room for a new dataset, it deletes all unused datasets. need
// is the size in bytes of the caller's part of the new dataset, or SizeUnknown on all ranks.
// It is collective.
func (l *UnusedList) Evict(s *reddesc.Store, leaving []life.Unused, need int64) {
	if len(l.list) == 0 {
		return
	}
	l.drop(forRoom, func(u unused) bool {
		return slices.ContainsFunc(leaving, func(p life.Unused) bool { return p.ID == u.id })
	})
	short := l.spoiled
	if !short && len(l.list) > 0 {
		short = l.short(s, need)
	}
	if !short {
		return
	}
	l.drop(forRoom, func(unused) bool { return true })
}

// short reports whether a store has less free space on some node than a new dataset is going
// to take. need is the size in bytes of the caller's part, or SizeUnknown on all ranks: then
// the new dataset is taken to be as large as the largest in the cache. It is collective.
func (l *UnusedList) short(s *reddesc.Store, need int64) bool {
	var sizes []int64
	if need != SizeUnknown {
		sizes = append(sizes, need)
	} else {
		for _, c := range l.usable.list {
			sizes = append(sizes, l.parts.size(c.ID()))
		}
		for _, u := range l.list {
			sizes = append(sizes, l.parts.size(u.id))
		}
	}
	s.Comm.Allreduce(sizes, mpi.Sum)
	free := int64(math.MaxInt64)
	if s.Comm.Rank() == 0 {
		free = room(s)
	}
	return mpi.Any(l.parts.world, slices.Max(sizes) > free)
}

// DropSuperseded deletes the unused datasets of a series, and those of which nothing is known: the run has
// completed a checkpoint of that series. It is collective.
func (l *UnusedList) DropSuperseded(series string) {
	l.drop("this run has completed a checkpoint", func(u unused) bool { return u.Dataset.IsZero() || u.Series() == series })
}

// Known returns the unused datasets of which the description is known. It is the same on
// all ranks.
func (l *UnusedList) Known() (list []dataset.Dataset) {
	for _, u := range l.list {
		if !u.Dataset.IsZero() {
			list = append(list, u.Dataset)
		}
	}
	return list
}

// OfOtherSize reports whether an unused dataset was written by a job of another size. It is the
// same on all ranks.
func (l *UnusedList) OfOtherSize(id int) bool {
	return slices.ContainsFunc(l.list, func(u unused) bool { return u.id == id && u.otherSize })
}

// DropUnwanted deletes those of Known for which condition, which is the same on all ranks,
// is true. It is collective.
func (l *UnusedList) DropUnwanted(condition func(dataset.Dataset) bool) {
	l.drop("the program does not want it", func(u unused) bool { return !u.Dataset.IsZero() && condition(u.Dataset) })
}

// Yield deletes unused datasets that this job could use elsewhere if err, which all ranks
// have in some form, says on any rank that storage is full: what this run can use goes first.
// It reports whether there were any. It is collective.
func (l *UnusedList) Yield(err error) bool {
	if !slices.ContainsFunc(l.list, func(u unused) bool { return u.passed }) {
		return false
	}
	if !mpi.Any(l.parts.world, noRoom(err) || errors.Is(err, errRefused)) {
		return false
	}
	l.drop(forRoom, func(u unused) bool { return u.passed })
	return true
}

// drop deletes the unused datasets that leave, oldest first. It is collective.
func (l *UnusedList) drop(why string, leaves func(unused) bool) {
	for _, u := range slices.Clone(l.list) {
		if u.stays() || !leaves(u) {
			continue
		}
		l.parts.log.Info("dataset %d, which this run does not use, leaves the cache: %s", u.id, why)
		l.delete(u.id)
	}
}

// delete deletes the unused dataset of an id, if there is one. It is collective.
func (l *UnusedList) delete(id int) {
	is := func(u unused) bool { return u.id == id }
	if !slices.ContainsFunc(l.list, is) {
		return
	}
	l.list = slices.DeleteFunc(l.list, is)
	l.foreign = slices.DeleteFunc(l.foreign, func(f Foreign) bool { return f.ID() == id })
	l.usable.Delete(id)
}
