package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/filemap"
	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/reddesc"
)

// place is a directory on the node that holds datasets: that of a store, or one
// that was a store's in an earlier run.
type place struct {
	dir   string // holds a directory for each dataset
	store *reddesc.Store
	spare bool // there is a redundancy file to be used again
}

// below is where, in every store, the datasets of the job are.
func (c *Config) below() string { return filepath.Join(c.User, "scr."+c.JobID) }

// openPlaces makes the directories of all stores. The error is the caller's.
func (k *Cache) openPlaces() error {
	var err error
	for _, s := range k.Stores {
		p := &place{dir: filepath.Join(s.Base, k.below()), store: s}
		k.places = append(k.places, p)
		if k.Node.Rank() == 0 {
			if e := privateDir(s.Base, k.User, "scr."+k.JobID); err == nil {
				err = e
			}
		}
	}
	return err
}

// Keys of what the first rank of a node tells the others of it.
const (
	keyAt    = "AT"    // id -> directory
	keyPlace = "PLACE" // directories that are no store's
)

// findPlaces finds out in which directories the datasets are that the filemaps of
// the node speak of: an earlier run may have had others. all is on the first rank
// of the node, which the others hear it from. It is collective over the node.
func (k *Cache) findPlaces(all *filemap.Map) error {
	found := hash.New()
	if k.Node.Rank() == 0 {
		for _, id := range all.Datasets() {
			var newest dataset.Dataset
			for _, rank := range all.Ranks(id) {
				d := all.Dataset(id, rank)
				dir := d.Place().Dir
				if dir == "" || k.placeOf(dir) == nil && !k.trusted(dir) {
					continue
				}
				if k.placeOf(dir) == nil {
					found.SetKV(keyPlace, dir)
				}
				if newest.IsZero() || d.Created().After(newest.Created()) {
					newest = d
					found.At(keyAt).SetValue(strconv.Itoa(id), dir)
				}
			}
		}
	}
	found, err := hash.Bcast(found, 0, k.Node)
	if err != nil {
		return err
	}
	for _, dir := range found.Get(keyPlace).Keys() {
		k.places = append(k.places, &place{dir: dir})
	}
	for id, h := range found.Get(keyAt).All() {
		if n, err := strconv.Atoi(id); err == nil && len(h.Keys()) == 1 {
			k.at[n] = k.placeOf(h.Keys()[0])
		}
	}
	return nil
}

// placeOf returns the place of a directory, nil if it is none.
func (k *Cache) placeOf(dir string) *place {
	for _, p := range k.places {
		if p.dir == dir {
			return p
		}
	}
	return nil
}

// trusted reports whether a directory that a filemap names is one that goscr has
// made for this user and job.
func (k *Cache) trusted(dir string) bool {
	ending := string(filepath.Separator) + k.below()
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || len(dir) <= len(ending) || dir[len(dir)-len(ending):] != ending {
		return false
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		var st unix.Stat_t
		if unix.Lstat(d, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
			return false
		}
	}
	return true
}

// locate decides where the caller has the files of a dataset that is to be made
// usable: where they are, or in the store where its descriptor says it was, if
// there still is one, else in the first. It is collective.
func (k *Cache) locate(c *Cached) error {
	number := []int64{0}
	for i, s := range k.Stores {
		if s.Name == c.Desc.Store {
			number[0] = int64(i)
		}
	}
	if err := k.World.Allreduce(number, mpi.Max); err != nil {
		return err
	}
	c.store = k.Stores[number[0]]
	if k.at[c.ID()] == nil {
		k.at[c.ID()] = k.places[number[0]]
	}
	return nil
}

// place is where the node's part of a dataset is.
func (k *Cache) place(id int) *place {
	if p := k.at[id]; p != nil {
		return p
	}
	return k.places[0]
}

// device tells storage that ranks share from other storage of the same name, "" if
// it is the node's own.
func (k *Cache) device(id int) string {
	p := k.place(id)
	if p.store == nil || !p.store.Shared {
		return ""
	}
	return fmt.Sprintf("%d %s", p.store.Leader, p.dir)
}

// leads reports whether the caller is the one, of those who share a place, to make
// and remove directories in it.
func (k *Cache) leads(p *place) bool {
	if p.store == nil {
		return k.Node.Rank() == 0
	}
	return p.store.Comm.Rank() == 0
}

// Leaving returns the datasets that have to leave a store so that at most keep stay
// in it: first those that are worth the least, and of them the oldest.
func (k *Cache) Leaving(s *reddesc.Store, keep int, worth func(*Cached) int) []*Cached {
	var all []*Cached
	for _, c := range slices.Backward(k.list) {
		if c.store == s {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *Cached) int { return worth(a) - worth(b) })
	return all[:max(len(all)-max(keep, 0), 0)]
}

// Store returns the store of a name.
func (k *Cache) Store(name string) *reddesc.Store {
	for _, s := range k.Stores {
		if s.Name == name {
			return s
		}
	}
	return k.Stores[0]
}
