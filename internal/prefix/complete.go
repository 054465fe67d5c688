package prefix

import (
	"errors"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/mpi"
)

// CompleteFlushes completes the flushes that an earlier run did not finish, if the
// lists of all ranks show that their files are in the prefix directory. It does not
// read the cache. It gives up the flush of each dataset that has missing files, and
// returns these datasets. It is collective; all ranks get the same result.
func (p *Prefix) CompleteFlushes() (missing []dataset.Dataset, err error) {
	list, err := p.flushing()
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		d := l.Dataset
		wanted, err := p.completeFlush(d, l.Ranks)
		var agreed *mpi.AgreedError
		switch {
		case err == nil && wanted:
			p.Log.Info("dataset %d (%s): all of it had been copied to %s when the previous run ended; it is complete now", l.ID, d.Name(), p.Dir)
			continue
		case err == nil:
			p.Log.Info("dataset %d (%s): its flush to %s is not completed: it has left the index, or cannot be restarted from", l.ID, d.Name(), p.Dir)
		case errors.As(err, &agreed):
			p.Log.Info("dataset %d (%s): the previous run ended before all of it was copied to %s: %v", l.ID, d.Name(), p.Dir, err)
			missing = append(missing, d)
		default:
			return nil, err // MPI itself failed
		}
		if err := p.GiveUpFlush(d); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// flushing returns the datasets whose flush was begun and not finished. It skips those
// without a number of ranks, which SCR 3.1 was flushing: it writes no lists of ranks
// from which the flush could be completed. It is collective; all ranks get the same
// result.
func (p *Prefix) flushing() (list []Located, err error) {
	all := hash.New()
	err = mpi.OnRoot(p.Comm, func() error {
		list, err := locations(p.Dir)
		for _, l := range list {
			d := l.Dataset
			if l.Is(Flushing) && d.ID() == l.ID && dataset.CheckName(d.Name()) == nil && l.Ranks > 0 && l.Ranks <= rank2file.MaxRanks {
				locate(all, d, Flushing).SetInt(keyRanks, int64(l.Ranks))
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	all, err = hash.Bcast(all, 0, p.Comm)
	return decodeFlushFile(all), err
}

// completeFlush completes a flush, or returns an error that says what is missing.
// wanted is false if the flush must not be completed, because a user has dropped the
// dataset from the index since, or because the program died while it read the copy in
// the cache. It is collective; the result is agreed.
func (p *Prefix) completeFlush(d dataset.Dataset, ranks int) (wanted bool, err error) {
	const undone, done, unwanted = 0, 1, 2
	state := undone
	err = mpi.OnRoot(p.Comm, func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return err
		}
		if !x.Has(d) || x.ByID(d.ID()).Failed {
			state = unwanted
			return nil
		}
		// The job was killed after it wrote the summary and before it updated the index.
		if f, err := Summary(p.Dir, d.ID()); err == nil && f.Complete && f.Dataset.Same(d) {
			state = done
			return conclude(p.Dir, f.Dataset)
		}
		return nil
	})
	if err != nil {
		return true, err
	}
	if state, err = mpi.AllreduceOne(p.Comm, state, mpi.Max); err != nil || state != undone {
		return state != unwanted, err
	}
	return true, p.completeFromLists(d, ranks)
}

// completeFromLists completes a flush from the lists of the ranks. It is collective;
// the result is agreed.
func (p *Prefix) completeFromLists(d dataset.Dataset, ranks int) error {
	parts, err := p.readLists(d, ranks)
	totals := []int64{0, 0}
	for _, files := range parts {
		for _, f := range files {
			totals[0]++
			totals[1] += f.Meta.Size()
		}
	}
	if err := mpi.AgreeSum(p.Comm, err, totals); err != nil {
		return err
	}
	if totals[0] != int64(d.Files()) || totals[1] != d.Size() {
		return mpi.Agree(p.Comm, errors.New("the lists of the ranks do not contain all files of the dataset"))
	}
	if err := p.commit(d, ranks, parts, p.Bare); err != nil {
		return err
	}
	p.removeParts(d, parts)
	return nil
}

// readLists reads the lists of the caller's share of the ranks, and returns their files.
// It returns an error unless all these files are in the prefix directory.
func (p *Prefix) readLists(d dataset.Dataset, ranks int) (Parts, error) {
	parts := Parts{}
	first, end := rank2file.Share(p.Comm, ranks)
	for rank := first; rank < end; rank++ {
		part, err := ReadPart(p.Dir, d.ID(), rank)
		if err != nil {
			return nil, err
		}
		if !part.Dataset.Same(d) || part.Ranks != ranks {
			return nil, errors.New("the list of a rank belongs to another dataset: " + partPath(p.Dir, d.ID(), rank))
		}
		for _, f := range part.Files {
			if err := f.Meta.CheckStored(f.Path); err != nil {
				return nil, err
			}
		}
		parts[rank] = part.Files
	}
	return parts, nil
}
