// Package restart decides from which checkpoint a program is offered to restart, and
// copies it to the cache if necessary.
//
// It goes down a ladder (ladder.go): the checkpoint that the user names, the newest one
// in the cache, one that the program has written to the prefix directory since, those
// that have to be fetched (fetch.go), the beginning. A checkpoint that the program could
// not restart from is not offered again.
//
// cache.Rebuild has made the datasets of the cache whole before. Only package scr calls
// this package. All methods are collective over the ranks of the job unless they say
// otherwise, and their results are agreed.
package restart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/flush"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/reddesc"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/mpi"
)

// Config is what a Restart works with.
type Config struct {
	World   mpi.Comm
	Cache   *cache.Cache
	Prefix  *prefix.Prefix
	Flusher *flush.Flusher
	Log     *report.Logger
	Events  *eventlog.Log // on rank 0

	Fetch     bool   // SCR_FETCH: from the prefix directory
	Width     int    // SCR_FETCH_WIDTH: ranks that fetch at a time, 0: all
	InPlace   bool   // SCR_FETCH_BYPASS: checkpoints are read where they are
	Global    bool   // SCR_GLOBAL_RESTART: ... also those that are in the cache
	Current   string // SCR_CURRENT: the checkpoint to begin with
	DropAfter bool   // SCR_DROP_AFTER_CURRENT: newer ones leave the index
	// Protect returns how a checkpoint is protected once it is in the cache, and where
	// that is.
	Protect func(d dataset.Dataset) (*reddesc.Descriptor, *reddesc.Store)
}

// Restart holds the checkpoint that a session offers its program to restart from.
type Restart struct {
	Config
	rung    rung
	offered *Offer       // nil: nothing, or not yet
	useless map[int]bool // checkpoints that the program could not restart from, by id
}

// Offer is a checkpoint to restart from.
type Offer struct {
	dataset.Dataset
	cached *cache.Cached       // nil if it is read where it is in the prefix directory
	byPath map[string]string   // the caller's files by their path below the prefix directory
	byName map[string][]string // ... by the last element of their names
}

// New returns a Restart that offers nothing yet.
func New(c Config) *Restart { return &Restart{Config: c, useless: map[int]bool{}} }

// Offered returns the checkpoint that is offered, nil if there is none. It is not
// collective.
func (r *Restart) Offered() *Offer { return r.offered }

// Withdraw offers nothing any more: the program has begun a dataset. It is not
// collective.
func (r *Restart) Withdraw() { r.offered = nil }

// offerCached offers a checkpoint that is in the cache.
func (r *Restart) offerCached(c *cache.Cached) {
	r.offered = newOffer(c.Dataset, r.Cache.Files(c.ID()))
	r.offered.cached = c
}

// newOffer is a checkpoint with those of its files that the caller has.
func newOffer(d dataset.Dataset, files []redundancy.File) *Offer {
	o := &Offer{Dataset: d, byPath: map[string]string{}, byName: map[string][]string{}}
	for _, f := range files {
		if f.Meta.Type() != meta.Full {
			continue
		}
		o.byPath[f.Meta.File()] = f.Path
		base := filepath.Base(f.Path)
		o.byName[base] = append(o.byName[base], f.Path)
	}
	return o
}

// Route returns where the caller's file is that was written under a name. below is the
// name relative to the prefix directory, "" if it is not below. It is not collective.
func (r *Restart) Route(name, below string) (string, error) {
	o := r.offered
	if below != "" {
		if path, ok := o.byPath[below]; ok {
			return path, nil
		}
		// In the prefix directory any rank can read any file.
		path := filepath.Join(r.Prefix.Dir, below)
		if info, err := os.Stat(path); o.cached == nil && err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	switch paths := o.byName[filepath.Base(name)]; len(paths) {
	case 1:
		return paths[0], nil
	case 0:
		return "", fmt.Errorf("rank %d has no file %s in checkpoint %s", r.World.Rank(), name, o.Name())
	default:
		return "", fmt.Errorf("rank %d has %d files named %s in checkpoint %s: give the path with which it was written",
			r.World.Rank(), len(paths), filepath.Base(name), o.Name())
	}
}

// tellNewer says which checkpoints are passed over, since the current one, which cannot
// be used, was before them.
func (r *Restart) tellNewer(current dataset.Dataset) error {
	newer, err := prefix.Newer(r.Prefix.Dir, current.ID())
	if len(newer) > 0 {
		r.Log.Warn("newer than %s, which was made the current checkpoint, and not tried: %s; to restart from one, scr_index --current NAME",
			current.Name(), strings.Join(newer, ", "))
	}
	return err
}
