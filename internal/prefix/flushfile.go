package prefix

import (
	"errors"
	"io/fs"
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
const (
	flushFile   = "flush.scr"
	keyDataset  = "DATASET"
	keyLocation = "LOCATION"
	keyOutput   = "OUTPUT"
	keyGuard    = "PROTECTED"
	keyVerified = "VERIFIED"
	keyEvery    = "EVERY"
)

// Location is a place where a dataset can be.
type Location string

// The locations of flush.scr.
const (
	InCache  Location = "CACHE"
	InPrefix Location = "PFS"
	Flushing Location = "FLUSHING" // being copied from the cache to the prefix directory
	Exposed  Location = "EXPOSED"  // in the cache, but not protected yet, or not any more: a lost node would lose it; ours
)

// kinds maps keys of an entry to the flag of the dataset that each stands for.
var kinds = map[string]dataset.Flags{keyCkpt: dataset.Checkpoint, keyOutput: dataset.Output}

// Located is an entry of a flush file.
type Located struct {
	ID      int
	Name    string
	Flags   dataset.Flags
	Dataset dataset.Dataset // its description
	Ranks   int             // of the job, while it is being flushed; 0 if that is not known
	Places  []Location      // sorted
	// Protected says how it is protected in the cache, as reddesc.Protection writes it, and
	// Verified when its files there were read last; "" and zero if that is not known.
	Protected string
	Verified  time.Time
}

// Is reports whether the dataset is at a location.
func (l Located) Is(where Location) bool { return slices.Contains(l.Places, where) }

func decodeLocated(id int, e *hash.Hash) Located {
	l := Located{ID: id, Name: e.Text(keyName), Dataset: dataset.Decode(e.Get(keyDesc))}
	for key, flag := range kinds {
		if e.Text(key) == "1" {
			l.Flags |= flag
		}
	}
	ranks, _ := e.Int(keyRanks)
	l.Ranks = int(ranks)
	l.Protected = e.Text(keyGuard)
	if at, ok := e.Int(keyVerified); ok && at > 0 {
		l.Verified = time.UnixMicro(at)
	}
	for _, where := range e.Get(keyLocation).Keys() {
		l.Places = append(l.Places, Location(where))
	}
	return l
}

func decodeFlushFile(h *hash.Hash) (list []Located) {
	for _, id := range h.Get(keyDataset).Ints() {
		list = append(list, decodeLocated(id, h.GetKVInt(keyDataset, id)))
	}
	return list
}

// ReadFlushFile returns the entries of the flush file at path, lowest id first.
func ReadFlushFile(path string) ([]Located, error) {
	h, err := hash.ReadFile(path)
	return decodeFlushFile(h), err
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
	info, err := os.Stat(metadataPath(prefix, flushFile))
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
	if there {
		return update(prefix, flushFile, func(h *hash.Hash) error { locate(h, d, where); return nil })
	}
	return update(prefix, flushFile, func(h *hash.Hash) error {
		if !another(h.GetKVInt(keyDataset, d.ID()), d) {
			leave(h, d.ID(), where)
		}
		return nil
	})
}

// startFlushing records that a dataset of so many ranks is being flushed.
func startFlushing(prefix string, d dataset.Dataset, ranks int) error {
	forgetCopied(prefix, d.ID()) // of a flush that was interrupted
	return update(prefix, flushFile, func(h *hash.Hash) error {
		locate(h, d, Flushing).SetInt(keyRanks, int64(ranks))
		return nil
	})
}

// EnterCached records that a dataset is in the cache, how its files are protected, and that they
// have been read now; the zero time says that they have not.
func EnterCached(prefix string, d dataset.Dataset, protected string, now time.Time) error {
	return update(prefix, flushFile, func(h *hash.Hash) error {
		e := locate(h, d, InCache)
		e.SetValue(keyGuard, protected)
		e.Unset(keyVerified)
		if !now.IsZero() {
			e.SetInt(keyVerified, now.UnixMicro())
		}
		return nil
	})
}

// Kept is a dataset that a run has found in the cache: how its files are protected, as reddesc.Protection
// writes it, whether they have been read now, and whether a lost node would lose it.
type Kept struct {
	dataset.Dataset
	Protected     string
	Read, Exposed bool
}

func enterKept(h *hash.Hash, d Kept, now time.Time) {
	e := locate(h, d.Dataset, InCache)
	if d.Read {
		e.SetInt(keyVerified, now.UnixMicro())
	}
	if d.Exposed {
		locate(h, d.Dataset, Exposed)
		return
	}
	leave(h, d.ID(), Exposed)
	if _, known := e.Value(keyGuard); !known { // not yet protected when it was entered
		e.SetValue(keyGuard, d.Protected)
	}
}

// EnterKept records what is known of a dataset of an earlier run.
func EnterKept(prefix string, d Kept, now time.Time) error {
	return update(prefix, flushFile, func(h *hash.Hash) error {
		enterKept(h, d, now)
		return nil
	})
}

// BeginRun records what a run has found: the datasets in list, and no others, are in the cache, and
// none is being flushed. every is SCR_FLUSH, or 0 if nothing will be flushed.
func BeginRun(prefix string, list []Kept, every int, now time.Time) error {
	return update(prefix, flushFile, func(h *hash.Hash) error {
		for _, d := range list {
			enterKept(h, d, now)
			leave(h, d.ID(), Flushing)
		}
		for _, id := range h.Get(keyDataset).Ints() {
			if !slices.ContainsFunc(list, func(f Kept) bool { return f.ID() == id }) {
				leave(h, id, InCache, Flushing)
			}
		}
		h.SetInt(keyEvery, int64(every))
		return nil
	})
}

// Every returns SCR_FLUSH of the last run in a prefix directory: every n-th checkpoint is
// flushed, none if it is 0. known is false if that is not recorded.
func Every(prefix string) (n int, known bool) {
	h, err := hash.ReadFile(metadataPath(prefix, flushFile))
	if err != nil {
		return 0, false
	}
	every, known := h.Int(keyEvery)
	return int(every), known
}

// another reports whether the entry e, of the id of d, describes another dataset than d.
func another(e *hash.Hash, d dataset.Dataset) bool {
	desc := e.Get(keyDesc)
	return desc != nil && !dataset.Decode(desc).Same(d)
}

// locate enters a location in the hash of a flush file, and returns the entry.
func locate(h *hash.Hash, d dataset.Dataset, where Location) *hash.Hash {
	if another(h.GetKVInt(keyDataset, d.ID()), d) { // do not mix its locations with those of d
		h.UnsetKVInt(keyDataset, d.ID())
	}
	e := h.SetKVInt(keyDataset, d.ID())
	e.Set(keyDesc, d.Encode())
	e.SetValue(keyName, d.Name())
	for key, flag := range kinds {
		if d.Flags().Has(flag) {
			e.SetValue(key, "1")
		}
	}
	e.SetKV(keyLocation, string(where))
	return e
}

// leave removes locations of a dataset from the hash of a flush file, and the entry of
// the dataset if it has no other location.
func leave(h *hash.Hash, id int, places ...Location) {
	e := h.GetKVInt(keyDataset, id)
	for _, where := range places {
		e.UnsetKV(keyLocation, string(where))
		switch where {
		case Flushing:
			e.Unset(keyRanks)
		case InCache:
			e.UnsetKV(keyLocation, string(Exposed))
			e.Unset(keyGuard)
			e.Unset(keyVerified)
		}
	}
	if e != nil && !e.Has(keyLocation) {
		h.UnsetKVInt(keyDataset, id)
	}
}
