// Package offline rebuilds files of a set of ranks in one process, which can read the
// remaining files of all members: after a scavenge they are in the prefix directory.
//
// It runs the same Scheme.Recover as a job does, with a goroutine for each member. The
// members without usable files or without a usable redundancy file are lost.
package offline

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/progress"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// Set is a set of ranks with the files that remain of it. Only Progress may be nil.
type Set struct {
	Dir     string     // the names of files are relative to it
	Below   trust.Root // the prefix directory in which the files are
	Dataset dataset.Dataset
	Piece   int // bytes that are moved at a time if redundancy files have no block size

	// Scheme returns the scheme that tolerates the loss of so many members.
	Scheme func(losses int) redundancy.Scheme
	// Whole reports whether all files of a rank are present. If they are not, the rank
	// is lost, and its files are rebuilt.
	Whole func(rank int) bool
	// Where, if not nil, is the path of a file of a rank, instead of its name below Dir.
	Where func(rank int, f redundancy.File, made bool) string
	// Register is called for a file before it is made.
	Register func(rank int, f redundancy.File) error
	// Warn is called with the error of each redundancy file that cannot be used, and of
	// each corrupt file.
	Warn func(error)
	// Progress, if not nil, is told how many bytes are read.
	Progress progress.Meter

	ranks  int      // size of the job
	of     []int    // ranks in the job, by member
	made   []string // paths of redundancy files, by member; "" for lost members
	wanted []int    // members whose files are to be rebuilt
	scheme redundancy.Scheme
}

// Rebuilt has the files that were rebuilt of one rank.
type Rebuilt struct {
	Rank  int
	Files []redundancy.File
}

// Rebuild makes the files of the ranks that are not whole. It makes no redundancy files,
// which would protect nothing in the prefix directory. paths are the redundancy files of
// the set. If files of a member prove corrupt while others are rebuilt from them, that
// member is rebuilt too, if the scheme tolerates one more loss. The error is of the kind
// redundancy.ErrUnrecoverable if too many members are lost.
func (s *Set) Rebuild(paths []string) ([]Rebuilt, error) {
	if err := s.open(paths); err != nil {
		return nil, err
	}
	for {
		if len(s.wanted) == 0 {
			return nil, nil
		}
		lost := s.lost()
		if n := len(s.of); !s.scheme.Tolerates(n, lost) {
			var ranks []int
			for _, m := range lost {
				ranks = append(ranks, s.of[m])
			}
			return nil, fmt.Errorf("%w: files or redundancy of ranks %v are missing, and of the %d ranks in the set %s tolerates the loss of %d",
				redundancy.ErrUnrecoverable, ranks, n, s.scheme.Name(), s.scheme.Failures(n))
		}
		files, failed := s.recover(lost)
		if failed == nil {
			var list []Rebuilt
			for _, m := range s.wanted {
				list = append(list, Rebuilt{s.of[m], files[m]})
			}
			return list, nil
		}
		if err := s.discard(failed); err != nil {
			return nil, err
		}
	}
}

// lost returns the lost members: those without a usable redundancy file, or without
// usable files of their own.
func (s *Set) lost() []int {
	var list []int
	for m, path := range s.made {
		if path == "" {
			list = append(list, m)
		}
	}
	return list
}

// recover runs Scheme.Recover on all members. It returns the files of each member; or
// the error of each, if any member has one.
func (s *Set) recover(lost []int) (files [][]redundancy.File, failed []error) {
	n := len(s.of)
	files, failed = make([][]redundancy.File, n), make([]error, n)
	_, err := local.Run(n, local.Options{Timeout: math.MaxInt64}, func(c mpi.Comm) error {
		m := c.Rank()
		j := &redundancy.Job{
			Set:     &redundancy.Set{Comm: c, Ranks: s.of, ID: slices.Min(s.of)},
			Dataset: s.Dataset, Ranks: s.ranks, Dir: s.Dir, Below: s.Below, Piece: s.Piece, Only: s.wanted, Progress: s.Progress, Where: s.Where,
			Register: func(f redundancy.File) error { return s.Register(s.of[m], f) },
		}
		var have []redundancy.File
		if path := s.made[m]; path != "" {
			have = []redundancy.File{{Path: path, Meta: meta.New(filepath.Base(path), s.scheme.Name(), s.ranks)}}
		}
		files[m], failed[m] = s.scheme.Recover(j, have, lost)
		return failed[m]
	})
	if err == nil {
		return files, nil
	}
	return nil, failed
}

// discard makes the members lost that reported a corrupt file of their own. If the
// program wrote the corrupt file, that member's files are to be rebuilt too. If no
// member has reported one, another attempt would fail in the same way, and discard
// returns an error.
func (s *Set) discard(failed []error) error {
	found := false
	for m, err := range failed {
		var corrupt *redundancy.CorruptError
		if s.made[m] == "" || !errors.As(err, &corrupt) {
			continue
		}
		found = true
		s.Warn(corrupt)
		if corrupt.Path != s.made[m] {
			s.wanted = append(s.wanted, m)
			slices.Sort(s.wanted)
		}
		s.made[m] = ""
	}
	if found {
		return nil
	}
	err := failed[slices.IndexFunc(failed, func(err error) bool { return err != nil })]
	if errors.Is(err, redundancy.ErrCorrupt) {
		return fmt.Errorf("%w: %w, and none of the files from which it is rebuilt is known to be corrupt", redundancy.ErrUnrecoverable, err)
	}
	return err
}

// open reads the headers of the redundancy files, assigns each file to its member, and
// finds the members that are to be rebuilt. It skips files that cannot be used, or are
// not of the same set as the first.
func (s *Set) open(paths []string) error {
	var first *redundancy.Header
	var unusable []error
	for _, path := range paths {
		h, err := s.read(path)
		if err == nil {
			err = s.admit(path, first, h)
		}
		if err != nil {
			s.Warn(err)
			unusable = append(unusable, err)
			continue
		}
		first = h
		if s.allWhole() {
			return nil
		}
	}
	if first == nil {
		return fmt.Errorf("%w: no redundancy file of the set can be used: %w", redundancy.ErrUnrecoverable, errors.Join(unusable...))
	}
	for m, rank := range s.of {
		if !s.Whole(rank) {
			s.wanted = append(s.wanted, m)
			s.made[m] = ""
		}
	}
	s.scheme = s.Scheme(len(first.Sections()))
	return nil
}

// allWhole reports whether all members have all their files.
func (s *Set) allWhole() bool {
	return !slices.ContainsFunc(s.of, func(rank int) bool { return !s.Whole(rank) })
}

// read returns the header of a redundancy file, or an error if the file is damaged or
// belongs to another dataset.
func (s *Set) read(path string) (*redundancy.Header, error) {
	r, err := redundancy.Open(path)
	if err != nil {
		return nil, err
	}
	found, d := r.Dataset, s.Dataset
	if found.ID() != d.ID() || found.Name() != d.Name() || !found.Created().Equal(d.Created()) {
		err = &redundancy.CorruptError{Path: path, Reason: fmt.Sprintf("belongs to dataset %d (%s) of %v, not to %d (%s) of %v",
			found.ID(), found.Name(), found.Created(), d.ID(), d.Name(), d.Created())}
	}
	return r.Header, errors.Join(err, r.Close())
}

// admit assigns a redundancy file with header h to its member. It returns a
// *redundancy.CorruptError if the file does not fit to the first one, whose header is
// first, or nil if this is the first.
func (s *Set) admit(path string, first, h *redundancy.Header) error {
	if first == nil {
		s.ranks, s.of, s.made = h.Ranks, h.Members, make([]string, len(h.Members))
	}
	reason := ""
	switch m := slices.Index(s.of, h.Current.Rank); {
	case !slices.Equal(h.Members, s.of):
		reason = fmt.Sprintf("belongs to a set of ranks %v, other files to a set of ranks %v", h.Members, s.of)
	case first != nil && (h.Block != first.Block || len(h.Sections()) != len(first.Sections()) || h.Chunk != first.Chunk):
		reason = "has another layout than other files of the set"
	case m < 0:
		reason = fmt.Sprintf("rank %d is not in its set", h.Current.Rank)
	case s.made[m] != "":
		reason = fmt.Sprintf("rank %d has another redundancy file", h.Current.Rank)
	default:
		s.made[m] = path
		return nil
	}
	return &redundancy.CorruptError{Path: path, Reason: reason}
}
