package stripe

import (
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/progress"
	"github.com/goscr/goscr/internal/redundancy"
)

var _ redundancy.Reassembler = Scheme{}

// Reassemble computes the files of the members wanted, column by column. All of
// what is left is read, once, and checked.
func (s Scheme) Reassemble(r *redundancy.Remains) error {
	n := len(r.Ranks)
	absent := r.Absent()
	switch {
	case len(r.Wanted) == 0:
		return nil
	case len(absent) > s.Failures(n):
		return fmt.Errorf("%w: of %d of the %d members nothing is left, %s bears the loss of %d",
			redundancy.ErrUnrecoverable, len(absent), n, s.Type, s.Failures(n))
	}
	columns, err := s.reassembly(n, absent, r.Wanted)
	if err != nil {
		return err
	}
	parts, err := s.parts(r)
	if err != nil {
		return err
	}
	meter := progress.Or(r.Progress)
	for _, col := range used(columns) {
		meter.Expect(int64(len(col.from)) * chunkOf(parts))
	}
	for c := range columns {
		if len(columns[c].wanted) > 0 {
			compute(columns[c], c, r.Block(), parts, meter)
		}
	}
	for m, p := range parts {
		if r.Made[m] != nil {
			p.passOver(used(columns), layout{p.chunk, r.Block()})
		}
	}
	return s.finish(r, parts)
}

// reassembly is the plan: of every column in which some of those wanted have
// data, from N-K of those that are there.
func (s Scheme) reassembly(n int, absent, wanted []int) ([]column, error) {
	g := geometry{n, s.K}
	var there []int
	for m := range n {
		if !slices.Contains(absent, m) {
			there = append(there, m)
		}
	}
	columns := make([]column, n)
	for c := range columns {
		for _, m := range wanted {
			if g.redundant(c, m) < 0 {
				columns[c].wanted = append(columns[c].wanted, m)
			}
		}
		for i := range n - s.K {
			columns[c].from = append(columns[c].from, there[(c+i)%len(there)])
		}
	}
	return columns, s.prepare(columns, n)
}

// used is the plan as far as data was read by it.
func used(columns []column) []column {
	plan := slices.Clone(columns)
	for c := range plan {
		if len(plan[c].wanted) == 0 {
			plan[c].from = nil
		}
	}
	return plan
}

// parts opens what is left and begins what is wanted.
func (s Scheme) parts(r *redundancy.Remains) ([]*member, error) {
	n := len(r.Ranks)
	parts := make([]*member, n)
	for m := range parts {
		p := &member{geometry: geometry{n, s.K}, me: m, made: r.Made[m]}
		switch {
		case r.Made[m] != nil:
			if err := s.fits(&r.Made[m].Header); err != nil {
				return nil, &redundancy.CorruptError{Path: r.Made[m].Path(), Reason: err.Error()}
			}
			p.chunk = r.Made[m].Chunk()
			p.data = redundancy.OpenLogical(r.Own[m])
		case !slices.Contains(r.Wanted, m):
			continue
		case r.Own[m] == nil:
			return nil, fmt.Errorf("%w: nobody who is left knows the files of rank %d", redundancy.ErrUnrecoverable, r.Ranks[m])
		}
		parts[m] = p
	}
	chunk := chunkOf(parts)
	for _, m := range r.Wanted {
		parts[m].chunk = chunk
		parts[m].data = redundancy.CreateLogical(r.Own[m])
		if size := parts[m].data.Size(); size > chunk*int64(n-s.K) {
			return nil, fmt.Errorf("%w: the files of rank %d have %d bytes, the redundancy is for %d",
				redundancy.ErrUnrecoverable, r.Ranks[m], size, chunk*int64(n-s.K))
		}
	}
	return parts, nil
}

// chunkOf is the size of a chunk, which is the same for all.
func chunkOf(parts []*member) int64 {
	return parts[slices.IndexFunc(parts, func(p *member) bool { return p != nil && p.made != nil })].chunk
}

// compute computes the pieces of one column.
func compute(col column, c, piece int, parts []*member, meter progress.Meter) {
	buffer := make([]byte, len(col.wanted)*piece)
	sums := make([][]byte, len(col.wanted))
	chunk := parts[col.wanted[0]].chunk
	for at := int64(0); at < chunk; at += int64(piece) {
		size := int(min(int64(piece), chunk-at))
		for i, m := range col.from {
			covered := parts[m].each(c, at, size, func(from int, data []byte) {
				for t := range sums {
					sums[t] = buffer[t*size+from:][:len(data)]
				}
				col.add.Add(i, i == 0, data, sums)
			})
			if i == 0 {
				for t := range sums {
					clear(buffer[t*size+covered : (t+1)*size])
				}
			}
		}
		for t, m := range col.wanted {
			parts[m].store(c, at, buffer[t*size:][:size])
		}
		meter.Add(int64(len(col.from) * size))
	}
}

// passOver reads the columns that the member's part was not needed of: they have
// to be checked like the others.
func (p *member) passOver(columns []column, shape layout) {
	for c := range columns {
		if slices.Contains(columns[c].from, p.me) {
			continue
		}
		for at := int64(0); at < shape.chunk; at += int64(shape.piece) {
			p.each(c, at, int(min(int64(shape.piece), shape.chunk-at)), func(int, []byte) {})
		}
	}
}

// finish returns the first error there was: of a file that was read, and then of
// one that was made.
func (s Scheme) finish(r *redundancy.Remains, parts []*member) error {
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	for m, p := range parts {
		if p != nil && r.Made[m] != nil {
			note(p.data.Close())
			note(r.Made[m].Failed())
			note(p.data.Matches())
		}
	}
	for _, m := range r.Wanted {
		note(parts[m].data.Close())
		note(parts[m].data.Matches())
	}
	return first
}
