package restart

import (
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// refused are the checkpoints that are not offered.
type refused struct {
	useless map[int]bool // ids of those from which the program could not restart
	marked  bool         // one of the cache is in the list of restart.scr
	why     string       // ... the newest that was tried is not offered
	// lost is the newest checkpoint that was only in caches and is no more; on rank 0. The ID is 0 if there is none.
	lost   prefix.Located
	warned bool // WarnOfNewer has described it
	// byAll are those that the program has refused on all ranks, newest first, before it has accepted one, chosen one, or begun a
	// dataset. With most of them nothing older is offered.
	byAll []dataset.Dataset
	// kept are those of the cache that this run does not use, and that flush.scr names, so that a scavenge copies them if the job ends.
	kept  []dataset.Dataset
	older string // the newest checkpoint of another history, "" if there is none
}

// most is the number of checkpoints that the program may refuse on all ranks. Their checksums were
// right; so its input is more likely to be wrong than one more checkpoint.
const most = 2

// Stopped returns an error if nothing is offered any more because the program has refused too
// much. It is not collective; the result is the same on all ranks.
func (r *Restart) Stopped() error {
	if len(r.refused.byAll) < most {
		return nil
	}
	newest, second := r.refused.byAll[0].Name(), r.refused.byAll[1].Name()
	older := "SCR_CURRENT=NAME chooses an older one"
	if r.refused.older != "" {
		older = fmt.Sprintf("SCR_CURRENT=%s chooses the newest of another computation, which these do not continue", r.refused.older)
	}
	return fmt.Errorf("the program has refused %s and %s on all ranks, although no damage of their files was found: is its input another one? "+
		"No older checkpoint is offered, and both may be used again: a run with the right input restarts from %s. %s, "+
		"and SCR_RESTART=never starts from the beginning", newest, second, newest, older)
}

// Accepted records that the program has restarted from what was offered.
func (r *Restart) Accepted() { settle(r) }

// settle ends the doubt whether the program or the checkpoints are wrong that it has refused on all ranks: later runs may use
// these only if they were most. It is not collective, but all ranks call it.
func settle(r *Restart) {
	if r.Stopped() == nil {
		r.Cache.Unused.Condemn(r.refused.byAll...)
	}
	r.refused.byAll = nil
}

// refuse records that the program has refused a checkpoint on all ranks. If it is the last that is
// offered, later runs may use all that this one has refused. It is collective.
func (r *Restart) refuse(d dataset.Dataset) error {
	r.refused.byAll = append(r.refused.byAll, d)
	if r.Stopped() == nil {
		return nil
	}
	keep(r)
	// If the user has chosen a checkpoint, a later run without that choice takes what the cache has.
	left := r.Current.Name == "" && !slices.ContainsFunc(r.refused.kept, r.refused.byAll[0].Same)
	older, err := mpi.BytesFromRoot(r.World, func() ([]byte, error) {
		if err := r.Prefix.Spare(prefix.Pardon(r.Prefix.Dir, r.refused.byAll, left)); err != nil {
			return nil, err
		}
		x, err := prefix.ReadIndex(r.Prefix.Dir)
		if err != nil {
			return nil, err
		}
		e, _ := prefix.NewestOfOther(r.Prefix.Ours.Of(x), d.History())
		return []byte(e.Name), nil
	})
	r.refused.older = string(older)
	return err
}

// keep records in flush.scr that the checkpoints which the program has refused on all ranks are in the cache, as far as they are. It is
// not collective, but all ranks call it.
func keep(r *Restart) {
	for _, d := range r.Cache.Unused.Known() {
		if slices.ContainsFunc(r.refused.byAll, d.Same) {
			r.refused.kept = append(r.refused.kept, d)
		}
	}
	locate(r, r.refused.kept, true)
}

// ReleaseKept records in flush.scr which of those that keep has recorded have left the cache. It is not collective, but all ranks call it.
func ReleaseKept(r *Restart) {
	if len(r.refused.kept) == 0 {
		return
	}
	known := r.Cache.Unused.Known()
	var left []dataset.Dataset
	r.refused.kept = slices.DeleteFunc(r.refused.kept, func(d dataset.Dataset) bool {
		if slices.ContainsFunc(known, d.Same) {
			return false
		}
		left = append(left, d)
		return true
	})
	locate(r, left, false)
}

// locate records in flush.scr that datasets are in the cache, or are not any more. It is not collective, but all ranks call it.
func locate(r *Restart, list []dataset.Dataset, there bool) {
	for _, d := range list {
		r.Prefix.Note(func() error { return prefix.Locate(r.Prefix.Dir, d, prefix.InCache, there) })
	}
}

// note keeps the first reason.
func (f *refused) note(format string, args ...any) {
	if f.why == "" {
		f.why = fmt.Sprintf(format, args...)
	}
}

// Missed describes the complete checkpoints of the prefix directory, or the one that was only in caches, if none is offered and the user
// has not asked for that; else it returns "". asked is whether the program has asked for a checkpoint. Rank 0 calls it.
func (r *Restart) Missed(asked bool) string {
	if r.offered != nil || r.Never || !r.Fetch {
		return ""
	}
	x, err := prefix.ReadIndex(r.Prefix.Dir)
	if err != nil {
		return fmt.Sprintf("%s may have checkpoints: %v", r.Prefix.Dir, err)
	}
	complete, newest := r.Prefix.Ours.Of(x).CompleteCheckpoints()
	if complete == 0 {
		if !asked || r.refused.lost.ID == 0 {
			return ""
		}
		return fmt.Sprintf("%s was complete in the caches of an earlier run, and was not flushed: these nodes have too little of it, or this run cannot use it", r.refused.lost.Name)
	}
	why := r.refused.why
	switch {
	case why != "":
	case newest.Failed:
		why = fmt.Sprintf("no restart from it was possible: %s; scr_index --current %s tries it again", newest.Fault, newest.Name)
	case !asked:
		why = "the program has not asked for one (SCR_Have_restart)"
	default:
		why = "none of them can be used"
	}
	list := fmt.Sprintf("%d complete checkpoints, the newest %s", complete, newest.Name)
	if complete == 1 {
		list = "the complete checkpoint " + newest.Name
	}
	return fmt.Sprintf("%s has %s: %s", r.Prefix.Dir, list, why)
}

// WarnOfNewer logs, once, that a newer checkpoint than the one that is offered is lost with the caches, unless the user or the program
// has not wanted it. Rank 0 calls it.
func WarnOfNewer(r *Restart) {
	lost := r.refused.lost
	if r.refused.warned || r.Current.Name != "" || r.Never || !r.Fetch || r.refused.why != "" || lost.ID <= r.offered.ID() {
		return
	}
	r.refused.warned = true
	r.Log.WarnJob("this run restarts from %s: %s is newer, but was only in the caches of an earlier run, and these nodes have too little of it, or this run cannot use it",
		r.offered.Name(), lost.Name)
}

// SeekLost remembers the newest checkpoint that an earlier run had in its caches and that neither is complete in the index nor among
// those that this run has found. Rank 0 calls it, before the run records what it has found.
func SeekLost(r *Restart, x *prefix.Index, found []*cache.Cached) error {
	located, err := prefix.Locations(r.Prefix.Dir)
	for _, l := range located {
		same := func(c *cache.Cached) bool { return c.Same(l.Dataset) }
		mine := r.Prefix.Ours == nil || r.Prefix.Ours(l.Dataset)
		// A program with several series of checkpoints asks for each itself.
		if mine && l.Is(prefix.InCache) && l.Flags().Has(dataset.Checkpoint) && l.Dataset.Series() == "" && l.ID > r.refused.lost.ID &&
			!x.HasComplete(l.Dataset) && !slices.ContainsFunc(found, same) {
			r.refused.lost = l
		}
	}
	return err
}
