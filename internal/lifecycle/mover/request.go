package mover

import (
	"errors"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Request asks for the copy of one rank's files of a dataset.
type Request struct {
	Dataset     dataset.Dataset
	Rank, Ranks int    // of the job
	Prefix      string // prefix directory
	Files       []redundancy.File
	// Limits bound the copies of the process with Threads, and of the node with Daemon.
	Limits transfer.Limits
	// Late, unless nil, is called by Threads before it copies, and completes the descriptions of Files:
	// their checksums may be known only then.
	Late func(files []redundancy.File)
}

// NewRequest returns a request to copy files to the prefix directory to. It clones the
// descriptions of the files, so that a mover does not change those of the caller.
func NewRequest(d dataset.Dataset, rank, ranks int, to string, files []redundancy.File) *Request {
	return &Request{Dataset: d, Rank: rank, Ranks: ranks, Prefix: to, Files: prefix.CloneFiles(files)}
}

// Bytes returns the sum of the sizes of the files, in bytes.
func (r *Request) Bytes() int64 { return prefix.Parts{r.Rank: r.Files}.Bytes() }

// progress holds the state of a request when its copy begins, and the copy's callbacks.
type progress struct {
	pace   *transfer.Pace
	copied map[string]bool         // files, by their paths in the cache, that have been copied before
	wanted func() error            // called after each file; its error ends the copy
	done   func(path string) error // called when the file at a path in the cache has been copied
	meter  *prefix.CopyMeter       // nil: how far the copy is is not recorded
}

// copy copies the remaining files, within the limits of a pace, and then writes the list of
// the rank.
func (r *Request) copy(c *transfer.Copier, p progress) error {
	p.pace.Begin()
	c.Step = p.pace.Spent
	if p.meter != nil {
		p.meter.Watch(c)
	}
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
		err = p.pace.Rest()
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

// aside returns the path of a file until the flush is finished.
func (r *Request) aside(to string) string { return prefix.Aside(to, r.Dataset.ID(), prefix.ByFlush) }

// copiedFiles returns the files with the paths that they have when all have been copied.
func (r *Request) copiedFiles() (files []redundancy.File, err error) {
	for _, f := range r.Files {
		to, err := prefix.Destination(r.Prefix, f)
		if err != nil {
			return nil, err
		}
		if !f.Meta.Shared() { // else it gets its final name from another rank
			to = r.aside(to)
		}
		files = append(files, redundancy.File{Path: to, Meta: f.Meta, Below: trust.Root(r.Prefix)})
	}
	return files, nil
}

// discard deletes the copied files of a request, whose copy must have ended.
func (r *Request) discard() error {
	files, err := r.copiedFiles()
	if err != nil {
		return nil // without a valid destination nothing was copied
	}
	return errors.Join(prefix.DiscardAsides(r.Prefix, files), prefix.RemovePart(r.Prefix, r.Dataset.ID(), r.Rank))
}
