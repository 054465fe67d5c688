package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// retire retires a checkpoint for a history that began after a dataset. If it is interrupted, the checkpoint
// can be used, and the next call goes on. It is collective; the result is agreed.
func retire(p *Prefix, id, after int) error {
	var e Entry
	// record records it in the summary, too, since the index can be rebuilt from the summaries.
	record := func() error {
		f, err := Summary(p.Dir, id)
		if err != nil {
			return err
		}
		f.Retired = e.Retired
		return f.store(p.Dir)
	}
	err := mpi.OnRoot(p.Comm, func() error {
		p.at("retire")
		err := UpdateIndex(p.Dir, func(x *Index) error {
			if e = x.ByID(id); !e.retires(after) {
				return fmt.Errorf("dataset %d (%s) has changed meanwhile", id, e.Name)
			}
			x.retire(&e, after)
			return nil
		})
		if err != nil {
			return err
		}
		return record()
	})
	if err != nil {
		return err
	}
	o, err := p.origin(id)
	if err != nil {
		return err
	}
	if _, err = p.each(o, func(_ int, files []redundancy.File) error { return moveAway(p, o, files) }); err != nil {
		return fmt.Errorf("checkpoint %d of an earlier computation has the same name or files of the same names, and cannot be moved: %w "+
			"(with SCR_RESTART=never a run that starts from the beginning replaces it)", id, err)
	}
	return mpi.OnRoot(p.Comm, func() error {
		e.Retired.Moved = true
		p.at("retired")
		if err := record(); err != nil {
			return err
		}
		if err := UpdateIndex(p.Dir, func(x *Index) error { x.retire(&e, after); return nil }); err != nil {
			return err
		}
		p.Log.WarnJob("checkpoint %s was there before this computation started from the beginning, and is not replaced: its name is %s now. "+
			"scr_index --current %s restarts from it, scr_index --drop %s deletes it", e.Dataset.Name(), e.Name, e.Name, e.Name)
		return nil
	})
}

// moveAway moves files of a dataset that is being retired. One that has moved has left its path to another dataset.
func moveAway(p *Prefix, o origin, files []redundancy.File) error {
	var moved []redundancy.File
	for _, f := range redundancy.Counted(files) {
		from, to := filepath.Join(p.Dir, f.Meta.File()), filepath.Join(p.Dir, o.retired, f.Meta.File())
		there, err := isThere(p, to)
		if err == nil && !there {
			there, err = moveFile(p, from, to)
		}
		if err != nil {
			return err
		}
		if there {
			moved = append(moved, redundancy.File{Path: to, Meta: f.Meta, Below: p.root()})
		}
	}
	return syncNames(p.Dir, moved)
}

// moveFile moves a file, if it is there: if not, it cannot be replaced either.
func moveFile(p *Prefix, from, to string) (there bool, err error) {
	if there, err = isThere(p, from); err != nil || !there {
		return there, err
	}
	if err := p.root().MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return true, err
	}
	p.at("move")
	return true, p.root().Rename(from, to)
}

// isThere reports whether there is a file at a path.
func isThere(p *Prefix, path string) (bool, error) {
	_, err := p.root().Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// retire enters a dataset as retired, under its new name.
func (x *Index) retire(e *Entry, after int) {
	if e.Retired == nil {
		e.Retired = &Retired{As: retiredName(e.Dataset), After: after}
		for x.h.Has(keyName, e.Retired.As) {
			e.Retired.As += "~"
		}
	}
	current := x.ByID(e.ID).Current
	if name := e.Dataset.Name(); x.isNamed(name, e.ID) {
		x.h.UnsetKV(keyName, name)
		if current {
			x.setCurrent("")
		}
		x.rename(name)
	}
	e.Name = e.Retired.As
	x.h.At(keyName, e.Name).SetInt(keyDset, int64(e.ID))
	describe(x.at(e.ID), e.Dataset, true, e.Retired)
	if current {
		x.setCurrent(e.Name)
	}
}

// isNamed reports whether a name is of the dataset of an id.
func (x *Index) isNamed(name string, id int) bool {
	of, ok := x.lookup(name)
	return ok && of == id
}

// retires reports whether a dataset of a prefix directory is to be retired. One that users have dropped is not, nor one that is damaged.
func (x *Index) retires(prefix string, e Entry, after int) (bool, error) {
	if !x.Has(e.Dataset) || !e.retires(after) {
		return false, nil
	}
	_, err := Summary(prefix, e.ID)
	if errors.Is(err, hash.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// retireNamed retires the checkpoint that has the name of a dataset which is about to be written or completed: the index
// has one complete dataset of a name. It is collective; the result is agreed.
func retireNamed(p *Prefix, d dataset.Dataset) error {
	if d.After() == 0 {
		return nil
	}
	list, err := p.choose(func(x *Index) (list []Entry) {
		for _, e := range x.own() {
			if e.Dataset.Name() == d.Name() && e.retires(d.After()) {
				list = append(list, e)
			}
		}
		return list
	})
	if err != nil {
		return err
	}
	var ids []int
	for _, e := range list {
		if _, err := p.List(e.ID); unreadable(err) {
			p.Log.Info("dataset %d (%s) is damaged, and is replaced: %v", e.ID, e.Name, err)
			continue
		} else if err != nil {
			return err
		}
		ids = append(ids, e.ID)
	}
	return retireAll(p, ids, d.After())
}

// retireAll retires checkpoints, and deletes those that are kept no longer then. It is collective; the result is agreed.
func retireAll(p *Prefix, ids []int, after int) error {
	if len(ids) == 0 {
		return nil
	}
	for _, id := range ids {
		if err := retire(p, id, after); err != nil {
			return err
		}
	}
	old, err := p.choose(expired)
	for _, e := range old {
		p.Log.Info("checkpoint %s is deleted from %s: %d computations have started from the beginning since", e.Name, p.Dir, Beginnings+1)
		if err := p.remove(e, listedFiles); err != nil {
			return err
		}
	}
	return err
}

// expired returns the retired checkpoints but those of the last beginnings.
func expired(x *Index) (old []Entry) {
	var after []int
	for _, e := range x.own() {
		if e.moved() && !slices.Contains(after, e.Retired.After) {
			after = append(after, e.Retired.After)
		}
	}
	slices.Sort(after)
	for _, e := range x.own() {
		if e.moved() && slices.Index(after, e.Retired.After) < len(after)-Beginnings {
			old = append(old, e)
		}
	}
	return old
}
