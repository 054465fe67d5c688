package cache

import (
	"slices"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
)

// Cached is a dataset in the cache that can be used: at once, or after a call of Recovery.Restore if it is
// postponed.
type Cached struct {
	dataset.Dataset
	life.State // the same on all ranks; changed by parts.happened only
	Desc       *reddesc.Descriptor

	store *reddesc.Store
	found *filemap.Description // what Restore needs of a postponed dataset
	own   bool                 // Desc was made again for this dataset, and is freed with it
	bare  bool                 // the caller has no redundancy file: goscr has not made it yet, or could not make it again

	encoding   time.Duration // how long the caller took to protect its files
	redundancy int64         // bytes that all ranks have made to protect them
}

// Encoded returns how long the caller took to protect its files in Complete, and how many
// bytes all ranks have made for that.
func (c *Cached) Encoded() (took time.Duration, bytes int64) { return c.encoding, c.redundancy }

// Store returns the store that has the dataset.
func (c *Cached) Store() *reddesc.Store { return c.store }

// made returns the number of redundancy files of each rank of the caller's set.
func (c *Cached) made() int {
	if c.Desc == nil || !c.Desc.Scheme.Tolerates(c.Desc.Set.Size(), []int{0}) {
		return 0
	}
	return 1
}

// Redundant reports whether the caller's files of a dataset have redundancy, which is computed from all
// their bytes.
func (c *Cached) Redundant() bool { return c.made() > 0 }

// free frees the communicator of a descriptor that was made again for the dataset. It
// is collective.
func (c *Cached) free() {
	if c.own {
		c.own = false
		c.Desc.Free()
	}
}

// UsableList has the datasets in the cache that can be used. It is the same on all ranks, because it changes only in
// collective calls.
type UsableList struct {
	parts *parts
	descs *descriptions
	list  []*Cached // newest first
}

// List returns the usable datasets, newest first. It is the same on all ranks.
func (l *UsableList) List() []*Cached { return l.list }

// Find returns a usable dataset, nil if there is none of that id.
func (l *UsableList) Find(id int) *Cached {
	for _, c := range l.list {
		if c.ID() == id {
			return c
		}
	}
	return nil
}

// NewestCheckpoint returns the newest checkpoint of a series that can be used and is not withheld, nil
// if there is none.
func (l *UsableList) NewestCheckpoint(series string) *Cached {
	for _, c := range l.list {
		if c.Series() == series && c.Flags().Has(dataset.Checkpoint) && !c.Withheld() {
			return c
		}
	}
	return nil
}

// Happened records an event of a dataset. All ranks call it, with the same facts.
func (l *UsableList) Happened(c *Cached, e life.Event, facts ...life.Facts) {
	l.parts.happened(c, e, facts...)
}

// Files returns the caller's files of a dataset, redundancy included, sorted
// by path.
func (l *UsableList) Files(id int) []redundancy.File { return l.parts.files(id, l.parts.me()) }

// Delete removes a dataset, usable or not, with all its files. If some cannot be deleted,
// it reports that and sets them aside (aside.go). It is collective.
func (l *UsableList) Delete(id int) {
	if c := l.Find(id); c != nil {
		c.free()
		l.parts.leaves(c)
	}
	l.remove(id)
	stuck := l.parts.deleteAll(id)
	if stuck != nil {
		l.parts.log.Detail("dataset %d: %v", id, stuck)
	}
	l.parts.world.Barrier() // all ranks have deleted their files
	l.parts.removeDir(id)
	l.parts.world.Barrier()
	if stuck != nil { // entries are removed only after their files
		l.parts.forget(id)
	}
}

// remove removes a dataset from the list, and not its files.
func (l *UsableList) remove(id int) {
	l.list = slices.DeleteFunc(l.list, func(c *Cached) bool { return c.ID() == id })
}

// Free frees the communicators of restored descriptors. It is collective.
func (l *UsableList) Free() {
	for _, c := range l.list {
		c.free()
	}
}
