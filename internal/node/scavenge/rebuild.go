package scavenge

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/goscr/goscr/internal/observe/progress"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/offline"
	"github.com/goscr/goscr/internal/redundancy/partner"
	"github.com/goscr/goscr/internal/redundancy/rs"
	"github.com/goscr/goscr/internal/redundancy/xor"
	"github.com/goscr/goscr/internal/sys/trust"
)

// piece is the number of bytes that are read and written at a time if redundancy files do
// not specify it.
const piece = 256 << 10

// schemes has, by the extension of redundancy files, functions that return the scheme for a
// number of losses that it tolerates.
var schemes = map[string]func(losses int) redundancy.Scheme{
	"xor":     func(int) redundancy.Scheme { return xor.Scheme() },
	"partner": partner.Scheme,
	"rs":      rs.Scheme,
}

// rebuildSet rebuilds the files of those members of a set that are not whole, from the
// redundancy files at paths and the other members' files. kind is the extension of the
// redundancy files.
func rebuildSet(set offline.Set, kind string, paths []string) ([]offline.Rebuilt, error) {
	set.Piece, set.Scheme, set.Register = piece, schemes[kind], checkName
	list, err := set.Rebuild(paths)
	for _, b := range list {
		for _, f := range b.Files {
			if err := syncFile(f); err != nil {
				return nil, err
			}
			f.Meta.SetComplete(true)
		}
	}
	return list, err
}

// checkName checks that a file to be made is in the prefix directory, and is not a
// file of goscr's own.
func checkName(rank int, f redundancy.File) error {
	if err := prefix.CheckName(f.Meta.File()); err != nil {
		return fmt.Errorf("%w: the files of rank %d: the redundancy files name %w", redundancy.ErrUnrecoverable, rank, err)
	}
	return nil
}

// RebuildFiles rebuilds the files of a set that are missing below a prefix directory, from
// the redundancy files at paths, which list the files of each member.
func RebuildFiles(prefixDir, kind string, paths []string, warn func(error), meter progress.Meter) ([]offline.Rebuilt, error) {
	var d dataset.Dataset
	there := map[int]bool{}
	where := map[int]map[string]string{} // the path of each file, which scr_copy leaves under a temporary name
	for _, path := range paths {
		r, err := redundancy.Open(path)
		if err != nil {
			continue // rebuildSet opens it again, and reports the error
		}
		if d.IsZero() {
			d = r.Dataset
		}
		found := map[string]string{}
		there[r.Current.Rank] = !slices.ContainsFunc(r.Current.In(prefixDir), func(f redundancy.File) bool {
			f.Meta.SetComplete(true) // the file was being protected
			for _, path := range []string{prefix.Aside(f.Path, r.Dataset.ID(), prefix.ByCopy), f.Path} {
				if f.Meta.CheckBelow(trust.Root(prefixDir), path) == nil {
					found[f.Meta.File()] = path
					return false
				}
			}
			return true
		})
		where[r.Current.Rank] = found
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	set := offline.Set{
		Dir: prefixDir, Below: trust.Root(prefixDir), Dataset: d, Whole: func(rank int) bool { return there[rank] }, Warn: warn, Progress: meter,
		Where: func(rank int, f redundancy.File, made bool) string {
			if path := where[rank][f.Meta.File()]; path != "" && !made {
				return path
			}
			return f.Path
		},
	}
	return rebuildSet(set, kind, paths)
}

// setsAtATime returns how many sets are rebuilt at the same time: as many as there are
// processors, if the memory suffices. A member takes some 5 MiB.
func (s *scan) setsAtATime() int {
	const mostMembers = 128
	members := 1
	for _, x := range s.sets {
		members = max(members, len(x.paths))
	}
	return max(1, min(runtime.GOMAXPROCS(0), mostMembers/members))
}

// unpacked returns the path at which a file of a whole rank can be read as the program wrote it:
// its own, or, if a flush that did not end has compressed it, that of a copy at aside, which
// unpacked makes. The redundancy is of the bytes that the program wrote.
func unpacked(root trust.Root, f redundancy.File, aside string, warn func(error)) string {
	if _, packed := f.Meta.Stored(); !packed {
		return f.Path
	}
	c := transfer.NewCopier(piece)
	c.Below = root
	if err := c.Fetch(f.Path, aside, f.Meta.Clone()); err != nil {
		warn(err)
		return f.Path // which is not what was written
	}
	return aside
}

// rebuild rebuilds the files of ranks that are missing, several sets at a time.
func (s *scan) rebuild(warn func(error), meter progress.Meter) ([]offline.Rebuilt, error) {
	var mu sync.Mutex // guards warn, too
	var all []offline.Rebuilt
	var failed []error
	var group sync.WaitGroup
	slots := make(chan struct{}, s.setsAtATime())
	where := make(map[int]map[string]redundancy.File, len(s.parts)) // the files of whole ranks before the rebuild, by name
	for rank := range s.parts {
		where[rank] = map[string]redundancy.File{}
		for _, f := range s.own(rank) {
			where[rank][f.Meta.File()] = f
		}
	}
	say := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		warn(err)
	}
	for _, x := range s.sets {
		group.Add(1)
		go func() {
			defer group.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			set := offline.Set{
				Dir: s.prefix, Below: trust.Root(s.prefix), Dataset: s.dataset, Progress: meter,
				Whole: func(rank int) bool { return where[rank] != nil },
				Where: func(rank int, f redundancy.File, made bool) string {
					aside := prefix.Aside(f.Path, s.id, prefix.ByRebuild)
					if there, ok := where[rank][f.Meta.File()]; ok && !made {
						return unpacked(trust.Root(s.prefix), there, aside, say)
					}
					return aside
				},
				Warn: say,
			}
			list, err := rebuildSet(set, x.kind, x.paths)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, fmt.Errorf("set %s: %w", x.name, err))
			}
			all = append(all, list...)
		}()
	}
	group.Wait()
	slices.SortFunc(all, func(a, b offline.Rebuilt) int { return a.Rank - b.Rank })
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
