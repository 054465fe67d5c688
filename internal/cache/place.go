package cache

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/filemap"
	"github.com/goscr/goscr/internal/reddesc"
	"github.com/goscr/goscr/mpi"
)

// place is a directory on the node that holds datasets. It belongs to a store of this
// or an earlier run.
type place struct {
	dir   string // holds a directory for each dataset
	store *reddesc.Store
	spare bool // there is a redundancy file to use again
}

// places are the directories that hold datasets, and the directory of each dataset.
type places struct {
	node  mpi.Comm
	below string         // end of the path of each
	all   []*place       // first the places of the stores, in the order of these
	of    map[int]*place // of the node's part of a dataset, by id
}

// newPlaces returns the places of all stores, whose paths end in user and name. The
// first rank of a node makes their directories. The error is the caller's.
func newPlaces(node mpi.Comm, stores []*reddesc.Store, user, name string) (*places, error) {
	p := &places{node: node, below: filepath.Join(user, name), of: map[int]*place{}}
	var failed error
	for _, s := range stores {
		p.all = append(p.all, &place{dir: filepath.Join(s.Base, p.below), store: s})
		if node.Rank() == 0 {
			failed = cmp.Or(failed, privateDir(s.Base, user, name))
		}
	}
	return p, failed
}

// The message of the first rank of a node to the others:
//
//	AT    / <id> / <directory>
//	PLACE / <directory>          of no store
const (
	keyAt    = "AT"
	keyPlace = "PLACE"
)

// found holds the directories of the datasets in the filemaps of a node.
type found struct {
	dirs []string       // of no store
	at   map[int]string // id to directory
}

func (f *found) encode() *hash.Hash {
	h := hash.New()
	for _, dir := range f.dirs {
		h.SetKV(keyPlace, dir)
	}
	for id, dir := range f.at {
		h.At(keyAt).SetValue(strconv.Itoa(id), dir)
	}
	return h
}

func decodeFound(h *hash.Hash) *found {
	f := &found{dirs: h.Get(keyPlace).Keys(), at: map[int]string{}}
	for _, id := range h.Get(keyAt).Ints() {
		f.at[id] = h.Get(keyAt).Text(strconv.Itoa(id))
	}
	return f
}

// find finds the directories of the datasets in the filemaps of the node: an earlier
// run may have used others. all is for the first rank of the node, which tells the
// others. It is collective over the node.
func (p *places) find(all *filemap.Map) error {
	var message *hash.Hash
	if p.node.Rank() == 0 {
		message = p.search(all).encode()
	}
	message, err := hash.Bcast(message, 0, p.node)
	if err != nil {
		return err
	}
	f := decodeFound(message)
	for _, dir := range f.dirs {
		p.all = append(p.all, &place{dir: dir})
	}
	for id, dir := range f.at {
		p.of[id] = p.byDir(dir)
	}
	return nil
}

// search searches the filemaps of the node. Of several datasets of an id, the newest
// counts.
func (p *places) search(all *filemap.Map) *found {
	f := &found{at: map[int]string{}}
	for _, id := range all.Datasets() {
		var newest filemap.Description
		for _, rank := range all.Ranks(id) {
			d := all.Dataset(id, rank)
			store := p.byDir(d.Dir) != nil
			if d.Dir == "" || !store && !trusted(d.Dir, p.below) {
				continue
			}
			if !store && !slices.Contains(f.dirs, d.Dir) {
				f.dirs = append(f.dirs, d.Dir)
			}
			if newest.IsZero() || d.Created().After(newest.Created()) {
				newest = d
				f.at[id] = d.Dir
			}
		}
	}
	return f
}

// byDir returns the place of a directory, nil if it is none.
func (p *places) byDir(dir string) *place {
	for _, x := range p.all {
		if x.dir == dir {
			return x
		}
	}
	return nil
}

// put records that the node's part of a dataset is in a store.
func (p *places) put(id int, s *reddesc.Store) {
	for _, x := range p.all {
		if x.store == s {
			p.of[id] = x
		}
	}
}

// place is the place of the node's part of a dataset.
func (p *places) place(id int) *place {
	if x := p.of[id]; x != nil {
		return x
	}
	return p.all[0]
}

// dir is the directory of the node's part of a dataset.
func (p *places) dir(id int) string {
	return filepath.Join(p.place(id).dir, fmt.Sprintf("scr.dataset.%d", id))
}

// remove deletes the rest of the directory of a dataset, if the caller is responsible
// for it, and forgets its place. A directory that cannot be deleted is set aside; left
// is where it is then.
func (p *places) remove(id int) (left string, err error) {
	x := p.place(id)
	if p.leads(x) {
		dir := p.dir(id)
		if err = removeTree(dir); err != nil {
			left = cmp.Or(x.setAside(id, dir), dir)
		}
		if x.store == nil { // no dataset will be put there again
			_ = os.Remove(x.dir)
			_ = os.Remove(filepath.Dir(x.dir))
		}
	}
	delete(p.of, id)
	return left, err
}

// device identifies shared storage among storage of the same name, "" for storage of
// the node alone.
func (p *places) device(id int) string {
	x := p.place(id)
	if x.store == nil || !x.store.Shared {
		return ""
	}
	return fmt.Sprintf("%d %s", x.store.Leader, x.dir)
}

// leads reports whether the caller makes and removes the directories in a place for
// the ranks that share it.
func (p *places) leads(x *place) bool {
	if x.store == nil {
		return p.node.Rank() == 0
	}
	return x.store.Comm.Rank() == 0
}

// inside reports whether a path that was read from disk lies in the cache.
func (p *places) inside(path string) bool {
	for _, x := range p.all {
		rel, err := filepath.Rel(x.dir, path)
		if err == nil && filepath.IsLocal(rel) && rel != "." {
			return true
		}
	}
	return false
}
