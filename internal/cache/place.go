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

// place is a directory on the node that holds datasets. It belongs to a store, or
// did in an earlier run.
type place struct {
	dir   string // holds a directory for each dataset
	store *reddesc.Store
	spare bool // there is a redundancy file to be used again
}

// places are the directories that hold datasets, and which of them each is in.
type places struct {
	node  mpi.Comm
	below string         // end of the path of each
	all   []*place       // first the places of the stores, in the order of these
	of    map[int]*place // where the node's part of a dataset is
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

// What the first rank of a node tells the others of it:
//
//	AT    / <id> / <directory>
//	PLACE / <directory>          of those that are no store's
const (
	keyAt    = "AT"
	keyPlace = "PLACE"
)

// found is where the datasets are that the filemaps of a node speak of.
type found struct {
	dirs []string       // that are no store's
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

// find finds out in which directories the datasets are that the filemaps of the
// node speak of: an earlier run may have had others. all is on the first rank of
// the node, which the others hear it from. It is collective over the node.
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

// search looks through the filemaps of the node. Where they know several datasets
// of an id, the newest counts.
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

// place is where the node's part of a dataset is.
func (p *places) place(id int) *place {
	if x := p.of[id]; x != nil {
		return x
	}
	return p.all[0]
}

// dir is where the node's part of a dataset is.
func (p *places) dir(id int) string {
	return filepath.Join(p.place(id).dir, fmt.Sprintf("scr.dataset.%d", id))
}

// remove deletes what is left in the directory of a dataset, if the caller is the
// one to do that, and forgets where it was.
func (p *places) remove(id int) error {
	x := p.place(id)
	var err error
	if p.leads(x) {
		err = os.RemoveAll(p.dir(id))
		if x.store == nil { // nothing will be put there again
			_ = os.Remove(x.dir)
			_ = os.Remove(filepath.Dir(x.dir))
		}
	}
	delete(p.of, id)
	return err
}

// device tells storage that ranks share from other storage of the same name, "" if
// it is the node's own.
func (p *places) device(id int) string {
	x := p.place(id)
	if x.store == nil || !x.store.Shared {
		return ""
	}
	return fmt.Sprintf("%d %s", x.store.Leader, x.dir)
}

// leads reports whether the caller, of the ranks that share a place, makes and
// removes the directories in it.
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
