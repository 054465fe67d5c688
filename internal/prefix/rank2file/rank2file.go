// Package rank2file stores a list with one entry for each rank of a job as a tree of
// hash files of about 1 MB each. In the prefix directory it is the list of files of a
// dataset; the caller decides what an entry contains.
//
// Any number of processes can write and read the tree. A command without MPI uses a
// communicator of one process.
//
//	write.go  writes the tree, level by level from the leaves to the root
//	read.go   reads it from the root to the leaves
package rank2file

import (
	"fmt"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
)

// A leaf is
//
//	rank2file.0.<w>   RANKS = n  LEVEL = 0  RANK / <r> / FILE / <path below the prefix> …
//
// where rank w, a writer, writes the entries of the ranks from itself up to the next
// writer. The other nodes have, in place of files, the writers of the level below. The
// name of the root has no suffix:
//
//	rank2file         RANKS = n  LEVEL = l  RANK / <w> / FILE = .<l-1>.<w>  OFFSET = 0
const (
	root = "rank2file"

	keyRanks  = "RANKS"
	keyLevel  = "LEVEL"
	keyRank   = "RANK"
	keyFile   = "FILE"
	keyOffset = "OFFSET"
)

// segment is about how many packed bytes one writer writes. It is a variable so that
// tests can make trees with several levels.
var segment = 1 << 20

// maxLevels limits the depth of a tree that is read. Five levels of 1 MB segments hold
// more entries than any job has ranks.
const maxLevels = 8

// MaxRanks limits the number of ranks that is accepted from a file.
const MaxRanks = 1 << 30

// Item is the entry of a rank. In nodes other than leaves, the ranks are the writers of
// the level below.
type Item struct {
	Rank  int
	Entry *hash.Hash
}

func suffix(level, rank int) string { return fmt.Sprintf(".%d.%d", level, rank) }

// owner returns which of size processes handles the entry of a rank, 0 <= rank < ranks.
// Each process handles consecutive ranks, in the order of the processes. If size equals
// ranks, each process handles its own rank.
func owner(rank, ranks, size int) int { return rank * size / ranks }

// Share returns which of ranks ranks the caller handles: first, first+1, ..., end-1.
func Share(c mpi.Comm, ranks int) (first, end int) {
	begin := func(process int) int { return (process*ranks + c.Size() - 1) / c.Size() }
	return begin(c.Rank()), begin(c.Rank() + 1)
}

// Deal sends each item to the process that handles its rank, and returns those that the
// caller handles, in the order of ranks. It does not copy entries that stay on the
// caller. Ranks must be in [0, ranks). If two items have the same rank, the process that
// handles this rank gets an error; the error is not agreed. Deal is collective.
func Deal(c mpi.Comm, ranks int, items []Item) ([]Item, error) {
	send, mine, twice := hash.New(), hash.New(), ""
	add := func(rank string, entry *hash.Hash) {
		if mine.Has(rank) {
			twice = rank
		}
		mine.Set(rank, entry)
	}
	for _, it := range items {
		rank := strconv.Itoa(it.Rank)
		if to := owner(it.Rank, ranks, c.Size()); to != c.Rank() {
			send.At(strconv.Itoa(to)).Set(rank, it.Entry)
		} else {
			add(rank, it.Entry)
		}
	}
	received, err := hash.Exchange(send, c)
	if err != nil {
		return nil, err
	}
	for _, h := range received.All() {
		for rank, entry := range h.All() {
			add(rank, entry)
		}
	}
	if twice != "" {
		return nil, fmt.Errorf("rank %s is listed twice", twice)
	}
	return itemsOf(mine), nil
}

// itemsOf returns the entries of a hash whose keys are ranks, in the order of ranks.
func itemsOf(h *hash.Hash) []Item {
	var items []Item
	for _, rank := range h.Ints() {
		items = append(items, Item{rank, h.Get(strconv.Itoa(rank))})
	}
	return items
}
