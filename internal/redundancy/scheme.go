// Package redundancy has what the redundancy schemes have in common: the set of ranks
// that protect each other, the concatenation of a rank's files to one logical file, the
// redundancy file with its header, and the interface Scheme, through which the packages
// cache, flush and scavenge use any scheme.
package redundancy

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/progress"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/mpi"
)

// ErrUnrecoverable is wrapped by the error of Recover if it cannot rebuild all files,
// because more members were lost than the scheme tolerates.
var ErrUnrecoverable = mpi.NewKind(0, "cannot be rebuilt")

// ErrCorrupt is the kind of every CorruptError: errors.Is(err, ErrCorrupt) is true.
var ErrCorrupt = mpi.NewKind(1, "a file does not hold what was written to it")

// Set is a set of ranks, its members, that protect each other. No two members are in the
// same failure group. Each member has a Set of its own.
type Set struct {
	Comm  mpi.Comm
	Ranks []int // ranks in the job, by rank in Comm
	ID    int   // lowest of Ranks, which identifies the set in the job
}

// NewSet returns the set whose members are the ranks of c. rank is the caller's rank in
// the job. It is collective over c.
func NewSet(c mpi.Comm, rank int) *Set {
	ranks := make([]int64, c.Size())
	ranks[c.Rank()] = int64(rank)
	c.Allreduce(ranks, mpi.Sum)
	s := &Set{Comm: c, ID: rank}
	for _, r := range ranks {
		s.Ranks = append(s.Ranks, int(r))
		s.ID = min(s.ID, int(r))
	}
	return s
}

// Size returns the number of members.
func (s *Set) Size() int { return len(s.Ranks) }

// Me returns the caller's rank in the set.
func (s *Set) Me() int { return s.Comm.Rank() }

// File is a file in the cache, or in the prefix directory.
type File struct {
	Path  string
	Meta  meta.Meta
	Below trust.Root // the prefix directory, if the file is there: others may be able to write to it
}

// Record sets size, mode, owner and times in the description of a file that the program
// has routed and written. If the file does not exist, the error says what the program
// should have done.
func (f File) Record() error {
	err := f.Meta.RecordBelow(f.Below, f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("file %s was routed to %s but not written there: write every file that is routed, or say that the dataset is not valid",
			f.Meta.File(), f.Path)
	}
	if err != nil {
		return fmt.Errorf("file %s was routed but cannot be used: %w", f.Meta.File(), err)
	}
	return nil
}

// Job has the arguments of the operations of a Scheme on one dataset, for one member of
// a set.
type Job struct {
	Set     *Set
	Dataset dataset.Dataset
	Ranks   int        // size of the job
	Dir     string     // the dataset's directory in the cache
	Piece   int        // bytes that are read, sent and written at a time
	Below   trust.Root // the prefix directory, if the files of the members are there

	// Register enters a file in the filemap on disk. It is called before the file is
	// made.
	Register func(File) error
	// Where, if not nil, is the path of a file of the program of a rank, which is read or
	// made. nil: below Dir.
	Where func(rank int, f File, made bool) string
	// Recycle, if not nil, moves a file that is no longer used, if there is one, to
	// a registered path. Its contents do not matter, but its pages do: on a RAM disk
	// writing to new pages takes three times as long.
	Recycle func(path string) error

	// Behind says that Encode runs between calls of the program, in a goroutine of its own. Its files then
	// do not become descriptors 0 to 2, which the program may have closed.
	Behind bool
	// Unchecked says that SINGLE has not to compute checksums. The other schemes read all bytes anyway.
	Unchecked bool
	// Pace, if not nil, is called by Encode after it has read so many bytes of the member's own files,
	// and may wait. Its error ends what this member does for Encode, which returns it.
	Pace func(bytes int) error

	// Only, if not nil, lists the lost members whose own files Recover makes. It then
	// makes no redundancy files, and does not read copies that none of them needs.
	Only []int
	// Whole says that the caller, although it is lost, has its own files: Recover makes its redundancy file,
	// and only checks the others.
	Whole bool
	// Progress, if not nil, is told how many bytes Recover reads.
	Progress progress.Meter
}

// files returns a member's files with their paths: those to read, or those to make.
func (j *Job) files(m Member, made bool) []File {
	files := m.In(j.Dir)
	for i := range files {
		files[i].Below = j.Below
	}
	for i, f := range files {
		if j.Where != nil {
			files[i].Path = j.Where(m.Rank, f, made)
		}
	}
	return files
}

// Wants reports whether Recover makes a member's own files.
func (j *Job) Wants(member int) bool { return j.Only == nil || slices.Contains(j.Only, member) }

// Scheme protects the files of the members of a set. Encode and Recover are collective
// over the set. A member that has an error takes part to the end, and then returns its
// error; the caller has to agree on it with the other members.
type Scheme interface {
	// Name returns the value of TYPE in a descriptor.
	Name() string
	// Failures returns the largest k such that a set of n members tolerates the loss of
	// any k.
	Failures(n int) int
	// Tolerates reports whether a set of n members tolerates the loss of the members in
	// lost. For some of them it may, although they are more than Failures.
	Tolerates(n int, lost []int) bool
	// Encode protects files, all of which must be complete, and returns the redundancy
	// files that it has written. It records the checksum of each file in its Meta.
	Encode(j *Job, files []File) ([]File, error)
	// Verify reads a member's own files and its redundancy files, and compares
	// checksums. It is not collective.
	Verify(j *Job, files []File) error
	// Recover rebuilds all files, including redundancy files, of the members whose rank
	// in the set is in lost. files are those of the caller, including redundancy files,
	// in any order; those of a lost member are not used unless Job.Whole. Recover returns the files that
	// the caller has afterwards. It verifies files of survivors as it reads them; an
	// error that wraps a *CorruptError names a file that has changed.
	Recover(j *Job, files []File, lost []int) ([]File, error)
}

// CorruptError says that the contents of a file have changed since it was written, or that it
// cannot be read (Unreadable).
type CorruptError struct {
	Path   string
	Reason string
}

// unread begins the Reason of a file that cannot be read. It is in the text, since errors are also
// passed on between processes by their two texts.
const unread = "cannot be read: "

// Is reports whether target is ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

func (e *CorruptError) Error() string {
	if strings.HasPrefix(e.Reason, unread) {
		return e.Path + " " + e.Reason
	}
	return fmt.Sprintf("%s is corrupt: %s", e.Path, e.Reason)
}

// Split separates a rank's own files from its redundancy files, and preserves the order.
func Split(files []File) (own, redundant []File) {
	for _, f := range files {
		if f.Meta.Type() == meta.Full {
			own = append(own, f)
		} else {
			redundant = append(redundant, f)
		}
	}
	return own, redundant
}
