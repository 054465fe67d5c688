package stripe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Recover rebuilds the files of the members that have lost them, their
// redundancy files included.
func (s Scheme) Recover(j *redundancy.Job, files []redundancy.File, lost []int) ([]redundancy.File, error) {
	n := j.Set.Size()
	switch {
	case len(lost) == 0:
		return files, nil
	case len(lost) > s.Failures(n):
		return nil, fmt.Errorf("%w: %d of the %d members of set %d have lost files, %s bears the loss of %d",
			redundancy.ErrUnrecoverable, len(lost), n, j.Set.ID, s.Type, s.Failures(n))
	}
	columns, err := s.recovery(n, lost)
	if err != nil {
		return nil, err
	}
	if slices.Contains(lost, j.Set.Me()) {
		return s.rebuild(j, lost, columns)
	}
	return files, s.contribute(j, files, lost, columns)
}

// layout is what all members must know before data moves.
type layout struct {
	chunk int64
	piece int
}

// agree makes sure that the survivors have redundancy of the same dataset and
// shape. A member that lost its own passes nil.
func (s Scheme) agree(j *redundancy.Job, h *redundancy.Header, err error) (layout, error) {
	const none = -1 << 62
	values := []int64{none, none, none, none} // the largest of a value and of its negative
	if h != nil {
		block := h.Block()
		if block == 0 {
			block = int64(pieceSize(j.Piece, h.Chunk(), s.K))
		}
		values = []int64{h.Chunk(), -h.Chunk(), block, -block}
		switch {
		case err != nil:
		case h.Dataset().ID() != j.Dataset.ID():
			err = fmt.Errorf("redundancy is of dataset %d", h.Dataset().ID())
		default:
			err = s.fits(h)
		}
	}
	if e := mpi.Agree(j.Set.Comm, err); e != nil {
		return layout{}, e
	}
	if e := j.Set.Comm.Allreduce(values, mpi.Max); e != nil {
		return layout{}, e
	}
	if values[0] != -values[1] || values[2] != -values[3] {
		return layout{}, fmt.Errorf("%w: the redundancy files of set %d have different layouts",
			redundancy.ErrUnrecoverable, j.Set.ID)
	}
	return layout{values[0], int(values[2])}, nil
}

// fits is an error unless a redundancy file has the sections that the scheme
// makes.
func (s Scheme) fits(h *redundancy.Header) error {
	switch sections := h.Sections(); {
	case len(sections) != s.K:
		return fmt.Errorf("redundancy for %d losses, the descriptor says %d", len(sections), s.K)
	case slices.ContainsFunc(sections, func(size int64) bool { return size != h.Chunk() }):
		return fmt.Errorf("redundancy is not in chunks of %d bytes", h.Chunk())
	}
	return nil
}

// contribute is the part of a survivor.
func (s Scheme) contribute(j *redundancy.Job, files []redundancy.File, lost []int, columns []column) error {
	reader, own, err := j.OpenOwn(files)
	var header *redundancy.Header
	if reader != nil {
		header = &reader.Header
	}
	shape, err := s.agree(j, header, err)
	if err != nil {
		if reader != nil {
			err = errors.Join(err, reader.Close())
		}
		return err
	}
	if _, err := redundancy.TellOwners(j.Set, lost, s.K, header); err != nil {
		return err
	}
	if _, err := redundancy.TellKeepers(j.Set, lost, s.K, reader.Current()); err != nil {
		return err
	}
	p := &member{
		geometry: geometry{j.Set.Size(), s.K}, me: j.Set.Me(), chunk: shape.chunk,
		data: redundancy.OpenLogical(own), made: reader,
	}
	if err := reduce(j.Set, columns, shape.chunk, shape.piece, p); err != nil {
		return err
	}
	failed := p.data.Close()
	if err := reader.Close(); failed == nil {
		failed = err
	}
	if failed == nil {
		failed = p.data.Matches()
	}
	return failed
}

// rebuild is the part of a member that has lost its files.
func (s Scheme) rebuild(j *redundancy.Job, lost []int, columns []column) ([]redundancy.File, error) {
	set := j.Set
	shape, err := s.agree(j, nil, nil)
	if err != nil {
		return nil, err
	}
	current, err := redundancy.TellOwners(set, lost, s.K, nil)
	if err != nil {
		return nil, err
	}
	files, failed := current.Files(j.Dir)
	if failed == nil && current.Rank() != set.Ranks[set.Me()] {
		failed = fmt.Errorf("the files described are those of rank %d", current.Rank())
	}
	if failed != nil {
		files = nil // take part all the same
	}
	// A new description, since the one that came may not be what it should.
	current = redundancy.NewMember(set.Ranks[set.Me()], files)
	partners, err := redundancy.TellKeepers(set, lost, s.K, current)
	if err != nil {
		return nil, err
	}
	header := redundancy.NewHeader(j, shape.piece)
	header.SetChunks(shape.chunk, s.K)
	header.SetCurrent(current)
	for d := 1; d <= s.K; d++ {
		left := (set.Me() - d + set.Size()) % set.Size()
		header.SetPartner(d, redundancy.Member{Hash: partners.Get(strconv.Itoa(left))})
	}
	for _, f := range files {
		if err := j.Register(f); err != nil && failed == nil {
			failed = err
		}
	}
	p := &member{
		geometry: geometry{set.Size(), s.K}, me: set.Me(), chunk: shape.chunk,
		data: redundancy.CreateLogical(files), out: j.Create(s.Extension, s.Type, header, 0),
	}
	if err := reduce(set, columns, shape.chunk, shape.piece, p); err != nil {
		return nil, err
	}
	if err := p.data.Close(); failed == nil {
		failed = err
	}
	if failed == nil {
		failed = p.data.Matches()
	}
	file, err := p.out.Finish()
	if failed == nil {
		failed = err
	}
	return append(files, file), failed
}
