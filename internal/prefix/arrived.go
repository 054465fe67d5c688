package prefix

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/mpi"
)

// CompleteFlushes completes the flushes that were under way when an earlier run
// ended, and of which every rank's files had arrived by now, as their lists say. It
// needs nothing of the cache. It returns the datasets of which something is missing:
// they are not on their way any more. It is collective; all ranks get the same.
func (p *Prefix) CompleteFlushes() (missing []dataset.Dataset, err error) {
	list := hash.New()
	err = p.onRoot(func() error {
		h, err := hash.ReadWithLock(metadataPath(p.Dir, flushFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for id, e := range h.Get(keyDataset).All() {
			if e.Has(keyLocation, string(Flushing)) {
				list.Set(id, e)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if list, err = hash.Bcast(list, 0, p.Comm); err != nil {
		return nil, err
	}
	for _, id := range list.Ints() {
		e := list.Get(strconv.Itoa(id))
		d := dataset.Dataset{Hash: e.Get(keyDesc)}
		ranks, known := e.Int(keyRanks)
		if d.ID() != id || dataset.CheckName(d.Name()) != nil || !known || ranks < 1 || ranks > maxRanks {
			continue // of a library that keeps no lists
		}
		wanted, err := p.completeFlush(d, int(ranks))
		var agreed *mpi.AgreedError
		switch {
		case err == nil && !wanted:
			p.Log.Info("dataset %d (%s): its flush to %s is not completed: it has left the index, or cannot be restarted from", id, d.Name(), p.Dir)
			if err := p.GiveUpFlush(d); err != nil {
				return nil, err
			}
		case err == nil:
			p.Log.Info("dataset %d (%s): all of it had been copied to %s when the run before ended; it is complete now", id, d.Name(), p.Dir)
		case errors.As(err, &agreed):
			p.Log.Info("dataset %d (%s): the run before ended before all of it was copied to %s: %v", id, d.Name(), p.Dir, err)
			if err := p.GiveUpFlush(d); err != nil {
				return nil, err
			}
			missing = append(missing, d)
		default:
			return nil, err // MPI itself has failed
		}
	}
	return missing, nil
}

// completeFlush completes one of them, or says what is missing. It is not wanted any
// more if somebody has dropped it since, or the program has died of what it read from
// its copy in the cache. The result is agreed.
func (p *Prefix) completeFlush(d dataset.Dataset, ranks int) (wanted bool, err error) {
	const done, unwanted = 1, 2
	state := []int64{0}
	err = p.onRoot(func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return err
		}
		if !x.Has(d) || x.entry(d.ID()).Failed {
			state[0] = unwanted
			return nil
		}
		// Killed between the summary and the index.
		if f, err := Summary(p.Dir, d.ID()); err == nil && f.Complete && Same(f.Dataset, d) {
			state[0] = done
			return conclude(p.Dir, f.Dataset)
		}
		return nil
	})
	if err != nil {
		return true, err
	}
	if err := p.Comm.Allreduce(state, mpi.Max); err != nil || state[0] != 0 {
		return state[0] != unwanted, err
	}
	return true, p.completeFromLists(d, ranks)
}

// completeFromLists is completeFlush for one of which there are only the lists of its
// ranks.
func (p *Prefix) completeFromLists(d dataset.Dataset, ranks int) error {
	parts, err := p.arrived(d, ranks)
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
		return mpi.Agree(p.Comm, errors.New("the lists of the ranks are not of all files"))
	}
	if err := p.commit(d, ranks, parts.entries(p.Bare)); err != nil {
		return err
	}
	for rank := range parts {
		_ = os.Remove(partPath(Dir(p.Dir, d.ID()), rank)) // the list of all says the same
	}
	return nil
}

// arrived returns what the lists of some of the ranks of a dataset say, and an error
// unless all of that is there. Each rank is looked at by one process.
func (p *Prefix) arrived(d dataset.Dataset, ranks int) (Parts, error) {
	parts, size := Parts{}, p.Comm.Size()
	// Those that owner gives the caller stand together.
	first := (p.Comm.Rank()*ranks + size - 1) / size
	for rank := first; rank < ranks && owner(rank, ranks, size) == p.Comm.Rank(); rank++ {
		part, err := ReadPart(p.Dir, d.ID(), rank)
		if err != nil {
			return nil, err
		}
		if !Same(part.Dataset, d) || part.Ranks != ranks {
			return nil, errors.New("the list of a rank is of another dataset: " + partPath(Dir(p.Dir, d.ID()), rank))
		}
		for _, f := range part.Files {
			if err := f.Meta.CheckKept(f.Path); err != nil {
				return nil, err
			}
		}
		parts[rank] = part.Files
	}
	return parts, nil
}
