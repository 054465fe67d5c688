package flush

import (
	"fmt"

	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
)

// Room makes room in the cache for the next dataset: it carries out the steps of life.Room.
type Room struct {
	Flusher *Flusher
	cache   *cache.Cache
	log     *report.Logger
	own     bool // as life.Room.Own
}

// NewRoom returns the Room of a session.
func NewRoom(f *Flusher) *Room { return &Room{Flusher: f, cache: f.config.Cache, log: f.config.Log} }

// Supersede records that this run has a checkpoint of its own, which is protected or in the prefix directory: withheld ones that cannot
// be flushed may leave the cache from now on. It is not collective, but all ranks call it.
func (r *Room) Supersede() { r.own = true }

// Leaving is what has to leave a store before one more dataset is complete in it.
type Leaving struct {
	Datasets []*cache.Cached // those that can be used
	store    *reddesc.Store  // nil: no unused dataset leaves
	unused   []life.Unused   // those that leave
	need     int64           // size in bytes of the caller's part of the new dataset, or cache.SizeUnknown
}

// Leaving returns what has to leave a store before one more dataset of a series is complete in it: each series has
// as many places there as the store has. need is the size in bytes of the caller's part of the new dataset, or
// cache.SizeUnknown on all ranks. It waits for protections and flushes as life.Room requires. An output or a withheld
// checkpoint that cannot be flushed stays, and another dataset leaves. Leaving returns an error if that other one is
// the newest checkpoint, or the last that survives the loss of a node, and only the cache has it.
func (r *Room) Leaving(store *reddesc.Store, series string, need int64) (Leaving, error) {
	var stuck error // why a dataset that must not leave unflushed could not be flushed
	tried := false
	for {
		room, list := r.look(store, series)
		room.Tried, room.Stuck = tried, stuck != nil
		step, which, stay := room.Next()
		leaving := choose(list, which)
		switch step {
		case life.WaitForProtection:
			c := r.Flusher.Protector.Dataset()
			r.log.Info("dataset %d (%s): its protection has to end before the next dataset has room", c.ID(), c.Name())
			if err := r.Flusher.WaitForProtection(); err != nil {
				return Leaving{}, err
			}
		case life.WaitForFlush:
			oldest := r.Flusher.Background.oldest() // they end in their order
			r.log.Info("dataset %d (%s): its flush has to end before the next dataset has room", oldest.cached.ID(), oldest.cached.Name())
			r.Flusher.wait(oldest)
		case life.FlushThoseThatMust:
			tried = true
			stuck = r.flushLeaving(leaving)
		case life.Refuse:
			return Leaving{}, stuck
		default: // life.Evict
			if stuck != nil {
				r.log.WarnJob("%v", stuck)
			}
			if room.Risky(which) {
				r.log.WarnJobOnce("%s=1: a dataset leaves the cache before the next is complete; a failure in between loses it (2 keeps it)",
					r.Flusher.config.SizeName(store.Name))
			}
			return Leaving{leaving, store, room.Unused[:len(room.Unused)-stay], need}, nil
		}
	}
}

// look returns the life.Room of a series in a store, and the datasets in the order of Held.
func (r *Room) look(store *reddesc.Store, series string) (room life.Room, list []*cache.Cached) {
	for _, c := range r.cache.List() {
		if c.Series() == series {
			list = append(list, c)
			h := held(c)
			h.Here = c.Store() == store
			room.Held = append(room.Held, h)
		}
	}
	room.Places, room.Unused = store.Count, r.cache.Unused.Places(store, series)
	room.Fetch, room.Own, room.Protecting = r.Flusher.config.Fetch, r.own, r.Flusher.Protector.Dataset() != nil
	return room, list
}

// held returns what life knows of a dataset.
func held(c *cache.Cached) life.Held { return life.Held{Dataset: c.Dataset, State: c.State} }

func choose(list []*cache.Cached, which []int) (chosen []*cache.Cached) {
	for _, i := range which {
		chosen = append(chosen, list[i])
	}
	return chosen
}

// Evict deletes datasets, none of which is being flushed, from the cache.
func (r *Room) Evict(l Leaving) {
	for _, c := range l.Datasets {
		r.Flusher.Contents.recordLeaving(c)
	}
	r.cache.Evict(l.Datasets)
	if l.store != nil {
		r.cache.Unused.Evict(l.store, l.unused, l.need)
	}
}

// flushLeaving flushes those datasets of a list that must be flushed before they leave. It warns of those that may
// leave although they cannot be flushed.
func (r *Room) flushLeaving(list []*cache.Cached) error {
	for _, c := range list {
		if !held(c).MustFlush() {
			continue
		}
		what := "output"
		if !c.Flags().Has(dataset.Output) {
			what = "checkpoint"
		}
		err := r.Flusher.Flush(c)
		switch {
		case err == nil:
		case c.Gone(): // too much of it is lost
			r.log.WarnJob("%s %s is lost: %v", what, c.Name(), err)
		case r.own && !c.Flags().Has(dataset.Output):
			r.log.WarnJob("%s %s, which is not offered, leaves the cache, where the next dataset needs its place, and is nowhere else: %v", what, c.Name(), err)
		default:
			return fmt.Errorf("%s %s cannot leave the cache, where the next dataset needs a place, before it is flushed "+
				"(SCR_Drop gives it up): %w", what, c.Name(), err)
		}
	}
	return nil
}
