package stripe

import (
	"fmt"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// engine applies a code to redundancy files.
type engine struct {
	name string
	k    int // losses that a set tolerates
	code Code
}

// New returns the scheme that tolerates k losses in a set by a code. Its name is the
// value of TYPE in a descriptor.
func New(name string, k int, code Code) redundancy.Scheme {
	return redundancy.New(engine{name, k, code})
}

func (e engine) Name() string                     { return e.name }
func (e engine) Losses() int                      { return e.k }
func (e engine) Tolerates(_ int, lost []int) bool { return len(lost) <= e.k }

// LayOut makes the sections chunks of the smallest size of which N-K hold every
// member's files.
func (e engine) LayOut(j *redundancy.Job, h *redundancy.Header, size int64) {
	largest := mpi.AllreduceOne(j.Set.Comm, size, mpi.Max)
	e.LayOutLost(h, ChunkSize(j.Set.Size(), e.k, largest))
	h.Block = int64(e.Piece(j, h.Chunk))
}

func (e engine) LayOutLost(h *redundancy.Header, chunk int64) { h.Chunk, h.Chunks = chunk, e.k }

// Piece is limited: sums of k pieces are sent together, and all pieces in transit
// must fit into the memory that a rank may take.
func (e engine) Piece(j *redundancy.Job, chunk int64) int {
	const least, most = 64, 16 << 20
	piece := min(j.Piece, most/(3*e.k*inTransit))
	return int(min(int64(piece), max(chunk, least)))
}

func (e engine) Fits(h *redundancy.Header) error {
	n := int64(len(h.Members) - e.k) // chunks of a member
	switch {
	case h.Copies != nil || h.Chunks != e.k:
		return fmt.Errorf("redundancy in %d sections, the descriptor says %d chunks", len(h.Sections()), e.k)
	case h.Current.Size() > n*h.Chunk:
		return fmt.Errorf("%w: files of %d bytes, the redundancy is for %d", redundancy.ErrContradiction, h.Current.Size(), n*h.Chunk)
	}
	return nil
}

func (e engine) set(m *redundancy.Part) Set {
	return Set{Comm: m.Job.Set.Comm, Code: e.code, K: e.k, Chunk: m.Chunk, Piece: m.Piece}
}

func (e engine) Encode(m *redundancy.Part) error { return e.set(m).Encode(files{m}) }

func (e engine) Recover(m *redundancy.Part, lost []int) error {
	if m.Made != nil {
		m.Progress.Expect(int64(m.Job.Set.Size()) * m.Chunk)
	}
	return e.set(m).Recover(files{m}, lost, m.Job.Only)
}

// files are the shards of a member that has files and a redundancy file.
type files struct{ m *redundancy.Part }

func (f files) Data(offset int64, n, column int, use func(from int, data []byte)) int {
	f.m.Progress.Add(int64(n))
	return f.m.Data.Each(offset, n, int64(column), use)
}

func (f files) Redundancy(i int, offset int64, n int, use func(from int, data []byte)) {
	f.m.Progress.Add(int64(n))
	f.m.Made.Each(i, offset, n, use)
}

func (f files) StoreData(data []byte, offset int64, column int) {
	f.m.Data.Write(data, offset, int64(column))
}

func (f files) StoreRedundancy(data []byte, i int, offset int64) {
	if f.m.Out != nil {
		f.m.Out.WriteBlock(data, i, offset)
	}
}
