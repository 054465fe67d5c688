package mover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/transfer"
)

// Load is what one rank has of a dataset.
type Load struct {
	Dataset     dataset.Dataset
	Rank, Ranks int    // of the job
	Prefix      string // directory it goes to
	Files       []redundancy.File
	// Limits are those of whoever copies it: of the process for Threads, of the node
	// for Daemon.
	Limits transfer.Limits
}

// NewLoad describes a load. Who copies it changes nothing that the caller has.
func NewLoad(d dataset.Dataset, rank, ranks int, to string, files []redundancy.File) *Load {
	l := &Load{Dataset: dataset.Dataset{Hash: d.Clone()}, Rank: rank, Ranks: ranks, Prefix: to}
	for _, f := range files {
		l.Files = append(l.Files, redundancy.File{Path: f.Path, Meta: f.Meta.Clone()})
	}
	return l
}

// Bytes is how much there is to copy.
func (l *Load) Bytes() (n int64) {
	for _, f := range l.Files {
		n += max(f.Meta.Size(), 0)
	}
	return n
}

// destination is where a file goes.
func (l *Load) destination(f redundancy.File) string { return filepath.Join(l.Prefix, f.Meta.File()) }

// carry copies the files that have not been yet, at a pace, and then writes the list of
// the rank. Before a file gets its name wanted is asked, an error of which ends it; after
// is told that it has.
func (l *Load) carry(c *transfer.Copier, pace *transfer.Pace, arrived map[string]bool, wanted func() error, after func(path string) error) error {
	pace.Begin()
	c.Step = pace.Spent
	before := func() error {
		if err := pace.Wait(0); err != nil {
			return err
		}
		return wanted()
	}
	part := &prefix.Part{Rank: l.Rank, Ranks: l.Ranks, Dataset: l.Dataset}
	for i, f := range l.Files {
		if err := prefix.CheckName(f.Meta.File()); err != nil {
			return fmt.Errorf("the description of %s names %w", f.Path, err)
		}
		to := l.destination(f)
		part.Files = append(part.Files, redundancy.File{Path: to, Meta: f.Meta})
		if arrived[f.Path] {
			continue
		}
		aside := prefix.Aside(to, l.Dataset.ID(), l.Rank, i)
		err := c.Copy(f.Path, aside, f.Meta)
		if err == nil {
			err = before()
		}
		if err == nil {
			err = os.Rename(aside, to)
		}
		if err != nil {
			_ = os.Remove(aside) // the first error is the one to report
			return err
		}
		if err := after(f.Path); err != nil {
			return err
		}
	}
	if err := pace.Settle(); err != nil {
		return err
	}
	if err := before(); err != nil {
		return err
	}
	return part.Enter(l.Prefix)
}

// discard deletes what has arrived, of a load that nobody copies any more. A file
// that was there before under the same name is told from it by its time; what has
// arrived may have been made smaller.
func (l *Load) discard() error {
	var first error
	for _, f := range l.Files {
		to := l.destination(f)
		info, err := os.Lstat(to)
		when, known := f.Meta.Modified()
		if err == nil && known && info.Size() <= f.Meta.Size() && info.ModTime().Equal(when) {
			if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) && first == nil {
				first = err
			}
		}
		// Fails, as it should, at the first directory that holds something.
		for d := filepath.Dir(to); d != l.Prefix && os.Remove(d) == nil; d = filepath.Dir(d) {
		}
	}
	if err := prefix.RemovePart(l.Prefix, l.Dataset.ID(), l.Rank); first == nil {
		first = err
	}
	return first
}
