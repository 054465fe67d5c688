package prefix

import (
	"maps"
	"slices"

	"github.com/goscr/goscr/internal/prefix/dataset"
)

// Meant says which datasets a program means by a name that it wants to remove.
type Meant struct {
	Name string
	Of   int64 // those called Name of this history
	// If none is called Name, and GoesOn is true, those are meant that were called so, are retired, and are of the history Continued, which
	// the run continues. Retired ones of other histories stay: the program may only clear the name for a dataset of its own.
	GoesOn    bool
	Continued int64
}

// by returns the datasets of an index that are meant.
func (m Meant) by(x *Index) []Entry {
	list := slices.DeleteFunc(x.named(m.Name), func(e Entry) bool { return !e.Of(m.Of) })
	if len(list) > 0 || !m.GoesOn {
		return list
	}
	return slices.DeleteFunc(x.own(), func(e Entry) bool {
		return e.Retired == nil || e.Dataset.Name() != m.Name || e.History() != m.Continued
	})
}

// Drop removes the datasets that are meant from an index. Their files stay. Those that a newer dataset has replaced stay, too, until
// their files are deleted.
func (m Meant) Drop(x *Index) {
	for _, e := range m.by(x) {
		if e.Replaced == nil {
			x.passOver(e.ID, false)
			x.remove(e.ID)
		}
	}
}

// Delete removes the datasets that are meant with the files that they own, and directories that
// become empty, from the prefix directory. It is no error if there are none. It is collective.
func (p *Prefix) Delete(m Meant) error {
	chosen, err := p.choose(m.by)
	for _, e := range chosen {
		if e := (removal{p, e, false}).run(); err == nil {
			err = e
		}
	}
	return err
}

// Purge removes all datasets. If a dataset cannot be deleted, for example because its
// list of files cannot be read, it is removed from the index with a warning, and its
// files stay. It is collective.
func (p *Prefix) Purge() error {
	all, err := p.choose((*Index).Entries)
	if err != nil {
		return err
	}
	for _, e := range all {
		p.Log.Info("dataset %d (%s) is deleted from %s", e.ID, e.Name, p.Dir)
		r := removal{p, e, true}
		if err := r.run(); err != nil {
			p.Log.WarnJob("dataset %d (%s) cannot be deleted from %s, files of it stay: %v", e.ID, e.Name, p.Dir, err)
			if err := r.forget(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Discard deletes a retired dataset with its files, for commands: without its entry in the index nobody would find them.
func Discard(prefix string, e Entry) error {
	return alone(prefix, func(p *Prefix) error { return removal{p, e, false}.run() })
}

// Keep removes the oldest checkpoints until at most most usable ones are left. Outputs
// are kept, and so are files that other datasets own. It is collective.
func (p *Prefix) Keep(most int) error {
	old, err := p.choose(func(x *Index) []Entry { return x.beyond(most) })
	if err != nil {
		return err
	}
	for _, e := range old {
		p.Log.Info("checkpoint %s is deleted from %s, where SCR_PREFIX_SIZE=%d are kept", e.Name, p.Dir, most)
		if err := (removal{p, e, false}).run(); err != nil {
			return err
		}
	}
	return nil
}

// beyond returns the checkpoints, incomplete ones included, that are older in their series than the
// newest most usable ones of the history of the newest. Those of other histories, as far as these are kept, are left out.
func (x *Index) beyond(most int) (old []Entry) {
	series := map[string][]Entry{}
	for _, e := range x.Entries() {
		series[e.Series()] = append(series[e.Series()], e)
	}
	for _, name := range slices.Sorted(maps.Keys(series)) {
		old = append(old, beyond(series[name], most)...)
	}
	return old
}

// beyond is Index.beyond for the datasets of one series, newest first.
func beyond(list []Entry, most int) (old []Entry) {
	present := dataset.UnknownHistory
	if i := slices.IndexFunc(list, func(e Entry) bool { return e.Complete && e.Flags().Has(dataset.Checkpoint) }); i >= 0 {
		present = list[i].History()
	}
	kept := histories(list, present)
	own, usable := 0, 0
	for _, e := range list {
		mine := present == dataset.AnyHistory || e.History() == present
		switch {
		case !e.Flags().Has(dataset.Checkpoint):
		case mine && own < most, !mine && (kept[e.History()] || usable < most), e.Current:
			if e.usable() {
				usable++
			}
			if e.usable() && mine {
				own++
			}
		case !e.Flags().Has(dataset.Output):
			old = append(old, e)
		}
	}
	return old
}
