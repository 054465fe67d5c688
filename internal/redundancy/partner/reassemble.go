package partner

import (
	"fmt"

	"github.com/goscr/goscr/internal/progress"
	"github.com/goscr/goscr/internal/redundancy"
)

var _ redundancy.Reassembler = scheme{}

// Reassemble copies the files of the members wanted from the nearest copy that
// is left of each.
func (s scheme) Reassemble(r *redundancy.Remains) error {
	n := len(r.Ranks)
	absent := r.Absent()
	for _, m := range r.Wanted {
		d := s.holder(n, absent, m)
		if d == 0 || n <= s.k {
			return fmt.Errorf("%w: no copy is left of the files of rank %d", redundancy.ErrUnrecoverable, r.Ranks[m])
		}
		if err := Extract(r.Made[(m+d)%n], d, r.Own[m], r.Block(), progress.Or(r.Progress)); err != nil {
			return err
		}
	}
	return nil
}

// Extract makes files from the copy of them that a redundancy file has: they are
// those of the member d to the left of the one that it belongs to.
func Extract(from *redundancy.Reader, d int, files []redundancy.File, piece int, meter progress.Meter) error {
	sizes := from.Sections()
	if d < 1 || d > len(sizes) || files == nil {
		return fmt.Errorf("%w: %s has no copy of the files", redundancy.ErrUnrecoverable, from.Path())
	}
	if block := from.Block(); block > 0 {
		piece = int(block)
	}
	data := redundancy.CreateLogical(files)
	buf := make([]byte, piece)
	meter.Expect(sizes[d-1])
	for at := int64(0); at < sizes[d-1]; at += int64(piece) {
		part := buf[:min(int64(piece), sizes[d-1]-at)]
		from.ReadBlock(part, d-1, at)
		data.Write(part, at, 0)
		meter.Add(int64(len(part)))
	}
	err := data.Close()
	if e := from.Failed(); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	return data.Matches()
}
