package cache

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/filemap"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/mpi"
)

// filemaps distributes the entries of the filemaps of a node, in its control
// directory, to the ranks that now run on it. Each gets its own, and an equal share of
// the entries of ranks on other nodes. The node may now have another number of ranks
// than when the entries were written.
//
// At any instant every entry is in some filemap on disk: the first rank of the node
// writes one with all entries, and one with its own share only when the others have
// written theirs.
type filemaps struct {
	node mpi.Comm
	dir  string
	rank int // of the caller in the job
	log  *report.Logger
	own  *filemap.Store
}

// Names in the control directory, with the names they have in SCR.
const (
	masterFile = "filemap.scrinfo"
	keyFilemap = "Filemap"
)

// path is where the filemap of a rank on the node is.
func (f *filemaps) path(rank int) string {
	return filepath.Join(f.dir, fmt.Sprintf("filemap_%d.scrinfo", rank))
}

// collect merges all filemaps on the node into the filemap of its first rank, to
// which it returns all entries. It is collective over the node; the error is agreed.
func (f *filemaps) collect() (*filemap.Map, error) {
	all := &filemap.Map{}
	err := mpi.OnRoot(f.node, func() error {
		found, err := match(f.dir, filemap.Pattern)
		if err != nil {
			return err
		}
		for _, path := range append(found, f.path(0)) {
			s, err := f.open(path)
			if err != nil {
				return err
			}
			all.Merge(&s.Map)
			f.own = s // the last of them stays
			if err := s.Close(); err != nil {
				return err
			}
		}
		f.own.Merge(all)
		return f.own.Fold()
	})
	return all, err
}

// open opens a filemap, and begins another in place of one that is corrupt.
func (f *filemaps) open(path string) (*filemap.Store, error) {
	s, err := filemap.OpenStore(path)
	if !errors.Is(err, hash.ErrCorrupt) {
		return s, err
	}
	// Its files count as lost, and may be rebuilt.
	f.log.Warn("%v; its entries are lost", err)
	if err := filemap.RemoveStore(path); err != nil {
		return nil, err
	}
	return filemap.OpenStore(path)
}

// deal gives each rank on the node its share of the entries that the first rank has
// collected. It is collective over the node; the error is agreed.
func (f *filemaps) deal(all *filemap.Map) error {
	first := f.node.Rank() == 0
	share, err := f.share(all)
	if err := mpi.Agree(f.node, err); err != nil {
		return err
	}
	if !first {
		err = f.write(share)
	}
	if err := mpi.Agree(f.node, err); err != nil {
		return err
	}
	if first {
		f.own.Map = *share
		if err = f.own.Fold(); err == nil {
			err = f.tidy()
		}
	}
	return mpi.Agree(f.node, err)
}

// share returns the caller's share of the entries, which the first rank sends.
func (f *filemaps) share(all *filemap.Map) (*filemap.Map, error) {
	here := make([]int64, f.node.Size())
	here[f.node.Rank()] = int64(f.rank)
	if err := f.node.Allreduce(here, mpi.Sum); err != nil {
		return nil, err
	}
	send := hash.New()
	if f.node.Rank() == 0 {
		for i, share := range divide(all, here) {
			send.Set(strconv.Itoa(i), share.Hash())
		}
	}
	received, err := hash.Exchange(send, f.node)
	if err != nil {
		return nil, err
	}
	return filemap.FromHash(received.Get("0")), nil
}

// divide removes all entries from a map, and divides them among the ranks here: each
// gets its own, and in turn those of a rank on another node.
func divide(all *filemap.Map, here []int64) []filemap.Map {
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
	return shares
}

// write begins the caller's filemap with its share.
func (f *filemaps) write(share *filemap.Map) error {
	path := f.path(f.node.Rank())
	err := filemap.RemoveStore(path)
	if err == nil {
		f.own, err = filemap.OpenStore(path)
	}
	if err != nil {
		return err
	}
	f.own.Merge(share)
	return f.own.Fold()
}

// tidy removes filemaps that no rank of the node uses now, and writes the list of the
// others.
func (f *filemaps) tidy() error {
	list := hash.New()
	keep := map[string]bool{}
	for i := range f.node.Size() {
		keep[f.path(i)] = true
		list.SetKV(keyFilemap, f.path(i))
	}
	found, err := match(f.dir, filemap.Pattern)
	if err != nil {
		return err
	}
	for _, path := range found {
		if !keep[path] {
			if err := filemap.RemoveStore(path); err != nil {
				return err
			}
		}
	}
	return hash.WriteFile(filepath.Join(f.dir, masterFile), list)
}

// close closes the caller's filemap.
func (f *filemaps) close() error {
	if f.own == nil {
		return nil
	}
	return f.own.Close()
}
