package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/filemap"
	"github.com/goscr/goscr/mpi"
)

// Names in the control directory, with the names they have in SCR.
const (
	masterFile = "filemap.scrinfo"
	keyFilemap = "Filemap"
)

func (k *Cache) mapPath(i int) string {
	return filepath.Join(k.control, fmt.Sprintf("filemap_%d.scrinfo", i))
}

// mapFiles returns the paths of all filemaps on the node.
func (k *Cache) mapFiles() ([]string, error) { return match(k.control, filemap.Pattern) }

// match returns the paths of the files in dir whose names match a pattern. dir
// cannot be part of the pattern: ids of array jobs have brackets.
func match(dir, pattern string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var found []string
	for _, e := range entries {
		if ok, _ := filepath.Match(pattern, e.Name()); ok {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found, err
}

// scatter gives each rank on the node the filemap entries it is now
// responsible for (spec 001 scr_scatter_filemaps): its own, and a fair share
// of those whose ranks are elsewhere. The node may now have another number of
// ranks than when the entries were written.
//
// At any instant every entry is in some filemap on disk: the master first
// writes one that has them all, and leaves its share of it last.
func (k *Cache) scatter() error {
	master := k.Node.Rank() == 0
	var all filemap.Map
	var err error
	if master {
		err = k.collect(&all)
	}
	if err := mpi.Agree(k.Node, err); err != nil {
		return err
	}
	if err := k.findPlaces(&all); err != nil {
		return err
	}
	share, err := k.deal(&all)
	if err := mpi.Agree(k.Node, err); err != nil {
		return err
	}
	if !master {
		err = filemap.RemoveStore(k.mapPath(k.Node.Rank()))
		if err == nil {
			k.maps, err = filemap.OpenStore(k.mapPath(k.Node.Rank()))
		}
		if err == nil {
			k.maps.Merge(share)
			err = k.maps.Fold()
		}
	}
	if err := mpi.Agree(k.Node, err); err != nil {
		return err
	}
	if master {
		k.maps.Map = *share
		err = k.maps.Fold()
		if err == nil {
			err = k.tidy()
		}
	}
	return mpi.Agree(k.Node, err)
}

// collect reads all filemaps on the node into the master's own, and writes
// that.
func (k *Cache) collect(all *filemap.Map) error {
	found, err := k.mapFiles()
	if err != nil {
		return err
	}
	for _, path := range append(found, k.mapPath(0)) {
		s, err := filemap.OpenStore(path)
		if errors.Is(err, hash.ErrCorrupt) {
			// Its files count as lost, and can be rebuilt.
			k.Log.Warn("%v; its entries are lost", err)
			if err = filemap.RemoveStore(path); err == nil {
				s, err = filemap.OpenStore(path)
			}
		}
		if err != nil {
			return err
		}
		all.Merge(&s.Map)
		if path == k.mapPath(0) {
			k.maps = s
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	k.maps.Merge(all)
	return k.maps.Fold()
}

// deal sends each rank on the node its share of the master's entries.
func (k *Cache) deal(all *filemap.Map) (*filemap.Map, error) {
	here := make([]int64, k.Node.Size())
	here[k.Node.Rank()] = int64(k.me())
	if err := k.Node.Allreduce(here, mpi.Sum); err != nil {
		return nil, err
	}
	send := hash.New()
	if k.Node.Rank() == 0 {
		shares := make([]filemap.Map, len(here))
		next := 0
		for _, rank := range all.AllRanks() {
			i := slices.Index(here, int64(rank))
			if i < 0 {
				i = next % len(here)
				next++
			}
			shares[i].Merge(all.Extract(rank))
		}
		for i := range shares {
			send.Set(strconv.Itoa(i), shares[i].Hash())
		}
	}
	received, err := hash.Exchange(send, k.Node)
	if err != nil {
		return nil, err
	}
	return filemap.FromHash(received.Get("0")), nil
}

// tidy removes filemaps of more ranks than the node now has, whose entries
// others have, and writes the list of those there are.
func (k *Cache) tidy() error {
	list := hash.New()
	keep := map[string]bool{}
	for i := range k.Node.Size() {
		keep[k.mapPath(i)] = true
		list.SetKV(keyFilemap, k.mapPath(i))
	}
	found, err := k.mapFiles()
	if err != nil {
		return err
	}
	for _, path := range found {
		if !keep[path] {
			if err := filemap.RemoveStore(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return hash.WriteFile(filepath.Join(k.control, masterFile), list)
}
