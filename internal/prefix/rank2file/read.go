package rank2file

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
)

// reader reads a tree.
type reader struct {
	c     mpi.Comm
	dir   string
	level int // level that is being read; unknown before the root is read
	ranks int // number of ranks of the dataset, valid once the root is read
}

const unknown = -1

// Read reads the tree whose root is in dir, and calls visit with the number of ranks of
// the dataset and the entries that the caller handles. It returns the number of ranks.
// It is collective; the result is agreed.
//
// If c has one process, visit is called once for each leaf, so that memory for one leaf
// is enough, however large the job was. Else it is called once, with all entries that
// the caller handles.
func Read(c mpi.Comm, dir string, visit func(ranks int, items []Item) error) (ranks int, err error) {
	r := &reader{c: c, dir: dir, level: unknown}
	var nodes []string // nodes of this level that the caller reads
	if c.Rank() == 0 {
		nodes = []string{root}
	}
	for {
		batches := [][]string{nodes}
		if c.Size() == 1 {
			batches = slices.Collect(slices.Chunk(nodes, 1))
		}
		nodes = nil
		for _, batch := range batches {
			items, err := r.readNodes(batch)
			if err != nil {
				return 0, err
			}
			if r.level > 0 {
				var children []string
				children, err = r.children(items)
				nodes = append(nodes, children...)
			} else {
				err = visit(r.ranks, items)
			}
			if err := mpi.Agree(c, err); err != nil {
				return 0, err
			}
		}
		if r.level == 0 {
			return r.ranks, nil
		}
		r.level--
	}
}

// readNodes reads nodes of a level, other ones on each process, and sends their entries
// to the processes that handle them. It returns those that the caller handles. It is
// collective; the result is agreed.
func (r *reader) readNodes(names []string) (items []Item, err error) {
	for _, name := range names {
		more, e := r.readNode(name)
		if err = e; err != nil {
			break
		}
		items = append(items, more...)
	}
	if err := mpi.Agree(r.c, err); err != nil {
		return nil, err
	}
	if r.c.Size() == 1 {
		return items, nil
	}
	shape := []int64{int64(r.level), int64(r.ranks)} // at first, only rank 0 has them, from the root
	r.c.Allreduce(shape, mpi.Max)
	r.level, r.ranks = int(shape[0]), int(shape[1])
	items, err = Deal(r.c, r.ranks, items)
	if err != nil {
		err = fmt.Errorf("%s: %w", filepath.Join(r.dir, root), err)
	}
	return items, mpi.Agree(r.c, err)
}

// readNode reads one file of the tree. The first is the root, which gives the number of
// ranks and the highest level; it is an error if another node does not match these.
func (r *reader) readNode(name string) ([]Item, error) {
	path := filepath.Join(r.dir, name)
	node, err := hash.ReadFile(path)
	if err != nil {
		return nil, err
	}
	isRoot := r.level == unknown
	n, ok := node.Int(keyRanks)
	if !ok || n < 1 || n > MaxRanks || !isRoot && n != int64(r.ranks) {
		return nil, fmt.Errorf("the list of files is inconsistent: %s gives %q as the number of ranks", path, node.Text(keyRanks))
	}
	l, ok := node.Int(keyLevel)
	if !ok || l < 0 || l > maxLevels || !isRoot && l != int64(r.level) {
		return nil, fmt.Errorf("%s has level %q", path, node.Text(keyLevel))
	}
	for _, rank := range node.Get(keyRank).Keys() {
		if i, err := strconv.Atoi(rank); err != nil || i < 0 || int64(i) >= n || strconv.Itoa(i) != rank {
			return nil, fmt.Errorf("%s lists rank %q of %d", path, rank, n)
		}
	}
	r.level, r.ranks = int(l), int(n)
	return itemsOf(node.Get(keyRank)), nil
}

// children returns the names of the files to which entries of inner nodes refer.
func (r *reader) children(items []Item) (names []string, err error) {
	for _, it := range items {
		name := root + it.Entry.Text(keyFile)
		if !strings.HasPrefix(name, root+".") || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%s refers to %q", filepath.Join(r.dir, root), it.Entry.Text(keyFile))
		}
		names = append(names, name)
	}
	return names, nil
}
