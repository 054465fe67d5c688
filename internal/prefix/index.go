// Package prefix stores datasets in the prefix directory, on the parallel file
// system: the index of all datasets, the summary and the list of files of
// each, flush and fetch. The files have the format of SCR 3.1, so that a job can
// change from SCR 3.1 to goscr and back.
//
// Files of the prefix directory, each read and written in one place:
//
//	layout.go     names of files and directories
//	aside.go      temporary names
//	litter.go     ... and those that no flush needs any more
//	summary.go    the description of a dataset
//	rank2file/    which rank has which files, as a tree of hash files
//	files.go      ... and what is recorded of a file
//	part.go       the files of one rank, before all ranks have copied theirs
//	index.go      which datasets there are
//	replaced.go   ... and which files are left to those that newer ones replace
//	retired.go    ... and which move out of the way of newer ones
//	leaving.go    ... and which datasets leave the caches
//	old.go        the same in prefix directories of SCR 1.1
//	flushfile.go  where a dataset is, for the commands that run after the job
//	flushing.go   how far a flush is
//	restarting.go which checkpoint the program is reading
//
// Operations on these files, which the ranks of a job or a command call:
//
//	flush.go      a dataset from the cache to the prefix directory
//	bring.go      ... the copy of a rank's files
//	commit.go     ... that becomes complete once all files are there
//	takeover.go   ... and takes paths from older datasets
//	late.go       ... or leaves them to newer ones
//	owners.go     ... which datasets have files of the same paths
//	naming.go     ... by which names they have them
//	complete.go   ... whose files had all been copied when a run ended
//	enter.go      a dataset is entered, completed, published, repaired in the index
//	fetch.go      which dataset to restart from
//	list.go       the files of a dataset, as a job or a command reads them
//	delete.go     which datasets are deleted
//	remove.go     ... and their files
//	retire.go     checkpoints move out of the way of a dataset
//	expand.go     datasets are decompressed where they are
//	verify.go     all bytes are read
//	progress.go   how far a job is, for commands
package prefix

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/mpi"
)

// The index is a hash file, changed under its lock:
//
//	VERSION = 2
//	CURRENT = <name>              the dataset to restart from first
//	CURRENT_COMPRESSED = <name>   (*) in place of CURRENT, if that dataset has compressed files
//	NAME / <name> / DSET = <id>
//	DSET / <id> / …               an entry, see stored
//	LEAVING                       which datasets leave the caches, see leaving.go; ours
const (
	indexFile    = "index.scr"
	indexVersion = 2

	keyVersion           = "VERSION"
	keyCurrent           = "CURRENT"
	keyCurrentCompressed = "CURRENT_COMPRESSED"
	keyName              = "NAME"
	keyDset              = "DSET"

	timestamp = "2006-01-02T15:04:05" // local time
)

// stored is an entry as the index has it.
type stored struct {
	standing
	Flushed string     `hash:"FLUSHED,omitempty"` // when it was entered
	Fetched []string   `hash:"FETCHED,omitempty,set"`
	Failed  *hash.Hash `hash:"FAILED,omitempty"` // when a restart from it failed; also without a time
	Why     string     `hash:"WHY,omitempty"`    // why it failed; ours, like what follows
	Dir     string     `hash:"DIR,omitempty"`    // of a checkpoint of SCR 1.1: its directory
	// Owns says that no older dataset owns any of its paths: when it was completed, its list was
	// compared with theirs. SCR 3.1 does not do that.
	Owns bool `hash:"OWNS,omitempty"`
	// Placing is there while its files get their names, and older datasets have lost theirs: the flush
	// can no longer be given up.
	Placing  placing   `hash:"PLACING,omitempty"`
	Replaced *Replaced `hash:"REPLACED"`
}

type placing struct {
	Ranks int `hash:"RANKS"` // size of its job
}

// Index lists the datasets in a prefix directory.
type Index struct {
	h      *hash.Hash
	shadow []Entry // further copies of checkpoints, from an index of SCR 1.1; see oldIndex
}

// Entry is one dataset of an index.
type Entry struct {
	dataset.Dataset
	ID       int
	Name     string // by which users know it: that of the description, unless it is retired
	Complete bool   // all of it reached the prefix directory
	Failed   bool   // a restart from it failed; it is not loaded again
	Fault    string // when and why it failed
	Current  bool   // the one to restart from first
	Flushed  string // when it was flushed, local time; "" if that is not known
	Dir      string // its directory below the prefix directory if SCR 1.1 wrote it, else ""
	Owns     bool   // no older dataset owns any of its paths
	Placing  int    // size of its job while its files get their names, else 0
	Replaced *Replaced
	Retired  *Retired
}

// moved reports whether a dataset owns no paths outside its own directory.
func (e Entry) moved() bool { return e.Retired != nil && e.Retired.Moved && e.Dir == "" }

// usable reports whether a job can restart from the dataset.
func (e Entry) usable() bool {
	return e.ID > 0 && e.Dataset.ID() == e.ID && e.Complete && !e.Failed && e.Flags().Has(dataset.Checkpoint)
}

// CompleteCheckpoints returns how many there are, also those from which a restart has failed, and the newest of them.
func (x *Index) CompleteCheckpoints() (n int, newest Entry) {
	for _, e := range x.Entries() {
		if e.Complete && e.Flags().Has(dataset.Checkpoint) {
			if n == 0 {
				newest = e
			}
			n++
		}
	}
	return n, newest
}

// NewestOfOther returns the newest usable checkpoint of another history.
func NewestOfOther(x *Index, history int64) (Entry, bool) {
	for _, e := range x.own() {
		if e.usable() && e.History() != history {
			return e, true
		}
	}
	return Entry{}, false
}

// ReadIndex reads the index of a prefix directory. If there is none, it returns an index
// without datasets, or with the checkpoints of an index of SCR 1.1.
func ReadIndex(prefix string) (*Index, error) {
	h, err := hash.ReadOrNew(metadataPath(prefix, indexFile))
	if err != nil {
		return nil, damaged(err, prefix)
	}
	x, err := newIndex(h, prefix)
	if err != nil {
		return nil, damaged(err, prefix)
	}
	return x, nil
}

// damaged adds the way to repair an index to the error about one that is corrupt.
func damaged(err error, prefix string) error {
	if !errors.Is(err, hash.ErrCorrupt) {
		return fmt.Errorf("index: %w", err)
	}
	return fmt.Errorf("index: %w (scr_index --repair -p '%s' makes a new one from the datasets that are there)", err, prefix)
}

// newIndex makes an Index from its hash. If the hash is empty, it enters the checkpoints
// that SCR 1.1 has left in the prefix directory.
func newIndex(h *hash.Hash, prefix string) (*Index, error) {
	x := &Index{h: h}
	if h.Size() == 0 {
		old, err := readOldIndex(prefix)
		if err == nil {
			x.enterOld(old)
		}
		return x, err
	}
	if v, ok := h.Int(keyVersion); !ok || v != indexVersion {
		return nil, fmt.Errorf("%s has version %q, this version of goscr reads version %d",
			metadataPath(prefix, indexFile), h.Text(keyVersion), indexVersion)
	}
	return x, nil
}

// enterOld enters the checkpoints of an index of SCR 1.1.
func (x *Index) enterOld(old oldIndex) {
	for _, e := range old.best {
		x.enter(e.Entry)
		x.change(e.ID, func(to *stored) { to.Fetched, to.Failed = e.stored.Fetched, e.stored.Failed })
	}
	x.shadow = old.others
	if _, ok := x.Lookup(old.current); ok {
		x.h.SetValue(keyCurrent, old.current)
	}
	if old.found {
		x.h.SetInt(keyVersion, indexVersion)
	}
}

// UpdateIndex changes the index of a prefix directory under its lock. If change returns
// an error, the index stays as it is.
func UpdateIndex(prefix string, change func(*Index) error) error {
	err := update(prefix, indexFile, func(h *hash.Hash) error {
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

// mendIndex replaces an index that cannot be read by one that fill makes, see hash.Mend.
// If the index of SCR 1.1 cannot be read either, fill gets the error in old.
func mendIndex(prefix, aside string, fill func(x *Index, old error)) (done, kept bool, err error) {
	if err := makeMetadata(prefix); err != nil {
		return false, false, err
	}
	return hash.Mend(metadataPath(prefix, indexFile), aside, func(h *hash.Hash) error {
		x, err := newIndex(h, prefix)
		if err != nil {
			x = &Index{h: h}
		}
		fill(x, err)
		h.SetInt(keyVersion, indexVersion)
		return nil
	})
}

// change changes the entry of an id.
func (x *Index) change(id int, change func(e *stored)) {
	h := x.h.At(keyDset, strconv.Itoa(id))
	e := hash.As[stored](h)
	change(&e)
	h.SetFields(e)
}

// Add enters a dataset, complete or not. It removes the entry of another dataset with the
// same id. A complete dataset also replaces others of the same name; an incomplete one
// replaces only incomplete ones. Those that were replaced, and still own files, stay.
func (x *Index) Add(d dataset.Dataset, complete bool, now time.Time) {
	x.enter(Entry{Dataset: d, ID: d.ID(), Name: d.Name(), Complete: complete, Flushed: now.Format(timestamp)})
}

// enter is Add for an entry that is given in full.
func (x *Index) enter(e Entry) {
	if h := x.h.Get(keyChosen); hash.As[chosen](h).is(e.Dataset) { // it is completed now
		defer x.h.Set(keyChosen, h)
	}
	x.remove(e.ID)
	for _, other := range x.named(e.Name) {
		if other.Retired != nil && other.ID != e.ID { // it makes way
			other.Retired.As = unusedName(x, other.Retired.As+"~")
			x.retire(other)
			continue
		}
		if (e.Complete || !other.Complete && other.Placing == 0) && !(other.Replaced != nil && other.owns()) {
			x.remove(other.ID)
		}
	}
	if id, ok := x.lookup(e.Name); !ok || e.Complete || x.ByID(id).Replaced != nil && e.Replaced == nil {
		x.h.At(keyName, e.Name).SetInt(keyDset, int64(e.ID))
	}
	x.h.At(keyDset).Set(strconv.Itoa(e.ID), e.encode())
}

// is reports whether dataset d is the one that a user has chosen, see chosen.go.
func (c chosen) is(d dataset.Dataset) bool {
	return c.ID != 0 && c.ID == d.ID() && c.Created.Equal(d.Created())
}

// unusedName returns a name, with more "~" at its end if the index has it already.
func unusedName(x *Index, name string) string {
	for x.h.Has(keyName, name) {
		name += "~"
	}
	return name
}

// retire enters a dataset as retired, under its new name.
func (x *Index) retire(e Entry) {
	current := x.ByID(e.ID).Current
	name := e.Dataset.Name()
	if of, ok := x.lookup(name); ok && of == e.ID {
		x.h.UnsetKV(keyName, name)
		if current {
			x.setCurrent("")
		}
		x.rename(name)
	}
	x.h.At(keyName, e.Retired.As).SetInt(keyDset, int64(e.ID))
	x.change(e.ID, func(to *stored) { to.standing = standingOf(e.Dataset, true, e.Retired) })
	if current {
		x.setCurrent(e.Retired.As)
	}
}

// encode returns the entry's hash in an index, without the keys FETCHED and FAILED.
func (e Entry) encode() *hash.Hash {
	return hash.Marshal(stored{standing: standingOf(e.Dataset, e.Complete, e.Retired), Flushed: e.Flushed, Dir: e.Dir, Owns: e.Owns,
		Placing: placing{e.Placing}, Replaced: e.Replaced})
}

// decodeEntry reads the entry of an id from its hash.
func decodeEntry(id int, h *hash.Hash) Entry {
	s := hash.As[stored](h)
	e := Entry{Dataset: s.Desc, ID: id, Name: s.Desc.Name(), Flushed: s.Flushed, Complete: s.isComplete(), Failed: s.Failed != nil, Dir: s.Dir,
		Owns: s.Owns, Replaced: s.Replaced, Retired: s.retired()}
	if e.Retired != nil {
		e.Name = e.Retired.As
	}
	if e.Failed {
		e.Fault = "a restart from it failed on " + strings.Join(s.Failed.Keys(), ", ")
		if s.Why != "" {
			e.Fault += ": " + s.Why
		}
	}
	if n := s.Placing.Ranks; n > 0 && n <= rank2file.MaxRanks && !e.Complete {
		e.Placing = n
	}
	return e
}

// replace changes the description of a dataset that is entered, and whether it is
// complete. The rest of the entry stays.
func (x *Index) replace(d dataset.Dataset, complete bool) {
	e := x.ByID(d.ID())
	x.change(e.ID, func(to *stored) { to.standing = standingOf(d, complete, e.Retired) })
	if e.Current {
		x.setCurrent(e.Name) // the key depends on whether d is compressed
	}
}

// Lookup returns the id of the dataset called name. If there are several, it is the
// complete one. A retired one is meant by the name that the program has given it, too, if no other has that.
func (x *Index) Lookup(name string) (id int, ok bool) {
	if id, ok = x.lookup(name); ok {
		return id, ok
	}
	for _, e := range x.own() {
		if e.Retired != nil && e.Dataset.Name() == name {
			return e.ID, true
		}
	}
	return 0, false
}

// lookup is Lookup for the names that the index has.
func (x *Index) lookup(name string) (id int, ok bool) {
	if n, ok := x.h.Get(keyName, name).Int(keyDset); ok {
		return int(n), true
	}
	return 0, false
}

// Remove removes a dataset from the index, and reports whether it was there. Its files
// stay.
func (x *Index) Remove(name string) bool {
	id, ok := x.lookup(name)
	if ok {
		x.passOver(id, false)
		x.remove(id)
	}
	return ok
}

// passOver makes another checkpoint current, after the current one was removed, or a restart from it has failed: the newest
// usable one that is older. Two cases leave no checkpoint current, so that the next restart begins with the newest: there is no
// older one; or a restart from one that a user had gone back to has failed.
func (x *Index) passOver(id int, failed bool) {
	if !x.ByID(id).Current {
		return
	}
	x.UnsetCurrent()
	for _, e := range x.Entries() {
		switch {
		case e.ID == id || !e.usable():
		case e.ID < id:
			x.setCurrent(e.Name)
			return
		case failed:
			return
		}
	}
}

func (x *Index) remove(id int) {
	for name, h := range x.h.Get(keyName).All() {
		if n, _ := h.Int(keyDset); int(n) == id {
			x.h.UnsetKV(keyName, name)
			if x.Current() == name {
				x.setCurrent("")
			}
			x.h.UnsetKVInt(keyDset, id)
			x.rename(name)
		}
	}
	x.h.UnsetKVInt(keyDset, id)
}

// rename gives a name, whose dataset was removed, to the newest remaining dataset that is
// called so.
func (x *Index) rename(name string) {
	if list := x.named(name); len(list) > 0 {
		x.h.At(keyName, name).SetInt(keyDset, int64(list[0].ID))
	}
}

// RemoveAfter removes all datasets with ids higher than id from the index, and returns
// their names. Their files stay.
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

// Current returns the name of the dataset that the next restart tries first, "" if none
// is set.
func (x *Index) Current() string {
	if name := x.h.Text(keyCurrent); name != "" {
		// If both keys are there, SCR 3.1 has set this one later: unlike goscr it does not
		// remove the other one.
		return name
	}
	return x.h.Text(keyCurrentCompressed)
}

// setCurrent makes the dataset called name current. If name is "", or is not in the
// index, no dataset is current, and the next restart begins with the newest.
func (x *Index) setCurrent(name string) {
	x.h.Unset(keyCurrent)
	x.h.Unset(keyCurrentCompressed)
	if x.ByID(hash.As[chosen](x.h.Get(keyChosen)).ID).Name != name {
		x.h.Unset(keyChosen)
	}
	if e, ok := x.Find(name); !ok {
		return
	} else if e.Compressed() || e.Retired != nil { // SCR 3.1 reads the dataset that CURRENT names without checking COMPLETE
		x.h.SetValue(keyCurrentCompressed, e.Name)
	} else {
		x.h.SetValue(keyCurrent, e.Name)
	}
}

// SetCurrent makes the next restart try a dataset first, even if a restart from it has
// failed before. It is an error if the index has no dataset called name.
func (x *Index) SetCurrent(name string) error {
	id, ok := x.Lookup(name)
	if !ok {
		return fmt.Errorf("there is no dataset %q in the index", name)
	}
	x.unmarkFailed(id)
	x.setCurrent(name)
	return nil
}

// UnsetCurrent makes no dataset current.
func (x *Index) UnsetCurrent() { x.setCurrent("") }

// FlushedAt returns when a dataset was flushed, the zero time if that is not known.
func (e Entry) FlushedAt() time.Time {
	t, err := time.ParseInLocation(timestamp, e.Flushed, time.Local)
	if err != nil {
		return time.Time{}
	}
	return t
}

// MarkFetched records that a restart has read a dataset.
func (x *Index) MarkFetched(id int, now time.Time) {
	x.change(id, func(e *stored) { e.Fetched = append(e.Fetched, now.Format(timestamp)) })
}

func (x *Index) unmarkFailed(id int) {
	x.change(id, func(e *stored) { e.Failed, e.Why = nil, "" })
}

// MarkFailed records that a restart from a dataset failed, and why. No later restart tries
// it, and it is not current any more.
func (x *Index) MarkFailed(id int, why string, now time.Time) {
	const most = 300 // bytes of the reason
	x.change(id, func(e *stored) {
		e.Failed = hash.New()
		e.Failed.Set(now.Format(timestamp), nil)
		e.Why = strings.ToValidUTF8(why[:min(len(why), most)], "")
	})
	x.passOver(id, true)
}

// HasNewer reports whether a complete checkpoint with a higher id is in the index.
func (x *Index) HasNewer(id int) bool {
	return slices.ContainsFunc(x.own(), func(e Entry) bool { return e.ID > id && e.usable() })
}

// Usable returns the checkpoints from which a job can restart, newest first.
func (x *Index) Usable() (list []dataset.Dataset) {
	for _, e := range x.Entries() {
		if e.usable() {
			list = append(list, e.Dataset)
		}
	}
	return list
}

// Entries returns all datasets, newest first.
func (x *Index) Entries() []Entry {
	var list []Entry
	for _, own := range x.own() {
		list = append(list, own)
		for _, e := range x.shadow {
			if e.ID == own.ID {
				list = append(list, e)
			}
		}
	}
	return list
}

// own returns the datasets that are entered, without further copies of them, newest first.
func (x *Index) own() (list []Entry) {
	for _, id := range slices.Backward(x.h.Get(keyDset).Ints()) {
		list = append(list, x.ByID(id))
	}
	return list
}

// named returns the datasets called name that are entered, newest first.
func (x *Index) named(name string) []Entry {
	return slices.DeleteFunc(x.own(), func(e Entry) bool { return e.Name != name })
}

// Find returns the entry of the dataset called name, see Lookup.
func (x *Index) Find(name string) (Entry, bool) {
	id, ok := x.Lookup(name)
	if !ok {
		return Entry{}, false
	}
	return x.ByID(id), true
}

// ByID returns the entry of an id. If there is none, only its ID is set.
func (x *Index) ByID(id int) Entry {
	e := decodeEntry(id, x.h.Get(keyDset, strconv.Itoa(id)))
	if e.Name != "" && x.Current() == e.Name {
		named, _ := x.lookup(e.Name)
		e.Current = named == id
	}
	return e
}

// Has reports whether the index has dataset d. An entry of the same id that differs in
// name or time of creation is another dataset.
func (x *Index) Has(d dataset.Dataset) bool {
	e := x.ByID(d.ID())
	return !e.IsZero() && e.Dataset.Same(d)
}

// TakenError says that a dataset cannot be entered because the index has another one
// with its id: two jobs that use the same prefix directory have numbered their datasets
// from the same id.
type TakenError struct {
	Prefix  string
	Dataset dataset.Dataset // the dataset that cannot be entered
	By      Entry           // the dataset that has its id
	Highest int             // highest id in the index
}

// ErrTaken is the kind of every TakenError: errors.Is(err, ErrTaken) is true.
var ErrTaken = mpi.NewKind(2, "the number of a dataset is taken")

// Is reports whether target is ErrTaken.
func (e *TakenError) Is(target error) bool { return target == ErrTaken }

func (e *TakenError) Error() string {
	by := fmt.Sprintf("%q", e.By.Name)
	if job := e.By.Owner().JobID; job != "" {
		by += " of job " + job
	}
	return fmt.Sprintf("the index of %s has %s as dataset %d, so %q of the same number cannot be entered: jobs that run at the same time "+
		"need prefix directories of their own (scr_index --drop makes the number free)", e.Prefix, by, e.Dataset.ID(), e.Dataset.Name())
}

// claim returns a *TakenError if d may not be entered, because another dataset has its
// id. An incomplete one that owns no files may be replaced, unless begun is true: then d has
// been entered before, and so the other dataset is newer than that entry.
func (x *Index) claim(prefix string, d dataset.Dataset, begun bool) error {
	if e := x.ByID(d.ID()); !e.IsZero() && !x.Has(d) && (e.owns() || e.Placing > 0 || begun) {
		return &TakenError{prefix, d, e, x.Highest()}
	}
	return nil
}

// Highest returns the highest id of any dataset, 0 if there is none.
func (x *Index) Highest() int {
	if ids := x.h.Get(keyDset).Ints(); len(ids) > 0 {
		return ids[len(ids)-1]
	}
	return 0
}

// Next returns the next checkpoint to try to restart from. If below is 0, for the first
// try, that is the current one if it is usable, else the newest usable one. For further
// tries the caller passes the id of the checkpoint that it has tried last, and Next
// returns the newest usable one with an id lower than below. An entry whose description
// has another id is not usable: the caller would get it again and again.
func (x *Index) Next(below int) (Entry, bool) {
	if below == 0 {
		if e, ok := x.Find(x.Current()); ok && e.usable() {
			return e, true
		}
	}
	for _, e := range x.Entries() {
		if (below == 0 || e.ID < below) && e.usable() {
			return e, true
		}
	}
	return Entry{}, false
}

// histories returns those, besides the present one, of which checkpoints are kept.
func histories(list []Entry, present int64) map[int64]bool {
	type history struct {
		id           int64
		came, newest int // the highest number of a checkpoint, and of a dataset
	}
	var all []history
	for _, e := range list {
		if !e.Complete || !e.Flags().Has(dataset.Checkpoint) || e.History() == present {
			continue
		}
		i := slices.IndexFunc(all, func(h history) bool { return h.id == e.History() })
		if i < 0 {
			i = len(all)
			all = append(all, history{id: e.History()})
		}
		all[i].came, all[i].newest = max(all[i].came, e.Checkpoint()), max(all[i].newest, e.ID)
	}
	slices.SortFunc(all, func(a, b history) int { return cmp.Or(cmp.Compare(b.came, a.came), cmp.Compare(b.newest, a.newest)) })
	kept := map[int64]bool{}
	for _, h := range all[:min(len(all), Histories)] {
		kept[h.id] = true
	}
	return kept
}
