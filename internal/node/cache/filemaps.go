package cache

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/mpi"
)

// filemaps distributes the entries of the filemaps in the control directory of a node
// among the ranks that now run on the node, whose number may have changed since the
// entries were written. Each rank gets its own entries, and an equal share of the entries
// of ranks on other nodes.
//
// At any instant every entry is in some filemap on disk: the first rank of the node
// writes a filemap with all entries, and reduces it to its own share when the others have
// written theirs. If all entries are in the right filemaps already, nothing is written,
// since the storage may be full.
type filemaps struct {
	node mpi.Comm
	here []int // the ranks of the node, by their ranks in the job
	dir  string
	log  *report.Logger
	own  *filemap.Store

	settled bool // the filemaps can stay as they are
	empty   bool // they have no entries
}

// The list of filemaps in the control directory, with the names that SCR uses.
const (
	masterFile = "filemap.scrinfo"
	keyFilemap = "Filemap"
)

// path returns the path of the filemap of a rank of the node.
func (f *filemaps) path(rank int) string {
	return filepath.Join(f.dir, fmt.Sprintf("filemap_%d.scrinfo", rank))
}

// collect merges all filemaps on the node. It returns all entries on the first rank of the node; if some of them belong
// in another filemap, it also writes all of them to the filemap of the first rank. That rank sends the others what all
// need to know: describe adds where the datasets are. failed is an error that the first rank had before. It is collective
// over the node; the error is agreed.
func (f *filemaps) collect(failed error, describe func(*filemap.Map) *found) (*filemap.Map, *found, error) {
	all := &filemap.Map{}
	message, err := hash.FromRoot(f.node, func() (*hash.Hash, error) {
		if failed != nil {
			return nil, failed
		}
		if err := f.gather(all); err != nil {
			return nil, err
		}
		m := describe(all)
		m.Settled, m.Empty = f.settled, len(all.AllRanks()) == 0
		return hash.Marshal(m), nil
	})
	if err != nil {
		return nil, nil, err
	}
	m := hash.As[found](message)
	f.settled, f.empty = m.Settled, m.Empty
	return all, &m, nil
}

// gather adds the entries of all filemaps on the node to all. The first rank of the node calls it.
func (f *filemaps) gather(all *filemap.Map) error {
	found, err := match(f.dir, filemap.Pattern)
	if err != nil {
		return err
	}
	f.settled = len(found) > 0
	for _, path := range append(found, f.path(0)) {
		s, err := f.open(path)
		if err != nil {
			return err
		}
		f.settled = f.settled && f.inPlace(path, &s.Map)
		all.Merge(&s.Map)
		f.own = s // the last one is that of the first rank, and is kept
		if err := s.Close(); err != nil {
			return err
		}
	}
	if f.settled || len(all.AllRanks()) == 0 {
		return nil
	}
	f.own.Merge(all)
	return f.own.Fold()
}

// inPlace reports whether the filemap at path is one of a rank on the node, and has no
// entries of another rank on it.
func (f *filemaps) inPlace(path string, m *filemap.Map) bool {
	for i := range f.here {
		if f.path(i) == path {
			return !slices.ContainsFunc(m.AllRanks(), func(rank int) bool {
				of := slices.Index(f.here, rank)
				return of >= 0 && of != i
			})
		}
	}
	return false
}

// open opens a filemap. If it cannot be read, open sets it aside and begins a new one.
func (f *filemaps) open(path string) (*filemap.Store, error) {
	s, err := filemap.OpenStore(path)
	if err == nil || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) {
		return s, err
	}
	// The files in its entries count as lost, and may be rebuilt.
	parts := filemap.Journals(path)
	if _, e := hash.ReadFile(path); e != nil {
		parts = append(parts, path)
	}
	for _, part := range parts {
		aside, e := setAside(part)
		if e != nil {
			return nil, e
		}
		f.log.Warn("%v; %s is now %s, and its entries are lost", err, part, aside)
	}
	return filemap.OpenStore(path)
}

// setAside renames a file of a control directory that cannot be used, or anything else
// that has its name, and returns its new path.
func setAside(path string) (string, error) {
	aside := path + ".damaged"
	if err := RemoveTree(aside); err != nil { // an earlier run may have left one
		return "", err
	}
	return aside, os.Rename(path, aside)
}

// deal gives each rank on the node its share of the entries that the first rank has
// collected. The first rank writes its filemap last, when all others have theirs, and no filemap may change while it looks for
// those that are not used. failed is an error that the caller had before, which takes part all the same. It is collective over
// the node; the error is that of the caller.
func (f *filemaps) deal(all *filemap.Map, failed error) error {
	first := f.node.Rank() == 0
	share, err := &filemap.Map{}, error(nil)
	if !f.settled && !f.empty {
		share, err = f.share(all)
	}
	err = cmp.Or(failed, err)
	switch {
	case err != nil:
	case f.settled:
		err = f.reopen()
	case !first:
		err = f.write(share)
	}
	if err := mpi.Agree(f.node, err); err != nil || !first {
		return err
	}
	if !f.settled {
		f.own.Map = *share
		if err := f.own.Fold(); err != nil {
			return err
		}
	}
	return f.tidy()
}

// reopen opens the caller's filemap, whose entries stay as they are.
func (f *filemaps) reopen() (err error) {
	if f.node.Rank() > 0 {
		f.own, err = filemap.OpenStore(f.path(f.node.Rank()))
	}
	if err == nil && f.own.New() {
		err = f.own.Fold()
	}
	return err
}

// share returns the caller's share of the entries, which the first rank sends.
func (f *filemaps) share(all *filemap.Map) (*filemap.Map, error) {
	send := hash.New()
	if f.node.Rank() == 0 {
		for i, share := range divide(all, f.here) {
			send.Set(strconv.Itoa(i), share.Hash())
		}
	}
	received, err := hash.Exchange(send, f.node)
	if err != nil {
		return nil, err
	}
	return filemap.FromHash(received.Get("0")), nil
}

// divide moves all entries of a map to the shares of the ranks here. Each gets its own
// entries; those of ranks on other nodes are assigned to the ranks here in turn.
func divide(all *filemap.Map, here []int) []filemap.Map {
	shares := make([]filemap.Map, len(here))
	next := 0
	for _, rank := range all.AllRanks() {
		i := slices.Index(here, rank)
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

// tidy removes filemaps that no rank of the node uses now, and journals that belong to no
// filemap, and writes the list of filemaps.
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
	journals, err := match(f.dir, filemap.JournalPattern)
	if err != nil {
		return err
	}
	for _, path := range journals {
		if filemap.OldJournal(path) {
			_ = os.Remove(path) // it only takes space
		}
	}
	f.writeList(list)
	return nil
}

// writeList writes the list of filemaps, unless it is there. Only commands of SCR read
// it, so an error does not matter to the run.
func (f *filemaps) writeList(list *hash.Hash) {
	path := filepath.Join(f.dir, masterFile)
	if there, err := hash.ReadFile(path); err == nil && there.Equal(list) {
		return
	}
	err := hash.WriteFile(path, list)
	if err != nil {
		if info, e := os.Lstat(path); e == nil && !info.Mode().IsRegular() {
			if _, err = setAside(path); err == nil {
				err = hash.WriteFile(path, list)
			}
		}
	}
	if err != nil {
		f.log.Warn("the list of filemaps cannot be written: %v", err)
	}
}

// newest returns the highest id in the caller's filemap, -1 if it is empty or could not be opened.
func (f *filemaps) newest() int64 {
	if f.own == nil {
		return -1
	}
	return int64(slices.Max(append(f.own.Datasets(), -1)))
}

// close closes the caller's filemap.
func (f *filemaps) close() error {
	if f.own == nil {
		return nil
	}
	return f.own.Close()
}
