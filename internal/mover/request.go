package mover

import (
	"errors"
	"io/fs"
	"os"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/transfer"
)

// Request asks for the copy of one rank's files of a dataset.
type Request struct {
	Dataset     dataset.Dataset
	Rank, Ranks int    // of the job
	Prefix      string // prefix directory
	Files       []redundancy.File
	// Limits are those of the mover: of the process for Threads, of the node for
	// Daemon.
	Limits transfer.Limits
}

// NewRequest describes a request. It clones the descriptions of the files, so that a
// mover does not change the caller's.
func NewRequest(d dataset.Dataset, rank, ranks int, to string, files []redundancy.File) *Request {
	return &Request{Dataset: d, Rank: rank, Ranks: ranks, Prefix: to, Files: prefix.CloneFiles(files)}
}

// Bytes is how much there is to copy.
func (r *Request) Bytes() int64 { return prefix.Parts{r.Rank: r.Files}.Bytes() }

// progress holds the state of a request when its copy begins, and the copy's callbacks.
type progress struct {
	pace   *transfer.Pace
	copied map[string]bool         // files, by their paths in the cache, that have been copied before
	wanted func() error            // asked before a file gets its name; its error ends the copy
	placed func(path string) error // told that a file has its name
}

// copy copies the remaining files, at a pace, and then writes the list of the rank.
func (r *Request) copy(c *transfer.Copier, p progress) error {
	p.pace.Begin()
	c.Step = p.pace.Spent
	ready := func() error {
		if err := p.pace.Wait(0); err != nil || p.wanted == nil {
			return err
		}
		return p.wanted()
	}
	bring := &prefix.Bring{
		Prefix: r.Prefix, Copy: c.Copy, Ready: ready,
		Aside: func(to string, i int) string { return prefix.Aside(to, r.Dataset.ID(), r.Rank, i) },
		There: func(_ int, f redundancy.File, _ string) (bool, error) { return p.copied[f.Path], nil },
	}
	if p.placed != nil {
		bring.Placed = func(_ int, f redundancy.File, _ string) error { return p.placed(f.Path) }
	}
	files, err := bring.Files(r.Files)
	if err == nil {
		err = p.pace.Settle()
	}
	if err == nil {
		err = ready()
	}
	if err != nil {
		return err
	}
	part := &prefix.Part{Rank: r.Rank, Ranks: r.Ranks, Dataset: r.Dataset, Files: files}
	return part.Write(r.Prefix)
}

// placedFiles are the files where they are when all have been copied.
func (r *Request) placedFiles() (files []redundancy.File, err error) {
	for _, f := range r.Files {
		to, err := prefix.Destination(r.Prefix, f)
		if err != nil {
			return nil, err
		}
		files = append(files, redundancy.File{Path: to, Meta: f.Meta})
	}
	return files, nil
}

// discard deletes the copied files of a request, when the copy has ended. A copy has
// the time of its file and is not larger, but compressed it is smaller; other files of
// the same names stay.
func (r *Request) discard() error {
	var first error
	for _, f := range r.Files {
		to, err := prefix.Destination(r.Prefix, f)
		if err != nil {
			continue // it was not copied
		}
		info, err := os.Lstat(to)
		when, known := f.Meta.Modified()
		if err == nil && known && info.Size() <= f.Meta.Size() && info.ModTime().Equal(when) {
			if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) && first == nil {
				first = err
			}
		}
		prefix.RemoveEmpty(r.Prefix, to)
	}
	if err := prefix.RemovePart(r.Prefix, r.Dataset.ID(), r.Rank); first == nil {
		first = err
	}
	return first
}
