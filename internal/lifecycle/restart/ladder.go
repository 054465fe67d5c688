package restart

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/goscr/goscr/internal/lifecycle/flush"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// rung is the source that Find tries next.
type rung int

const (
	named   rung = iota // the checkpoint that the user has chosen
	cached              // the newest in the cache, or a newer one that the program has written to the prefix directory
	newer               // ... or a newer one of this job that has to be fetched
	fetched             // those in the prefix directory
)

// Find tries one source after the other until it can offer a checkpoint without a series. It fetches one
// only if fetch is true. A later call continues with the source at which the last call
// stopped. If Find(true) offers none, the run starts from the beginning.
func (r *Restart) Find(fetch bool) error { return FindFirst(r, fetch, true) }

// FindFirst is Find in SCR_Init. If written is false, the program has written no checkpoint to the prefix directory that
// could be offered.
func FindFirst(r *Restart, fetch, written bool) error {
	if r.Never || r.Stopped() != nil {
		return nil
	}
	endSeries(r)
	if r.rung == named {
		if err := r.offerNamed(); err != nil {
			return err
		}
		r.rung = cached
		if r.offered != nil {
			r.rung = fetched
		}
	}
	newest, err := r.Room.Flusher.Contents.Newest("")
	if err != nil {
		return err
	}
	if r.rung == cached {
		// Those that cannot be rebuilt are not in the list.
		if newest != nil && !(r.Global && r.Fetch) {
			r.offerCached(newest)
		}
		if written {
			if err := r.offerWritten(); err != nil {
				return err
			}
		}
		r.rung = newer
	}
	if !fetch || !r.Fetch {
		return nil
	}
	if r.rung == newer {
		if err := r.offerNewer(); err != nil {
			return err
		}
		r.rung = fetched
	}
	if r.offered != nil {
		MarkOffered(r)
		return nil
	}
	// Candidate selects the current checkpoint of the index first, and then older ones.
	return r.offerFirst(0, prefix.Candidate, r.tellNewer)
}

// FindAgain searches again in the cache, and in the prefix directory for a newer
// checkpoint that the program has written there, after checkpoints were removed or the
// current one was changed. It fetches none.
func (r *Restart) FindAgain() error {
	r.offered, r.rung = nil, cached
	return r.Find(false)
}

// FindInRun searches once the program has begun a dataset: it offers the newest checkpoint that is complete, as a rule
// one that this run has written. If there is none it fetches one.
func (r *Restart) FindInRun() error {
	endSeries(r)
	if r.offered != nil || r.Never {
		return nil
	}
	newest, err := r.Room.Flusher.Contents.Newest("")
	if err != nil {
		return err
	}
	if newest != nil { // also if restarts are from the prefix directory: it may not be there
		r.offerCached(newest)
	}
	if err := r.offerWritten(); err != nil || !r.Fetch {
		return err
	}
	if r.offered != nil {
		return r.offerNewer()
	}
	return r.offerFirst(0, prefix.Candidate, r.tellNewer)
}

// FindIn offers the newest checkpoint of a series of which wanted is true, from the cache or from the prefix directory, in
// place of what was offered. wanted is the same on all ranks. If it offers none, nothing else changes. Before the run has begun a dataset
// (inRun), it offers the one that the user has chosen, if that is of the series.
func (r *Restart) FindIn(series string, wanted func(version int) bool, inRun bool) error {
	r.offered, r.rung = nil, fetched
	if r.Never {
		return nil
	}
	of := func(d dataset.Dataset) bool { return d.Series() == series && wanted(d.Version()) }
	if r.Current.Name != "" && !inRun {
		if err := findWhere(r, func(d dataset.Dataset) bool { return of(d) && r.Current.is(d) }); err != nil || r.offered != nil {
			return err
		}
	}
	return findWhere(r, of)
}

// endSeries ends the offer of a version of a series, so that a search can offer a checkpoint without one.
func endSeries(r *Restart) {
	if r.offered != nil && r.offered.Series() != "" {
		r.offered, r.rung = nil, cached
	}
}

// findWhere offers the newest checkpoint of which a condition is true, which is the same on all ranks.
func findWhere(r *Restart, of func(dataset.Dataset) bool) error {
	if !(r.Global && r.Fetch) {
		for _, c := range slices.Clone(r.Cache.List()) {
			if !of(c.Dataset) || !c.Flags().Has(dataset.Checkpoint) || c.Withheld() {
				continue
			}
			r.Room.Flusher.Contents.Restore(c)
			if !c.Gone() {
				r.offerCached(c)
				break
			}
		}
	}
	if !r.Fetch {
		return nil
	}
	after := 0
	if r.offered != nil {
		after = r.offered.ID()
	}
	return r.offerFirst(math.MaxInt, func(below int) prefix.Selector { return prefix.NewestWhere(of, after, below) }, nil)
}

// Versions returns the versions of a series that are in the cache or can be fetched, in ascending order. Rank 0 calls it.
func Versions(r *Restart, series string) ([]int, error) {
	x, err := prefix.ReadIndex(r.Prefix.Dir)
	if err != nil {
		return nil, err
	}
	found := map[int]bool{}
	for _, c := range r.Cache.List() {
		if c.Series() == series && !c.Withheld() {
			found[c.Version()] = true
		}
	}
	for _, d := range r.Prefix.Ours.Of(x).Usable() {
		if d.Series() == series && r.Fetch {
			found[d.Version()] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// offerNamed offers the checkpoint that the user has chosen, from the cache or from the prefix
// directory, and deletes newer datasets from the cache. If there is no such checkpoint, it
// warns.
func (r *Restart) offerNamed() error {
	name := r.Current.Name
	if name == "" {
		return nil
	}
	if !r.Global {
		c := r.findCached(name, func(c *cache.Cached) bool { return c.Flags().Has(dataset.Checkpoint) && r.Current.is(c.Dataset) })
		if c != nil {
			r.offerCached(c)
			tellChoice(r, r.Room.Flusher.Contents.Where(r.after(c.ID())))
			return r.drop(r.after(c.ID()), func(x *prefix.Index) change { return r.prefer(x, name, c.ID()) }, true)
		}
	}
	// A run that follows a kill continues with this choice. What is newer stays in the index until the checkpoint is here.
	choose := func(x *prefix.Index) error { return x.SetCurrent(name) }
	if err := mpi.OnRoot(r.World, func() error { return r.Prefix.Spare(r.changeIfKnown(name, choose)) }); err != nil {
		return err
	}
	where := "in the cache or in the index of " + r.Prefix.Dir
	if !r.Fetch {
		where = "in the cache, and SCR_FETCH=0"
	} else {
		d, known, err := r.Prefix.Find(prefix.Lookup(name))
		if err != nil {
			return err
		}
		if known {
			return fetchNamed(r, d)
		}
		r.unlist()
	}
	r.Log.WarnJob("%s names %s, which is no complete checkpoint %s; ignored", r.Current.By, name, where)
	return nil
}

// fetchNamed offers the checkpoint of the prefix directory that the user has chosen. If it cannot be fetched, what is
// newer stays in the cache.
func fetchNamed(r *Restart, d dataset.Dataset) error {
	held := r.Room.Flusher.Contents.Where(func(dataset.Dataset) bool { return true }) // before some are evicted
	ok, err := r.fetch(d)
	if err != nil {
		r.unlist()
		return err
	}
	if !ok {
		r.unlist()
		r.Log.WarnJob("%s names %s, from which this run cannot restart; ignored", r.Current.By, d.Name())
		return nil
	}
	leaves := r.after(d.ID())
	if r.offered.cached == nil { // it is read in place, and may be of another job
		leaves = r.before(d)
	}
	tellChoice(r, slices.DeleteFunc(held, func(d dataset.Dataset) bool { return !leaves(d) }))
	if r.DropAfter {
		drop := func(x *prefix.Index) error { return r.mark(x, d.Name()) }
		if err := mpi.OnRoot(r.World, func() error { return r.Prefix.Spare(r.changeIfKnown(d.Name(), drop)) }); err != nil {
			return err
		}
	}
	return r.drop(leaves, noChange, true)
}

// tellChoice names what leaves the cache because the user has chosen another checkpoint.
func tellChoice(r *Restart, leaving []dataset.Dataset) {
	var names []string
	for _, d := range leaving {
		names = append(names, d.Name())
	}
	if len(names) > 0 {
		r.Log.WarnJob("this run restarts from %s, which %s has chosen; what would be offered in its place leaves the cache: %s", r.Current.Name, r.Current.By,
			strings.Join(names, ", "))
	}
}

// offerWritten offers the newest checkpoint that the program itself has written to the
// prefix directory, if it is newer than the one that is offered.
func (r *Restart) offerWritten() error {
	if !r.Fetch {
		return nil
	}
	after := 0
	if r.offered != nil {
		after = r.offered.ID()
	}
	next := func(below int) prefix.Selector { return prefix.Written(after, below) }
	return r.offerFirst(1<<62, next, nil)
}

// offerNewer offers the current checkpoint of the prefix directory in place of the one that is
// offered, if it is newer, and this job has written it: it was flushed, and then evicted or lost. If that is another job's, or
// cannot be fetched, it tries older ones, down to the one that is offered, which stays if none can be.
func (r *Restart) offerNewer() error {
	if r.offered == nil {
		return nil
	}
	after := r.offered.ID()
	told := false // the newest one is enough
	next := func(below int) prefix.Selector {
		return prefix.Later(after, below, func(d dataset.Dataset) bool {
			if told || d.Owner().JobID == r.JobID {
				return d.Owner().JobID == r.JobID
			}
			told = true
			r.Log.Warn("job %q has written checkpoint %s to %s, which is newer than %s, from which this run restarts: "+
				"to restart from the newer one, set SCR_CURRENT=%s", d.Owner().JobID, d.Name(), r.Prefix.Dir, r.offered.Name(), d.Name())
			return false
		})
	}
	return r.offerFirst(0, next, nil)
}

// offerFirst offers the first checkpoint of the prefix directory that can be fetched.
// next selects the checkpoint to try after the one with id below. A damaged checkpoint is
// marked as failed, so that it delays only one run. One of another input is passed over. failed, if not nil, is called on rank
// 0 with the first checkpoint that could not be fetched.
func (r *Restart) offerFirst(below int, next func(below int) prefix.Selector, failed func(dataset.Dataset) error) error {
	for {
		d, ok, err := r.Prefix.Find(next(below))
		if err != nil || !ok {
			return err
		}
		if r.isOfOtherInput(d) {
			r.tellOtherInput(d, "")
			r.refused.note("the job that has written %s read other input than the files of SCR_JOB_INPUT have now", d.Name())
			below = d.ID()
			continue
		}
		if ok, err := r.fetch(d); ok || err != nil {
			return err
		}
		if failed != nil {
			r.Prefix.Note(func() error { return failed(d) })
			failed = nil
		}
		below = d.ID()
	}
}

// Fail records that the program could not restart from the checkpoint that is offered,
// so that no run is offered it again, and searches for another. In the cache it stays until
// this run has a checkpoint of its own, in case only the program was wrong. byAll is whether no
// rank could restart.
func (r *Restart) Fail(byAll bool) error {
	const why = "the program could not restart from it"
	o := r.offered
	r.refused.useless[o.ID()] = true // FindAgain does not offer it again
	r.refused.note("the program could not restart from %s; its input may be another", o.Name())
	c := o.cached
	if same := r.Cache.Find(o.ID()); c == nil && same != nil && same.Same(o.Dataset) { // it was read where it is: SCR_GLOBAL_RESTART
		c = same
	}
	var err error
	// A run of another size reads a checkpoint where it is that its cache has for the runs before.
	if c != nil || slices.ContainsFunc(r.Cache.Unused.Known(), o.Same) {
		r.refused.marked = true
		r.Prefix.Note(func() error { return prefix.Reject(r.Prefix.Dir, o.Dataset, why) })
	}
	if c != nil {
		if byAll { // its input may be wrong, and not the checkpoint
			flush.NewLeftovers(r.Room.Flusher).SaveAbandoned(c)
		}
		r.Log.Info("checkpoint %s stays in the cache until this run has completed a checkpoint, or needs its room", o.Name())
		err = errors.Join(err, r.Room.Flusher.PassOver(c))
	}
	err = errors.Join(err, r.Prefix.Failed(o.Dataset, why))
	if byAll {
		err = errors.Join(err, r.refuse(o.Dataset))
	} else {
		r.Cache.Unused.Condemn(o.Dataset)
	}
	return errors.Join(err, r.FindAgain())
}

// Supersede deletes the datasets from the cache that this run does not use, once it has
// completed a checkpoint of its own, by. Those of other series stay.
func (r *Restart) Supersede(by dataset.Dataset) error {
	r.Room.Supersede()
	r.Cache.Unused.DropSuperseded(by.Series())
	ReleaseKept(r)
	if !r.refused.marked {
		return nil
	}
	r.refused.marked = false
	return mpi.OnRoot(r.World, func() error { return r.Prefix.Spare(prefix.Forgive(r.Prefix.Dir)) })
}

// Condemned are the checkpoints of the cache from which an earlier run could not restart, or died while it read them, and
// those that an earlier run was about to delete because of a choice of the program (drop). Rank 0 finds them.
type Condemned struct {
	// Marks are 1 for those that are among them: first for each of suspects, then for each of held. They have to be agreed after
	// Find, by a maximum.
	Marks    []int64
	suspects []suspect
	held     []dataset.Dataset // all of the cache, which may have been about to leave
	listed   bool              // on rank 0: the index has a list of those that leave
}

// suspect is a dataset of the cache from which perhaps no run could restart.
type suspect struct {
	dataset.Dataset
	cached *cache.Cached // nil: a job of another size has written it
	why    string        // on rank 0, if it is marked
}

// NewCondemned returns a Condemned with the datasets of the cache, and without a mark. It is not collective, but all ranks call it.
func NewCondemned(r *Restart) *Condemned {
	c := &Condemned{held: r.Room.Flusher.Contents.Where(func(dataset.Dataset) bool { return true })}
	for _, x := range r.Cache.List() {
		c.suspects = append(c.suspects, suspect{Dataset: x.Dataset, cached: x})
	}
	for _, f := range r.Cache.Unused.Foreign() {
		c.suspects = append(c.suspects, suspect{Dataset: f.Dataset})
	}
	c.Marks = make([]int64, len(c.suspects)+len(c.held))
	return c
}

// marks returns the marks of suspects and of held.
func (c *Condemned) marks() (condemned, leaving []int64) {
	n := len(c.suspects)
	return c.Marks[:n], c.Marks[n:]
}

// Find marks the datasets, except the one that the user has chosen, which is tried again. Rank 0 calls it.
func (c *Condemned) Find(r *Restart) error {
	x, err := prefix.ReadIndex(r.Prefix.Dir)
	if err != nil {
		return err
	}
	condemned, leaving := c.marks()
	c.listed = x.Leaving(r.JobID)
	for i, d := range c.held {
		if x.Leaves(r.JobID, d) && !r.Current.is(d) {
			leaving[i] = 1
		}
	}
	verdicts, err := prefix.Condemned(r.Prefix.Dir)
	if err != nil {
		r.Log.Warn("%v; a checkpoint from which no run could restart may be tried again", err)
	}
	for i, s := range c.suspects {
		if v, ok := verdicts[s.ID()]; ok && v.Of(s.Dataset) && !r.Current.is(s.Dataset) {
			condemned[i], c.suspects[i].why = 1, v.Why
		}
	}
	return r.Prefix.Spare(prefix.EndRestart(r.Prefix.Dir))
}

// PassOver deletes what was to leave, passes over the other condemned checkpoints, and marks them as failed in the index.
func (r *Restart) PassOver(c *Condemned) error {
	condemned, leaving := c.marks()
	leaves := map[int]bool{}
	for i, d := range c.held {
		leaves[d.ID()] = leaving[i] > 0
	}
	if err := r.dropLeaving(func(d dataset.Dataset) bool { return leaves[d.ID()] }, c.listed); err != nil {
		return err
	}
	for i, s := range c.suspects {
		if condemned[i] == 0 || leaves[s.ID()] {
			continue
		}
		r.refused.marked = true
		r.Log.WarnJob("checkpoint %s in the cache is passed over: %s; SCR_CURRENT=%s tries it again", s.Name(), s.why, s.Name())
		var err error
		if s.cached != nil {
			err = r.Room.Flusher.PassOver(s.cached)
		}
		if err = errors.Join(err, r.Prefix.Failed(s.Dataset, s.why)); err != nil {
			return err
		}
		r.Cache.Unused.Condemn(s.Dataset)
	}
	return nil
}
