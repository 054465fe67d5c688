package rank2file

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
)

// writer writes a tree.
type writer struct {
	c     mpi.Comm
	dir   string
	ranks int // number of ranks of the dataset
	level int // level that is being written
}

// Write writes the tree for a dataset of ranks ranks to the directory dir. items are any
// entries; each rank's entry must be passed by exactly one process. Ranks without an
// entry are not listed. It is collective; the result is agreed.
func Write(c mpi.Comm, dir string, ranks int, items []Item) error {
	items, err := Deal(c, ranks, items)
	if err := mpi.Agree(c, err); err != nil {
		return err
	}
	for w := (&writer{c: c, dir: dir, ranks: ranks}); ; w.level++ {
		next, writers, err := w.writeLevel(items)
		if err := mpi.Agree(c, err); err != nil {
			return err
		}
		if w.level > 0 && writers == 1 {
			return nil
		}
		items = next
	}
}

// writeLevel sends the entries of a level to its writers, which write them. It returns
// the entries of the next level for those writers that the caller handles, and the
// number of writers on all processes.
func (w *writer) writeLevel(items []Item) (next []Item, writers int, err error) {
	if w.c.Rank() == 0 && (len(items) == 0 || items[0].Rank != 0) { // rank 0 is always a writer: else an empty list would have no root
		items = append([]Item{{0, nil}}, items...)
	}
	begins, current, writers := w.divide(items)
	nodes, err := w.gather(items, begins, current)
	if err != nil {
		return nil, writers, err
	}
	for _, rank := range slices.Sorted(maps.Keys(nodes)) {
		name := root + suffix(w.level, rank)
		if w.level > 0 && writers == 1 {
			name = root
		}
		if e := w.writeNode(name, nodes[rank]); err == nil {
			err = e
		}
		entry := hash.New()
		entry.SetValue(keyFile, suffix(w.level, rank))
		entry.SetInt(keyOffset, 0)
		next = append(next, Item{rank, entry})
	}
	return next, writers, err
}

// divide decides which ranks are writers: rank 0, and each whose entry ends in another
// segment than it begins in. begins has the writers among the caller's ranks, before is
// the last writer before these ranks, and writers is the number of writers on all
// processes.
func (w *writer) divide(items []Item) (begins map[int]bool, before, writers int) {
	size := 0
	for _, it := range items {
		size += packed(it)
	}
	at := mpi.ExscanOne(w.c, size, mpi.Sum)
	begins = map[int]bool{}
	last := 0 // the highest writer among the caller's ranks
	for _, it := range items {
		n := packed(it)
		if it.Rank == 0 || at/segment != (at+n)/segment {
			begins[it.Rank] = true
			last = it.Rank
		}
		at += n
	}
	before = mpi.ExscanOne(w.c, last, mpi.Max)
	writers = mpi.AllreduceOne(w.c, len(begins), mpi.Sum)
	return begins, before, writers
}

func packed(it Item) int {
	if it.Entry == nil {
		return 0
	}
	return it.Entry.PackSize()
}

// gather sends entries to their writers. It returns, for each writer that the caller
// handles, the entries to write. current is the writer of the caller's first entry,
// unless the rank of that entry is a writer itself.
func (w *writer) gather(items []Item, begins map[int]bool, current int) (map[int]*hash.Hash, error) {
	nodes := map[int]*hash.Hash{}
	for rank := range begins {
		nodes[rank] = hash.New()
	}
	send := hash.New() // process -> writer -> rank -> entry
	for _, it := range items {
		if begins[it.Rank] {
			current = it.Rank
		}
		if it.Entry == nil {
			continue
		}
		rank, process := strconv.Itoa(it.Rank), owner(current, w.ranks, w.c.Size())
		if process == w.c.Rank() {
			nodes[current].Set(rank, it.Entry)
		} else {
			send.At(strconv.Itoa(process), strconv.Itoa(current)).Set(rank, it.Entry)
		}
	}
	received, err := hash.Exchange(send, w.c)
	if err != nil {
		return nil, err
	}
	for _, h := range received.All() {
		for _, it := range itemsOf(h) {
			nodes[it.Rank].Merge(it.Entry)
		}
	}
	return nodes, nil
}

func (w *writer) writeNode(name string, entries *hash.Hash) error {
	node := hash.New()
	node.SetInt(keyRanks, int64(w.ranks))
	node.SetInt(keyLevel, int64(w.level))
	node.Set(keyRank, entries)
	return hash.WriteShared(filepath.Join(w.dir, name), node)
}
