package prefix

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/compress"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/internal/progress"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/internal/transfer"
	"github.com/goscr/goscr/mpi"
)

// Flush copies a dataset to the prefix directory. parts are the files in the cache that
// the caller copies, and ranks is the size of the job that wrote them. Each rank's files
// are in the parts of exactly one process, usually of the rank itself. Flush is
// collective; the result is agreed.
//
// A flush consists of StartFlush, the copy, in which ranks do not communicate, and
// FinishFlush; or GiveUpFlush, if some files could not be copied. In Flush the program
// waits for the copy. Package mover copies in the background.
func (p *Prefix) Flush(d dataset.Dataset, ranks int, parts Parts) error {
	start := time.Now()
	if err := p.StartFlush(d, ranks); err != nil {
		return err
	}
	c := p.Packer(d)
	p.Follow(c, fmt.Sprintf("dataset %d (%s): flushed", d.ID(), d.Name()), parts.Bytes())
	parts = parts.clone() // copying changes descriptions, and those of the files in the cache must stay
	w := written{}
	err := p.InTurn(p.Width, func() error {
		for rank, files := range parts {
			if err := p.copy(w.copy(c.Copy), d, rank, files); err != nil {
				return err
			}
		}
		return nil
	})
	if err = mpi.Agree(p.Comm, err); err != nil {
		err = errors.Join(err, p.GiveUpFlush(d))
	} else {
		err = p.FinishFlush(d, ranks, parts, start)
	}
	if err == nil {
		return nil
	}
	if unfinished, e := p.Unfinished(d); e != nil || !unfinished {
		return errors.Join(err, e)
	}
	w.remove(p.Dir)
	return err
}

// Unfinished reports whether a dataset whose flush has failed is not complete in the prefix
// directory: then what was copied of it has to be removed, since it could fill the file
// system for as long as it stays. It removes the list of files. It is collective.
func (p *Prefix) Unfinished(d dataset.Dataset) (bool, error) {
	unfinished := false
	if p.Comm.Rank() == 0 {
		x, err := ReadIndex(p.Dir)
		unfinished = err == nil && x.Has(d) && !x.ByID(d.ID()).Complete
		if unfinished {
			_ = os.RemoveAll(Dir(p.Dir, d.ID())) // the next flush tries again
		}
	}
	return mpi.Any(p.Comm, unfinished)
}

// written are the files that a flush has changed in the prefix directory, as it has left
// them.
type written map[string]os.FileInfo

// copy returns copy such that the files that it changes are known.
func (w written) copy(copy func(src, dst string, md meta.Meta) error) func(src, dst string, md meta.Meta) error {
	return func(src, dst string, md meta.Meta) error {
		before, _ := os.Lstat(dst)
		err := copy(src, dst, md)
		if after, e := os.Lstat(dst); e == nil && (err == nil || !same(before, after)) {
			w[dst] = after
		}
		return err
	}
}

// remove removes the files, as far as they have not been changed since.
func (w written) remove(prefix string) {
	for path, left := range w {
		if now, err := os.Lstat(path); err == nil && same(left, now) {
			_ = os.Remove(path) // the flush has failed already
			RemoveEmpty(prefix, path)
		}
	}
}

// same reports whether a file has not been changed. before is nil if there was none.
func same(before, after os.FileInfo) bool {
	return before != nil && before.Mode().IsRegular() && os.SameFile(before, after) && before.Size() == after.Size() &&
		before.ModTime().Equal(after.ModTime())
}

// StartFlush enters a dataset as incomplete before its first byte is copied, so that
// no restart uses the files that an interrupted flush has left. It is collective; the
// result is agreed.
func (p *Prefix) StartFlush(d dataset.Dataset, ranks int) error {
	p.Log.Info("dataset %d (%s): flush to %s begins", d.ID(), d.Name(), p.Dir)
	return p.begin(d, func() error { return startFlushing(p.Dir, d, ranks) })
}

// FinishFlush makes a dataset complete, all files of which have been copied and are
// durable. start is when the flush began. It is collective; the result is agreed.
func (p *Prefix) FinishFlush(d dataset.Dataset, ranks int, parts Parts, start time.Time) error {
	if err := p.commit(d, ranks, parts, p.Bare); err != nil {
		return errors.Join(err, p.GiveUpFlush(d))
	}
	p.removeParts(d, parts) // a background copy has written them
	seconds := time.Since(start).Seconds()
	p.Log.Info("dataset %d (%s): flushed %s in %.3f s, %s/s", d.ID(), d.Name(), report.Bytes(d.Size()), seconds,
		report.Bytes(int64(float64(d.Size())/max(seconds, 1e-9))))
	return nil
}

// removeParts removes the lists of single ranks, once the list of all files is written.
func (p *Prefix) removeParts(d dataset.Dataset, parts Parts) {
	for rank := range parts {
		_ = RemovePart(p.Dir, d.ID(), rank) // a list that stays does no harm
	}
}

// GiveUpFlush records that a dataset is no longer being flushed. In the index it stays
// incomplete. It is collective; the result is agreed.
func (p *Prefix) GiveUpFlush(d dataset.Dataset) error {
	if p.interrupted == nil {
		p.interrupted = map[int]bool{}
	}
	p.interrupted[d.ID()] = true
	return mpi.OnRoot(p.Comm, func() error {
		// The entry may describe another dataset of the same id, from another job.
		if flushing, err := UnderWay(p.Dir, d); err != nil || !flushing {
			return err
		}
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

// copy copies the files of a rank to the prefix directory.
func (p *Prefix) copy(copy func(src, dst string, md meta.Meta) error, d dataset.Dataset, rank int, files []redundancy.File) error {
	bring := &Bring{Prefix: p.Dir, Copy: copy, Placed: func(i int, _ redundancy.File, to string) error {
		if p.interrupted[d.ID()] {
			_ = os.Remove(Aside(to, d.ID(), rank, i)) // the background copy may not have begun this file
		}
		return nil
	}}
	if _, err := bring.Files(files); err != nil {
		return fmt.Errorf("flush of dataset %d: %w", d.ID(), err)
	}
	return nil
}

// Begin enters a dataset in the index as incomplete, before the program itself writes
// the files to the prefix directory. It is collective; the result is agreed.
func (p *Prefix) Begin(d dataset.Dataset) error { return p.begin(d, func() error { return nil }) }

// Commit makes a dataset complete that Begin has entered. files are those of the
// calling rank, on their medium, with their paths in the prefix directory; several ranks
// may list the same path. It is collective; the result is agreed.
func (p *Prefix) Commit(d dataset.Dataset, files []redundancy.File) error {
	if err := mpi.Agree(p.Comm, syncNames(p.Dir, files)); err != nil {
		return err
	}
	return p.commit(d, p.Comm.Size(), Parts{p.Comm.Rank(): files}, false)
}

// begin enters a dataset as incomplete, makes an empty directory for its metadata, and
// then calls record on rank 0. It is collective; the result is agreed.
func (p *Prefix) begin(d dataset.Dataset, record func() error) error {
	return mpi.OnRoot(p.Comm, func() error {
		err := UpdateIndex(p.Dir, func(x *Index) error {
			if err := x.claim(p.Dir, d, false); err != nil {
				return err
			}
			x.Add(d, false, time.Now())
			return nil
		})
		if err == nil {
			err = emptyDir(p.Dir, d.ID())
		}
		if err != nil {
			return err
		}
		return record()
	})
}

// commit writes the list of files and the summary of a dataset whose files are all
// durable, and then enters it as complete. It is collective; the result is agreed.
func (p *Prefix) commit(d dataset.Dataset, ranks int, parts Parts, bare bool) error {
	// Another job may have entered a dataset of the same id meanwhile. Then its list of
	// files must not be overwritten.
	if err := mpi.OnRoot(p.Comm, func() error { return checkClaim(p.Dir, d) }); err != nil {
		return err
	}
	items, compressed := parts.items(bare)
	if err := rank2file.Write(p.Comm, Dir(p.Dir, d.ID()), ranks, items); err != nil {
		return err
	}
	some, err := mpi.Any(p.Comm, compressed > 0)
	if err != nil {
		return err
	}
	d.SetCompressed(some)
	return mpi.OnRoot(p.Comm, func() error { return conclude(p.Dir, d) })
}

// Publish makes a dataset complete whose files are all in the prefix directory: it
// writes the list of files, the summary, and the entry in the index. files returns the
// files of each of the ranks, which are numbered from 0. A checkpoint becomes current
// unless a newer one is. Publish is not collective: commands call it.
func Publish(prefix string, d dataset.Dataset, ranks int, files func(rank int) []redundancy.File) error {
	parts := Parts{}
	for rank := range ranks {
		parts[rank] = files(rank)
	}
	if err := hash.MakeDirs(Dir(prefix, d.ID())); err != nil {
		return err
	}
	return alone(prefix, func(p *Prefix) error { return p.commit(d, ranks, parts, false) })
}
