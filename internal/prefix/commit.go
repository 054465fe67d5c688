package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// completion makes a dataset complete whose files are all on the medium, under temporary or
// final names.
type completion struct {
	p     *Prefix
	d     dataset.Dataset
	ranks int   // of the job that wrote it
	parts Parts // the caller's files; once it is known, without those that newer datasets own
	bare  bool  // modes, owners and times of the files are not listed

	direct *naming // finds their names without links
}

// completion returns the completion of a dataset that was copied.
func (p *Prefix) completion(d dataset.Dataset, ranks int, parts Parts) *completion {
	return &completion{p, d, ranks, parts, p.Bare, newNaming(p.Dir)}
}

// run makes the dataset complete.
//
//  1. It writes the list of files. Files that newer datasets own have no further part in
//     what follows (late.go).
//  2. It takes the paths of these files from the datasets that own them (takeOver), or has
//     these move out of the way (retire.go). Until then these datasets are whole. After it the flush can no longer be given up: if the
//     job dies, the next run or scr_index --build finishes it.
//  3. It gives the files their final names.
//  4. It records in the summary and the index that the dataset is complete.
//
// If begun is true after an error, older datasets have lost files, and the temporary
// files must stay. existing has those of the caller's names at which there was a file
// before; if it is nil, run looks for such files. If undo is true, the files are in the
// cache, too: after an error they are removed, unless there was a file of one of their
// names. It is collective; the result is agreed.
func (c *completion) run(existing map[string]bool, undo bool) (begun bool, err error) {
	p, d := c.p, c.d
	// Do not overwrite the dataset of another job that has begun meanwhile.
	newer, err := mpi.FromRoot(p.Comm, func() (int, error) {
		x, err := ReadIndex(p.Dir)
		if err == nil {
			err = x.claim(p.Dir, d, true)
		}
		if err != nil || d.Bypass() { // the program has written its files already
			return 0, err
		}
		return len(x.after(d)), nil
	})
	if err != nil {
		return false, err
	}
	var late later
	if newer > 0 {
		if late, err = c.later(); err != nil {
			return false, err
		}
	}
	items, compressed := c.parts.items(c.bare)
	all := c.parts
	var unwanted []redundancy.File
	c.parts, unwanted = all.without(c.direct, late.names)
	if existing != nil {
		existing = c.direct.all(existing)
	} else {
		existing, err = c.existing()
	}
	totals := []int64{int64(compressed), int64(len(existing))}
	if err := mpi.AgreeSum(p.Comm, err, totals); err != nil {
		return false, err
	}
	c.d.SetCompressed(totals[0] > 0)
	d = c.d
	if err := rank2file.Write(p.Comm, Dir(p.Dir, d.ID()), c.ranks, items); err != nil {
		return false, err
	}
	var replaced *Replaced
	if late.by != "" {
		if replaced, err = c.keep(late.by); err != nil {
			return false, err
		}
	}
	if !d.Bypass() { // Begin has done it
		if err := (retirement{p, d}).named(); err != nil {
			return false, err
		}
	}
	if totals[1] > 0 {
		if begun, err = c.takeOver(all, existing); err != nil {
			return begun, err
		}
	}
	if err = mpi.Agree(p.Comm, c.place()); err == nil {
		err = mpi.OnRoot(p.Comm, func() error {
			err := conclude(p.Dir, Found{Dataset: d, Complete: replaced == nil, Owns: true, Replaced: replaced}, p.at)
			if err == nil && replaced == nil {
				copied(p.Dir, d.ID())
			}
			return err
		})
	}
	if undo && totals[1] == 0 && err != nil {
		c.unplace()
	}
	if err == nil && late.by != "" {
		if err = (Parts{0: unwanted}).discard(p); err == nil && p.Comm.Rank() == 0 {
			copied(p.Dir, d.ID())
		}
	}
	return begun, err
}

// existing returns the names, without links, of those files at whose final path there is a file already.
func (c *completion) existing() (map[string]bool, error) {
	names := map[string]bool{}
	for _, files := range c.parts {
		for _, f := range files {
			to, err := Destination(c.p.Dir, f)
			if err != nil {
				return nil, err
			}
			info, err := c.p.root().Lstat(to)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				return nil, err
			case info.IsDir():
				return nil, fmt.Errorf("%s is a directory, where a file of the dataset has to be", to)
			default:
				names[c.direct.of(f.Meta.File())] = true
			}
		}
	}
	return names, nil
}

// place renames the caller's files to their final names, and makes these durable. If a file
// that it replaces has further hard links, they keep the old contents.
func (c *completion) place() error {
	p := c.p
	for _, rank := range slices.Sorted(maps.Keys(c.parts)) {
		files := c.parts[rank]
		for i, f := range files {
			if !isAside(p.Dir, f) {
				continue
			}
			p.at("rename")
			to := filepath.Join(p.Dir, f.Meta.File())
			if err := p.root().Rename(f.Path, to); err != nil {
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

// unplace removes the files that place has renamed, and the list of files, unless the
// dataset is complete in the index. If they stayed, a file system that is full could remain
// so.
func (c *completion) unplace() {
	p, d := c.p, c.d
	unfinished := false
	if p.Comm.Rank() == 0 {
		x, err := ReadIndex(p.Dir)
		// The summary, which may say that the dataset is complete, is removed before the files.
		unfinished = err == nil && x.Has(d) && !x.ByID(d.ID()).Complete && p.root().RemoveAll(Dir(p.Dir, d.ID())) == nil
	}
	if !mpi.Any(p.Comm, unfinished) {
		return
	}
	for _, files := range c.parts {
		for _, f := range files {
			if !isAside(p.Dir, f) {
				if p.root().Remove(f.Path) == nil { // else the flush has failed already
					RemoveEmpty(p.Dir, f.Path)
				}
			}
		}
	}
}

// Publish completes a dataset all of whose files are in the prefix directory: it writes
// the list of files, the summary, and the entry in the index. A checkpoint becomes the
// current one, from which the next run restarts, unless a newer one is current.
func Publish(prefix string, d dataset.Dataset, ranks int, files func(rank int) []redundancy.File) error {
	parts := Parts{}
	for rank := range ranks {
		parts[rank] = files(rank)
	}
	if err := hash.MakeDirs(Dir(prefix, d.ID())); err != nil {
		return err
	}
	return alone(prefix, func(p *Prefix) error {
		if err := distinct(p.Comm, p.Dir, parts); err != nil {
			return err
		}
		_, err := p.completion(d, ranks, parts).run(nil, false)
		return err
	})
}
