// Package xor protects N shards of data against the loss of any one of them. The
// redundancy needs 1/(N-1) of the size of the data.
//
// A shard is the data of one rank, node or disk. It is divided into N-1 chunks; shards
// may differ in size, and shorter ones are treated as if zeros followed them. Chunks are
// arranged in N columns. A column has one chunk of each shard but one. In place of a
// chunk of that one it has the parity, the exclusive or of the others. With N = 4:
//
//	          shard 0   shard 1   shard 2   shard 3
//	column 0  parity    chunk 0   chunk 0   chunk 0
//	column 1  chunk 0   parity    chunk 1   chunk 1
//	column 2  chunk 1   chunk 1   parity    chunk 2
//	column 3  chunk 2   chunk 2   chunk 2   parity
//
// So every shard has one chunk of parity, whose size is that of the largest shard
// divided by N-1, rounded up. Store it with the shard. If both are lost, the missing
// chunk of each column is computed from the others (W. Gropp, R. Ross, N. Miller,
// "Providing Efficient I/O Redundancy in MPI Environments", EuroPVM/MPI 2004).
//
// Encode and Recover work on byte slices in one process. EncodeRank and
// RecoverRank are for ranks that have one shard each. They send data in pieces, so
// that shards may be larger than memory. They are collective: if one rank has an error,
// all ranks return an error.
//
// There are no checksums: from data that has changed since it was encoded, Recover
// computes wrong data and returns no error.
package xor

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/goscr/goscr/internal/redundancy/stripe"
	"github.com/goscr/goscr/internal/redundancy/xor"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// Encode returns the parity of at least two shards: parity[i] is the chunk to store with
// shards[i]. All chunks have the same length, ceil(longest/(N-1)) bytes for N shards. The
// shards are not changed.
func Encode(shards [][]byte) (parity [][]byte, err error) {
	chunks := make([]Buffer, len(shards))
	_, err = local.Run(len(shards), local.Options{Timeout: math.MaxInt64}, func(c mpi.Comm) error {
		shard := shards[c.Rank()]
		_, err := EncodeRank(c, bytes.NewReader(shard), int64(len(shard)), &chunks[c.Rank()])
		return err
	})
	for _, b := range chunks {
		parity = append(parity, b.Bytes)
	}
	return parity, err
}

// Recover returns shards[lost], which had size bytes, and parity[lost], from the other
// shards and chunks of parity. The values of shards[lost] and parity[lost] are not used.
func Recover(shards, parity [][]byte, lost, size int) (shard, chunk []byte, err error) {
	if len(parity) != len(shards) {
		return nil, nil, fmt.Errorf("xor: %d shards with %d chunks of parity", len(shards), len(parity))
	}
	var newShard, newParity Buffer
	sizes := make([]int64, len(shards))
	for i, s := range shards {
		sizes[i] = int64(len(s))
		if i == lost {
			sizes[i] = int64(size)
		}
	}
	_, err = local.Run(len(shards), local.Options{Timeout: math.MaxInt64}, func(c mpi.Comm) error {
		if c.Rank() == lost {
			return RecoverRank(c, lost, sizes, &newShard, &newParity)
		}
		return RecoverRank(c, lost, sizes, &Buffer{shards[c.Rank()]}, &Buffer{parity[c.Rank()]})
	})
	return newShard.Bytes, newParity.Bytes, err
}

// Storage stores a shard or its parity, for example in a file. RecoverRank writes it on
// the rank that lost its shard, and reads it on the others.
type Storage interface {
	io.ReaderAt
	io.WriterAt
}

// EncodeRank computes the chunk of parity to store with the caller's shard, which has
// size bytes, and writes it to parity, from offset 0. It returns the sizes of the shards
// of all ranks in bytes, which RecoverRank needs: store them with the parity. It is
// collective over c, which must have at least two ranks. The error is agreed; if an operation
// of c fails, EncodeRank and RecoverRank panic, as the operation does.
func EncodeRank(c mpi.Comm, shard io.ReaderAt, size int64, parity io.WriterAt) (sizes []int64, err error) {
	sizes = make([]int64, c.Size())
	sizes[c.Rank()] = size
	c.Allreduce(sizes, mpi.Sum)
	set, err := newSet(c, sizes)
	if err != nil {
		return nil, err
	}
	r := &rank{shard: shard, size: size, newParity: parity, buf: make([]byte, set.Piece)}
	err = set.Encode(r)
	return sizes, mpi.Agree(c, cmp.Or(err, r.err))
}

// RecoverRank rebuilds the shard of rank lost, and its parity. All ranks pass the same
// lost; all but that one pass the sizes that EncodeRank has returned. Rank lost writes
// its shard and parity; the other ranks read theirs. It is collective over c.
func RecoverRank(c mpi.Comm, lost int, sizes []int64, shard, parity Storage) error {
	n := c.Size()
	agreed := make([]int64, n+1)
	agreed[n] = int64(lost)
	if c.Rank() != lost {
		copy(agreed[:n], sizes)
	}
	c.Allreduce(agreed, mpi.Max)
	set, err := newSet(c, agreed[:n])
	if agreed[n] != int64(lost) || c.Rank() != lost && !slices.Equal(sizes, agreed[:n]) {
		err = errors.New("xor: ranks have passed different values of lost, or different sizes of shards")
	} else if lost < 0 || lost >= n {
		err = fmt.Errorf("xor: shard %d is lost, but there are only %d", lost, n)
	}
	if err := mpi.Agree(c, err); err != nil {
		return err
	}
	r := &rank{shard: shard, parity: parity, newShard: shard, newParity: parity, size: agreed[c.Rank()], buf: make([]byte, set.Piece)}
	err = set.Recover(r, []int{lost}, nil)
	return mpi.Agree(c, cmp.Or(err, r.err))
}

// newSet returns the layout of shards of these sizes.
func newSet(c mpi.Comm, sizes []int64) (stripe.Set, error) {
	const maxPiece = 256 << 10 // most bytes that are sent at a time
	n := c.Size()
	if n < 2 || slices.Min(sizes) < 0 {
		return stripe.Set{}, fmt.Errorf("xor: cannot protect %d shards, the shortest of %d bytes", n, slices.Min(sizes))
	}
	chunk := stripe.ChunkSize(n, 1, slices.Max(sizes))
	return stripe.Set{Comm: c, Code: xor.Code{}, K: 1, Chunk: chunk, Piece: int(max(1, min(chunk, maxPiece)))}, nil
}

// rank gives the engine access to the shard and the parity of one rank. If it cannot
// read, it returns zeros, because the other ranks wait for its data, and sets err.
type rank struct {
	shard, parity       io.ReaderAt
	newShard, newParity io.WriterAt
	size                int64
	buf                 []byte
	err                 error
}

func (r *rank) read(from io.ReaderAt, offset int64, n int, use func(from int, data []byte)) {
	if got, err := from.ReadAt(r.buf[:n], offset); got < n {
		clear(r.buf)
		r.err = cmp.Or(r.err, fmt.Errorf("xor: %d bytes at %d: %w", n, offset, err))
	}
	use(0, r.buf[:n])
}

func (r *rank) Data(offset int64, n, _ int, use func(from int, data []byte)) (covered int) {
	n = int(max(0, min(int64(n), r.size-offset)))
	r.read(r.shard, offset, n, use)
	return n
}

func (r *rank) Redundancy(_ int, offset int64, n int, use func(from int, data []byte)) {
	r.read(r.parity, offset, n, use)
}

func (r *rank) StoreData(data []byte, offset int64, _ int) {
	if n := min(int64(len(data)), r.size-offset); n > 0 {
		_, err := r.newShard.WriteAt(data[:n], offset)
		r.err = cmp.Or(r.err, err)
	}
}

func (r *rank) StoreRedundancy(data []byte, _ int, offset int64) {
	_, err := r.newParity.WriteAt(data, offset)
	r.err = cmp.Or(r.err, err)
}

// Buffer is a Storage in memory. WriteAt extends Bytes when it writes past their end.
type Buffer struct{ Bytes []byte }

// ReadAt implements io.ReaderAt.
func (b *Buffer) ReadAt(data []byte, offset int64) (int, error) {
	return bytes.NewReader(b.Bytes).ReadAt(data, offset)
}

// WriteAt implements io.WriterAt.
func (b *Buffer) WriteAt(data []byte, offset int64) (int, error) {
	if end := int(offset) + len(data); end > len(b.Bytes) {
		b.Bytes = append(b.Bytes, make([]byte, end-len(b.Bytes))...)
	}
	return copy(b.Bytes[offset:], data), nil
}
