// Package rank2file keeps a list with an entry for each rank of a job as a tree of
// hash files, of which no process reads or writes more than about 1 MB. It is the
// list of files of a dataset in the prefix directory; the caller decides what an entry
// contains.
//
// Any number of processes can write and read the tree. A command without MPI uses a
// communicator of one.
//
//	write.go  the tree is written, level by level from the leaves
//	read.go   ... and read, from the root
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
// where rank w writes the entries of the ranks from itself up to the next
// writer. The nodes above hold, in place of files, the writers of the level
// below, and the root has no suffix:
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

// segment is the number of packed bytes that a writer gathers before the next rank
// becomes a writer.
var segment = 1 << 20

// maxLevels bounds the depth of a tree that is read. Five levels of 1 MB
// segments hold more ranks than there are.
const maxLevels = 8

// MaxRanks bounds the ranks of a job.
const MaxRanks = 1 << 30

// Item is the entry of a rank. In the nodes above the leaves the ranks are the writers
// of the level below.
type Item struct {
	Rank  int
	Entry *hash.Hash
}

func suffix(level, rank int) string { return fmt.Sprintf(".%d.%d", level, rank) }

// owner is the process that handles the entry of a rank of a dataset, where a job
// of size processes handles one of so many ranks: the rank itself if these are the
// same, and in any case the processes in the order of their ranks.
func owner(rank, ranks, size int) int { return rank * size / ranks }

// Share returns which of so many ranks the caller handles: those from first up to,
// and without, end.
func Share(c mpi.Comm, ranks int) (first, end int) {
	begin := func(process int) int { return (process*ranks + c.Size() - 1) / c.Size() }
	return begin(c.Rank()), begin(c.Rank() + 1)
}

// Deal sends each of the items that any process has to the process that handles
// its rank, and returns those of the caller in the order of ranks. Entries may be
// those that were given, and not copies. A rank that is listed twice is an error
// on the process that handles it. It is collective.
func Deal(c mpi.Comm, ranks int, items []Item) ([]Item, error) {
	send, mine, twice := hash.New(), hash.New(), ""
	take := func(rank string, entry *hash.Hash) {
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
			take(rank, it.Entry)
		}
	}
	received, err := hash.Exchange(send, c)
	if err != nil {
		return nil, err
	}
	for _, h := range received.All() {
		for rank, entry := range h.All() {
			take(rank, entry)
		}
	}
	if twice != "" {
		return nil, fmt.Errorf("rank %s is listed twice", twice)
	}
	return itemsOf(mine), nil
}

// itemsOf returns the entries under ranks, in the order of these.
func itemsOf(h *hash.Hash) []Item {
	var items []Item
	for _, rank := range h.Ints() {
		items = append(items, Item{rank, h.Get(strconv.Itoa(rank))})
	}
	return items
}
