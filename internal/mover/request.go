package mover

import (
	"errors"

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
	wanted func() error            // asked after each file; its error ends the copy
	done   func(path string) error // told that a file has been copied
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
		Prefix: r.Prefix, Copy: c.Copy, Ready: ready, Aside: r.aside,
		There: func(f redundancy.File, _ string) (bool, error) { return p.copied[f.Path], nil },
	}
	if p.done != nil {
		bring.Copied = func(f redundancy.File) error { return p.done(f.Path) }
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
	return part.Enter(r.Prefix)
}

// aside is where a file is until the flush is finished.
func (r *Request) aside(to string) string { return prefix.Aside(to, r.Dataset.ID(), prefix.ByFlush) }

// copiedFiles are the files where they are when all have been copied.
func (r *Request) copiedFiles() (files []redundancy.File, err error) {
	for _, f := range r.Files {
		to, err := prefix.Destination(r.Prefix, f)
		if err != nil {
			return nil, err
		}
		files = append(files, redundancy.File{Path: r.aside(to), Meta: f.Meta})
	}
	return files, nil
}

// discard deletes the copied files of a request, when the copy has ended.
func (r *Request) discard() error {
	files, err := r.copiedFiles()
	if err != nil {
		return nil // it was not copied
	}
	return errors.Join(prefix.DiscardAsides(r.Prefix, files), prefix.RemovePart(r.Prefix, r.Dataset.ID(), r.Rank))
}
