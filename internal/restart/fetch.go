package restart

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/reddesc"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/mpi"
)

// errUnusable says that a checkpoint in the prefix directory is damaged, so that no run
// can use it.
var errUnusable = mpi.NewKind(4, "is not what was written")

// unusableError says how a checkpoint is damaged.
type unusableError struct{ error }

func (e *unusableError) Unwrap() []error { return []error{e.error, errUnusable} }

// compressedError says that a checkpoint cannot be read where it is, since the program
// would have to decompress it.
type compressedError struct{ name string }

func (e *compressedError) Error() string {
	return fmt.Sprintf("its files are compressed, and cannot be read where they are: start again without SCR_FETCH_BYPASS, "+
		"SCR_GLOBAL_RESTART and SCR_CACHE_BYPASS, or run scr_index --expand '%s' first", e.name)
}

// fetch offers a checkpoint of the prefix directory, and reports whether it could. It
// reports why not, and marks a damaged one; a run of another size, or with room in its
// cache, can use the others.
func (r *Restart) fetch(d dataset.Dataset) bool {
	if r.useless[d.ID()] {
		return false
	}
	start := time.Now()
	r.Events.Dataset("FETCH_START", d, eventlog.Record{Note: r.Prefix.Dir})
	err := r.offerFrom(d, start)
	r.Events.Result("FETCH", "SUCCESS", d, start, err)
	if err != nil {
		r.Log.WarnJob("checkpoint %s cannot be fetched: %v", d.Name(), err)
		if errors.Is(err, errUnusable) && !errors.Is(err, prefix.ErrRanks) {
			if err := r.Prefix.Failed(d.ID()); err != nil {
				r.Log.WarnJob("checkpoint %s cannot be marked as failed, so the next run will try it again: %v", d.Name(), err)
			}
		}
		return false
	}
	if c := r.offered.cached; c != nil {
		r.Events.Copied("FETCH", c.Dataset, r.Prefix.Dir, c.Desc.Store, start)
	}
	if err := r.Prefix.Fetched(d); err != nil {
		r.Log.WarnJob("that checkpoint %s was fetched cannot be recorded: %v", d.Name(), err)
	}
	return true
}

// offerFrom offers a checkpoint of the prefix directory: it copies the checkpoint to the
// cache, and protects it like a new one, or offers it in place.
func (r *Restart) offerFrom(d dataset.Dataset, start time.Time) error {
	l, err := r.Prefix.List(d.ID())
	if err != nil {
		return &unusableError{err}
	}
	d = l.Dataset
	desc, store := r.Protect(d)
	sameSize := l.Ranks == r.World.Size()
	// If the program wrote it there itself, several ranks may share a file, which the
	// cache cannot store.
	if d.Bypass() || desc.Bypass || r.InPlace || r.Global {
		if d.Compressed() {
			return &compressedError{d.Name()}
		}
		var own []redundancy.File // known only to a job of the same size
		if sameSize {
			own = l.Files
		}
		r.offered = newOffer(d, own)
		r.Log.Info("checkpoint %s: %s are read where they are in %s", d.Name(), report.Bytes(d.Size()), r.Prefix.Dir)
		return nil
	}
	if !sameSize {
		return &prefix.RanksError{Name: "checkpoint " + d.Name(), Ranks: l.Ranks, Size: r.World.Size()}
	}
	c, err := r.copyToCache(d, l.Files, desc, store)
	if err != nil {
		return err
	}
	r.Flusher.SetFlushed(c.ID(), true)
	r.offerCached(c)
	r.Log.Info("checkpoint %s: fetched %s in %.3f s", d.Name(), report.Bytes(d.Size()), time.Since(start).Seconds())
	return nil
}

// copyToCache makes a checkpoint of the prefix directory a dataset of the cache.
func (r *Restart) copyToCache(d dataset.Dataset, files []redundancy.File, desc *reddesc.Descriptor, store *reddesc.Store) (*cache.Cached, error) {
	r.Log.Info("checkpoint %s: fetch from %s begins", d.Name(), r.Prefix.Dir)
	if err := r.Flusher.MakeRoom(store); err != nil {
		return nil, err
	}
	d.SetComplete(false) // in the cache it is not, yet
	d.SetCompressed(false)
	c, err := r.Cache.Create(d, desc)
	if err != nil {
		return nil, err
	}
	failed := r.Prefix.InTurn(r.Width, func() error { return r.copyFiles(c, files) })
	return c, r.Cache.Complete(c, failed)
}

// copyFiles copies files of the prefix directory to where a dataset in the cache has them.
func (r *Restart) copyFiles(c *cache.Cached, files []redundancy.File) error {
	copier := r.Prefix.Copier()
	r.Prefix.Follow(copier, fmt.Sprintf("checkpoint %s: fetched", c.Name()), prefix.Parts{0: files}.Bytes())
	for _, f := range files {
		md := f.Meta.Clone()
		md.SetAsWritten() // as it is in the cache
		path, err := r.Cache.Add(c, md)
		if err != nil {
			return err
		}
		if err := copier.Fetch(f.Path, path, f.Meta); err != nil {
			if ofSource(err, f.Path) {
				return &unusableError{err}
			}
			return err
		}
	}
	return nil
}

// ofSource reports whether an error of a copy is one of the file copied, and not of the
// copy.
func ofSource(err error, path string) bool {
	var of *fs.PathError
	return errors.Is(err, redundancy.ErrCorrupt) || errors.As(err, &of) && of.Path == path
}
