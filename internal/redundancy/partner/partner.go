// Package partner is the scheme that copies each rank's files, and their
// descriptions, to the K ranks to its right in its set, all of which are in other
// failure groups. A set tolerates the loss of any K members, and of more if
// no K+1 of them are neighbours, for K times the data in additional storage
// (SCR Developer's Manual, "PARTNER").
//
// The copies of a member's K left neighbours are the sections of its redundancy
// file, so that they share its header and checksums.
package partner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/progress"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// engine is the PARTNER scheme with k copies.
type engine struct{ k int }

// Scheme is the scheme that makes k copies of each rank's files.
func Scheme(k int) redundancy.Scheme { return redundancy.New(engine{k}) }

func (engine) Name() string  { return meta.Partner }
func (e engine) Losses() int { return e.k }

// Tolerates reports whether each lost member has a copy left.
func (e engine) Tolerates(n int, lost []int) bool {
	return !slices.ContainsFunc(lost, func(m int) bool { return e.holder(n, lost, m) == 0 })
}

// holder returns the distance from a member to the nearest survivor on its right
// that has a copy of its files, 0 if there is none.
func (e engine) holder(n int, lost []int, m int) int {
	for d := 1; d <= e.k; d++ {
		if !slices.Contains(lost, (m+d)%n) {
			return d
		}
	}
	return 0
}

// keepers returns the members that have lost their copies of the files of m.
func (e engine) keepers(n int, lost []int, m int) []int {
	var list []int
	for d := 1; d <= e.k; d++ {
		if keeper := (m + d) % n; slices.Contains(lost, keeper) {
			list = append(list, keeper)
		}
	}
	return list
}

// LayOut makes the sections as large as the files of the k members to the left.
func (e engine) LayOut(j *redundancy.Job, h *redundancy.Header, size int64) {
	n, me := j.Set.Size(), j.Set.Me()
	sizes := make([]int64, n)
	sizes[me] = size
	j.Set.Comm.Allreduce(sizes, mpi.Sum)
	for d := 1; d <= e.k; d++ {
		h.Copies = append(h.Copies, sizes[(me-d+n)%n])
	}
	h.Block = int64(j.Piece)
}

func (e engine) LayOutLost(h *redundancy.Header, _ int64) {
	for _, left := range h.Left {
		size := int64(0)
		if left != nil {
			size = left.Size()
		}
		h.Copies = append(h.Copies, size)
	}
}

func (e engine) Fits(h *redundancy.Header) error {
	if len(h.Copies) != e.k {
		return fmt.Errorf("%d copies, the descriptor says %d", len(h.Copies), e.k)
	}
	return nil
}

func (engine) Piece(j *redundancy.Job, _ int64) int { return j.Piece }

// Encode sends the files to the partners, in one stream, and stores copies of those
// of the left neighbours.
func (e engine) Encode(m *redundancy.Part) error {
	set := m.Job.Set
	n := set.Size()
	var to []int
	var sinks []redundancy.Sink
	for d := 1; d <= e.k; d++ {
		to = append(to, (set.Me()+d)%n)
		sinks = append(sinks, m.Out.Sink(d-1, (set.Me()-d+n)%n, 0))
	}
	redundancy.Stream(set.Comm, []redundancy.Source{m.Data.Source(0, to...)}, sinks, m.Piece)
	return nil
}

// Recover rebuilds the files of the lost members from their copies, and the copies
// that lost members kept from the owner's files or from another copy. All streams
// run at the same time, also those that only check data which no member needs: a
// lost member has most to do, and must not wait for the checks of the others.
func (e engine) Recover(m *redundancy.Part, lost []int) error {
	var sources []redundancy.Source
	var sinks []redundancy.Sink
	if m.Made != nil {
		sources = e.sources(m, lost)
	} else {
		sinks = e.sinks(m, lost)
	}
	redundancy.Stream(m.Job.Set.Comm, sources, sinks, m.Piece)
	return nil
}

// sources are the files and the copies of a survivor. Each has the number of the
// owner as its tag.
func (e engine) sources(m *redundancy.Part, lost []int) []redundancy.Source {
	job, n, me := m.Job, m.Job.Set.Size(), m.Job.Set.Me()
	var sources []redundancy.Source
	for d := 0; d <= e.k; d++ {
		owner := (me - d + n) % n
		var to []int
		if mine := d == 0; mine || slices.Contains(lost, owner) && e.holder(n, lost, owner) == d {
			if job.Only == nil {
				to = e.keepers(n, lost, owner)
			}
			if !mine && job.Wants(owner) {
				to = append(to, owner)
			}
		}
		if job.Only != nil && len(to) == 0 {
			m.Unread = m.Unread || d == 0
			continue
		}
		s := m.Data.Source(owner, to...)
		if d > 0 {
			s = m.Made.Source(d-1, owner, to...)
		}
		m.Progress.Expect(s.Size)
		each := s.Each
		s.Each = func(offset int64, n int, use func(from int, data []byte)) {
			m.Progress.Add(int64(n))
			each(offset, n, use)
		}
		sources = append(sources, s)
	}
	return sources
}

// sinks are the lost files of a member, and its lost copies of those of others.
func (e engine) sinks(m *redundancy.Part, lost []int) []redundancy.Sink {
	n, me := m.Job.Set.Size(), m.Job.Set.Me()
	// from returns the member that sends the files of another.
	from := func(owner int) int {
		if slices.Contains(lost, owner) {
			return (owner + e.holder(n, lost, owner)) % n
		}
		return owner
	}
	var sinks []redundancy.Sink
	if m.Job.Wants(me) {
		sinks = append(sinks, redundancy.Sink{From: from(me), Tag: me, Size: m.Size,
			Write: func(buf []byte, at int64) { m.Data.Write(buf, at, 0) }})
	}
	if m.Out == nil {
		return sinks
	}
	for d := 1; d <= e.k; d++ {
		left := (me - d + n) % n
		sinks = append(sinks, m.Out.Sink(d-1, from(left), left))
	}
	return sinks
}

// Extract makes the files of the member d places to the left of a redundancy file's
// member from the copy in that file.
func Extract(from *redundancy.Reader, d int, files []redundancy.File, piece int, meter progress.Meter) error {
	if d < 1 || d > len(from.Copies) || files == nil {
		return fmt.Errorf("%w: %s has no copy of the files", redundancy.ErrUnrecoverable, from.Path())
	}
	if from.Block > 0 {
		piece = int(from.Block)
	}
	size := from.Copies[d-1]
	data := redundancy.CreateLogical(files)
	buf := make([]byte, piece)
	meter.Expect(size)
	for at := int64(0); at < size; at += int64(piece) {
		part := buf[:min(int64(piece), size-at)]
		from.ReadBlock(part, d-1, at)
		data.Write(part, at, 0)
		meter.Add(int64(len(part)))
	}
	err := data.Close()
	return cmp.Or(from.Failed(), err, data.Matches())
}
