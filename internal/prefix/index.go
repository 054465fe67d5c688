// Package prefix keeps datasets in the prefix directory, on the parallel file
// system: the index of those there are, the summary and the list of files of
// each, flush and fetch. All of it is in the format of SCR 3.1, so
// that a job can move between the two.
//
//	index.go      which datasets there are
//	rank2file.go  which rank has which files, as a tree of hash files
//	part.go       … of one rank, as long as not all have come
//	flush.go      a dataset from the cache to the prefix directory
//	arrived.go    … of which all had come when a run ended
//	fetch.go      … and back
//	expand.go     … or decompressed where it is
//	flushfile.go  where a dataset is, for the commands that run after the job
//	offline.go    what commands without MPI do with all of it
//	old.go        prefix directories of SCR 1.1
package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/mpi"
)

// Metadata is the directory below the prefix directory that is goscr's own.
const Metadata = ".scr"

const (
	indexFile    = "index.scr"
	indexVersion = 2

	keyVersion  = "VERSION"
	keyCurrent  = "CURRENT"
	keyName     = "NAME"
	keyDset     = "DSET"
	keyComplete = "COMPLETE"
	keyFlushed  = "FLUSHED"
	keyFetched  = "FETCHED"
	keyFailed   = "FAILED"

	// Of datasets with compressed files, in the place of COMPLETE and CURRENT.
	keyCompressed        = "COMPRESSED"
	keyCurrentCompressed = "CURRENT_COMPRESSED"

	timestamp = "2006-01-02T15:04:05" // local time
)

func metadataPath(prefix, name string) string { return filepath.Join(prefix, Metadata, name) }

// datasetPath is where the metadata of a dataset is.
func datasetPath(prefix string, id int, name string) string {
	return filepath.Join(prefix, Metadata, fmt.Sprintf("scr.dataset.%d", id), name)
}

// Index says which datasets are in a prefix directory.
type Index struct {
	h      *hash.Hash
	shadow []Entry // that a version 1 index has beside others of their ids
}

// Entry is one dataset of an index.
type Entry struct {
	dataset.Dataset
	ID       int
	Name     string
	Complete bool   // all of it reached the prefix directory
	Failed   bool   // a restart from it failed; it is not loaded again
	Current  bool   // the one to restart from first
	Flushed  string // when it arrived, local time; "" if that is not known
	Dir      string // of one that SCR 1.1 wrote: where it is, below the prefix directory
}

// usable reports whether a job can restart from the dataset.
func (e Entry) usable() bool {
	return e.ID > 0 && e.Dataset.ID() == e.ID && e.Complete && !e.Failed && e.Flags().Has(dataset.Checkpoint)
}

// ReadIndex reads the index of a prefix directory. One that has none has an
// empty index.
func ReadIndex(prefix string) (*Index, error) {
	h, err := hash.ReadWithLock(metadataPath(prefix, indexFile))
	if errors.Is(err, fs.ErrNotExist) {
		h, err = hash.New(), nil
	}
	if err != nil {
		return nil, damaged(err, prefix)
	}
	x, err := newIndex(h, prefix)
	if err != nil {
		return nil, damaged(err, prefix)
	}
	return x, nil
}

// CheckIndex is an error if there is no index, and complete datasets that one has named.
func CheckIndex(prefix string) error {
	if _, err := os.Lstat(metadataPath(prefix, indexFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	list, _ := Summaries(prefix)
	for _, f := range list {
		if f.Complete {
			return fmt.Errorf("the index of %s is gone, but not its datasets, such as %d (%s): scr_index --repair -p '%s' makes a new one from them; "+
				"to begin anew, remove %s", prefix, f.ID(), f.Name(), prefix, filepath.Join(prefix, Metadata))
		}
	}
	return nil
}

// damaged tells people what to do about an index that cannot be read.
func damaged(err error, prefix string) error {
	if !errors.Is(err, hash.ErrCorrupt) {
		return fmt.Errorf("index: %w", err)
	}
	return fmt.Errorf("index: %w (scr_index --repair -p '%s' makes a new one from the datasets that are there)", err, prefix)
}

// newIndex makes an index of its hash. One that is empty takes up what SCR 1.1
// has left in the prefix directory.
func newIndex(h *hash.Hash, prefix string) (*Index, error) {
	if h.Size() == 0 {
		x := &Index{h: h}
		return x, x.takeOld(prefix)
	}
	if v, ok := h.Int(keyVersion); !ok || v != indexVersion {
		return nil, fmt.Errorf("%s has version %q, this version of goscr reads version %d",
			metadataPath(prefix, indexFile), h.Text(keyVersion), indexVersion)
	}
	return &Index{h: h}, nil
}

// UpdateIndex changes the index of a prefix directory while no other process
// does.
func UpdateIndex(prefix string, change func(*Index) error) error {
	if err := os.MkdirAll(filepath.Join(prefix, Metadata), 0o777); err != nil {
		return err
	}
	err := hash.Update(metadataPath(prefix, indexFile), func(h *hash.Hash) error {
		x, err := newIndex(h, prefix)
		if err != nil {
			return err
		}
		if err := change(x); err != nil {
			return err
		}
		h.SetInt(keyVersion, indexVersion)
		return nil
	})
	if errors.Is(err, hash.ErrCorrupt) {
		return damaged(err, prefix)
	}
	return err
}

func (x *Index) at(id int) *hash.Hash { return x.h.At(keyDset, strconv.Itoa(id)) }

// Add enters a dataset, complete or not, in place of any other of its name or
// id.
func (x *Index) Add(d dataset.Dataset, complete bool, now time.Time) {
	if id, ok := x.Lookup(d.Name()); ok {
		x.remove(id)
	}
	x.remove(d.ID())
	x.h.At(keyName, d.Name()).SetInt(keyDset, int64(d.ID()))
	e := x.at(d.ID())
	describe(e, d, complete)
	e.SetValue(keyFlushed, now.Format(timestamp))
}

// describe enters a dataset, complete or not, in the index or in its summary. One
// with files that are compressed is never complete for SCR 3.1, which would take
// them for the program's; it has a key of its own that says so to us.
func describe(h *hash.Hash, d dataset.Dataset, complete bool) {
	d = dataset.Dataset{Hash: d.Clone()}
	key := keyComplete
	if d.Compressed() {
		d.SetComplete(false)
		key = keyCompressed
	}
	h.Set(keyDset, d.Hash)
	h.SetValue(keyComplete, "0")
	h.Unset(keyCompressed)
	if complete {
		h.SetValue(key, "1")
	}
}

// isComplete reports whether a dataset was described as complete.
func isComplete(h *hash.Hash) bool {
	return h.Text(keyComplete) == "1" || h.Text(keyCompressed) == "1"
}

// Lookup returns the id of a dataset by its name.
func (x *Index) Lookup(name string) (id int, ok bool) {
	n, ok := x.h.Get(keyName, name).Int(keyDset)
	return int(n), ok
}

// Entry returns what there is of a name.
func (x *Index) Entry(name string) (Entry, bool) {
	id, ok := x.Lookup(name)
	return x.entry(id), ok
}

// Remove takes a dataset out. Its files stay.
func (x *Index) Remove(name string) bool {
	id, ok := x.Lookup(name)
	if ok {
		x.remove(id)
	}
	return ok
}

func (x *Index) remove(id int) {
	for name, h := range x.h.Get(keyName).All() {
		if n, _ := h.Int(keyDset); int(n) == id {
			x.h.UnsetKV(keyName, name)
			if x.Current() == name {
				x.setCurrent("", "")
			}
		}
	}
	x.h.UnsetKVInt(keyDset, id)
}

// RemoveAfter takes all datasets out that are newer than one, and returns their
// names. Their files stay.
func (x *Index) RemoveAfter(id int) []string {
	var names []string
	for _, e := range x.Entries() {
		if e.ID > id {
			names = append(names, e.Name)
			x.remove(e.ID)
		}
	}
	return names
}

// Current is the name of the dataset to restart from first, "" if none is set.
func (x *Index) Current() string {
	if name := x.h.Text(keyCurrent); name != "" {
		return name // set later, maybe by SCR 3.1, which does not know the other key
	}
	return x.h.Text(keyCurrentCompressed)
}

func (x *Index) setCurrent(key, name string) {
	x.h.Unset(keyCurrent)
	x.h.Unset(keyCurrentCompressed)
	if name != "" {
		x.h.SetValue(key, name)
	}
}

// SetCurrent says which dataset to restart from first. One that a restart has
// failed from gets another chance.
func (x *Index) SetCurrent(name string) error {
	id, ok := x.Lookup(name)
	if !ok {
		return fmt.Errorf("there is no dataset %q in the index", name)
	}
	x.at(id).Unset(keyFailed)
	key := keyCurrent
	if x.entry(id).Compressed() { // SCR 3.1 does not ask whether the current one is complete
		key = keyCurrentCompressed
	}
	x.setCurrent(key, name)
	return nil
}

// MarkFetched records that a restart has read a dataset.
func (x *Index) MarkFetched(id int, now time.Time) {
	x.at(id).SetKV(keyFetched, now.Format(timestamp))
}

// MarkFailed records that a restart from a dataset failed, so that no other is
// tried.
func (x *Index) MarkFailed(id int, now time.Time) {
	e := x.at(id)
	e.SetValue(keyFailed, now.Format(timestamp))
	if name := x.entry(id).Name; name != "" && x.Current() == name {
		x.setCurrent("", "")
	}
}

func (x *Index) entry(id int) Entry {
	h := x.h.Get(keyDset, strconv.Itoa(id))
	d := dataset.Dataset{Hash: h.Get(keyDset)}
	return Entry{
		Dataset: d, ID: id, Name: d.Name(), Flushed: h.Text(keyFlushed),
		Complete: isComplete(h), Failed: h.Has(keyFailed), Current: d.Name() != "" && x.Current() == d.Name(),
		Dir: h.Text(keyDir),
	}
}

// Entries returns all datasets, newest first.
func (x *Index) Entries() []Entry {
	ids := x.h.Get(keyDset).Ints()
	slices.Reverse(ids)
	var list []Entry
	for _, id := range ids {
		list = append(list, x.entry(id))
		for _, e := range x.shadow {
			if e.ID == id {
				list = append(list, e)
			}
		}
	}
	return list
}

// Find returns the dataset of a name.
func (x *Index) Find(name string) (Entry, bool) {
	id, ok := x.Lookup(name)
	if !ok {
		return Entry{}, false
	}
	return x.entry(id), true
}

// ByID returns the dataset of a number, the zero Entry but for the number if there is
// none.
func (x *Index) ByID(id int) Entry { return x.entry(id) }

// Has reports whether a dataset is entered, that one and not another of its id.
func (x *Index) Has(d dataset.Dataset) bool {
	e := x.entry(d.ID())
	return e.Hash != nil && e.Name == d.Name() && e.Created().Equal(d.Created())
}

// TakenError says that the index has another dataset under the number of one that
// was about to be entered: two jobs have begun to count from the same number in one
// prefix directory.
type TakenError struct {
	Prefix  string
	Dataset dataset.Dataset
	By      Entry
	Highest int // id of any dataset there
}

// ErrTaken is what every TakenError is.
var ErrTaken = mpi.NewKind(2, "the number of a dataset is taken")

// Is reports whether target is ErrTaken.
func (e *TakenError) Is(target error) bool { return target == ErrTaken }

func (e *TakenError) Error() string {
	by := fmt.Sprintf("%q", e.By.Name)
	if job := e.By.Text("JOBID"); job != "" {
		by += " of job " + job
	}
	return fmt.Sprintf("the index of %s has %s as dataset %d, so %q of the same number cannot be entered: jobs that run at the same time "+
		"need prefix directories of their own (scr_index --drop makes the number free)", e.Prefix, by, e.Dataset.ID(), e.Dataset.Name())
}

// claim is a *TakenError if another dataset has the number of this one: one that can
// be used or, once begun says that this one has been entered, any other.
func (x *Index) claim(prefix string, d dataset.Dataset, begun bool) error {
	if e := x.entry(d.ID()); e.Hash != nil && !x.Has(d) && (e.Complete || begun) {
		return &TakenError{prefix, d, e, x.Highest()}
	}
	return nil
}

// Highest is the highest id of any dataset.
func (x *Index) Highest() int {
	if ids := x.h.Get(keyDset).Ints(); len(ids) > 0 {
		return ids[len(ids)-1]
	}
	return 0
}

// Next returns the dataset to try to restart from: the current one first, and
// then, newest first, those that are older than below, complete, checkpoints,
// and have not failed. below is 0 for the first try. An entry that is not of the
// dataset it is under is passed over: whoever works down the list by the ids of
// datasets would meet it again and again.
func (x *Index) Next(below int) (Entry, bool) {
	if below == 0 {
		if id, ok := x.Lookup(x.Current()); ok && x.entry(id).usable() {
			return x.entry(id), true
		}
	}
	for _, e := range x.Entries() {
		if (below == 0 || e.ID < below) && e.usable() {
			return e, true
		}
	}
	return Entry{}, false
}
