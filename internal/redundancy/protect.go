package redundancy

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/goscr/goscr/internal/progress"
	"github.com/goscr/goscr/mpi"
)

// Engine is the part in which schemes differ: the layout of the sections of a
// redundancy file, and how data moves between members. New makes a Scheme of an
// Engine, which does the rest.
type Engine interface {
	// Name is the value of TYPE, and in small letters the extension of redundancy
	// files.
	Name() string
	// Losses is the number of members, whichever they are, whose loss every larger
	// set bears.
	Losses() int
	// Bears reports whether such a set bears the loss of just these members.
	Bears(n int, lost []int) bool

	// LayOut lays out the sections of the caller's redundancy file and their blocks.
	// The caller's own files have size bytes. It is collective.
	LayOut(j *Job, h *Header, size int64) error
	// LayOutLost lays out the sections of a lost redundancy file. The survivors have
	// chunks of this size, and h describes the neighbours.
	LayOutLost(h *Header, chunk int64)
	// Fits is an error unless the sections of a header are as LayOut makes them.
	Fits(h *Header) error
	// Piece is the number of bytes moved at a time if redundancy files do not say.
	Piece(j *Job, chunk int64) int

	// Encode computes the sections of Out from Data. It is collective.
	Encode(m *Part) error
	// Recover computes Data and Out of the lost members from Data and Made of the
	// others, and reads all of these to check them. It is collective.
	Recover(m *Part, lost []int) error
}

// Part holds the inputs and results of a member in encoding and recovery.
type Part struct {
	Job      *Job
	Chunk    int64 // bytes
	Piece    int   // bytes that are moved at a time
	Data     *Logical
	Unread   bool    // Recover has not read Data, since it did not need it
	Size     int64   // of the member's files, whether Data stores them or not
	Made     *Reader // the redundancy file to read, nil on a lost member
	Out      *Writer // the redundancy file to write, else nil
	Progress progress.Meter
}

// New returns the scheme of an engine.
func New(e Engine) Scheme { return scheme{e} }

type scheme struct{ Engine }

// Failures is Losses in a set of more than Losses members, else 0.
func (s scheme) Failures(n int) int {
	if n <= s.Losses() {
		return 0
	}
	return s.Losses()
}

// Bears is the engine's in a set of more members than Losses.
func (s scheme) Bears(n int, lost []int) bool {
	return len(lost) == 0 || n > s.Losses() && s.Engine.Bears(n, lost)
}

func (s scheme) Verify(j *Job, files []File) error { return verifyAll(files, j.Piece) }

// Encode writes the member's redundancy file and records the checksums of its
// files as they are read. Every file is read once.
func (s scheme) Encode(j *Job, files []File) ([]File, error) {
	set, k := j.Set, s.Losses()
	if k >= set.Size() {
		return nil, fmt.Errorf("%s for the loss of %d needs sets of more members than the %d of set %d", s.Name(), k, set.Size(), set.ID)
	}
	data := OpenLogical(files)
	header := newHeader(j, NewMember(set.Ranks[set.Me()], files))
	if err := s.LayOut(j, header, data.Size()); err != nil {
		return nil, err
	}
	// The descriptions of the neighbours come once their checksums are known; now
	// their sizes are enough.
	room, err := partnerRoom(set, k, header.Current)
	if err != nil {
		return nil, err
	}
	m := &Part{
		Job: j, Chunk: header.Chunk, Piece: int(header.Block), Data: data, Size: data.Size(),
		Out: j.newWriter(s.Name(), header, room), Progress: progress.None{},
	}
	if err := s.Engine.Encode(m); err != nil {
		return nil, err
	}
	failed := data.Close()
	for i, crc := range data.Checksums() {
		files[i].Meta.SetCRC(crc)
	}
	header.Current = NewMember(set.Ranks[set.Me()], files)
	err = header.exchangePartners(set, k)
	file, e := m.Out.Finish()
	return []File{file}, cmp.Or(failed, err, e)
}

// Recover rebuilds the files of the members that have lost them, and their
// redundancy files.
func (s scheme) Recover(j *Job, files []File, lost []int) ([]File, error) {
	n := j.Set.Size()
	switch {
	case len(lost) == 0:
		return files, nil
	case !s.Bears(n, lost):
		return nil, fmt.Errorf("%w: members %v of the %d of set %d have lost files, %s bears the loss of %d",
			ErrUnrecoverable, lost, n, j.Set.ID, s.Name(), s.Failures(n))
	case slices.Contains(lost, j.Set.Me()):
		return s.rebuild(j, lost)
	}
	return files, s.contribute(j, files, lost)
}

// agree checks that the survivors have redundancy of the same layout, and returns
// the size of a chunk and of the pieces that are moved. A lost member passes nil.
func (s scheme) agree(j *Job, h *Header, err error) (chunk int64, piece int, _ error) {
	const none = -1 << 62
	most := []int64{none, none, none, none, 0} // of values and of their negatives; whether there is an error
	switch {
	case err != nil:
		most[4] = 1
	case h != nil:
		block := cmp.Or(h.Block, int64(s.Piece(j, h.Chunk)))
		most = []int64{h.Chunk, -h.Chunk, block, -block, 0}
	}
	if e := j.Set.Comm.Allreduce(most, mpi.Max); e != nil {
		return 0, 0, e
	}
	if most[4] != 0 {
		return 0, 0, mpi.Agree(j.Set.Comm, err)
	}
	if most[0] != -most[1] || most[2] != -most[3] {
		return 0, 0, fmt.Errorf("%w: the redundancy files of set %d have different layouts", ErrUnrecoverable, j.Set.ID)
	}
	return most[0], int(most[2]), nil
}

// ErrContradiction is wrapped by an error of Fits about a header of which one part
// contradicts another, and not the descriptor.
var ErrContradiction = errors.New("the header contradicts itself")

// openOwn opens a member's redundancy file and finds its other files in the
// order in which they were protected.
func (s scheme) openOwn(j *Job, files []File) (*Reader, []File, error) {
	_, made := Split(files)
	if len(made) != 1 {
		return nil, nil, fmt.Errorf("%d redundancy files where there should be 1", len(made))
	}
	reader, err := Open(made[0].Path)
	if err != nil {
		return nil, nil, err
	}
	if of := reader.Dataset.ID(); of != j.Dataset.ID() {
		err = fmt.Errorf("redundancy is of dataset %d", of)
	} else if err = s.Fits(reader.Header); errors.Is(err, ErrContradiction) {
		err = &CorruptError{made[0].Path, err.Error()} // this member counts as lost
	}
	own := j.files(reader.Current, false)
	if err == nil {
		err = checkSizes(own)
	}
	if err != nil {
		return nil, nil, errors.Join(err, reader.Close())
	}
	return reader, own, nil
}

// checkSizes compares files with what the header says of them, before others make room
// for as much.
func checkSizes(own []File) error {
	for _, f := range own {
		info, err := os.Stat(f.Path)
		if err != nil {
			return err
		}
		if info.Size() != f.Meta.Size() {
			return &CorruptError{f.Path, fmt.Sprintf("has %d bytes, its redundancy file says %d", info.Size(), f.Meta.Size())}
		}
	}
	return nil
}

// contribute is Recover on a survivor.
func (s scheme) contribute(j *Job, files []File, lost []int) error {
	m := &Part{Job: j, Progress: progress.Or(j.Progress)}
	reader, own, err := s.openOwn(j, files)
	var header *Header
	if err == nil {
		header = reader.Header
		defer reader.Close()
	}
	if m.Chunk, m.Piece, err = s.agree(j, header, err); err != nil {
		return err
	}
	if _, err := tellOwners(j.Set, lost, s.Losses(), header); err != nil {
		return err
	}
	if _, err := tellKeepers(j.Set, lost, s.Losses(), header.Current); err != nil {
		return err
	}
	m.Data, m.Made = OpenLogical(own), reader
	m.Size = m.Data.Size()
	if err := s.Engine.Recover(m, lost); err != nil {
		return errors.Join(err, m.Data.Close())
	}
	failed := cmp.Or(m.Data.Close(), reader.Failed())
	if failed == nil && !m.Unread {
		failed = m.Data.Matches()
	}
	return failed
}

// rebuild is Recover on a member that has lost its files.
func (s scheme) rebuild(j *Job, lost []int) ([]File, error) {
	set, k := j.Set, s.Losses()
	m := &Part{Job: j, Progress: progress.Or(j.Progress)}
	var err error
	if m.Chunk, m.Piece, err = s.agree(j, nil, nil); err != nil {
		return nil, err
	}
	mine, err := tellOwners(set, lost, k, nil)
	if err != nil {
		return nil, err
	}
	var failed error
	if rank := set.Ranks[set.Me()]; mine == nil {
		mine, failed = &Member{Rank: rank}, fmt.Errorf("no survivor describes the files of rank %d", rank)
	} else if mine.Rank != rank {
		failed = fmt.Errorf("the files described for rank %d are those of rank %d", rank, mine.Rank)
	}
	header := newHeader(j, *mine)
	header.Block = int64(m.Piece)
	if header.Left, err = tellKeepers(set, lost, k, *mine); err != nil {
		return nil, err
	}
	s.LayOutLost(header, m.Chunk)
	failed = cmp.Or(failed, s.Fits(header))

	// A member that cannot store its files takes part all the same.
	var files []File
	m.Size = mine.Size()
	if failed == nil && j.Wants(set.Me()) {
		files = j.files(*mine, true)
	}
	for _, f := range files {
		failed = cmp.Or(failed, j.Register(f))
	}
	if failed != nil {
		files = nil
	}
	m.Data = CreateLogical(files)
	if j.Only == nil {
		m.Out = j.newWriter(s.Name(), header, 0)
	}
	if err := s.Engine.Recover(m, lost); err != nil {
		return nil, errors.Join(err, m.Data.Close())
	}
	failed = cmp.Or(failed, m.Data.Close(), m.Data.Matches())
	if m.Out != nil {
		file, err := m.Out.Finish()
		failed = cmp.Or(failed, err)
		files = append(files, file)
	}
	return files, failed
}
