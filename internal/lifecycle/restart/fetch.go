package restart

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/lifecycle/flush"
	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
)

// errUnusable says that a checkpoint in the prefix directory is damaged, so that no run
// can use it.
var errUnusable = mpi.NewKind(4, "is not what was written")

// unusableError adds errUnusable to an error that says how a checkpoint is damaged.
type unusableError struct{ error }

// unusable adds errUnusable to an error of a checkpoint in the prefix directory, unless only the caller cannot read it.
func unusable(err error) error {
	if isCurable(err) {
		return err
	}
	return &unusableError{err}
}

func (e *unusableError) Unwrap() []error { return []error{e.error, errUnusable} }

// compressedError says that the program cannot read a checkpoint in the prefix directory,
// because its files are compressed. shared says that it cannot be copied to the cache because
// several ranks have one file.
type compressedError struct {
	name   string
	shared bool
}

func (e *compressedError) Error() string {
	start := "without SCR_FETCH_BYPASS, SCR_GLOBAL_RESTART and SCR_CACHE_BYPASS"
	if e.shared {
		start = "with a store that all ranks share (STORE=DIR GROUP=WORLD), since several ranks have one file"
	}
	return fmt.Sprintf("its files are compressed, and cannot be read where they are: start again %s, or run scr_index --expand '%s' first", start, e.name)
}

// fetch tries to offer a checkpoint of the prefix directory, and reports whether it has
// succeeded. If not, it warns. It marks a damaged checkpoint as failed; others it does
// not mark, because a run of another size, or with enough space in its cache, can use
// them. It is an error if only something here is in the way that the user can mend, and no older checkpoint is
// offered: the run would start from the beginning.
func (r *Restart) fetch(d dataset.Dataset) (ok bool, err error) {
	if r.refused.useless[d.ID()] {
		return false, nil
	}
	start := time.Now()
	r.Events.Dataset(eventlog.FetchStart, d, eventlog.Record{Note: r.Prefix.Dir})
	err = r.offerFrom(d, start)
	r.Events.Result(eventlog.FetchSuccess, eventlog.FetchFail, d, start, err)
	if err != nil {
		r.refused.note("%s cannot be fetched: %v", d.Name(), err)
		if mpi.Any(r.World, isCurable(err)) && r.offered == nil {
			return false, fmt.Errorf("checkpoint %s cannot be fetched: %w; it is not marked as failed: make room, or mend what is in the way, and start again. "+
				"SCR_RESTART=never starts from the beginning", d.Name(), err)
		}
		r.Log.WarnJob("checkpoint %s cannot be fetched: %v", d.Name(), err)
		if errors.Is(err, errUnusable) && !errors.Is(err, prefix.ErrRanks) {
			if err := r.Prefix.Failed(d, "it could not be fetched: "+err.Error()); err != nil {
				r.Log.WarnJob("checkpoint %s cannot be marked as failed, so the next run will try it again: %v", d.Name(), err)
			}
		}
		return false, nil
	}
	if c := r.offered.cached; c != nil {
		r.Events.Copied(eventlog.Fetch, c.Dataset, r.Prefix.Dir, c.Desc.Store, start)
	}
	r.offered.unmarked = true
	if r.rung != cached { // else offerNewer may offer the current one instead
		MarkOffered(r)
	}
	return true, nil
}

// MarkOffered makes the offered checkpoint the current one of the prefix directory, if it was found there, and not marked yet. It is
// collective.
func MarkOffered(r *Restart) {
	if r.offered == nil || !r.offered.unmarked {
		return
	}
	r.offered.unmarked = false
	if err := r.Prefix.Fetched(r.offered.Dataset, r.Current.record); err != nil {
		r.Log.WarnJob("cannot record that checkpoint %s was fetched: %v", r.offered.Name(), err)
	}
}

// isCurable reports whether an error of a fetch is about room or rights where the caller runs, or the index, and not about the checkpoint.
func isCurable(err error) bool {
	if errors.Is(err, errUnusable) {
		return false
	}
	return slices.ContainsFunc([]error{cache.ErrOtherProgram, prefix.ErrIndex, unix.ENOSPC, unix.EDQUOT, unix.EROFS, fs.ErrPermission}, func(is error) bool { return errors.Is(err, is) })
}

// offerFrom offers a checkpoint of the prefix directory. Either it copies the checkpoint
// to the cache, where it is protected like a new one, or the program reads it in the
// prefix directory.
func (r *Restart) offerFrom(d dataset.Dataset, start time.Time) error {
	l, err := r.Prefix.List(d.ID())
	if err != nil {
		return unusable(err)
	}
	d = l.Dataset
	desc, store := r.Protect(d)
	sameSize := l.Ranks == r.World.Size()
	inPlace := d.Bypass() || desc.Bypass || r.InPlace || r.Global
	unfit := false // several ranks have one file, and the store is not one that all ranks share
	if sameSize && !inPlace {
		if unfit, err = r.share(l.Files, store); err != nil {
			return err
		}
	}
	if inPlace || unfit {
		if d.Compressed() {
			return &compressedError{d.Name(), unfit}
		}
		if err := mpi.Agree(r.World, prefix.Unchanged(l.Files)); err != nil {
			return unusable(err)
		}
		var own []redundancy.File // unknown if the job has another size
		if sameSize {
			own = l.Files
		}
		r.offered = newOffer(d, own)
		r.offered.place = l.Place
		r.Log.Info("checkpoint %s: %s are read where they are in %s", d.Name(), report.Bytes(d.Size()), r.Prefix.Dir)
		return nil
	}
	if !sameSize {
		return &prefix.RanksError{Name: "checkpoint " + d.Name(), Ranks: l.Ranks, Size: r.World.Size()}
	}
	stays := r.fallback(d)
	c, err := r.copyToCache(d, l.Files, desc, store, stays)
	if err != nil {
		again := r.Cache.Unused.Yield(err)
		noRoom := mpi.Any(r.World, isCurable(err))
		if noRoom && stays != nil && r.rung == named {
			// The cache may have room for one of them only, so the other one leaves it first.
			if err := verify(r, l.Files); err != nil {
				return err
			}
			again, stays = true, nil
		}
		if again {
			c, err = r.copyToCache(d, l.Files, desc, store, stays)
		}
	}
	if err != nil {
		return err
	}
	r.Cache.Happened(c, life.FoundFlushed)
	r.offerCached(c)
	r.Log.Info("checkpoint %s: fetched %s in %.3f s", d.Name(), report.Bytes(d.Size()), time.Since(start).Seconds())
	return nil
}

// verify reads the caller's files in the prefix directory, and compares them with their checksums, on as many ranks at a time as fetch
// files. It is collective; the result is agreed.
func verify(r *Restart, files []redundancy.File) error {
	return mpi.Agree(r.World, r.Prefix.InTurn(r.Width, func() error {
		copier := r.Prefix.Copier()
		for _, f := range files {
			if f.Meta.Shared() {
				continue
			}
			if _, err := copier.Verify(f.Path, f.Meta.Clone()); err != nil {
				return unusable(err)
			}
		}
		return nil
	}))
}

// share records in the descriptions of the caller's files which of them are counted with
// another rank: a list that SCR 3.1 has written does not say that. unfit reports whether there
// are such files and a store cannot hold them. It is collective; the result is agreed.
func (r *Restart) share(files []redundancy.File, store *reddesc.Store) (unfit bool, err error) {
	owners, err := redundancy.Owners(r.World, redundancy.Names(files))
	if err != nil {
		return false, err
	}
	for _, f := range files {
		if owner, shared := owners[f.Meta.File()]; shared {
			f.Meta.SetShared(owner)
		}
	}
	return owners != nil && !store.World, nil
}

// fallback returns the newest checkpoint of the cache that may be offered if d cannot be fetched, nil if there is none.
func (r *Restart) fallback(d dataset.Dataset) *cache.Cached {
	switch {
	case r.offered != nil && r.offered.cached != nil:
		return r.offered.cached
	case r.offered != nil || r.rung == named: // what is offered is read where it is, and may be refused
		return r.Cache.NewestCheckpoint(d.Series())
	}
	return nil
}

// copyToCache copies a checkpoint of the prefix directory to the cache. files are the
// caller's. The checkpoint stays, if it has to leave the cache, leaves only once the copy is complete.
func (r *Restart) copyToCache(d dataset.Dataset, files []redundancy.File, desc *reddesc.Descriptor, store *reddesc.Store, stays *cache.Cached) (*cache.Cached, error) {
	r.Log.Info("checkpoint %s: fetch from %s begins", d.Name(), r.Prefix.Dir)
	if err := r.Cache.Unused.MakeWay(d.ID()); err != nil { // before others leave for its room
		return nil, err
	}
	// Redundancy is not larger than the files, but for PARTNER with several copies.
	leaving, err := r.Room.Leaving(store, d.Series(), 2*prefix.Parts{0: files}.Bytes())
	if err != nil {
		return nil, err
	}
	later := flush.Leaving{}
	if stays != nil && slices.Contains(leaving.Datasets, stays) {
		later.Datasets = []*cache.Cached{stays}
		leaving.Datasets = slices.DeleteFunc(leaving.Datasets, func(c *cache.Cached) bool { return c == stays })
	}
	if r.rung == named && slices.Contains(leaving.Datasets, r.Cache.NewestCheckpoint(d.Series())) {
		// An older one would be the newest then, and is not what the user has chosen.
		if err := r.record(r.before(d), noChange, true); err != nil {
			return nil, err
		}
	}
	r.Room.Evict(leaving)
	d.SetComplete(false) // until it is complete in the cache
	d.SetCompressed(false)
	c, err := r.Cache.Create(d, desc)
	if err != nil {
		return nil, err
	}
	var start time.Time
	var took time.Duration
	failed := r.Prefix.InTurn(r.Width, func() error {
		start = time.Now()
		err := r.copyFiles(c, files)
		took = time.Since(start)
		return err
	})
	changed := r.changed(files)
	if r.Prefix.Blind {
		changed = nil
	}
	if err := r.Cache.Fetched(c, failed, changed); err != nil {
		return nil, err
	}
	r.Room.Flusher.Contents.Record(c)
	if r.rung == named && len(later.Datasets) > 0 {
		if err := r.record(r.before(d), noChange, true); err != nil {
			return c, err
		}
	}
	r.Room.Evict(later)
	r.Phases.Log(c.Dataset, phases.Took(eventlog.Fetch, start, took))
	return c, nil
}

// copyFiles copies files from the prefix directory to the dataset c in the cache.
func (r *Restart) copyFiles(c *cache.Cached, files []redundancy.File) error {
	copier := r.Prefix.Copier()
	r.Prefix.Follow(copier, fmt.Sprintf("checkpoint %s: fetched", c.Name()), prefix.Parts{0: files}.Bytes())
	for _, f := range files {
		md := f.Meta.Clone()
		md.SetAsWritten() // files in the cache are not compressed
		path, err := r.Cache.Add(c, md)
		if err != nil {
			return err
		}
		if f.Meta.Shared() {
			continue // the rank with which it is counted copies it
		}
		copier.Blind = r.Prefix.Blind || encodes(c, f)
		if err := copier.Fetch(f.Path, path, f.Meta); err != nil {
			if ofSource(err, f.Path) {
				return unusable(err)
			}
			return err
		}
	}
	return nil
}

// encodes reports whether the checksum of a file is left to the protection of the dataset, which reads all bytes: the
// kernel can copy them then.
func encodes(c *cache.Cached, f redundancy.File) bool {
	_, known := f.Meta.CRC()
	_, packed := f.Meta.Stored()
	return known && !packed && c.Redundant()
}

// changed returns a function for Cache.Fetched. It reads a file in the prefix directory again, to find out whether it has other bytes
// there than were written, or only in the cache. files are the caller's in the prefix directory.
func (r *Restart) changed(files []redundancy.File) func(redundancy.File) error {
	return func(f redundancy.File) error {
		for _, there := range files {
			if there.Meta.File() != f.Meta.File() {
				continue
			}
			if _, err := r.Prefix.Copier().Verify(there.Path, there.Meta.Clone()); err != nil {
				return unusable(err)
			}
		}
		return fmt.Errorf("%s was not copied as it is in %s", f.Path, r.Prefix.Dir)
	}
}

// ofSource reports whether an error of a copy is about the source, which has the given
// path, and not about the destination.
func ofSource(err error, path string) bool {
	var of *fs.PathError
	return errors.Is(err, redundancy.ErrCorrupt) || errors.As(err, &of) && of.Path == path
}
