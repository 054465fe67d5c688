package redundancy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/progress"
)

// Remains is what is left of a set, in one place where one process sees the
// files of all members: the prefix directory, once the nodes have been
// scavenged.
type Remains struct {
	Dir   string // that the names of files are relative to
	Ranks []int  // ranks in the job, by member
	Piece int    // bytes that are read and written at a time

	// Made are the redundancy files, by member. It is nil for members that
	// nothing is taken from, because it is gone or their other files are.
	Made []*Reader
	// Own are the members' files, in the order in which they were protected; nil
	// where no one who is left describes them.
	Own [][]File
	// Wanted are the members whose files are to be rebuilt.
	Wanted []int
	// Progress, if there is one, is told of bytes that are read.
	Progress progress.Meter
}

// Reassembler is a scheme that can rebuild files in one process. It makes the
// files that the program wrote, and no redundancy: where they are now, that
// would protect nothing.
type Reassembler interface {
	Scheme
	// Reassemble makes the files of the members wanted. An error that wraps
	// *CorruptError names a file that does not hold what was written to it. If
	// that is one of the files it made, some file it read is not what it was.
	Reassemble(r *Remains) error
}

// OpenRemains opens the redundancy files at paths, which have to be of one set
// and of the dataset d. whole says of a rank whether all its files are there; a
// member is used only if they are, and is wanted if they are not. Files that
// cannot be used are reported in spoiled, and their members are not used.
func OpenRemains(dir string, d dataset.Dataset, paths []string, piece int, whole func(rank int) bool) (r *Remains, spoiled []error, err error) {
	r = &Remains{Dir: dir, Piece: piece}
	var first *Reader
	for _, path := range paths {
		reader, err := Open(path)
		if err != nil {
			spoiled = append(spoiled, err)
			continue
		}
		err = r.admit(d, first, reader)
		if err != nil {
			spoiled = append(spoiled, &CorruptError{path, err.Error()})
			_ = reader.Close()
			continue
		}
		if first == nil {
			first = reader
		}
	}
	if first == nil {
		return nil, spoiled, errors.Join(append([]error{errors.New("no redundancy file of the set can be used")}, spoiled...)...)
	}
	r.describe()
	for m, rank := range r.Ranks {
		if whole(rank) {
			continue
		}
		r.Wanted = append(r.Wanted, m)
		if r.Made[m] != nil {
			_ = r.Made[m].Close()
			r.Made[m] = nil
		}
	}
	return r, spoiled, nil
}

// admit makes a redundancy file that of its member, if it goes with the first
// one.
func (r *Remains) admit(d dataset.Dataset, first, reader *Reader) error {
	ranks, err := reader.Group()
	if err != nil {
		return err
	}
	if of := reader.Dataset(); of.ID() != d.ID() || of.Name() != d.Name() || !of.Created().Equal(d.Created()) {
		return fmt.Errorf("is of dataset %d (%s) of %v, not of %d (%s) of %v", of.ID(), of.Name(), of.Created(), d.ID(), d.Name(), d.Created())
	}
	if first == nil {
		r.Ranks = ranks
		r.Made = make([]*Reader, len(ranks))
		r.Own = make([][]File, len(ranks))
	} else if err := sameShape(first, reader, r.Ranks, ranks); err != nil {
		return err
	}
	m := slices.Index(r.Ranks, reader.Current().Rank())
	if m < 0 {
		return fmt.Errorf("rank %d is not in its set", reader.Current().Rank())
	}
	if r.Made[m] != nil {
		return fmt.Errorf("rank %d has another one", r.Ranks[m])
	}
	if r.Own[m], err = reader.Current().Files(r.Dir); err != nil {
		return err
	}
	if err := reader.checkCopies(); err != nil {
		return err
	}
	r.Made[m] = reader
	return nil
}

func sameShape(a, b *Reader, ranksA, ranksB []int) error {
	switch {
	case !slices.Equal(ranksA, ranksB):
		return fmt.Errorf("is of ranks %v, others are of ranks %v", ranksB, ranksA)
	case a.Block() != b.Block() || len(a.Sections()) != len(b.Sections()) || a.Chunk() != b.Chunk():
		return fmt.Errorf("has another layout than %s", a.f.Name())
	}
	return nil
}

// describe finds the files of the members that have no redundancy file: the
// nearest member to the right that has one describes them.
func (r *Remains) describe() {
	n := len(r.Ranks)
	for m := range r.Ranks {
		for d := 1; d < n && r.Own[m] == nil; d++ {
			reader := r.Made[(m+d)%n]
			if reader == nil {
				continue
			}
			partner := reader.Partner(d)
			if partner.Hash == nil || partner.Rank() != r.Ranks[m] {
				break
			}
			files, err := partner.Files(r.Dir)
			if err == nil {
				r.Own[m] = files
			}
			break
		}
	}
}

// Losses is how many losses the set was protected against.
func (r *Remains) Losses() int {
	for _, reader := range r.Made {
		if reader != nil {
			return len(reader.Sections())
		}
	}
	return 0
}

// Absent returns the members that nothing can be taken from.
func (r *Remains) Absent() []int {
	var list []int
	for m, reader := range r.Made {
		if reader == nil {
			list = append(list, m)
		}
	}
	return list
}

// Block is the number of bytes that have to be read at a time.
func (r *Remains) Block() int {
	for _, reader := range r.Made {
		if reader != nil && reader.Block() > 0 {
			return int(reader.Block())
		}
	}
	return r.Piece
}

// Corrupt looks for members that are used and have a corrupt file, discards
// them, and returns what it found. hint is an error that may name such a file;
// where it does not, everything is read.
func (r *Remains) Corrupt(hint error) []error {
	var named *CorruptError
	var found []error
	if errors.As(hint, &named) {
		for m, reader := range r.Made {
			if reader == nil {
				continue
			}
			own := slices.ContainsFunc(r.Own[m], func(f File) bool { return f.Path == named.Path })
			if own || reader.Path() == named.Path {
				r.Discard(m, own)
				found = append(found, named)
			}
		}
	}
	if len(found) > 0 {
		return found
	}
	for m, reader := range r.Made {
		if reader == nil {
			continue
		}
		err := Verify(r.Own[m], r.Piece)
		own := err != nil
		if err == nil {
			err = verifyMade(reader.Path(), r.Piece)
		}
		if errors.As(err, &named) {
			r.Discard(m, own)
			found = append(found, err)
		}
	}
	return found
}

// Discard leaves a member out, of whose files one turned out to be corrupt. If
// that is one the program wrote, the member's files are wanted from here on.
func (r *Remains) Discard(m int, wanted bool) {
	_ = r.Made[m].Close()
	r.Made[m] = nil
	if wanted {
		r.Wanted = append(r.Wanted, m)
		slices.Sort(r.Wanted)
	}
}

// Close gives the descriptors back.
func (r *Remains) Close() {
	for m := range r.Made {
		if r.Made[m] != nil {
			r.Discard(m, false)
		}
	}
}

// Path is where a redundancy file is that is open for reading.
func (r *Reader) Path() string { return r.f.Name() }

// Failed returns the first error that a read met so far.
func (r *Reader) Failed() error { return r.err }

// Group returns the ranks in the job of the members of the set.
func (h Header) Group() ([]int, error) {
	group := h.Get(keyGroup)
	n, _ := group.Int(keyRanks)
	members := group.Get(keyRank)
	if n < 1 || n != int64(members.Size()) {
		return nil, fmt.Errorf("a set of %s members, of which %d are listed", group.Text(keyRanks), members.Size())
	}
	total, _ := h.Int(keyRanks)
	ranks := make([]int, n)
	seen := map[int]bool{}
	for m := range ranks {
		rank, ok := members.Int(strconv.Itoa(m))
		if !ok || rank < 0 || rank >= total || seen[int(rank)] {
			return nil, fmt.Errorf("member %d of the set is rank %q of %s", m, members.Text(strconv.Itoa(m)), h.Text(keyRanks))
		}
		ranks[m] = int(rank)
		seen[int(rank)] = true
	}
	return ranks, nil
}
