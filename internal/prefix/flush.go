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

// Flush copies a dataset to the prefix directory. parts are the files in the cache that
// the caller copies, and ranks is the size of the job that wrote them. Each rank's files
// are in the parts of exactly one process, usually of the rank itself. Flush is
// collective; the result is agreed.
//
// A flush is StartFlush, then the copy, which each rank does alone, and then
// FinishFlush; or GiveUpFlush, if not all could be copied. In Flush the program waits
// for the copy. Package mover copies while the program continues.
//
// Flush records checksums in the descriptions of files that have none, if it takes any.
//
// Until all ranks have copied all files these have temporary names: a file of their name
// may belong to an older dataset, which stays whole as long.
func (p *Prefix) Flush(d dataset.Dataset, ranks int, parts Parts) error {
	start := time.Now()
	there, err := p.StartFlush(d, ranks, parts)
	if err != nil || there {
		return err
	}
	c := p.Packer(d)
	p.Follow(c, fmt.Sprintf("dataset %d (%s): flushed", d.ID(), d.Name()), parts.Bytes())
	if p.Comm.Rank() == 0 {
		m := NewCopyMeter(p.Dir, d)
		m.Set(0, parts.Bytes())
		m.Watch(c)
	}
	cached := parts
	parts = parts.clone() // descriptions of copies differ from those of the files in the cache
	p.Copying = 0
	err = p.InTurn(p.Width, func() error {
		began := time.Now()
		defer func() { p.Copying = time.Since(began) }()
		for rank, files := range parts {
			copied, err := p.copy(c, d, files)
			if parts[rank] = copied; err != nil {
				return err
			}
		}
		return nil
	})
	if err := mpi.Agree(p.Comm, err); err != nil {
		return p.fail(d, parts, err)
	}
	cached.learn(parts)
	return p.FinishFlush(d, ranks, parts, start)
}

// fail ends a flush that has failed before it took anything from older datasets.
func (p *Prefix) fail(d dataset.Dataset, parts Parts, err error) error {
	err = errors.Join(err, parts.discard(p))
	parts.removeLists(p.Dir, d.ID())
	return errors.Join(err, p.GiveUpFlush(d))
}

// StartFlush enters a dataset as incomplete before its first byte is copied, so that
// no restart uses what an interrupted flush has left. parts are as in Flush. If there is
// nothing to copy, there is true: only a flush has to be finished, which StartFlush does, or
// all of the files belong to newer datasets. It is collective; the result is agreed.
func (p *Prefix) StartFlush(d dataset.Dataset, ranks int, parts Parts) (there bool, err error) {
	p.Log.Info("dataset %d (%s): flush to %s begins", d.ID(), d.Name(), p.Dir)
	placing, newer, outdated, err := p.standing(d)
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
	return false, p.copyTo(d, parts)
}

// standing returns the size of the job of a dataset whose files are getting their names, else
// 0; whether the index has newer datasets that may own files; and whether it has the dataset as
// replaced by one of them. It is collective; all ranks get the same result.
func (p *Prefix) standing(d dataset.Dataset) (placing int, newer, outdated bool, err error) {
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

// FinishFlush makes a dataset complete, all files of which have been copied and are
// durable, and are in the cache, too. start is when the flush began. It is collective; the
// result is agreed.
func (p *Prefix) FinishFlush(d dataset.Dataset, ranks int, parts Parts, start time.Time) error {
	if begun, err := p.completion(d, ranks, parts).run(nil, true); err != nil && begun {
		return fmt.Errorf("%w: the next run, or scr_index --build %d, finishes the flush of dataset %d", err, d.ID(), d.ID())
	} else if err != nil {
		return p.fail(d, parts, err)
	}
	parts.removeLists(p.Dir, d.ID()) // a background copy has written them
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
func (p *Prefix) copy(c *transfer.Copier, d dataset.Dataset, files []redundancy.File) ([]redundancy.File, error) {
	bring := &Bring{Prefix: p.Dir, Copy: c.Copy, Aside: func(to string) string { return Aside(to, d.ID(), ByFlush) }}
	copied, err := bring.Files(files)
	if err != nil {
		err = fmt.Errorf("flush of dataset %d: %w", d.ID(), err)
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
