package cache

import (
	"slices"
	"time"

	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
)

// Cached is a dataset in the cache that can be used: at once, or after a call of Recovery.Restore if it is
// postponed. The fields below the first line are conditions; internal/README.md defines their words.
type Cached struct {
	dataset.Dataset
	Desc *reddesc.Descriptor

	store    *reddesc.Store
	restored bool // Desc was made again for this dataset, and is freed with it
	refused  bool // this node had no room for the caller's files, which are whole on another node
	bare     bool // the caller has no redundancy file: goscr has not made it yet, or could not make it again
	waiting  bool // no attempt to protect the dataset has ended yet; the same on all ranks
	withheld bool // a restart is not offered this dataset; the same on all ranks
	// postponed is the description of a dataset whose files Restore has not verified and rebuilt yet. It is nil
	// on all ranks or on none.
	postponed *filemap.Description
	unchecked bool // some files have no checksum; the same on all ranks
	damaged   bool // the dataset is postponed, and some rank misses files; the same on all ranks

	encoding   time.Duration // how long the caller took to protect its files
	redundancy int64         // bytes that all ranks have made to protect them
}

// Encoded returns how long the caller took to protect its files in Complete, and how many
// bytes all ranks have made for that.
func (c *Cached) Encoded() (took time.Duration, bytes int64) { return c.encoding, c.redundancy }

// Store returns the store that has the dataset.
func (c *Cached) Store() *reddesc.Store { return c.store }

// Protected reports whether an attempt to protect the dataset has ended. The redundancy exists then unless the
// attempt failed on some rank: Exposed finds that out. The result is the same on all ranks.
func (c *Cached) Protected() bool { return !c.waiting }

// Postponed reports whether Restore has not verified and rebuilt the files of a dataset of an earlier run
// yet. The result is the same on all ranks.
func (c *Cached) Postponed() bool { return c.postponed != nil }

// Unchecked reports whether files of a dataset have no checksums yet, so that Restore and the next run can
// only compare their sizes. Checked ends that. It is the same on all ranks.
func (c *Cached) Unchecked() bool { return c.unchecked }

// Verified returns now for a dataset whose files have just been protected, the zero time if they were not
// read for that.
func (c *Cached) Verified() time.Time {
	if c.unchecked {
		return time.Time{}
	}
	return time.Now()
}

// Withheld reports whether a checkpoint is not offered for a restart although nothing is
// wrong with it. It is the same on all ranks.
func (c *Cached) Withheld() bool { return c.withheld }

// Withhold sets what Withheld reports. All ranks call it.
func (c *Cached) Withhold(withheld bool) { c.withheld = withheld }

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
	if c.restored {
		c.restored = false
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

// Leaving returns the datasets of a series to evict from a store so that at most keep of them stay in it.
// Datasets of the least worth come first, and among those of equal worth the oldest.
func (l *UsableList) Leaving(s *reddesc.Store, series string, keep int, worth func(*Cached) int) []*Cached {
	var all []*Cached
	for _, c := range slices.Backward(l.list) {
		if c.store == s && c.Series() == series {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *Cached) int { return worth(a) - worth(b) })
	return all[:max(len(all)-max(keep, 0), 0)]
}

// NewestCheckpoint returns the newest checkpoint of a series that can be used and is not withheld, nil
// if there is none.
func (l *UsableList) NewestCheckpoint(series string) *Cached {
	return l.newest(func(c *Cached) bool { return c.Series() == series })
}

// NewestProtected is NewestCheckpoint of those that are protected.
func (l *UsableList) NewestProtected(series string) *Cached {
	return l.newest(func(c *Cached) bool { return c.Series() == series && c.Protected() })
}

func (l *UsableList) newest(which func(*Cached) bool) *Cached {
	for _, c := range l.List() {
		if c.Flags().Has(dataset.Checkpoint) && !c.withheld && which(c) {
			return c
		}
	}
	return nil
}

// Exposed reports for each of the datasets whether the loss of one more node may lose it: some rank has no redundancy
// file, or the dataset is postponed and some rank misses files. The call is collective.
func (l *UsableList) Exposed(list []*Cached) []bool {
	if len(list) == 0 {
		return nil
	}
	seen := make([]int64, len(list))
	for i, c := range list {
		seen[i] = one(c.bare || c.Postponed() && c.damaged)
	}
	l.parts.world.Allreduce(seen, mpi.Max)
	exposed := make([]bool, len(list))
	for i := range list {
		exposed[i] = seen[i] == 1
	}
	return exposed
}

// Files returns the caller's files of a dataset, redundancy included, sorted
// by path.
func (l *UsableList) Files(id int) []redundancy.File { return l.parts.files(id, l.parts.me()) }

// Delete removes a dataset, usable or not, with all its files. If some cannot be deleted,
// it reports that and sets them aside (aside.go). It is collective.
func (l *UsableList) Delete(id int) {
	if c := l.Find(id); c != nil {
		c.free()
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
