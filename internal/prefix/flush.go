package prefix

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
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
	Log    *report.Logger
}

// onRoot runs f on rank 0 and agrees on its result.
func (p *Prefix) onRoot(f func() error) error {
	var err error
	if p.Comm.Rank() == 0 {
		err = f()
	}
	return mpi.Agree(p.Comm, err)
}

// Flush copies a dataset to the prefix directory. files are the caller's own,
// in the cache; every rank gives its own. The index has the dataset as
// incomplete from before its first byte arrives until all are on the medium,
// so that one which is cut short is not taken for a checkpoint. It is
// collective; the result is agreed.
func (p *Prefix) Flush(d dataset.Dataset, files []redundancy.File) error {
	start := time.Now()
	p.Log.Info("dataset %d (%s): flush to %s begins", d.ID(), d.Name(), p.Dir)
	dir := Dir(p.Dir, d.ID())
	err := p.onRoot(func() error {
		if err := UpdateIndex(p.Dir, func(x *Index) error { x.Add(d, false, time.Now()); return nil }); err != nil {
			return err
		}
		if err := Locate(p.Dir, d, Flushing, true); err != nil {
			return err
		}
		// Of an earlier dataset with this number nothing may be left.
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		return os.MkdirAll(dir, 0o777)
	})
	if err != nil {
		return err
	}

	c := transfer.NewCopier(p.Buffer)
	for _, f := range files {
		if err = checkName(f.Meta.File()); err != nil {
			err = fmt.Errorf("flush of dataset %d: the description of %s names %w", d.ID(), f.Path, err)
			break
		}
		if err = c.Copy(f.Path, filepath.Join(p.Dir, f.Meta.File()), f.Meta); err != nil {
			err = fmt.Errorf("flush of dataset %d: %w", d.ID(), err)
			break
		}
	}
	if err := mpi.Agree(p.Comm, err); err != nil {
		return err
	}
	if err := writeRank2file(p.Comm, dir, fileEntries(files)); err != nil {
		return err
	}
	err = p.onRoot(func() error { return conclude(p.Dir, d, true) })
	if err == nil {
		seconds := time.Since(start).Seconds()
		p.Log.Info("dataset %d (%s): flushed %s in %.3f s, %s/s", d.ID(), d.Name(), report.Bytes(d.Size()), seconds,
			report.Bytes(int64(float64(d.Size())/max(seconds, 1e-9))))
	}
	return err
}

// conclude records a dataset of which all files, and the list of them, are in
// the prefix directory: from here on it can be used. A checkpoint becomes the one
// to restart from, unless that is a newer one and it shall stay.
func conclude(prefix string, d dataset.Dataset, newest bool) error {
	summary := hash.New()
	summary.SetInt(keyVersion, summaryVersion)
	summary.SetValue(keyComplete, "1")
	summary.Set(keyDset, d.Hash)
	if err := hash.WriteShared(datasetPath(prefix, d.ID(), summaryFile), summary); err != nil {
		return err
	}
	err := UpdateIndex(prefix, func(x *Index) error {
		current, _ := x.Lookup(x.Current())
		x.Add(d, true, time.Now())
		if d.Flags().Has(dataset.Checkpoint) && (newest || current <= d.ID()) {
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
