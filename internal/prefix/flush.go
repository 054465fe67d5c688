package prefix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/compress"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/progress"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/internal/transfer"
	"github.com/goscr/goscr/mpi"
)

const (
	summaryFile    = "summary.scr"
	summaryVersion = 6
)

// Prefix is a prefix directory in use by the ranks of a job.
type Prefix struct {
	Comm   mpi.Comm
	Dir    string // absolute
	Buffer int    // bytes that are copied at a time
	Bare   bool   // files are copied without mode, owner and times
	Blind  bool   // ... and without their checksums
	// Compress is how files are stored that get smaller by it. Outputs, which are
	// for others to read, are stored as they are.
	Compress compress.Method
	Width    int // most ranks that flush at a time, 0: all
	Log      *report.Logger

	cutShort map[int]bool // datasets of which copies in the background may have left something
}

// onRoot runs f on rank 0 and agrees on its result.
func (p *Prefix) onRoot(f func() error) error {
	var err error
	if p.Comm.Rank() == 0 {
		err = f()
	}
	return mpi.Agree(p.Comm, err)
}

// Flush copies a dataset to the prefix directory. parts are those files in the
// cache that the caller copies, and ranks is the size of the job that wrote them;
// each rank's are with one process, in general the rank itself. It is
// collective; the result is agreed.
//
// A flush is StartFlush, then the copy, which no rank needs another for, and then
// FinishFlush; or GiveUpFlush, if not all could be copied. Here the program waits
// for the copy. Package mover has those that copy while it does not.
func (p *Prefix) Flush(d dataset.Dataset, ranks int, parts Parts) error {
	start := time.Now()
	if err := p.StartFlush(d, ranks); err != nil {
		return err
	}
	c := p.Packer(d)
	p.Follow(c, fmt.Sprintf("dataset %d (%s): flushed", d.ID(), d.Name()), parts.Bytes())
	parts = parts.clone() // what is said of copies is not true of the files in the cache
	err := p.InTurn(p.Width, func() error {
		for rank, files := range parts {
			if err := p.copy(c, d, rank, files); err != nil {
				return err
			}
		}
		return nil
	})
	if err := mpi.Agree(p.Comm, err); err != nil {
		return errors.Join(err, p.GiveUpFlush(d))
	}
	return p.FinishFlush(d, ranks, parts, start)
}

// StartFlush enters a dataset as incomplete, which it is from before its first byte
// arrives until all are on the medium, so that one which is cut short is not taken
// for a checkpoint. It is collective; the result is agreed.
func (p *Prefix) StartFlush(d dataset.Dataset, ranks int) error {
	p.Log.Info("dataset %d (%s): flush to %s begins", d.ID(), d.Name(), p.Dir)
	return p.begin(d, func() error { return depart(p.Dir, d, ranks) })
}

// FinishFlush makes a dataset complete all of whose files are on the medium. The
// flush began at start. It is collective; the result is agreed.
func (p *Prefix) FinishFlush(d dataset.Dataset, ranks int, parts Parts, start time.Time) error {
	if err := p.commit(d, ranks, parts.entries(p.Bare)); err != nil {
		return errors.Join(err, p.GiveUpFlush(d))
	}
	for rank := range parts {
		_ = os.Remove(partPath(Dir(p.Dir, d.ID()), rank)) // of a copy in the background; the list of all says the same
	}
	seconds := time.Since(start).Seconds()
	p.Log.Info("dataset %d (%s): flushed %s in %.3f s, %s/s", d.ID(), d.Name(), report.Bytes(d.Size()), seconds,
		report.Bytes(int64(float64(d.Size())/max(seconds, 1e-9))))
	return nil
}

// GiveUpFlush records that a dataset is not on its way any more. That it is
// incomplete is recorded already. It is collective; the result is agreed.
func (p *Prefix) GiveUpFlush(d dataset.Dataset) error {
	if p.cutShort == nil {
		p.cutShort = map[int]bool{}
	}
	p.cutShort[d.ID()] = true
	return p.onRoot(func() error {
		// Another job may have begun a dataset of this number.
		if on, err := UnderWay(p.Dir, d); err != nil || !on {
			return err
		}
		return Locate(p.Dir, d, Flushing, false)
	})
}

// Packer returns what copies a dataset to the prefix directory.
func (p *Prefix) Packer(d dataset.Dataset) *transfer.Copier {
	c := p.Copier()
	c.Compress = p.Compression(d)
	return c
}

// Compression is how the files of a dataset are stored in the prefix directory.
func (p *Prefix) Compression(d dataset.Dataset) compress.Method {
	if d.Flags().Has(dataset.Output) {
		return compress.Method{}
	}
	return p.Compress
}

// Copier returns what copies files to and from the prefix directory, without
// making them smaller.
func (p *Prefix) Copier() *transfer.Copier {
	c := transfer.NewCopier(p.Buffer)
	c.Bare, c.Blind = p.Bare, p.Blind
	return c
}

// often is how often a rank says how far a copy is.
const often = 10 * time.Second

// Follow has rank 0 say now and then how many of its bytes are copied, if the copy
// takes long.
func (p *Prefix) Follow(c *transfer.Copier, what string, bytes int64) {
	if p.Comm.Rank() != 0 || p.Log.Debug < 1 {
		return
	}
	lines := &progress.Lines{Log: p.Log, What: what + " by this rank", Each: often}
	lines.Expect(bytes)
	c.Step = func(bytes int) error { lines.Add(int64(bytes)); return nil }
}

func (p *Prefix) copy(c *transfer.Copier, d dataset.Dataset, rank int, files []redundancy.File) error {
	var copied []redundancy.File
	for i, f := range files {
		if err := checkName(f.Meta.File()); err != nil {
			return fmt.Errorf("flush of dataset %d: the description of %s names %w", d.ID(), f.Path, err)
		}
		to := filepath.Join(p.Dir, f.Meta.File())
		if err := c.Copy(f.Path, to, f.Meta); err != nil {
			return fmt.Errorf("flush of dataset %d: %w", d.ID(), err)
		}
		if p.cutShort[d.ID()] {
			_ = os.Remove(Aside(to, d.ID(), rank, i)) // in general there is none
		}
		copied = append(copied, redundancy.File{Path: to})
	}
	return syncNames(p.Dir, copied)
}

// Begin enters a dataset whose files the program is about to write to the prefix
// directory itself, as one that is not complete. It is collective; the result is
// agreed.
func (p *Prefix) Begin(d dataset.Dataset) error { return p.begin(d, func() error { return nil }) }

// Commit makes a dataset complete that Begin entered. files are the caller's, with
// their paths in the prefix directory; several ranks may have one of the same path.
// It is collective; the result is agreed.
func (p *Prefix) Commit(d dataset.Dataset, files []redundancy.File) error {
	parts := Parts{p.Comm.Rank(): files}
	return p.commit(d, p.Comm.Size(), parts.entries(false))
}

// begin enters a dataset as incomplete, makes the directory for its metadata, and
// records more of it.
func (p *Prefix) begin(d dataset.Dataset, record func() error) error {
	dir := datasetPath(p.Dir, d.ID(), "")
	return p.onRoot(func() error {
		err := UpdateIndex(p.Dir, func(x *Index) error {
			if err := x.claim(p.Dir, d, false); err != nil {
				return err
			}
			x.Add(d, false, time.Now())
			return nil
		})
		if err != nil {
			return err
		}
		// Of an earlier dataset with this number nothing may be left.
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		return record()
	})
}

// commit writes the list of files and the summary of a dataset whose files are all
// on the medium, and then enters it as complete.
func (p *Prefix) commit(d dataset.Dataset, ranks int, entries *hash.Hash) error {
	dir := datasetPath(p.Dir, d.ID(), "")
	// What another job has begun meanwhile is not written over.
	if err := p.onRoot(func() error { return claimed(p.Dir, d) }); err != nil {
		return err
	}
	if err := writeRank2file(p.Comm, dir, ranks, entries); err != nil {
		return err
	}
	packed := []int64{compressed(entries)}
	if err := p.Comm.Allreduce(packed, mpi.Sum); err != nil {
		return err
	}
	d = dataset.Dataset{Hash: d.Clone()}
	d.SetCompressed(packed[0] > 0)
	return p.onRoot(func() error { return conclude(p.Dir, d) })
}

// claimed is an error if another dataset has been entered under the number of one
// that was.
func claimed(prefix string, d dataset.Dataset) error {
	x, err := ReadIndex(prefix)
	if err != nil {
		return err
	}
	return x.claim(prefix, d, true)
}

// conclude records a dataset of which all files, and the list of them, are in
// the prefix directory: from here on it can be used.
func conclude(prefix string, d dataset.Dataset) error {
	if err := writeSummary(prefix, d); err != nil {
		return err
	}
	err := UpdateIndex(prefix, func(x *Index) error {
		if err := x.claim(prefix, d, true); err != nil {
			return err
		}
		x.Add(d, true, time.Now())
		// An older one that comes late is not the one to go on from.
		id, _ := x.Lookup(x.Current())
		if d.Flags().Has(dataset.Checkpoint) && id < d.ID() {
			return x.SetCurrent(d.Name())
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := Locate(prefix, d, InPrefix, true); err != nil {
		return err
	}
	return Locate(prefix, d, Flushing, false)
}
