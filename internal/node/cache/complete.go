package cache

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Complete makes a dataset usable: it records size and mode of every file, agrees
// with all ranks that all are valid, encodes, and records the dataset as complete on
// every rank before any rank relies on it. failed is nil if the caller's files are
// valid, else the reason why they are not. If they are invalid on any rank, Complete
// deletes the dataset and returns the reason on all ranks. It is collective.
func (k *Cache) Complete(c *Cached, failed error) error {
	err := k.complete(c, failed, nil)
	k.Unused.spoiled = k.Unused.spoiled || err != nil
	return err
}

// Fetched is Complete for a dataset that was copied from the prefix directory. Where files have checksums, it compares
// these with those of the bytes that it encodes, unless changed is nil, which it calls for the first file that differs and which returns
// the error. What is damaged there says nothing about room in the cache.
func (k *Cache) Fetched(c *Cached, failed error, changed func(f redundancy.File) error) error {
	var check func([]redundancy.File) error
	if changed != nil {
		check = differs(k.Files(c.ID()), changed)
	}
	err := k.complete(c, failed, check)
	if err != nil && mpi.Any(k.Config.World, noRoom(err)) {
		k.Unused.spoiled = true
	}
	return err
}

// differs returns a function that calls changed for the first file of which the description has another checksum than
// it has now.
func differs(files []redundancy.File, changed func(redundancy.File) error) func([]redundancy.File) error {
	want := map[string]uint32{}
	for _, f := range files {
		if crc, known := f.Meta.CRC(); known {
			want[f.Path] = crc
		}
	}
	return func(files []redundancy.File) error {
		for _, f := range files {
			crc, known := want[f.Path]
			if now, _ := f.Meta.CRC(); known && now != crc {
				f.Meta = f.Meta.Clone()
				f.Meta.SetCRC(crc)
				return changed(f)
			}
		}
		return nil
	}
}

// complete does the work of Complete. check, unless nil, is called when all files have been read.
func (k *Cache) complete(c *Cached, failed error, check func([]redundancy.File) error) error {
	files, err := k.validate(c, failed)
	if err != nil {
		return err
	}
	start := time.Now()
	made, err := c.Desc.Scheme.Encode(k.parts.job(c), redundancy.Counted(files))
	if err == nil && check != nil {
		err = check(redundancy.Counted(files))
	}
	c.encoding = time.Since(start)
	unchecked, err := k.encoded(c, files, made, err)
	if err != nil {
		return k.abandon(c, nil, err)
	}
	if k.parts.places.world[c.ID()] {
		if err := k.copies.keep(c, append(files, made...)); err != nil {
			return k.abandon(c, nil, err)
		}
	}
	// Now a rank that is lost can be rebuilt, so it does no harm if the job dies while only
	// some of the ranks have recorded that the dataset is complete.
	c.SetComplete(true)
	k.Happened(c, life.Completed, life.Facts{Unchecked: unchecked})
	return k.include(c, append(files, made...))
}

// validate agrees with all ranks that all files of a dataset are valid, and returns the caller's. If files are not valid
// it deletes the dataset. It is collective; the error is agreed.
func (k *Cache) validate(c *Cached, failed error) ([]redundancy.File, error) {
	v := &validation{world: k.Config.World, files: k.Files(c.ID()), failed: failed}
	totals, err := v.run(k.Common(c.ID()) != "")
	if err != nil {
		return nil, k.abandon(c, v.failed, err)
	}
	c.SetTotals(totals[0], totals[1])
	return v.files, nil
}

// validation finds out whether the files of a dataset are valid when all ranks have written them.
type validation struct {
	world  mpi.Comm
	files  []redundancy.File // of the caller
	failed error             // why these are not valid, nil if they are
}

// run records size and mode of the caller's files, and agrees with all ranks that all files are valid. common says whether
// several ranks may write one file. It returns the number of all files and their bytes. It is collective; the error is agreed.
func (v *validation) run(common bool) (totals []int64, err error) {
	if common {
		if err := v.share(); err != nil {
			return nil, err
		}
	}
	named := v.files // of ranks that were given all paths
	if v.failed != nil && !errors.Is(v.failed, ErrInvalid) {
		named = nil
	}
	totals = []int64{0, 0}
	for _, f := range v.files {
		if err := f.Record(); err != nil {
			v.failed = cmp.Or(v.failed, err)
			continue
		}
		f.Meta.SetComplete(true)
		if !f.Meta.Shared() {
			totals[0]++
			totals[1] += f.Meta.Size()
		}
	}
	err = mpi.AgreeSum(v.world, v.failed, totals)
	switch {
	case common && err == nil:
		err = v.sameSizes()
	case !common:
		// MPI-IO and HDF5 cannot open a file of several ranks on several nodes, so a program can only say that its file is
		// not valid.
		err = cmp.Or(v.unique(named), err)
	}
	return totals, err
}

// encoded agrees that all ranks have encoded a dataset, of which own are the caller's files, and sums the sizes of
// their redundancy files, those of the caller being made. left is whether files of some rank have no checksum. It is collective; the
// error is agreed.
func (k *Cache) encoded(c *Cached, own, made []redundancy.File, err error) (left bool, agreed error) {
	sums := []int64{0, one(unchecked(own))}
	for _, f := range made {
		sums[0] += f.Meta.Size()
	}
	err = mpi.AgreeSum(k.Config.World, err, sums)
	if err == nil { // after an error sums are the caller's
		c.redundancy = sums[0]
	}
	return sums[1] > 0, err
}

// unchecked reports whether a file that the caller counts has no checksum.
func unchecked(own []redundancy.File) bool {
	return slices.ContainsFunc(redundancy.Counted(own), func(f redundancy.File) bool { _, known := f.Meta.CRC(); return !known })
}

// include records that all of a dataset's files are whole, on all ranks, and adds it
// to the list.
func (l *UsableList) include(c *Cached, files []redundancy.File) error {
	err := l.record(c, files)
	if c.own && noRoom(err) {
		// The entries on disk are those from which this run began, so the next run can
		// restore the dataset in the same way.
		l.parts.log.Warn("dataset %d: what has been done to use it again cannot be recorded: %v", c.ID(), err)
		err = nil
	}
	if err := mpi.Agree(l.parts.world, err); err != nil {
		return l.abandon(c, nil, err)
	}
	l.insert(c)
	return nil
}

// insert adds a dataset to the list.
func (l *UsableList) insert(c *Cached) {
	at := 0
	for at < len(l.list) && l.list[at].ID() > c.ID() {
		at++
	}
	l.list = slices.Insert(l.list, at, c)
}

// record records the caller's files of a dataset, and how many it has if all are there. It is
// not collective.
func (l *UsableList) record(c *Cached, files []redundancy.File) error {
	id := c.ID()
	for _, f := range files {
		l.parts.maps.Map.AddFile(id, l.parts.me(), f.Path, f.Meta)
	}
	expected := len(files)
	if c.bare { // the next run finds that a file is missing, and tries to make it again
		expected++
	}
	l.parts.maps.SetExpected(id, l.parts.me(), expected, l.parts.world.Size())
	l.descs.describe(c)
	return l.parts.maps.Fold()
}

// abandon deletes a dataset that cannot become usable, and returns the reason why. failed is
// why the caller's own files are not valid, nil if they are or if that is not the reason.
func (l *UsableList) abandon(c *Cached, failed, why error) error {
	why = l.explain(c, failed, why)
	l.parts.leaves(c)
	l.Delete(c.ID())
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
func (v *validation) unique(files []redundancy.File) error {
	owners, err := redundancy.Owners(v.world, redundancy.Names(files))
	if err != nil || owners == nil {
		return err
	}
	for name, rank := range owners {
		err = fmt.Errorf("%s is also written by rank %d: %w", name, rank, ErrShared)
	}
	return mpi.Agree(v.world, err)
}
