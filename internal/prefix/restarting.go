package prefix

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// restart.scr names the checkpoint that the program is reading. If the program dies
// before it has finished, no later run is offered this checkpoint, so that they do not
// die in the same way. It also names checkpoints in the cache from which the program could
// not restart.
//
//	READING   / <id> / NAME    = <name>     the program is restarting from it
//	                   CREATED = <µs>       its time of creation
//	CONDEMNED / <id> / the same             no run may restart from it
//	                   WHY     = <text>
const (
	restartFile = "restart.scr"

	diedReading = "the program died while it read it"
)

type restarting struct {
	Reading   map[int]Verdict `hash:"READING,omitempty"`
	Condemned map[int]Verdict `hash:"CONDEMNED,omitempty"`
}

// Verdict says that no run may restart from a checkpoint.
type Verdict struct {
	Name    string    `hash:"NAME"`
	Created time.Time `hash:"CREATED,omitempty"` // zero if it is not known
	Why     string    `hash:"WHY,omitempty"`
}

// verdict returns a verdict about a dataset.
func verdict(d dataset.Dataset, why string) Verdict { return Verdict{d.Name(), d.Created(), why} }

func readRestarting(prefix string) (restarting, error) {
	h, err := hash.ReadOrNew(metadataPath(prefix, restartFile))
	return hash.As[restarting](h), err
}

// BeginRestart records that the program begins to read a checkpoint, and no longer reads
// any other.
func BeginRestart(prefix string, d dataset.Dataset) error {
	return updateRecord(prefix, restartFile, func(r *restarting) { r.Reading = map[int]Verdict{d.ID(): verdict(d, "")} })
}

// EndRestart records that the program no longer reads a checkpoint.
func EndRestart(prefix string) error {
	if !restarted(prefix) {
		return nil
	}
	return updateRecord(prefix, restartFile, func(r *restarting) { r.Reading = nil })
}

// restarted reports whether there is a restart.scr: any program has begun a restart from
// this prefix directory.
func restarted(prefix string) bool {
	_, err := os.Lstat(metadataPath(prefix, restartFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// Reading reports whether the program is reading a checkpoint, or was when it died.
func Reading(prefix string) (bool, error) {
	r, err := readRestarting(prefix)
	return len(r.Reading) > 0, err
}

// Condemn marks the checkpoint that the program was reading when it died, in restart.scr
// and in the index, so that no run restarts from it. It returns the name of the
// checkpoint, "" if the program was not reading any.
func Condemn(prefix string, now time.Time) (name string, err error) {
	if !restarted(prefix) {
		return "", nil
	}
	id, v := 0, Verdict{}
	err = updateRecord(prefix, restartFile, func(r *restarting) {
		for id, v = range r.Reading {
			v.Why = diedReading
			r.Condemned[id] = v
		}
		r.Reading = nil
	})
	if err != nil || v.Name == "" {
		return "", err
	}
	x, err := ReadIndex(prefix)
	if err != nil || !v.Of(x.ByID(id).Dataset) { // another job may have a dataset of this id
		return v.Name, err
	}
	return v.Name, UpdateIndex(prefix, func(x *Index) error { x.MarkFailed(id, diedReading, now); return nil })
}

// Reject marks a checkpoint in the cache from which the program could not restart, so that
// no run restarts from it.
func Reject(prefix string, d dataset.Dataset, why string) error {
	return updateRecord(prefix, restartFile, func(r *restarting) { r.Condemned[d.ID()] = verdict(d, why) })
}

// Of reports whether the verdict is about d, and not about an older dataset of its id.
func (v Verdict) Of(d dataset.Dataset) bool {
	return v.Name == d.Name() && (v.Created.IsZero() || v.Created.Equal(d.Created()))
}

// Condemned returns the checkpoints that no run may restart from, by id.
func Condemned(prefix string) (map[int]Verdict, error) {
	r, err := readRestarting(prefix)
	for id, v := range r.Condemned {
		v.Why = cmp.Or(v.Why, diedReading)
		r.Condemned[id] = v
	}
	return r.Condemned, err
}

// Acquit removes a checkpoint from the list of those that no run may restart from, since the
// program has restarted from it: the user had named it in SCR_CURRENT.
func Acquit(prefix string, d dataset.Dataset) error {
	list, err := Condemned(prefix)
	if v, ok := list[d.ID()]; err != nil || !ok || !v.Of(d) {
		return err
	}
	return updateRecord(prefix, restartFile, func(r *restarting) { delete(r.Condemned, d.ID()) })
}

// Forgive removes all checkpoints from the list of those that no run may restart from,
// once they have left the cache.
func Forgive(prefix string) error {
	return updateRecord(prefix, restartFile, func(r *restarting) { r.Condemned = nil })
}

// Pardon lets later runs restart from checkpoints again, newest first, from which the program could not
// restart. The newest that the index has becomes the current one there, unless it has a newer one that can be used: that one becomes
// current if none is, and the newest of list has left the cache, from which an older one would be offered.
func Pardon(prefix string, list []dataset.Dataset, left bool) error {
	if err := updateRecord(prefix, restartFile, func(r *restarting) {
		for _, d := range list {
			if r.Condemned[d.ID()].Of(d) {
				delete(r.Condemned, d.ID())
			}
		}
	}); err != nil {
		return err
	}
	return UpdateIndex(prefix, func(x *Index) error {
		for _, d := range list {
			if !x.Has(d) {
				continue
			}
			x.unmarkFailed(d.ID())
			if e := x.ByID(d.ID()); e.usable() && !x.HasNewer(e.ID) {
				x.setCurrent(e.Name)
			}
		}
		if _, chosen := Chosen(x); left && !chosen && x.Current() == "" && x.Has(list[0]) {
			all := x.Entries()
			if i := slices.IndexFunc(all, func(e Entry) bool { return e.usable() && e.Series() == "" }); i >= 0 {
				x.setCurrent(all[i].Name)
			}
		}
		return nil
	})
}
