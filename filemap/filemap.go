// Package filemap reads which files of which datasets and ranks are in the cache of a node.
//
// Each process of a job that leads others on its node keeps a filemap in the control directory
// (SCR_CNTL_BASE/USER/scr.JOBID), and a journal of the changes since it was written as a
// whole. Whatever was entered before a process was killed is in one of them, and a file is entered
// before it is made (SCR Developer Guide, "Filemap"). A file that is entered need not be there.
package filemap

import (
	"fmt"
	"time"

	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/meta"
	"github.com/goscr/goscr/reddesc"
)

// Dataset is what a node has of a dataset.
type Dataset struct {
	ID         int
	Name       string    // "" if no description is there
	Created    time.Time // when the job began to write it
	Checkpoint bool      // a job can restart from it
	Parts      []Part    // lowest rank first
}

// Part is what a node has of a rank's part of a dataset. A rank that keeps only the
// descriptor of another member of its set has a part of that one without files.
type Part struct {
	Rank       int
	Ranks      int                 // size of the job, -1 if it is not recorded
	Complete   bool                // all ranks of the job had completed the dataset
	Expected   int                 // files that the part has, redundancy included; -1 if that is not recorded
	Files      []File              // sorted by path
	Protection *reddesc.Descriptor // nil if it is not recorded
	Prefix     string              // prefix directory of the job
}

// File is an entry for a file.
type File struct {
	Path string // absolute
	meta.File
}

// ReadDir returns the datasets, lowest number first, that the filemaps in a control directory have, with the
// changes in their journals. It changes nothing. bad has the errors of filemaps that cannot be read.
func ReadDir(dir string) (datasets []Dataset, bad []error, err error) {
	all, bad, err := filemap.ReadDir(dir)
	if err != nil {
		return nil, bad, err
	}
	for _, id := range all.Datasets() {
		d := Dataset{ID: id}
		for _, rank := range all.Ranks(id) {
			description := all.Dataset(id, rank)
			if d.Name == "" {
				d.Name, d.Checkpoint = description.Name(), description.Flags().Has(dataset.Checkpoint)
				d.Created = description.Created()
			}
			p := Part{Rank: rank, Complete: description.Complete(), Prefix: description.Prefix, Protection: reddesc.FromHash(all.Reddesc(id, rank))}
			p.Expected, p.Ranks = all.Expected(id, rank)
			for _, path := range all.Files(id, rank) {
				p.Files = append(p.Files, File{path, meta.FromHash(all.Meta(id, rank, path).Hash())})
			}
			d.Parts = append(d.Parts, p)
		}
		datasets = append(datasets, d)
	}
	return datasets, bad, nil
}

// Check returns nil if all files of the part are entered, and are there with their recorded size;
// else an error.
func (p Part) Check() error { return p.each(meta.File.Check) }

// Verify is Check, and reads the files to compare their checksums, where these are recorded.
// Those of a redundancy file are in its header: see xor.Verify.
func (p Part) Verify() error { return p.each(meta.File.Verify) }

func (p Part) each(check func(f meta.File, path string) error) error {
	for _, f := range p.Files {
		if err := check(f.File, f.Path); err != nil {
			return err
		}
	}
	if len(p.Files) != p.Expected {
		return fmt.Errorf("rank %d: %d files are entered, %d were expected", p.Rank, len(p.Files), max(p.Expected, 0))
	}
	return nil
}
