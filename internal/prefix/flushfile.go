package prefix

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
)

// flush.scr says where each dataset is, for the commands that look after a
// job once it has ended (spec 000 §9.4).
const (
	flushFile   = "flush.scr"
	keyDataset  = "DATASET"
	keyDesc     = "DSETDESC"
	keyLocation = "LOCATION"
	keyCkpt     = "CKPT"
	keyOutput   = "OUTPUT"
)

// Location is a place where a dataset can be.
type Location string

// The locations of flush.scr.
const (
	InCache  Location = "CACHE"
	InPrefix Location = "PFS"
	Flushing Location = "FLUSHING" // on its way from the one to the other
)

// Locate records that a dataset is at a location, or no longer is.
func Locate(prefix string, d dataset.Dataset, where Location, there bool) error {
	return updateFlushFile(prefix, func(h *hash.Hash) {
		if there {
			locate(h, d, where)
			return
		}
		id := strconv.Itoa(d.ID())
		e := h.Get(keyDataset, id)
		if another(e, d) {
			return
		}
		e.UnsetKV(keyLocation, string(where))
		if where == Flushing {
			e.Unset(keyRanks)
		}
		if e != nil && !e.Has(keyLocation) {
			h.UnsetKV(keyDataset, id)
		}
	})
}

// another reports whether an entry of the flush file is of a dataset that had the
// number before.
func another(e *hash.Hash, d dataset.Dataset) bool {
	desc := e.Get(keyDesc)
	return desc != nil && !Same(dataset.Dataset{Hash: desc}, d)
}

// locate enters a location in the hash of a flush file, and returns the entry.
func locate(h *hash.Hash, d dataset.Dataset, where Location) *hash.Hash {
	id := strconv.Itoa(d.ID())
	if another(h.Get(keyDataset, id), d) { // where that is says nothing of this
		h.UnsetKV(keyDataset, id)
	}
	e := h.At(keyDataset, id)
	e.Set(keyDesc, d.Clone())
	e.SetValue(keyName, d.Name())
	for key, flag := range map[string]dataset.Flags{keyCkpt: dataset.Checkpoint, keyOutput: dataset.Output} {
		if d.Flags().Has(flag) {
			e.SetValue(key, "1")
		}
	}
	e.SetKV(keyLocation, string(where))
	return e
}

// depart records that a dataset of so many ranks is on its way to the prefix
// directory.
func depart(prefix string, d dataset.Dataset, ranks int) error {
	return updateFlushFile(prefix, func(h *hash.Hash) { locate(h, d, Flushing).SetInt(keyRanks, int64(ranks)) })
}

// UnderWay reports whether a dataset, and not another of its id, is still wanted in
// the prefix directory.
func UnderWay(prefix string, d dataset.Dataset) (bool, error) {
	h, err := hash.ReadWithLock(metadataPath(prefix, flushFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	e := h.Get(keyDataset, strconv.Itoa(d.ID()))
	return e.Has(keyLocation, string(Flushing)) && Same(dataset.Dataset{Hash: e.Get(keyDesc)}, d), err
}

// OnlyCached makes flush.scr say that just these datasets are in the cache,
// and that none is on its way.
func OnlyCached(prefix string, list []dataset.Dataset) error {
	err := updateFlushFile(prefix, func(h *hash.Hash) {
		for id, e := range h.Get(keyDataset).All() {
			e.UnsetKV(keyLocation, string(InCache))
			e.UnsetKV(keyLocation, string(Flushing))
			e.Unset(keyRanks)
			if !e.Has(keyLocation) {
				h.UnsetKV(keyDataset, id)
			}
		}
	})
	for _, d := range list {
		if e := Locate(prefix, d, InCache, true); err == nil {
			err = e
		}
	}
	return err
}

// IsAt reports whether flush.scr says that a dataset is at a location.
func IsAt(prefix string, id int, where Location) (bool, error) {
	h, err := hash.ReadWithLock(metadataPath(prefix, flushFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return h.Has(keyDataset, strconv.Itoa(id), keyLocation, string(where)), err
}

// Located is a dataset that a flush file knows.
type Located struct {
	ID     int
	Name   string
	Flags  dataset.Flags
	Places []Location // sorted
}

// Is reports whether the dataset is at a location.
func (l Located) Is(where Location) bool { return slices.Contains(l.Places, where) }

// ReadFlushFile returns the datasets that a flush file knows, lowest id first.
func ReadFlushFile(path string) ([]Located, error) {
	h, err := hash.ReadWithLock(path)
	if err != nil {
		return nil, err
	}
	var list []Located
	for _, id := range h.Get(keyDataset).Ints() {
		e := h.GetKVInt(keyDataset, id)
		l := Located{ID: id, Name: e.Text(keyName)}
		for key, flag := range map[string]dataset.Flags{keyCkpt: dataset.Checkpoint, keyOutput: dataset.Output} {
			if e.Text(key) == "1" {
				l.Flags |= flag
			}
		}
		for _, where := range e.Get(keyLocation).Keys() {
			l.Places = append(l.Places, Location(where))
		}
		list = append(list, l)
	}
	return list, nil
}

func updateFlushFile(prefix string, change func(*hash.Hash)) error {
	if err := os.MkdirAll(filepath.Join(prefix, Metadata), 0o777); err != nil {
		return err
	}
	return hash.Update(metadataPath(prefix, flushFile), func(h *hash.Hash) error {
		change(h)
		return nil
	})
}
