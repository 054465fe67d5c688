package redundancy

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/progress"
	"github.com/goscr/goscr/mpi"
)

// Engine is what differs between schemes: the layout of the sections of a redundancy
// file, and how data moves between members. New makes a Scheme from an Engine, and does
// everything that all schemes have in common.
type Engine interface {
	// Name returns the value of TYPE in a descriptor. In lower case it is the extension
	// of redundancy files.
	Name() string
	// Losses returns k: a set of more than k members tolerates the loss of any k.
	Losses() int
	// Tolerates reports whether a set of n members, n > Losses(), tolerates the loss of the
	// members in lost.
	Tolerates(n int, lost []int) bool

	// LayOut sets the sections of the caller's redundancy file, and their blocks, in h.
	// The caller's own files have size bytes in all. It is collective.
	LayOut(j *Job, h *Header, size int64)
	// LayOutLost sets the sections of a lost redundancy file in h, which describes the
	// neighbours already. chunk is Header.Chunk of the survivors.
	LayOutLost(h *Header, chunk int64)
	// Fits returns an error unless the sections of a header are as LayOut makes them.
	Fits(h *Header) error
	// Piece returns how many bytes to move at a time if the redundancy files have no
	// block size.
	Piece(j *Job, chunk int64) int

	// Encode computes the sections of m.Out from m.Data. It is collective.
	Encode(m *Part) error
	// Recover computes Data and Out of the lost members from Data and Made of the
	// others, and reads all of these to check them. It is collective.
	Recover(m *Part, lost []int) error
}

// Part has the inputs and results of one member in encoding and recovery.
type Part struct {
	Job      *Job
	Chunk    int64 // Header.Chunk, in bytes
	Piece    int   // bytes that are moved at a time
	Data     *Logical
	Unread   bool    // Recover has not read Data, because it was not needed
	Size     int64   // bytes of the member's files, whether Data stores them or not
	Made     *Reader // redundancy file to read, nil on a lost member
	Out      *Writer // redundancy file to write, nil if none is to be written
	Progress progress.Meter
}

// New returns the scheme of an engine.
func New(e Engine) Scheme { return scheme{e} }

type scheme struct{ Engine }

// Failures returns Losses for a set of more than Losses members, else 0.
func (s scheme) Failures(n int) int {
	if n <= s.Losses() {
		return 0
	}
	return s.Losses()
}

// Tolerates asks the engine, if the set has more than Losses members. A smaller set tolerates
// no loss.
func (s scheme) Tolerates(n int, lost []int) bool {
	return len(lost) == 0 || n > s.Losses() && s.Engine.Tolerates(n, lost)
}

// Verify also checks that the redundancy file would be of use in Recover.
func (s scheme) Verify(j *Job, files []File) error {
	own, made := Split(files)
	if err := Verify(own, j.Piece); err != nil {
		return err
	}
	f, err := only(j, made)
	if err != nil {
		return err
	}
	return VerifyMade(f.Path, j.Piece, func(h *Header) error {
		return cmp.Or(ofDataset(j, h), s.Fits(h), checkSizes(h.Current.In(j.Dir)))
	})
}

// only returns the redundancy file of a member, which has one.
func only(j *Job, made []File) (File, error) {
	if len(made) != 1 {
		return File{}, &CorruptError{filepath.Join(j.Dir, ".scr"), fmt.Sprintf("has %d redundancy files where there should be 1", len(made))}
	}
	return made[0], nil
}

// ofDataset is an error if a header is of another dataset.
func ofDataset(j *Job, h *Header) error {
	if of := h.Dataset.ID(); of != j.Dataset.ID() {
		return fmt.Errorf("redundancy is of dataset %d", of)
	}
	return nil
}

// Encode writes the member's redundancy file, and records the checksums of the member's
// own files, which it reads only once.
func (s scheme) Encode(j *Job, files []File) ([]File, error) {
	set, k := j.Set, s.Losses()
	if k >= set.Size() {
		return nil, fmt.Errorf("%s that tolerates %d losses needs sets of more than %d members, set %d has %d", s.Name(), k, k, set.ID, set.Size())
	}
	data := j.openLogical(files)
	defer data.Release()
	header := newHeader(j, NewMember(set.Ranks[set.Me()], files))
	s.LayOut(j, header, data.Size())
	// The descriptions of the neighbours are exchanged below, when they have their
	// checksums. To lay out the file, their sizes are enough.
	members := spaceFor(set, k, header.Current)
	m := &Part{
		Job: j, Chunk: header.Chunk, Piece: int(header.Block), Data: data, Size: data.Size(),
		Out: j.newWriter(s.Name(), header, members), Progress: progress.None{},
	}
	defer m.Out.release()
	if err := s.Engine.Encode(m); err != nil {
		return nil, err
	}
	failed := data.Close()
	for i, crc := range data.Checksums() {
		files[i].Meta.SetCRC(crc)
	}
	err := members.exchange(set, NewMember(set.Ranks[set.Me()], files))
	file, e := m.Out.Finish()
	return []File{file}, cmp.Or(failed, err, e)
}

// Recover rebuilds the files of the lost members, and their redundancy files.
func (s scheme) Recover(j *Job, files []File, lost []int) ([]File, error) {
	n := j.Set.Size()
	switch {
	case len(lost) == 0:
		return files, nil
	case !s.Tolerates(n, lost):
		return nil, fmt.Errorf("%w: members %v of the %d of set %d have lost files, %s tolerates the loss of %d",
			ErrUnrecoverable, lost, n, j.Set.ID, s.Name(), s.Failures(n))
	case slices.Contains(lost, j.Set.Me()):
		return s.rebuild(j, files, lost)
	}
	return files, s.contribute(j, files, lost)
}

// agree checks that the redundancy files of the survivors have the same layout, and
// returns the sizes in bytes of a chunk and of the pieces that are moved. h is the header
// of a survivor, and nil on a lost member; err is a survivor's error in reading it. It is
// collective; the result is agreed.
func (s scheme) agree(j *Job, h *Header, err error) (chunk int64, piece int, _ error) {
	const none = -1 << 62
	// The maximum of values and of their negatives, to compare them with the minimum; and
	// whether any member has an error.
	most := []int64{none, none, none, none, 0}
	switch {
	case err != nil:
		most[4] = 1
	case h != nil:
		block := cmp.Or(h.Block, int64(s.Piece(j, h.Chunk)))
		most = []int64{h.Chunk, -h.Chunk, block, -block, 0}
	}
	j.Set.Comm.Allreduce(most, mpi.Max)
	if most[4] != 0 {
		return 0, 0, mpi.Agree(j.Set.Comm, err)
	}
	if most[0] != -most[1] || most[2] != -most[3] {
		return 0, 0, fmt.Errorf("%w: the redundancy files of set %d have different layouts", ErrUnrecoverable, j.Set.ID)
	}
	return most[0], int(most[2]), nil
}

// ErrContradiction is wrapped by an error of Fits if fields of the header contradict each
// other, and not only the descriptor.
var ErrContradiction = errors.New("the header contradicts itself")

// openOwn opens a member's redundancy file, and returns the member's own files in the
// order in which they were protected, which the header has.
func (s scheme) openOwn(j *Job, files []File) (*Reader, []File, error) {
	_, made := Split(files)
	f, err := only(j, made)
	if err != nil {
		return nil, nil, err
	}
	reader, err := Open(f.Path)
	if err != nil {
		return nil, nil, err
	}
	// Where it only contradicts the descriptor, that may be wrong.
	if err = cmp.Or(ofDataset(j, reader.Header), s.Fits(reader.Header)); ofDataset(j, reader.Header) != nil || errors.Is(err, ErrContradiction) {
		err = &CorruptError{f.Path, err.Error()} // this member counts as lost
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

// checkSizes compares the sizes of files with their descriptions. Other members allocate space according
// to the description in a header.
func checkSizes(own []File) error {
	for _, f := range own {
		info, err := f.Below.Lstat(f.Path)
		if err != nil {
			return err
		}
		if info.Size() != f.Meta.Size() {
			return &CorruptError{f.Path, meta.WrongSize(info.Size(), f.Meta.Size())}
		}
	}
	return nil
}

// contribute runs Recover on a survivor.
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
	if _, err := restoreCurrent(j.Set, lost, s.Losses(), header); err != nil {
		return err
	}
	if _, err := restoreLeft(j.Set, lost, s.Losses(), header.Current); err != nil {
		return err
	}
	m.Data, m.Made = OpenLogical(own), reader
	defer m.Data.Release()
	m.Size = m.Data.Size()
	if err := s.Engine.Recover(m, lost); err != nil {
		return err
	}
	failed := cmp.Or(m.Data.Close(), reader.Failed())
	if failed == nil && !m.Unread {
		failed = m.Data.Matches()
	}
	return failed
}

// keep compares a lost member's own files, which it has, with their description in the redundancy of
// others. Files without a checksum get the one that they had when they were protected.
func (j *Job) keep(own []File, described Member) error {
	names := map[string]File{}
	for _, f := range own {
		names[f.Meta.File()] = f
	}
	for _, md := range described.Files {
		f, found := names[md.File()]
		crc, protected := md.CRC()
		if _, known := f.Meta.CRC(); found && protected && !known {
			f.Meta.SetCRC(crc)
		}
	}
	files := j.files(described, false)
	return cmp.Or(checkSizes(files), Verify(files, j.Piece))
}

// rebuild runs Recover on a lost member, which has files. It returns the files that it has afterwards.
func (s scheme) rebuild(j *Job, files []File, lost []int) ([]File, error) {
	set, k := j.Set, s.Losses()
	m := &Part{Job: j, Progress: progress.Or(j.Progress)}
	var err error
	if m.Chunk, m.Piece, err = s.agree(j, nil, nil); err != nil {
		return nil, err
	}
	mine, err := restoreCurrent(set, lost, k, nil)
	if err != nil {
		return nil, err
	}
	var failed error
	if rank := set.Ranks[set.Me()]; mine == nil {
		mine, failed = &Member{Rank: rank}, fmt.Errorf("no survivor describes the files of rank %d", rank)
	} else if mine.Rank != rank {
		failed = fmt.Errorf("rank %d received the description of the files of rank %d", rank, mine.Rank)
	}
	header := newHeader(j, *mine)
	header.Block = int64(m.Piece)
	if header.Left, err = restoreLeft(set, lost, k, *mine); err != nil {
		return nil, err
	}
	s.LayOutLost(header, m.Chunk)
	failed = cmp.Or(failed, s.Fits(header))

	// If this member cannot store its files, it takes part in the recovery without
	// storing them, because the others wait for it.
	own, _ := Split(files)
	files = nil // to make
	m.Size = mine.Size()
	switch {
	case failed != nil:
	case j.Whole:
		failed = j.keep(own, *mine)
	case j.Wants(set.Me()):
		files = j.files(*mine, true)
	}
	for _, f := range files {
		failed = cmp.Or(failed, j.Register(f))
	}
	if failed != nil {
		files = nil
	}
	m.Data = CreateLogical(files)
	defer m.Data.Release()
	if j.Whole {
		files = own
	}
	if j.Only == nil {
		m.Out = j.newWriter(s.Name(), header, header.describe())
		defer m.Out.release()
	}
	if err := s.Engine.Recover(m, lost); err != nil {
		return nil, err
	}
	failed = cmp.Or(failed, m.Data.Close(), m.Data.Matches())
	if m.Out != nil {
		file, err := m.Out.Finish()
		failed = cmp.Or(failed, err)
		files = append(files, file)
	}
	return files, failed
}
