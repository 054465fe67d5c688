// Package xor is the XOR scheme: a set of N ranks bears the loss of any one
// of its members, for 1/(N-1) of the data in additional storage (spec 004;
// W. Gropp, R. Ross, N. Miller, "Providing Efficient I/O Redundancy in MPI
// Environments", EuroPVM/MPI 2004).
//
// Each member's files, one after the other, are one logical file. It is cut
// into N-1 chunks, which fill N columns but the member's own:
//
//	          member 0   member 1   member 2   member 3
//	column 0     –       chunk 0    chunk 0    chunk 0    XOR is kept by 0
//	column 1  chunk 0       –       chunk 1    chunk 1    XOR is kept by 1
//	column 2  chunk 1    chunk 1       –       chunk 2    XOR is kept by 2
//	column 3  chunk 2    chunk 2    chunk 2       –       XOR is kept by 3
//
// The columns are reduced around the ring of members, a piece at a time,
// several pieces under way at once (encode.go); what one member has lost is
// reduced towards it along the ring (recover.go).
package xor

import (
	"fmt"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

const extension = "xor"

// depth is the number of pieces under way at a time, so that a member that
// waits for its neighbour has other pieces to work on.
const depth = 4

// Scheme is the XOR scheme.
type Scheme struct{}

var _ redundancy.Scheme = Scheme{}

// Name is the value of TYPE in a descriptor.
func (Scheme) Name() string { return "XOR" }

// Failures is 1 in a set of at least two members.
func (Scheme) Failures(n int) int {
	if n < 2 {
		return 0
	}
	return 1
}

// column returns where a column begins in the logical file of a member.
func column(c, member int, chunk int64) int64 {
	if c > member {
		c--
	}
	return int64(c) * chunk
}

// Verify reads a member's files and redundancy and compares checksums.
func (Scheme) Verify(j *redundancy.Job, files []redundancy.File) error {
	own, redundant := redundancy.Split(files)
	if err := redundancy.Verify(own, j.Piece); err != nil {
		return err
	}
	for _, f := range redundant {
		if err := redundancy.VerifyFile(f.Path, j.Piece); err != nil {
			return err
		}
	}
	return nil
}

// slot holds a piece that is under way: one buffer goes to the right while
// the other is filled from the left.
type slot struct {
	out, in           []byte
	sending, awaiting mpi.Request
	offset            int64 // of the piece in its column
	size              int
}

// ring moves pieces between the caller and its neighbours.
type ring struct {
	set    *redundancy.Set
	slots  []slot
	buffer []byte
	own    []byte // a piece of the caller's own
}

func newRing(set *redundancy.Set, slots, piece int) (*ring, error) {
	buffer, err := mpi.Alloc((2*slots + 1) * piece)
	if err != nil {
		return nil, err
	}
	r := &ring{set: set, slots: make([]slot, slots), buffer: buffer, own: buffer[:piece]}
	for i := range r.slots {
		at := (2*i + 1) * piece
		r.slots[i].out, r.slots[i].in = buffer[at:at+piece], buffer[at+piece:at+2*piece]
	}
	return r, nil
}

// close gives the buffers back. Nothing may be under way.
func (r *ring) close() { mpi.Free(r.buffer) }

func (r *ring) tag(s *slot) int {
	for i := range r.slots {
		if s == &r.slots[i] {
			return i
		}
	}
	return 0
}

// send passes s.out to the right.
func (r *ring) send(s *slot) (err error) {
	s.sending, err = r.set.Comm.Isend(s.out[:s.size], r.set.Right(), r.tag(s))
	return err
}

// await begins to fill s.in from the left.
func (r *ring) await(s *slot) (err error) {
	s.awaiting, err = r.set.Comm.Irecv(s.in[:s.size], r.set.Left(), r.tag(s))
	return err
}

// sent returns when s.out may be used again.
func (r *ring) sent(s *slot) error {
	if s.sending == nil {
		return nil
	}
	_, err := s.sending.Wait()
	s.sending = nil
	return err
}

// received returns when s.in has been filled.
func (r *ring) received(s *slot) error {
	status, err := s.awaiting.Wait()
	s.awaiting = nil
	if err == nil && status.Count != s.size {
		err = fmt.Errorf("piece of %d bytes where %d were due", status.Count, s.size)
	}
	return err
}

// pieces is the number of pieces in a chunk.
func pieces(chunk int64, piece int) int64 { return (chunk + int64(piece) - 1) / int64(piece) }

// place makes s hold piece p of a chunk.
func (s *slot) place(p, chunk int64, piece int) {
	s.offset = p * int64(piece)
	s.size = int(min(int64(piece), chunk-s.offset))
}
