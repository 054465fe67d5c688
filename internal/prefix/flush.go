package prefix

import (
	"errors"
	"fmt"
	"time"

	"github.com/goscr/goscr/internal/observe/progress"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/compress"
	"github.com/goscr/goscr/mpi"
)

// Flush copies a dataset to the prefix directory: Start, then the copy, which each rank does
// alone, and then Finish; or GiveUpFlush, if not all could be copied. In Run the program
// waits for the copy. Package mover copies while the program continues.
//
// Until all ranks have copied all files these have temporary names: a file of their name
// may belong to an older dataset, which stays whole as long.
type Flush struct {
	p     *Prefix
	d     dataset.Dataset
	ranks int
	parts Parts // files in the cache, and later their copies
	// Copying is how long the caller's copies took in Run.
	Copying time.Duration
}

// NewFlush returns the flush of a dataset. parts are the files in the cache that the caller
// copies, and ranks is the size of the job that wrote them. Each rank's files are in the
// parts of exactly one process, usually of the rank itself.
func (p *Prefix) NewFlush(d dataset.Dataset, ranks int, parts Parts) *Flush {
	return &Flush{p: p, d: d, ranks: ranks, parts: parts}
}

// Run flushes the dataset. It records checksums in the descriptions of files that have none,
// if it takes any. It is collective; the result is agreed.
func (f *Flush) Run() error {
	start := time.Now()
	there, err := f.Start()
	if err != nil || there {
		return err
	}
	p, d, cached := f.p, f.d, f.parts
	c := p.Packer(d)
	p.Follow(c, fmt.Sprintf("dataset %d (%s): flushed", d.ID(), d.Name()), cached.Bytes())
	if p.Comm.Rank() == 0 {
		m := NewCopyMeter(p.Dir, d)
		m.Set(0, cached.Bytes())
		m.Watch(c)
	}
	f.parts = cached.clone() // descriptions of copies differ from those of the files in the cache
	err = p.InTurn(p.Width, func() error {
		began := time.Now()
		defer func() { f.Copying = time.Since(began) }()
		for rank, files := range f.parts {
			copied, err := f.copy(c, files)
			if f.parts[rank] = copied; err != nil {
				return err
			}
		}
		return nil
	})
	if err := mpi.Agree(p.Comm, err); err != nil {
		return f.fail(err)
	}
	cached.learn(f.parts)
	return f.Finish(f.parts, start)
}

// fail ends a flush that has failed before it took anything from older datasets.
func (f *Flush) fail(err error) error {
	err = errors.Join(err, f.parts.discard(f.p))
	f.parts.removeLists(f.p.Dir, f.d.ID())
	return errors.Join(err, f.p.GiveUpFlush(f.d))
}

// Start enters the dataset as incomplete before its first byte is copied, so that
// no restart uses what an interrupted flush has left. If there is nothing to copy, there is
// true: only a flush has to be finished, which Start does, or all of the files belong to
// newer datasets. It is collective; the result is agreed.
func (f *Flush) Start() (there bool, err error) {
	p, d, ranks, parts := f.p, f.d, f.ranks, f.parts
	p.Log.Info("dataset %d (%s): flush to %s begins", d.ID(), d.Name(), p.Dir)
	placing, newer, outdated, err := f.standing()
	if outdated { // a kill may have come before the last of its temporary files was removed
		err = mpi.OnRoot(p.Comm, func() error { return removeLitter(p.Dir, d.ID(), nil) })
	}
	if err != nil || outdated {
		return outdated, err
	}
	if placing == ranks {
		err := unfinished{p, d, ranks}.completeFromLists()
		if err == nil {
			return true, nil
		}
		p.Log.Info("dataset %d (%s): not all of it is in %s, it is flushed again: %v", d.ID(), d.Name(), p.Dir, err)
	}
	if err := distinct(p.Comm, p.Dir, parts); err != nil {
		return false, err
	}
	if err := p.begin(d, func() error { return startFlushing(p.Dir, d, ranks) }); err != nil {
		return false, err
	}
	if newer {
		if there, err := p.completion(d, ranks, parts).outdated(); there || err != nil {
			return there, err
		}
	}
	return false, f.copyTo()
}

// standing returns the size of the job of the dataset if its files are getting their names, else
// 0; whether the index has newer datasets that may own files; and whether it has the dataset as
// replaced by one of them. It is collective; all ranks get the same result.
func (f *Flush) standing() (placing int, newer, outdated bool, err error) {
	p, d := f.p, f.d
	state := []int64{0, 0, 0}
	err = mpi.OnRoot(p.Comm, func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return err
		}
		state[1] = int64(len(x.after(d)))
		if e := x.ByID(d.ID()); x.Has(d) {
			state[0] = int64(e.Placing)
			if x.Outdated(e) {
				state[2] = 1
			}
		}
		return nil
	})
	if err == nil { // the other ranks have zeros
		p.Comm.Allreduce(state, mpi.Max)
	}
	return int(state[0]), state[1] > 0, state[2] > 0, err
}

// Finish makes the dataset complete, all files of which have been copied and are
// durable, and are in the cache, too. copied are the caller's, and start is when the flush
// began. It is collective; the result is agreed.
func (f *Flush) Finish(copied Parts, start time.Time) error {
	p, d := f.p, f.d
	f.parts = copied
	if begun, err := p.completion(d, f.ranks, copied).run(nil, true); err != nil && begun {
		return fmt.Errorf("%w: the next run, or scr_index --build %d, finishes the flush of dataset %d", err, d.ID(), d.ID())
	} else if err != nil {
		return f.fail(err)
	}
	copied.removeLists(p.Dir, d.ID()) // a background copy has written them
	seconds := time.Since(start).Seconds()
	p.Log.Info("dataset %d (%s): flushed %s in %.3f s, %s/s", d.ID(), d.Name(), report.Bytes(d.Size()), seconds,
		report.Bytes(int64(float64(d.Size())/max(seconds, 1e-9))))
	return nil
}

// GiveUpFlush records that a dataset is not being flushed any more; the index has it as
// incomplete already. It is collective; the result is agreed.
func (p *Prefix) GiveUpFlush(d dataset.Dataset) error {
	return mpi.OnRoot(p.Comm, func() error {
		// The entry may describe another dataset of the same id, from another job.
		if flushing, err := UnderWay(p.Dir, d); err != nil || !flushing {
			return err
		}
		forgetCopied(p.Dir, d.ID())
		return p.Spare(Locate(p.Dir, d, Flushing, false))
	})
}

// Packer returns a Copier to the prefix directory, which compresses the files of a
// dataset if they are to be compressed.
func (p *Prefix) Packer(d dataset.Dataset) *transfer.Copier {
	c := p.Copier()
	c.Compress = p.Compression(d)
	return c
}

// Compression returns the compression of a dataset's files in the prefix directory.
func (p *Prefix) Compression(d dataset.Dataset) compress.Method {
	if d.Flags().Has(dataset.Output) {
		return compress.Method{}
	}
	return p.Compress
}

// Copier returns a Copier to and from the prefix directory that does not compress.
func (p *Prefix) Copier() *transfer.Copier {
	c := transfer.NewCopier(p.Buffer)
	c.Below = p.root()
	c.Bare, c.Blind = p.Bare, p.Blind
	c.Stalled = func(err error) { p.Log.Warn("%v", err) }
	return c
}

// reportInterval is the time between two log lines about the progress of a copy.
const reportInterval = 10 * time.Second

// Follow makes c log its progress on rank 0, if debug output is on, and the copy takes
// longer than reportInterval. what begins the log line, and bytes is how many rank 0 is
// going to copy.
func (p *Prefix) Follow(c *transfer.Copier, what string, bytes int64) {
	if p.Comm.Rank() != 0 || p.Log.Debug < 1 {
		return
	}
	lines := &progress.Lines{Log: p.Log, What: what + " by this rank", Each: reportInterval}
	lines.Expect(bytes)
	c.Step = func(bytes int) error { lines.Add(int64(bytes)); return nil }
}

// copy copies the files of a rank to the prefix directory. What it has copied is
// returned with an error, too.
func (f *Flush) copy(c *transfer.Copier, files []redundancy.File) ([]redundancy.File, error) {
	bring := &Bring{Prefix: f.p.Dir, Copy: c.Copy, Aside: func(to string) string { return Aside(to, f.d.ID(), ByFlush) }}
	copied, err := bring.Files(files)
	if err != nil {
		err = fmt.Errorf("flush of dataset %d: %w", f.d.ID(), err)
	}
	return copied, err
}

// Begin enters a dataset in the index as incomplete, before the program itself writes
// the files to the prefix directory. It is collective; the result is agreed.
func (p *Prefix) Begin(d dataset.Dataset) error {
	if err := (retirement{p, d}).named(); err != nil {
		return err
	}
	return p.begin(d, func() error { return nil })
}

// Commit makes a dataset complete that Begin entered. files are the caller's, with
// their paths in the prefix directory; several ranks may have one of the same path.
// existing are the names of those that were there before the program wrote them: older
// datasets that own these are not complete any more. They were damaged since the program
// began to write. It is collective; the result is agreed.
func (p *Prefix) Commit(d dataset.Dataset, files []redundancy.File, existing map[string]bool) error {
	if err := mpi.Agree(p.Comm, syncNames(p.Dir, files)); err != nil {
		return err
	}
	c := p.completion(d, p.Comm.Size(), Parts{p.Comm.Rank(): files})
	c.bare = false
	_, err := c.run(existing, false)
	return err
}

// begin enters a dataset as incomplete, makes an empty directory for its metadata, and
// then calls record on rank 0. It is collective; the result is agreed.
func (p *Prefix) begin(d dataset.Dataset, record func() error) error {
	return mpi.OnRoot(p.Comm, func() error {
		again := false
		err := UpdateIndex(p.Dir, func(x *Index) error {
			if err := errors.Join(x.claim(p.Dir, d, false), p.Ours.checkName(p.Dir, x, d)); err != nil {
				return err
			}
			again = x.Has(d)
			x.Add(d, false, time.Now())
			return nil
		})
		if err == nil && !again { // temporary files of this dataset are used again
			_ = removeLitter(p.Dir, d.ID(), nil) // what stays does no harm
		}
		if err == nil {
			err = emptyDir(p.Dir, d.ID())
		}
		if err != nil {
			return err
		}
		return record()
	})
}
