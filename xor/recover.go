package xor

import (
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/meta"
	"github.com/goscr/goscr/mpi"
)

// Recover rebuilds the files of the one member that has lost them, its
// redundancy file included.
func (Scheme) Recover(j *redundancy.Job, files []redundancy.File, lost []int) ([]redundancy.File, error) {
	switch {
	case len(lost) == 0:
		return files, nil
	case len(lost) > 1 || j.Set.Size() < 2:
		return nil, fmt.Errorf("%w: %d of the %d members of set %d have lost files, XOR bears the loss of 1",
			redundancy.ErrUnrecoverable, len(lost), j.Set.Size(), j.Set.ID)
	}
	if j.Set.Me() == lost[0] {
		return rebuild(j)
	}
	return files, contribute(j, files, lost[0])
}

// layout is what all members must know before data moves.
type layout struct {
	chunk int64
	piece int
}

// agree makes sure that the survivors have redundancy of the same dataset and
// shape. The member that lost its own passes nil.
func agree(j *redundancy.Job, h *redundancy.Header, err error) (layout, error) {
	var values []int64 // the largest of a value and of its negative
	if h != nil {
		block := h.Block()
		if block == 0 {
			block = int64(j.Piece)
		}
		values = []int64{h.Chunk() + 1, -(h.Chunk() + 1), block, -block}
		if err == nil && h.Dataset().ID() != j.Dataset.ID() {
			err = fmt.Errorf("redundancy is of dataset %d", h.Dataset().ID())
		}
	} else {
		const none = -1 << 62
		values = []int64{none, none, none, none}
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
	return layout{values[0] - 1, int(values[2])}, nil
}

// distance is the number of steps around the ring from the lost member to me:
// 1 for the one that begins the reduction, N-1 for the one that ends it.
func distance(set *redundancy.Set, lost int) int {
	return (set.Me() - lost + set.Size()) % set.Size()
}

// contribute is the part of a survivor: its data, and for its own column its
// chunk, added to what comes from the left.
func contribute(j *redundancy.Job, files []redundancy.File, lost int) error {
	set := j.Set
	reader, own, err := openOwn(j, files)
	var header *redundancy.Header
	if reader != nil {
		header = &reader.Header
	}
	shape, err := agree(j, header, err)
	if err != nil {
		if reader != nil {
			err = errors.Join(err, reader.Close())
		}
		return err
	}
	// My right neighbour has lost its copy of my files' description; my left
	// neighbour's is in my header.
	if set.Right() == lost {
		if err := hash.Send(reader.Current().Hash, lost, set.Comm); err != nil {
			return err
		}
	}
	if set.Left() == lost {
		if err := hash.Send(reader.Header.Hash, lost, set.Comm); err != nil {
			return err
		}
	}

	data := redundancy.OpenLogical(own)
	r, err := newRing(set, depth, shape.piece)
	if err != nil {
		return err
	}
	me, n := set.Me(), set.Size()
	first := distance(set, lost) == 1
	err = r.each(n, shape, !first, func(s *slot, c int) error {
		if first {
			if err := r.sent(s); err != nil {
				return err
			}
			if c == me {
				reader.ReadBlock(s.out[:s.size], s.offset)
			} else {
				data.Read(s.out[:s.size], column(c, me, shape.chunk)+s.offset, int64(c))
			}
			return r.send(s)
		}
		if err := r.received(s); err != nil {
			return err
		}
		if c == me {
			own := r.own[:s.size]
			reader.ReadBlock(own, s.offset)
			subtle.XORBytes(s.in, s.in[:s.size], own)
		} else {
			data.XOR(s.in[:s.size], column(c, me, shape.chunk)+s.offset, int64(c))
		}
		if err := r.sent(s); err != nil {
			return err
		}
		s.out, s.in = s.in, s.out
		return r.send(s)
	})
	if err != nil {
		return err
	}
	for i := range r.slots {
		if err := r.sent(&r.slots[i]); err != nil {
			return err
		}
	}
	r.close()
	failed := data.Close()
	if failed == nil {
		failed = data.Matches()
	}
	if err := reader.Close(); failed == nil {
		failed = err
	}
	return failed
}

// each calls do for every piece of every column, in the same order on all
// members. Where a piece comes from the left, its slot has begun to be filled.
func (r *ring) each(columns int, shape layout, fromLeft bool, do func(s *slot, column int) error) error {
	total := pieces(shape.chunk, shape.piece) * int64(columns)
	begin := func(i int64) error {
		s := &r.slots[i%int64(len(r.slots))]
		s.place(i/int64(columns), shape.chunk, shape.piece)
		if !fromLeft {
			return nil
		}
		return r.await(s)
	}
	for i := range min(int64(len(r.slots)), total) {
		if err := begin(i); err != nil {
			return err
		}
	}
	for i := range total {
		s := &r.slots[i%int64(len(r.slots))]
		if err := do(s, int(i%int64(columns))); err != nil {
			return err
		}
		next := i + int64(len(r.slots))
		if next >= total {
			continue
		}
		if err := begin(next); err != nil {
			return err
		}
	}
	return nil
}

// openOwn opens a survivor's redundancy file and finds its other files in the
// order in which they were encoded.
func openOwn(j *redundancy.Job, files []redundancy.File) (*redundancy.Reader, []redundancy.File, error) {
	_, redundant := redundancy.Split(files)
	if len(redundant) != 1 {
		return nil, nil, fmt.Errorf("%d redundancy files where XOR has 1", len(redundant))
	}
	reader, err := redundancy.Open(redundant[0].Path)
	if err != nil {
		return nil, nil, err
	}
	own, err := reader.Current().Files(j.Dir)
	if err != nil {
		err = &redundancy.CorruptError{Path: redundant[0].Path, Reason: err.Error()}
	}
	return reader, own, err
}

// rebuild is the part of the member that has lost its files.
func rebuild(j *redundancy.Job) ([]redundancy.File, error) {
	set := j.Set
	shape, err := agree(j, nil, nil)
	if err != nil {
		return nil, err
	}
	// The right neighbour has the description of my files, the left one must
	// have its own kept by me again. In a set of two that is the same member.
	var right, left *hash.Hash
	if set.Left() == set.Right() {
		if left, err = hash.Recv(set.Left(), set.Comm); err == nil {
			right, err = hash.Recv(set.Right(), set.Comm)
		}
	} else if right, err = hash.Recv(set.Right(), set.Comm); err == nil {
		left, err = hash.Recv(set.Left(), set.Comm)
	}
	if err != nil {
		return nil, err
	}
	current := redundancy.Header{Hash: right}.Partner()
	files, failed := current.Files(j.Dir)
	if failed == nil && current.Rank() != set.Ranks[set.Me()] {
		failed = fmt.Errorf("the files described are those of rank %d", current.Rank())
	}
	if failed != nil {
		files = nil // take part all the same
	}
	header := redundancy.NewHeader(j, shape.chunk, shape.piece)
	header.SetCurrent(redundancy.NewMember(set.Ranks[set.Me()], files))
	header.SetPartner(redundancy.Member{Hash: left})
	for _, f := range files {
		if err := j.Register(f); err != nil && failed == nil {
			failed = err
		}
	}
	out := j.Create(extension, meta.XOR, header, 0)
	data := redundancy.CreateLogical(files)

	r, err := newRing(set, depth, shape.piece)
	if err != nil {
		return nil, err
	}
	me := set.Me()
	err = r.each(set.Size(), shape, true, func(s *slot, c int) error {
		if err := r.received(s); err != nil {
			return err
		}
		if c == me {
			out.WriteBlock(s.in[:s.size], s.offset)
		} else {
			data.Write(s.in[:s.size], column(c, me, shape.chunk)+s.offset, int64(c))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.close()
	if err := data.Close(); failed == nil {
		failed = err
	}
	if failed == nil {
		failed = data.Matches()
	}
	file, err := out.Finish()
	if failed == nil {
		failed = err
	}
	return append(files, file), failed
}
