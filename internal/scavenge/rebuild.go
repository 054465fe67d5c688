package scavenge

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/progress"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/partner"
	"github.com/goscr/goscr/internal/redundancy/rs"
	"github.com/goscr/goscr/internal/redundancy/xor"
)

// piece is how many bytes are read and written at a time where redundancy files
// do not say.
const piece = 256 << 10

// scheme returns the scheme of redundancy files by their extension.
func scheme(kind string, losses int) redundancy.Reassembler {
	switch kind {
	case "partner":
		return partner.Scheme(losses).(redundancy.Reassembler)
	case "rs":
		return rs.Scheme(losses)
	}
	return xor.Scheme()
}

// Rebuilt is what was rebuilt of one rank.
type Rebuilt struct {
	Rank  int
	Files []redundancy.File
}

// RebuildSet rebuilds the files of those members of a set that are not whole,
// from the redundancy files at paths and the other members' files below dir. kind
// is the extension of the redundancy files. Members whose files turn out to be
// corrupt on the way are rebuilt too, where the scheme bears that. What it finds
// wrong with what it reads it tells warn, and how far it is meter, if there is one.
func RebuildSet(dir, kind string, d dataset.Dataset, paths []string, whole func(rank int) bool, warn func(error),
	meter progress.Meter) ([]Rebuilt, error) {
	if allWhole(paths, whole) {
		return nil, nil
	}
	r, spoiled, err := redundancy.OpenRemains(dir, d, paths, piece, whole)
	for _, e := range spoiled {
		warn(e)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", redundancy.ErrUnrecoverable, err)
	}
	defer r.Close()
	if len(r.Wanted) == 0 {
		return nil, nil
	}
	r.Progress = meter
	s := scheme(kind, r.Losses())
	for {
		if err := checkNames(r); err != nil {
			return nil, err
		}
		if !s.Bears(len(r.Ranks), r.Absent()) {
			var ranks []int
			for _, m := range r.Absent() {
				ranks = append(ranks, r.Ranks[m])
			}
			return nil, fmt.Errorf("%w: files or redundancy of ranks %v are missing, and of the %d ranks in the set %s bears the loss of %d",
				redundancy.ErrUnrecoverable, ranks, len(r.Ranks), s.Name(), s.Failures(len(r.Ranks)))
		}
		err := s.Reassemble(r)
		if err == nil {
			return result(r)
		}
		var corrupt *redundancy.CorruptError
		if !errors.As(err, &corrupt) {
			return nil, err
		}
		found := r.Corrupt(err)
		for _, e := range found {
			warn(e)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%w: %w, and no file it is computed from is known to be corrupt", redundancy.ErrUnrecoverable, err)
		}
	}
}

// RebuildFiles rebuilds the files of a set that are missing below a prefix
// directory, from the redundancy files at paths. Which files are missing follows
// from what is there.
func RebuildFiles(prefixDir, kind string, paths []string, warn func(error), meter progress.Meter) ([]Rebuilt, error) {
	var d dataset.Dataset
	there := map[int]bool{}
	for _, path := range paths {
		r, err := redundancy.Open(path)
		if err != nil {
			continue // is said below
		}
		if d.IsZero() {
			d = r.Dataset()
		}
		files, err := r.Current().Files(prefixDir)
		there[r.Current().Rank()] = err == nil && !slices.ContainsFunc(files, func(f redundancy.File) bool {
			f.Meta.SetComplete(true) // the file was being protected
			return f.Meta.Check(f.Path) != nil
		})
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	return RebuildSet(prefixDir, kind, d, paths, func(rank int) bool { return there[rank] }, warn, meter)
}

// allWhole looks into one redundancy file of a set for who its members are, and
// reports whether none of them needs anything.
func allWhole(paths []string, whole func(rank int) bool) bool {
	r, err := redundancy.Open(paths[0])
	if err != nil {
		return false
	}
	defer r.Close()
	ranks, err := r.Group()
	return err == nil && !slices.ContainsFunc(ranks, func(rank int) bool { return !whole(rank) })
}

// checkNames makes sure that no file to be made is outside the prefix directory
// or goscr's own.
func checkNames(r *redundancy.Remains) error {
	for _, m := range r.Wanted {
		for _, f := range r.Own[m] {
			if err := prefix.CheckName(f.Meta.File()); err != nil {
				return fmt.Errorf("%w: the files of rank %d: the redundancy files name %w", redundancy.ErrUnrecoverable, r.Ranks[m], err)
			}
		}
	}
	return nil
}

// result makes sure that what was rebuilt is on its medium.
func result(r *redundancy.Remains) ([]Rebuilt, error) {
	var list []Rebuilt
	for _, m := range r.Wanted {
		for _, f := range r.Own[m] {
			if err := syncFile(f.Path); err != nil {
				return nil, err
			}
			f.Meta.SetComplete(true)
		}
		list = append(list, Rebuilt{r.Ranks[m], r.Own[m]})
	}
	return list, nil
}

// rebuild rebuilds what is missing, as many sets at a time as there are
// processors.
func (s *scan) rebuild(warn func(error), meter progress.Meter) ([]Rebuilt, error) {
	var mu sync.Mutex // also of warn
	var all []Rebuilt
	var failed []error
	var group sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	whole := make(map[int]bool, len(s.parts)) // as it was
	for rank := range s.parts {
		whole[rank] = true
	}
	for _, x := range s.sets {
		group.Add(1)
		go func() {
			defer group.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			list, err := RebuildSet(s.prefix, x.kind, s.dataset, x.paths, func(rank int) bool { return whole[rank] }, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				warn(err)
			}, meter)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, fmt.Errorf("set %s: %w", x.name, err))
			}
			all = append(all, list...)
		}()
	}
	group.Wait()
	slices.SortFunc(all, func(a, b Rebuilt) int { return a.Rank - b.Rank })
	for _, b := range all {
		p := &prefix.Part{Rank: b.Rank, Ranks: s.ranks, Dataset: s.dataset, Files: b.Files}
		if err := p.Enter(s.prefix); err != nil {
			failed = append(failed, err)
			continue
		}
		s.parts[b.Rank] = p
	}
	return all, errors.Join(failed...)
}
