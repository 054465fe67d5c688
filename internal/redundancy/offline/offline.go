// Package offline rebuilds files of a set of ranks in one process that sees what
// is left of all of them, as in the prefix directory once the nodes have been
// scavenged.
//
// It runs Recover, as a job does, with a goroutine for each member. Those of which
// nothing can be used take part as members that have lost their files.
package offline

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/progress"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// Set is what is left of a set of ranks.
type Set struct {
	Dir     string // that the names of files are relative to
	Dataset dataset.Dataset
	Piece   int // bytes that are moved at a time where redundancy files do not say

	// Scheme returns the scheme that bears so many losses.
	Scheme func(losses int) redundancy.Scheme
	// Whole says of a rank whether all its files are there. A member is used only
	// if they are, and rebuilt if they are not.
	Whole func(rank int) bool
	// Where, if not nil, is the path of a file of a rank, instead of its name below Dir.
	Where func(rank int, f redundancy.File, made bool) string
	// Register is called for a file before it is made.
	Register func(rank int, f redundancy.File) error
	// Warn is told what is wrong with files that are read.
	Warn func(error)
	// Progress, if there is one, is told of bytes that are read.
	Progress progress.Meter

	ranks  int      // size of the job
	of     []int    // ranks in the job, by member
	made   []string // redundancy files, by member; "" for those that nothing is taken from
	wanted []int    // members whose files are to be made
	scheme redundancy.Scheme
}

// Rebuilt is what was rebuilt of one rank.
type Rebuilt struct {
	Rank  int
	Files []redundancy.File
}

// Rebuild makes the files that the ranks wrote which are not whole, and no
// redundancy: where they are now, that would protect nothing. paths are the
// redundancy files of the set. Members whose files turn out to be corrupt on the
// way are rebuilt too, where the scheme bears that; if the set has lost too much,
// the error is of the kind redundancy.ErrUnrecoverable.
func (s *Set) Rebuild(paths []string) ([]Rebuilt, error) {
	if err := s.open(paths); err != nil {
		return nil, err
	}
	for {
		if len(s.wanted) == 0 {
			return nil, nil
		}
		lost := s.lost()
		if n := len(s.of); !s.scheme.Bears(n, lost) {
			var ranks []int
			for _, m := range lost {
				ranks = append(ranks, s.of[m])
			}
			return nil, fmt.Errorf("%w: files or redundancy of ranks %v are missing, and of the %d ranks in the set %s bears the loss of %d",
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

// lost returns the members that nothing can be taken from.
func (s *Set) lost() []int {
	var list []int
	for m, path := range s.made {
		if path == "" {
			list = append(list, m)
		}
	}
	return list
}

// recover runs Recover on all members. It returns their files, or if there are
// any, the errors of the members.
func (s *Set) recover(lost []int) (files [][]redundancy.File, failed []error) {
	n := len(s.of)
	files, failed = make([][]redundancy.File, n), make([]error, n)
	_, err := local.Run(n, local.Options{Timeout: math.MaxInt64}, func(c mpi.Comm) error {
		m := c.Rank()
		j := &redundancy.Job{
			Set:     &redundancy.Set{Comm: c, Ranks: s.of, ID: slices.Min(s.of)},
			Dataset: s.Dataset, Ranks: s.ranks, Dir: s.Dir, Piece: s.Piece, Only: s.wanted, Progress: s.Progress, Where: s.Where,
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

// discard leaves out the members of which a file turned out to be corrupt. If
// that is one the program wrote, the member's files are wanted from here on. It
// is an error if there is none: then there is no use in trying again.
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
		return fmt.Errorf("%w: %w, and no file it is computed from is known to be corrupt", redundancy.ErrUnrecoverable, err)
	}
	return err
}

// open reads the headers of redundancy files, which have to be of one set, finds
// whose they are, and which members are to be rebuilt.
func (s *Set) open(paths []string) error {
	var first *redundancy.Header
	var spoiled []error
	for _, path := range paths {
		h, err := s.read(path)
		if err == nil {
			err = s.admit(path, first, h)
		}
		if err != nil {
			s.Warn(err)
			spoiled = append(spoiled, err)
			continue
		}
		first = h
		if s.allWhole() {
			return nil
		}
	}
	if first == nil {
		return fmt.Errorf("%w: no redundancy file of the set can be used: %w", redundancy.ErrUnrecoverable, errors.Join(spoiled...))
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

// allWhole reports whether no member needs anything.
func (s *Set) allWhole() bool {
	return !slices.ContainsFunc(s.of, func(rank int) bool { return !s.Whole(rank) })
}

// read returns the header of a redundancy file, if it is of the dataset.
func (s *Set) read(path string) (*redundancy.Header, error) {
	r, err := redundancy.Open(path)
	if err != nil {
		return nil, err
	}
	of, d := r.Dataset, s.Dataset
	if of.ID() != d.ID() || of.Name() != d.Name() || !of.Created().Equal(d.Created()) {
		err = &redundancy.CorruptError{Path: path, Reason: fmt.Sprintf("is of dataset %d (%s) of %v, not of %d (%s) of %v",
			of.ID(), of.Name(), of.Created(), d.ID(), d.Name(), d.Created())}
	}
	return r.Header, errors.Join(err, r.Close())
}

// admit makes a redundancy file that of its member, if it goes with the first
// one.
func (s *Set) admit(path string, first, h *redundancy.Header) error {
	if first == nil {
		s.ranks, s.of, s.made = h.Ranks, h.Members, make([]string, len(h.Members))
	}
	reason := ""
	switch m := slices.Index(s.of, h.Current.Rank); {
	case !slices.Equal(h.Members, s.of):
		reason = fmt.Sprintf("is of ranks %v, others are of ranks %v", h.Members, s.of)
	case first != nil && (h.Block != first.Block || len(h.Sections()) != len(first.Sections()) || h.Chunk != first.Chunk):
		reason = "has another layout than others of the set"
	case m < 0:
		reason = fmt.Sprintf("rank %d is not in its set", h.Current.Rank)
	case s.made[m] != "":
		reason = fmt.Sprintf("rank %d has another one", h.Current.Rank)
	default:
		s.made[m] = path
		return nil
	}
	return &redundancy.CorruptError{Path: path, Reason: reason}
}
