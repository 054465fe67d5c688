package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// commit makes a dataset complete whose files are all on the medium, under temporary
// names or their own.
//
//  1. The list of files is written.
//  2. Datasets that own some of the paths lose them (takeOver). Until here they are
//     whole; from here on the flush is finished by whatever comes next.
//  3. Files get their names.
//  4. Summary and index say that the dataset is complete.
//
// After an error, reached says what has been changed. existing, if not nil, are those of
// the caller's names at which there was a file before; else commit looks. It is
// collective; the result is agreed.
func (p *Prefix) commit(d dataset.Dataset, ranks int, parts Parts, bare bool, existing map[string]bool) (reached stage, err error) {
	// Do not overwrite the dataset of another job that has begun meanwhile.
	if err := mpi.OnRoot(p.Comm, func() error { return checkClaim(p.Dir, d) }); err != nil {
		return copied, err
	}
	items, compressed := parts.items(bare)
	if existing == nil {
		existing, err = p.existing(parts)
	}
	totals := []int64{int64(compressed), int64(len(existing))}
	if err := mpi.AgreeSum(p.Comm, err, totals); err != nil {
		return copied, err
	}
	d.SetCompressed(totals[0] > 0)
	if err := rank2file.Write(p.Comm, Dir(p.Dir, d.ID()), ranks, items); err != nil {
		return copied, err
	}
	reached = named
	if totals[1] > 0 {
		begun, err := p.takeOver(d, ranks, parts, existing)
		if reached = copied; begun {
			reached = replacing
		}
		if err != nil {
			return reached, err
		}
	}
	if err = mpi.Agree(p.Comm, p.place(parts)); err == nil {
		err = mpi.OnRoot(p.Comm, func() error {
			return conclude(p.Dir, Found{Dataset: d, Complete: true, Owns: true}, p.at)
		})
	}
	return reached, err
}

// stage is how far a commit has come.
type stage int

const (
	copied    stage = iota // older datasets are whole, and temporary files may be removed
	named                  // ... and so may files with their names: there was none of any of these
	replacing              // older datasets have lost files: the temporary files must stay
)

// existing are the names of files whose paths are taken.
func (p *Prefix) existing(parts Parts) (map[string]bool, error) {
	names := map[string]bool{}
	for _, files := range parts {
		for _, f := range files {
			to, err := Destination(p.Dir, f)
			if err != nil {
				return nil, err
			}
			info, err := os.Lstat(to)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				return nil, err
			case info.IsDir():
				return nil, fmt.Errorf("%s is a directory, where a file of the dataset has to be", to)
			default:
				names[filepath.Clean(f.Meta.File())] = true
			}
		}
	}
	return names, nil
}

// place gives the caller's files their names, and makes these durable. A file that is
// replaced keeps its contents under other names that it may have.
func (p *Prefix) place(parts Parts) error {
	for _, rank := range slices.Sorted(maps.Keys(parts)) {
		files := parts[rank]
		for i, f := range files {
			if !isAside(p.Dir, f) {
				continue
			}
			p.at("rename")
			to := filepath.Join(p.Dir, f.Meta.File())
			if err := os.Rename(f.Path, to); err != nil {
				return err
			}
			files[i].Path = to
		}
		if err := syncNames(p.Dir, files); err != nil {
			return err
		}
	}
	return nil
}

// unplace removes the files that place has given their names, and the list of files, unless
// the index has the dataset as complete: a file system that is full could stay so. It is
// for files that are in the cache, too.
func (p *Prefix) unplace(d dataset.Dataset, parts Parts) error {
	unfinished := false
	if p.Comm.Rank() == 0 {
		x, err := ReadIndex(p.Dir)
		// The summary, which may say that all is there, goes before the files.
		unfinished = err == nil && x.Has(d) && !x.ByID(d.ID()).Complete && os.RemoveAll(Dir(p.Dir, d.ID())) == nil
	}
	unfinished, err := mpi.Any(p.Comm, unfinished)
	if err != nil || !unfinished {
		return err
	}
	for _, files := range parts {
		for _, f := range files {
			if !isAside(p.Dir, f) {
				_ = os.Remove(f.Path) // the flush has failed already
				RemoveEmpty(p.Dir, f.Path)
			}
		}
	}
	return nil
}

// at tells a test what is about to be changed.
func (p *Prefix) at(what string) {
	if p.watch != nil {
		p.watch(what)
	}
}

// discard removes the temporary files of a flush that has failed.
func (p *Prefix) discard(parts Parts) error {
	var err error
	for _, files := range parts {
		err = errors.Join(err, DiscardAsides(p.Dir, files))
	}
	return mpi.Agree(p.Comm, err)
}

// Publish records a dataset all of whose files are in the prefix directory: the
// list of files, the summary, and the entry in the index. A checkpoint becomes
// the one to restart from, unless a newer one is.
func Publish(prefix string, d dataset.Dataset, ranks int, files func(rank int) []redundancy.File) error {
	parts := Parts{}
	for rank := range ranks {
		parts[rank] = files(rank)
	}
	if err := hash.MakeDirs(Dir(prefix, d.ID())); err != nil {
		return err
	}
	return alone(prefix, func(p *Prefix) error {
		_, err := p.commit(d, ranks, parts, false, nil)
		return err
	})
}
