package prefix

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// flush.scr says where each dataset is, for the commands that run after a job has ended
// (SCR Developer's Manual, "Files"):
//
//	DATASET / <id> / NAME
//	                 CKPT = 1, OUTPUT = 1      whether it is a checkpoint, an output, or both
//	                 LOCATION / CACHE, PFS, FLUSHING, EXPOSED
//	                 DSETDESC / …              description
//	                 RANKS = n                 size of the job, while it is being flushed; ours, like what follows
//	                 PROTECTED = text          how it is protected in the cache: "XOR in sets of 4, bears 1"
//	                 VERIFIED = microseconds   since 1970: when the files in the cache were read last, and were
//	                                           right
//	EVERY = n                                  SCR_FLUSH of the last run; 0 if its datasets bypass the cache
type locations struct {
	Datasets map[int]*Located `hash:"DATASET,omitempty"`
	Every    *int             `hash:"EVERY"`
}

const flushFile = "flush.scr"

// Location is a place where a dataset can be.
type Location string

// The locations of flush.scr.
const (
	InCache  Location = "CACHE"
	InPrefix Location = "PFS"
	Flushing Location = "FLUSHING" // being copied from the cache to the prefix directory
	Exposed  Location = "EXPOSED"  // in the cache, but not protected yet, or not any more: a lost node would lose it; ours
)

// Located is an entry of a flush file.
type Located struct {
	ID           int
	Name         string          `hash:"NAME,omitempty"`
	IsCheckpoint bool            `hash:"CKPT,omitempty"`
	IsOutput     bool            `hash:"OUTPUT,omitempty"`
	Dataset      dataset.Dataset `hash:"DSETDESC,omitempty"`     // its description
	Ranks        int             `hash:"RANKS,omitempty"`        // of the job, while it is being flushed; 0 if that is not known
	Places       []Location      `hash:"LOCATION,omitempty,set"` // sorted
	// Protected says how it is protected in the cache, as reddesc.Protection writes it, and
	// Verified when its files there were read last; "" and zero if that is not known.
	Protected string    `hash:"PROTECTED,omitempty"`
	Verified  time.Time `hash:"VERIFIED,omitempty"`
}

// Flags returns the purposes that are recorded.
func (l Located) Flags() (flags dataset.Flags) {
	if l.IsCheckpoint {
		flags |= dataset.Checkpoint
	}
	if l.IsOutput {
		flags |= dataset.Output
	}
	return flags
}

// Is reports whether the dataset is at a location.
func (l Located) Is(where Location) bool { return slices.Contains(l.Places, where) }

// list returns the entries, lowest id first.
func (f locations) list() (list []Located) {
	for _, id := range slices.Sorted(maps.Keys(f.Datasets)) {
		l := *f.Datasets[id]
		if l.ID = id; l.Verified.UnixMicro() <= 0 {
			l.Verified = time.Time{}
		}
		list = append(list, l)
	}
	return list
}

// ReadFlushFile returns the entries of the flush file at path, lowest id first.
func ReadFlushFile(path string) ([]Located, error) {
	h, err := hash.ReadFile(path)
	return hash.As[locations](h).list(), err
}

// Locations returns the entries of the flush file of a prefix directory, lowest id
// first; none if there is no such file.
func Locations(prefix string) ([]Located, error) {
	list, err := ReadFlushFile(metadataPath(prefix, flushFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

// LocationsChanged returns when the flush file of a prefix directory was last changed, the zero time if that cannot be found out.
func LocationsChanged(prefix string) time.Time {
	info, err := os.Lstat(metadataPath(prefix, flushFile))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// located returns the entry of an id in the flush file, the zero Located if there is
// none.
func located(prefix string, id int) (Located, error) {
	list, err := Locations(prefix)
	for _, l := range list {
		if l.ID == id {
			return l, err
		}
	}
	return Located{}, err
}

// UnderWay reports whether d, and not another dataset of its id, is being flushed. A
// copy that finds it is not must not continue.
func UnderWay(prefix string, d dataset.Dataset) (bool, error) {
	l, err := located(prefix, d.ID())
	return l.Is(Flushing) && l.Dataset.Same(d), err
}

// Locate records that a dataset is at a location, or no longer is.
func Locate(prefix string, d dataset.Dataset, where Location, there bool) error {
	return updateRecord(prefix, flushFile, func(f *locations) {
		switch {
		case there:
			f.locate(d, where)
		case !f.another(d):
			f.leave(d.ID(), where)
		}
	})
}

// EnterFlushed records in the flush file that a dataset is in the prefix directory, and is not being flushed.
func EnterFlushed(prefix string, d dataset.Dataset) error {
	return updateRecord(prefix, flushFile, func(f *locations) {
		f.locate(d, InPrefix)
		f.leave(d.ID(), Flushing)
	})
}

// startFlushing records that a dataset of so many ranks is being flushed.
func startFlushing(prefix string, d dataset.Dataset, ranks int) error {
	forgetCopied(prefix, d.ID()) // of a flush that was interrupted
	return updateRecord(prefix, flushFile, func(f *locations) { f.locate(d, Flushing).Ranks = ranks })
}

// Cached is what flush.scr has of a dataset in the cache.
type Cached struct {
	dataset.Dataset
	Gone      bool   // the run does not use it any more; the other fields are not used
	Protected string // how its files are protected, as reddesc.Protection writes it
	Read      bool   // all its files have been read now, and were right
	Exposed   bool   // a lost node would lose it
}

// EnterCached records what a run knows of a dataset in its cache.
func EnterCached(prefix string, d Cached, now time.Time) error {
	return updateRecord(prefix, flushFile, func(f *locations) { f.cached(d, now) })
}

func (f *locations) cached(d Cached, now time.Time) {
	if d.Gone {
		if !f.another(d.Dataset) {
			f.leave(d.ID(), InCache)
		}
		return
	}
	l := f.locate(d.Dataset, InCache)
	if d.Read {
		l.Verified = now
	}
	if d.Exposed {
		f.locate(d.Dataset, Exposed)
		return
	}
	f.leave(d.ID(), Exposed)
	l.Protected = cmp.Or(l.Protected, d.Protected) // none if it was not yet protected when it was entered
}

// BeginRun records what a run has found: the datasets in list, and no others, are in the cache, and
// none is being flushed. every is SCR_FLUSH, or 0 if nothing will be flushed.
func BeginRun(prefix string, list []Cached, every int, now time.Time) error {
	return updateRecord(prefix, flushFile, func(f *locations) {
		for _, d := range list {
			f.cached(d, now)
			f.leave(d.ID(), Flushing)
		}
		for id := range f.Datasets {
			if !slices.ContainsFunc(list, func(d Cached) bool { return d.ID() == id }) {
				f.leave(id, InCache, Flushing)
			}
		}
		f.Every = &every
	})
}

// Every returns SCR_FLUSH of the last run in a prefix directory: every n-th checkpoint is
// flushed, none if it is 0. known is false if that is not recorded.
func Every(prefix string) (n int, known bool) {
	h, err := hash.ReadFile(metadataPath(prefix, flushFile))
	if err != nil {
		return 0, false
	}
	if every := hash.As[locations](h).Every; every != nil {
		return *every, true
	}
	return 0, false
}

// another reports whether the entry of the id of d describes another dataset than d.
func (f *locations) another(d dataset.Dataset) bool {
	l := f.Datasets[d.ID()]
	return l != nil && !l.Dataset.IsZero() && !l.Dataset.Same(d)
}

// locate enters a location, and returns the entry.
func (f *locations) locate(d dataset.Dataset, where Location) *Located {
	l := f.Datasets[d.ID()]
	if l == nil || f.another(d) { // do not mix its locations with those of d
		l = &Located{}
		f.Datasets[d.ID()] = l
	}
	l.Dataset, l.Name = d, d.Name()
	l.IsCheckpoint, l.IsOutput = d.Flags().Has(dataset.Checkpoint), d.Flags().Has(dataset.Output)
	l.Places = append(l.Places, where)
	return l
}

// leave removes locations of a dataset, and its entry if it has no other location.
func (f *locations) leave(id int, places ...Location) {
	l := f.Datasets[id]
	if l == nil {
		return
	}
	if slices.Contains(places, Flushing) {
		l.Ranks = 0
	}
	if slices.Contains(places, InCache) {
		places = append(places, Exposed)
		l.Protected, l.Verified = "", time.Time{}
	}
	l.Places = slices.DeleteFunc(l.Places, func(where Location) bool { return slices.Contains(places, where) })
	if len(l.Places) == 0 {
		delete(f.Datasets, id)
	}
}
