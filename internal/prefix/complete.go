package prefix

import (
	"errors"
	"fmt"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// CompleteFlushes completes the flushes that an earlier run did not finish, if the list of
// all files, or the lists of all ranks, show that the files are in the prefix directory. It
// does not read the cache. It gives up flushes that are no longer wanted, and those of
// datasets with missing files, and returns these datasets. interrupted is the result of Interrupted on rank 0. It is
// collective; all ranks get the same result.
func (p *Prefix) CompleteFlushes(interrupted *hash.Hash) (missing []dataset.Dataset, err error) {
	for _, l := range hash.As[locations](hash.Bcast(interrupted, 0, p.Comm)).list() {
		d := l.Dataset
		wanted, err := unfinished{p, d, l.Ranks}.complete()
		switch {
		case err == nil && wanted:
			p.Log.Info("dataset %d (%s): all of it had been copied to %s when the previous run ended; it is complete now", l.ID, d.Name(), p.Dir)
			continue
		case err == nil:
			p.Log.Info("dataset %d (%s): its flush to %s is not completed: it has left the index, or cannot be restarted from", l.ID, d.Name(), p.Dir)
		default:
			p.Log.Info("dataset %d (%s): the previous run ended before all of it was copied to %s: %v", l.ID, d.Name(), p.Dir, err)
			missing = append(missing, d)
		}
		if err := p.GiveUpFlush(d); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// Interrupted returns the datasets that were being flushed when the last run ended, without those of other
// jobs, which may be flushing them now; an empty hash if there are none. Rank 0 calls it, for CompleteFlushes.
func (p *Prefix) Interrupted() (*hash.Hash, error) {
	all := locations{Datasets: map[int]*Located{}}
	list, err := Locations(p.Dir)
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		d := l.Dataset
		if l.Is(Flushing) && p.Ours.has(d) && d.ID() == l.ID && dataset.CheckName(d.Name()) == nil && l.Ranks > 0 && l.Ranks <= rank2file.MaxRanks {
			all.locate(d, Flushing).Ranks = l.Ranks
		}
	}
	x, err := ReadIndex(p.Dir)
	if errors.Is(err, hash.ErrCorrupt) { // it is reported when the index is needed
		return hash.Marshal(all), nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range x.own() {
		if e.Placing > 0 && p.Ours.has(e.Dataset) && dataset.CheckName(e.Name) == nil {
			all.locate(e.Dataset, Flushing).Ranks = e.Placing
		}
	}
	return hash.Marshal(all), nil
}

// unfinished is the flush of a dataset that was interrupted.
type unfinished struct {
	p     *Prefix
	d     dataset.Dataset
	ranks int // of the job that wrote it
}

// complete completes the flush, or returns an error about files that are missing.
// wanted is false if the flush must not be completed, because a user has dropped the
// dataset from the index since, because a restart from it has failed, or because a newer
// dataset has replaced it. It is collective; the result is agreed.
func (u unfinished) complete() (wanted bool, err error) {
	p, d := u.p, u.d
	const undone, done, unwanted = 0, 1, 2
	state := undone
	err = mpi.OnRoot(p.Comm, func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return err
		}
		if e := x.ByID(d.ID()); !x.Has(d) || e.Failed || e.Replaced != nil {
			state = unwanted
			return nil
		}
		// The job was killed after it wrote the summary and before it updated the index.
		if f, err := Summary(p.Dir, d.ID()); err == nil && f.Complete && f.Dataset.Same(d) {
			state = done
			return conclude(p.Dir, f, p.at)
		}
		return nil
	})
	if err != nil {
		return true, err
	}
	if state = mpi.AllreduceOne(p.Comm, state, mpi.Max); state != undone {
		return state != unwanted, nil
	}
	return true, u.completeFromLists()
}

// Finish finishes the flush of a dataset that has a list of all files and no lists of
// single ranks: its job was interrupted while the files got their names. done reports
// whether the dataset is complete now; it is no error if files are missing. Finish is for
// commands, which run as one process.
func Finish(prefix string, id int) (d dataset.Dataset, done bool, err error) {
	err = alone(prefix, func(p *Prefix) error {
		x, err := ReadIndex(prefix)
		if err != nil {
			return err
		}
		e := x.ByID(id)
		d = e.Dataset
		if e.IsZero() || e.Complete || e.Failed || e.Replaced != nil || e.Bypass() && e.Placing == 0 {
			return nil
		}
		if lists, err := PartsOf(prefix, id); err != nil || len(lists) > 0 {
			return err
		}
		ranks, err := p.each(e.origin(), func(int, []redundancy.File) error { return nil })
		done = err == nil && unfinished{p, d, ranks}.completeFromLists() == nil
		return nil
	})
	return d, done, err
}

// completeFromLists completes the flush with the lists of the ranks, or, if there are none,
// with the list of all files, which is written before the files get their names.
func (u unfinished) completeFromLists() error {
	p, d := u.p, u.d
	parts, err := u.readLists()
	if err != nil {
		return err
	}
	totals := []int64{0, 0}
	for _, files := range parts {
		for i, f := range files {
			if err == nil {
				files[i], err = find(p.Dir, f)
			}
			if err == nil && d.Bypass() { // there are no checksums
				err = Present(files[i])
			}
			if !f.Meta.Shared() {
				totals[0]++
				totals[1] += f.Meta.Size()
			}
		}
	}
	if err := mpi.AgreeSum(p.Comm, err, totals); err != nil {
		return err
	}
	if totals[0] != int64(d.Files()) || totals[1] != d.Size() {
		return mpi.Agree(p.Comm, errors.New("the lists of the ranks do not contain all files of the dataset"))
	}
	if _, err := p.completion(d, u.ranks, parts).run(nil, false); err != nil {
		return err
	}
	parts.removeLists(p.Dir, d.ID())
	return nil
}

// readLists returns the files of the caller's share of the ranks, from the lists of these
// ranks or from the list of all files. It is collective; the result is agreed.
func (u unfinished) readLists() (Parts, error) {
	p, d := u.p, u.d
	lists, err := mpi.FromRoot(p.Comm, func() (int, error) {
		of, err := PartsOf(p.Dir, d.ID())
		return len(of), err
	})
	if err != nil {
		return nil, err
	}
	if lists > 0 {
		parts, err := u.readParts()
		return parts, mpi.Agree(p.Comm, err)
	}
	parts := Parts{}
	of, err := p.each(origin{ID: d.ID()}, func(rank int, files []redundancy.File) error {
		for i := range files {
			files[i].Path = Aside(files[i].Path, d.ID(), ByFlush)
			files[i].Meta.SetComplete(true)
		}
		parts[rank] = files
		return nil
	})
	if err == nil && of != u.ranks {
		err = mpi.Agree(p.Comm, fmt.Errorf("the list of files is of %d ranks, not %d", of, u.ranks))
	}
	return parts, err
}

// readParts returns the files on the lists of the caller's share of the ranks.
func (u unfinished) readParts() (Parts, error) {
	dir, d := u.p.Dir, u.d
	parts := Parts{}
	first, end := rank2file.Share(u.p.Comm, u.ranks)
	for rank := first; rank < end; rank++ {
		part, err := ReadPart(dir, d.ID(), rank)
		if err != nil {
			return nil, err
		}
		if !part.Dataset.Same(d) || part.Ranks != u.ranks {
			return nil, errors.New("the list of a rank belongs to another dataset: " + partPath(dir, d.ID(), rank))
		}
		parts[rank], _ = redundancy.Split(part.Files)
	}
	return parts, nil
}
