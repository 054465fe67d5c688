package cache

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Complete makes a dataset usable: it records size and mode of every file, agrees
// with all ranks that all are valid, encodes, and records the dataset as complete on
// every rank before any rank relies on it. failed is nil if the caller's files are
// valid, else the reason why they are not. If they are invalid on any rank, Complete
// deletes the dataset and returns the reason on all ranks. It is collective.
func (k *Cache) Complete(c *Cached, failed error) error {
	err := k.complete(c, failed)
	k.spoiled = k.spoiled || err != nil
	return err
}

// Fetched is Complete for a dataset that was copied from the prefix directory. What is damaged
// there says nothing about room in the cache.
func (k *Cache) Fetched(c *Cached, failed error) error {
	err := k.complete(c, failed)
	if !errors.As(err, new(*mpi.AgreedError)) {
		return err
	}
	full, e := mpi.Any(k.World, noRoom(err))
	k.spoiled = k.spoiled || full
	return cmp.Or(e, err)
}

func (k *Cache) complete(c *Cached, failed error) error {
	id := c.ID()
	files := k.Files(id)
	world := k.places.world[id]
	if world {
		if err := k.share(files, failed); err != nil {
			return k.abandon(c, failed, err)
		}
	}
	named := files // of ranks that were given all paths
	if failed != nil && !errors.Is(failed, ErrInvalid) {
		named = nil
	}
	totals := []int64{0, 0} // files and bytes
	for _, f := range files {
		if err := f.Record(); err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		f.Meta.SetComplete(true)
		if !f.Meta.Shared() {
			totals[0]++
			totals[1] += f.Meta.Size()
		}
	}
	if err := mpi.AgreeSum(k.World, failed, totals); err != nil {
		if !world {
			err = k.cause(named, err)
		}
		return k.abandon(c, failed, err)
	}
	check := k.unique
	if world {
		check = k.sameSizes
	}
	if err := check(files); err != nil {
		return k.abandon(c, nil, err)
	}
	c.SetTotals(totals[0], totals[1])

	start := time.Now()
	made, err := c.Desc.Scheme.Encode(k.job(c), redundancy.Counted(files))
	c.encoding = time.Since(start)
	var extra int64
	for _, f := range made {
		extra += f.Meta.Size()
	}
	if c.redundancy, err = mpi.AgreeSumOne(k.World, err, extra); err != nil {
		return k.abandon(c, nil, err)
	}
	if world {
		if err := k.keepCopies(c, append(files, made...)); err != nil {
			return k.abandon(c, nil, err)
		}
	}
	// Now a rank that is lost can be rebuilt, so it does no harm if the job dies while only
	// some of the ranks have recorded that the dataset is complete.
	c.SetComplete(true)
	return k.usable(c, append(files, made...))
}

// usable records that all of a dataset's files are whole, on all ranks, and adds it
// to the list.
func (k *Cache) usable(c *Cached, files []redundancy.File) error {
	id := c.ID()
	for _, f := range files {
		k.parts.maps.Map.AddFile(id, k.parts.me(), f.Path, f.Meta)
	}
	expected := len(files)
	if c.bare { // the next run finds that a file is missing, and tries to make it again
		expected++
	}
	k.parts.maps.SetExpected(id, k.parts.me(), expected, k.World.Size())
	k.descs.describe(c)
	err := k.parts.maps.Fold()
	if c.restored && noRoom(err) {
		// The entries on disk are those from which this run began, so the next run can
		// restore the dataset in the same way.
		k.Log.Warn("dataset %d: what has been done to use it again cannot be recorded: %v", id, err)
		err = nil
	}
	if err := mpi.Agree(k.World, err); err != nil {
		return k.abandon(c, nil, err)
	}
	at := 0
	for at < len(k.list) && k.list[at].ID() > id {
		at++
	}
	k.list = slices.Insert(k.list, at, c)
	return nil
}

// abandon deletes a dataset that cannot become usable, and returns the reason why. failed is
// why the caller's own files are not valid, nil if they are or if that is not the reason.
func (k *Cache) abandon(c *Cached, failed, why error) error {
	why = k.explain(c, failed, why)
	if err := k.Delete(c.ID()); err != nil {
		k.Log.Warn("dataset %d could not be deleted from the cache: %v", c.ID(), err)
	}
	return why
}

// ErrShared is the error of a dataset of which two ranks have written one file.
var ErrShared = mpi.NewKind(5, "in the caches of nodes each rank needs files of its own. A file of several ranks needs storage "+
	"that all of them share: SCR_CACHE_BYPASS=1 (the parallel file system), or STORE=DIR GROUP=WORLD and CKPT=0 STORE=DIR; "+
	"see docs/shared-files.md")

// ErrInvalid is why a dataset is not completed whose files the program has not written.
var ErrInvalid = errors.New("are not valid")

// unique checks that no two ranks write files of the same name: in the caches of two nodes
// these are different files, and a flush would lose one of them. It is collective; the
// result is agreed.
func (k *Cache) unique(files []redundancy.File) error {
	owners, err := redundancy.Owners(k.World, redundancy.Names(files))
	if err != nil || owners == nil {
		return err
	}
	for name, rank := range owners {
		err = fmt.Errorf("%s is also written by rank %d: %w", name, rank, ErrShared)
	}
	return mpi.Agree(k.World, err)
}

// cause returns ErrShared in place of the agreed error of a dataset that is not valid, if several ranks
// have a file of the same name. MPI-IO and HDF5 cannot open such a file on several nodes, so a
// program can only say that its file is not valid. It is collective.
func (k *Cache) cause(files []redundancy.File, err error) error {
	if !errors.As(err, new(*mpi.AgreedError)) {
		return err
	}
	return cmp.Or(k.unique(files), err)
}
