// Package stripe is the engine of the schemes that compute redundancy, XOR and
// Reed-Solomon. These differ only in arithmetic.
//
// A set of N members tolerates the loss of any K of them. Each member's files, one
// after the other, are one logical file. It is cut into N-K chunks, which are
// the member's part of N-K columns; of the other K columns it keeps a chunk of
// redundancy each. With N = 5 and K = 2:
//
//	          member 0     member 1     member 2     member 3     member 4
//	column 0  redundancy 0 redundancy 1 chunk 0      chunk 0      chunk 0
//	column 1  chunk 0      redundancy 0 redundancy 1 chunk 1      chunk 1
//	column 2  chunk 1      chunk 0      redundancy 0 redundancy 1 chunk 2
//	column 3  chunk 2      chunk 1      chunk 1      redundancy 0 redundancy 1
//	column 4  redundancy 1 chunk 2      chunk 2      chunk 2      redundancy 0
//
// For K = 1 that is the layout of SCR Developer Guide, "XOR". Within a column,
// encoding and recovery are the same reduction: sums are sent from member to member,
// each adds its shard, and the last sends the results to the members that store them
// (reduce.go). Encoding and recovery differ only in the members that contribute and
// those that get results (plan.go).
package stripe

import (
	"slices"

	"github.com/goscr/goscr/mpi"
)

// Code is the arithmetic of a scheme. The shards of a column are counted from
// 0: first the members' chunks, in the order in which they come in the ring
// after those that keep redundancy, then the redundancy.
type Code interface {
	// Adder prepares to compute some shards of a column of n, k of them
	// redundancy, from n-k others.
	Adder(n, k int, from, wanted []int) (Adder, error)
}

// Adder adds parts of shards to the sums that become the wanted ones.
type Adder interface {
	// Add adds part, of shard from[i], to each of sums, which have its length. If
	// first, it overwrites sums.
	Add(i int, first bool, part []byte, sums [][]byte)
}

// Set describes a set of members, the same on all of them.
type Set struct {
	Comm  mpi.Comm
	Code  Code
	K     int   // losses it tolerates
	Chunk int64 // bytes
	Piece int   // bytes that are sent at a time
}

// ChunkSize is the size of the chunks in a set of n that tolerates the loss of k, where
// the largest logical file has largest bytes.
func ChunkSize(n, k int, largest int64) int64 { return (largest + int64(n-k) - 1) / int64(n-k) }

// Shards reads the shards of a member, and stores those that are computed for it.
type Shards interface {
	// Data passes the n bytes from offset of the logical file to use, in parts
	// that begin at from, and returns how many of them they cover; the rest is
	// zeros. Calls for one column follow each other.
	Data(offset int64, n, column int, use func(from int, data []byte)) (covered int)
	// Redundancy passes the n bytes from offset of chunk i of redundancy to use.
	Redundancy(i int, offset int64, n int, use func(from int, data []byte))
	// StoreData and StoreRedundancy store computed data.
	StoreData(data []byte, offset int64, column int)
	StoreRedundancy(data []byte, i int, offset int64)
}

// Encode computes the redundancy of all members. It is collective.
func (s Set) Encode(shards Shards) error {
	columns, err := s.encoding()
	if err != nil {
		return err
	}
	return s.reduce(columns, shards, true)
}

// Recover computes the data and redundancy of the members in lost; if only is not
// nil, the data of the members in only, which get some redundancy with it. It reads
// all data and redundancy of the others. It is collective.
func (s Set) Recover(shards Shards, lost, only []int) error {
	columns, err := s.recovery(lost, only)
	if err != nil {
		return err
	}
	return s.reduce(columns, shards, !slices.Contains(lost, s.Comm.Rank()))
}
