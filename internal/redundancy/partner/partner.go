// Package partner is the scheme that copies: each rank's files, and what
// describes them, go to the K ranks to its right in its set, all of which are
// in other failure groups. A set bears the loss of any K members, and of more if
// no K+1 of them are neighbours, for K times the data in additional storage
// (spec 000 §11.8.1, spec 001 scr_reddesc_apply_partner).
//
// The copies of a member's K left neighbours are the sections of its redundancy
// file, so that they share its header and checksums.
package partner

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

const extension = "partner"

// scheme is the PARTNER scheme with k copies.
type scheme struct{ k int }

// Scheme is the scheme that makes k copies of each rank's files.
func Scheme(k int) redundancy.Scheme { return scheme{k} }

func (scheme) Name() string { return "PARTNER" }

// Failures is the number of copies, in a set of more members than that.
func (s scheme) Failures(n int) int {
	if n <= s.k {
		return 0
	}
	return s.k
}

// Bears reports whether each lost member has a copy left.
func (s scheme) Bears(n int, lost []int) bool {
	if len(lost) > 0 && n <= s.k {
		return false
	}
	return !slices.ContainsFunc(lost, func(m int) bool { return s.holder(n, lost, m) == 0 })
}

// holder returns how far to the right of a member the nearest survivor is that
// has a copy of its files, 0 if there is none.
func (s scheme) holder(n int, lost []int, m int) int {
	for d := 1; d <= s.k; d++ {
		if !slices.Contains(lost, (m+d)%n) {
			return d
		}
	}
	return 0
}

func (scheme) Verify(j *redundancy.Job, files []redundancy.File) error {
	return redundancy.VerifyAll(files, j.Piece)
}

// Encode sends the files to the partners, in one stream, and keeps those of the
// left neighbours.
func (s scheme) Encode(j *redundancy.Job, files []redundancy.File) ([]redundancy.File, error) {
	set := j.Set
	n := set.Size()
	if s.k >= n {
		return nil, fmt.Errorf("PARTNER with %d copies needs sets of more members than the %d of set %d", s.k, n, set.ID)
	}
	data := redundancy.OpenLogical(files)
	sizes, err := neighbourSizes(set, s.k, data.Size())
	if err != nil {
		return nil, err
	}
	header := redundancy.NewHeader(j, j.Piece)
	header.SetCopies(sizes)
	current := redundancy.NewMember(set.Ranks[set.Me()], files)
	header.SetCurrent(current)
	room, err := redundancy.PartnerRoom(set, s.k, current)
	if err != nil {
		return nil, err
	}
	out := j.Create(extension, meta.Partner, header, room)

	var to []int
	var sinks []redundancy.Sink
	for d := 1; d <= s.k; d++ {
		to = append(to, (set.Me()+d)%n)
		sinks = append(sinks, redundancy.Sink{From: (set.Me() - d + n) % n, Size: sizes[d-1],
			Write: func(buf []byte, at int64) { out.WriteBlock(buf, d-1, at) }})
	}
	if err := redundancy.Stream(set.Comm, []redundancy.Source{data.Source(0, to...)}, sinks, j.Piece); err != nil {
		return nil, err
	}
	failed := data.Close()
	for i, crc := range data.Checksums() {
		files[i].Meta.SetCRC(crc)
	}
	if err := header.ExchangePartners(set, s.k, current); err != nil {
		return nil, err
	}
	file, err := out.Finish()
	if failed == nil {
		failed = err
	}
	return []redundancy.File{file}, failed
}

// neighbourSizes returns the sizes of the k members' files to the left.
func neighbourSizes(set *redundancy.Set, k int, mine int64) ([]int64, error) {
	sizes := make([]int64, set.Size())
	sizes[set.Me()] = mine
	if err := set.Comm.Allreduce(sizes, mpi.Sum); err != nil {
		return nil, err
	}
	left := make([]int64, k)
	for d := range left {
		left[d] = sizes[(set.Me()-d-1+set.Size())%set.Size()]
	}
	return left, nil
}

// Recover brings the files of the members that have lost them back from their
// copies, and the copies that were with them from those who own them, or from
// where the owner gets its files back. All of it streams side by side, and what
// nobody needs is checked meanwhile: who has lost its files has most to do, and
// does not wait for the others to be done with something.
func (s scheme) Recover(j *redundancy.Job, files []redundancy.File, lost []int) ([]redundancy.File, error) {
	n := j.Set.Size()
	if len(lost) == 0 {
		return files, nil
	}
	if !s.Bears(n, lost) {
		return nil, fmt.Errorf("%w: members %v of set %d have lost files, and with them all %d copies of some",
			redundancy.ErrUnrecoverable, lost, j.Set.ID, s.k)
	}
	if slices.Contains(lost, j.Set.Me()) {
		return s.rebuild(j, lost)
	}
	return files, s.contribute(j, files, lost)
}

// contribute is the part of a survivor.
func (s scheme) contribute(j *redundancy.Job, files []redundancy.File, lost []int) error {
	set := j.Set
	n := set.Size()
	reader, own, err := j.OpenOwn(files)
	if err == nil && len(reader.Sections()) != s.k {
		err = fmt.Errorf("%d copies, the descriptor says %d", len(reader.Sections()), s.k)
	}
	piece, err := agreePiece(j, reader, err)
	if err != nil {
		if reader != nil {
			err = errors.Join(err, reader.Close())
		}
		return err
	}
	if _, err := redundancy.TellOwners(set, lost, s.k, &reader.Header); err != nil {
		return err
	}
	if _, err := redundancy.TellKeepers(set, lost, s.k, reader.Current()); err != nil {
		return err
	}
	data := redundancy.OpenLogical(own)
	sources := []redundancy.Source{data.Source(set.Me(), s.keepers(n, lost, set.Me())...)}
	for d := 1; d <= s.k; d++ {
		m := (set.Me() - d + n) % n
		var to []int
		if slices.Contains(lost, m) && s.holder(n, lost, m) == d {
			to = append(s.keepers(n, lost, m), m)
		}
		sources = append(sources, reader.Source(d-1, m, to...))
	}
	if err := redundancy.Stream(set.Comm, sources, nil, piece); err != nil {
		return err
	}
	failed := reader.Close()
	if err := data.Close(); failed == nil {
		failed = err
	}
	if failed == nil {
		failed = data.Matches()
	}
	return failed
}

// keepers returns the members that have lost their copies of the files of m.
func (s scheme) keepers(n int, lost []int, m int) []int {
	var list []int
	for d := 1; d <= s.k; d++ {
		if keeper := (m + d) % n; slices.Contains(lost, keeper) {
			list = append(list, keeper)
		}
	}
	return list
}

// agreePiece makes sure that the survivors can go on, and returns the size of
// the pieces in which data moves: that of the blocks of the copies.
func agreePiece(j *redundancy.Job, reader *redundancy.Reader, err error) (int, error) {
	if e := mpi.Agree(j.Set.Comm, err); e != nil {
		return 0, e
	}
	const none = -1 << 62
	block := []int64{none, none}
	if reader != nil {
		size := reader.Block()
		if size == 0 {
			size = int64(j.Piece)
		}
		block = []int64{size, -size}
	}
	if e := j.Set.Comm.Allreduce(block, mpi.Max); e != nil {
		return 0, e
	}
	if block[0] != -block[1] {
		return 0, fmt.Errorf("%w: the redundancy files of set %d have different layouts", redundancy.ErrUnrecoverable, j.Set.ID)
	}
	return int(block[0]), nil
}

// rebuild is the part of a member that has lost its files.
func (s scheme) rebuild(j *redundancy.Job, lost []int) ([]redundancy.File, error) {
	set := j.Set
	n := set.Size()
	piece, err := agreePiece(j, nil, nil)
	if err != nil {
		return nil, err
	}
	current, err := redundancy.TellOwners(set, lost, s.k, nil)
	if err != nil {
		return nil, err
	}
	announced := sizeOf(current.Hash)
	files, failed := current.Files(j.Dir)
	if failed == nil && current.Rank() != set.Ranks[set.Me()] {
		failed = fmt.Errorf("the files described are those of rank %d", current.Rank())
	}
	mine := redundancy.NewMember(set.Ranks[set.Me()], files)
	if failed != nil {
		files = nil // take part all the same
		if current.Hash != nil {
			mine = current // others have to know how much comes from the copy
		}
	}
	partners, err := redundancy.TellKeepers(set, lost, s.k, mine)
	if err != nil {
		return nil, err
	}
	header := redundancy.NewHeader(j, piece)
	header.SetCurrent(mine)
	sizes := make([]int64, s.k)
	for d := 1; d <= s.k; d++ {
		left := partners.Get(strconv.Itoa((set.Me() - d + n) % n))
		header.SetPartner(d, redundancy.Member{Hash: left})
		sizes[d-1] = sizeOf(left)
	}
	header.SetCopies(sizes)
	for _, f := range files {
		if err := j.Register(f); err != nil && failed == nil {
			failed = err
		}
	}
	out := j.Create(extension, meta.Partner, header, 0)
	data := redundancy.CreateLogical(files)

	// from returns who sends the files of a member.
	from := func(m int) int {
		if slices.Contains(lost, m) {
			return (m + s.holder(n, lost, m)) % n
		}
		return m
	}
	sinks := []redundancy.Sink{{From: from(set.Me()), Tag: set.Me(), Size: announced,
		Write: func(buf []byte, at int64) { data.Write(buf, at, 0) }}}
	for d := 1; d <= s.k; d++ {
		left := (set.Me() - d + n) % n
		sinks = append(sinks, redundancy.Sink{From: from(left), Tag: left, Size: sizes[d-1],
			Write: func(buf []byte, at int64) { out.WriteBlock(buf, d-1, at) }})
	}
	if err := redundancy.Stream(set.Comm, nil, sinks, piece); err != nil {
		return nil, err
	}
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

// sizeOf is the number of bytes of the files that a member's hash describes.
func sizeOf(h *hash.Hash) int64 {
	var total int64
	for _, md := range h.Get("FILE").All() {
		total += max(meta.FromHash(md).Size(), 0)
	}
	return total
}
