package cache

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
)

// place is a directory on the node that holds datasets. It belongs to a store of this
// or an earlier run.
type place struct {
	dir      string // holds a directory for each dataset
	store    *reddesc.Store
	spare    bool // the caller has a spare redundancy file here, see spare.go
	measured bool // WarnOfRoom has looked at it
}

// places are the directories that hold datasets, and the directory of each dataset.
type places struct {
	node  mpi.Comm
	nodes int            // on which the job runs
	below string         // the last elements of the path of each
	all   []*place       // first the places of the stores, in the order of the stores
	of    map[int]*place // where the node's part of a dataset is, by the id of the dataset
	world map[int]bool   // ids of datasets whose directory all ranks share
}

// newPlaces returns the places of all stores, whose paths end in user and name. It makes no
// directories.
func newPlaces(node mpi.Comm, stores []*reddesc.Store, user, name string) *places {
	p := &places{node: node, below: filepath.Join(user, name), of: map[int]*place{}, world: map[int]bool{}}
	for _, s := range stores {
		p.all = append(p.all, &place{dir: filepath.Join(s.Base, p.below), store: s})
	}
	return p
}

// doubts returns a line for each directory that is not there, and whose name may be mistyped.
func (p *places) doubts(user string) (lines []string) {
	seen := map[string]bool{"": true}
	for _, x := range p.all {
		top := unexpected(x.store.Base, user)
		if !seen[top] {
			lines = append(lines, fmt.Sprintf("%s was not there, and is made for %s, with the directories below it: is the name right?", top, x.store.SetBy))
		}
		seen[top] = true
	}
	return lines
}

// makeDirs makes the directories of the places of all stores, whose paths end in user and name.
func (p *places) makeDirs(user, name string) error {
	var failed error
	for _, x := range p.all {
		failed = cmp.Or(failed, privateDir(Base{x.store.Base, x.store.SetBy}, user, name))
	}
	return failed
}

// found is the message that the first rank of a node sends to the others: the directories of the
// datasets in the filemaps of the node.
//
//	AT    / <id> = <directory>   where the node's part of a dataset is
//	PLACE / <directory>          a place that belongs to no store of this run
//	SETTLED, EMPTY = 1           see filemaps
type found struct {
	At      map[int]string `hash:"AT,omitempty"`
	Dirs    []string       `hash:"PLACE,omitempty,set"`
	Settled bool           `hash:"SETTLED,omitempty"`
	Empty   bool           `hash:"EMPTY,omitempty"`
}

// enter enters the directories of the datasets in the filemaps of the node, since an earlier run may have used other
// stores.
func (p *places) enter(f *found) {
	for _, dir := range f.Dirs {
		p.all = append(p.all, &place{dir: dir})
	}
	for id, dir := range f.At {
		p.of[id] = p.byDir(dir)
	}
}

// search finds the directories of the datasets in all. If there are several datasets with
// the same id, it takes the newest.
func (p *places) search(all *filemap.Map) *found {
	f := &found{At: map[int]string{}}
	for _, id := range all.Datasets() {
		var newest filemap.Description
		for _, rank := range all.Ranks(id) {
			d := all.Dataset(id, rank)
			store := p.byDir(d.Dir) != nil
			if d.Dir == "" || !store && !Trusted(d.Dir, p.below) {
				continue
			}
			if !store && !slices.Contains(f.Dirs, d.Dir) {
				f.Dirs = append(f.Dirs, d.Dir)
			}
			if newest.IsZero() || d.Created().After(newest.Created()) {
				newest = d
				f.At[id] = d.Dir
			}
		}
	}
	return f
}

// byDir returns the place whose directory is dir, nil if there is none.
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
			p.world[id] = s.World
		}
	}
}

// putWorld records that a dataset is in a directory that all ranks share, also after the
// lines about stores have changed. dir is its path on some node.
func (p *places) putWorld(id int, dir string) {
	p.world[id] = true
	if p.of[id] != nil {
		return
	}
	x := p.byDir(dir)
	if x == nil && Trusted(dir, p.below) {
		x = &place{dir: dir}
		p.all = append(p.all, x)
	}
	if x != nil {
		p.of[id] = x
	}
}

// storeNumber returns the index of the store called name, or 0 if there is none.
func storeNumber(stores []*reddesc.Store, name string) int {
	return max(slices.IndexFunc(stores, func(s *reddesc.Store) bool { return s.Name == name }), 0)
}

// place returns the place of the node's part of a dataset, or that of the first store if
// the dataset has none yet.
func (p *places) place(id int) *place {
	if x := p.of[id]; x != nil {
		return x
	}
	return p.all[0]
}

// dir returns the directory of the node's part of a dataset.
func (p *places) dir(id int) string {
	return DatasetDir(p.place(id).dir, id)
}

// DatasetDir is the directory of a dataset in one that holds datasets.
func DatasetDir(dir string, id int) string {
	return filepath.Join(dir, "scr.dataset."+strconv.Itoa(id))
}

// IsDatasetDir reports whether this is the name of a directory of a dataset, also of one that
// was set aside.
func IsDatasetDir(name string) bool {
	return datasetName().MatchString(name) || strings.HasPrefix(name, asidePrefix)
}

// remove deletes the rest of the directory of a dataset, if the caller is responsible
// for it, and forgets its place. If the directory cannot be deleted it is set aside, and
// left is its new path.
func (p *places) remove(id int) (left string, err error) {
	x := p.place(id)
	if p.leads(x) {
		dir := p.dir(id)
		if err = RemoveTree(dir); err != nil {
			left = cmp.Or(x.setAside(id, dir), dir)
		}
		if x.store == nil { // no dataset will be put there again
			_ = os.Remove(x.dir)
			_ = os.Remove(filepath.Dir(x.dir))
		}
	}
	delete(p.of, id)
	delete(p.world, id)
	return left, err
}

// device returns an identifier of the storage of a dataset that is the same on all nodes
// that share this storage, and "" if the node does not share it. The path does not identify
// it: groups of nodes may each share a storage with the same path.
func (p *places) device(id int) string {
	if p.world[id] {
		return "all ranks"
	}
	x := p.place(id)
	if x.store == nil || !x.store.Shared {
		return ""
	}
	return fmt.Sprintf("%d %s", x.store.Leader, x.dir)
}

// leads reports whether the caller is the rank that makes and removes the directories in a
// place, for all ranks that share it.
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
