package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// retirement moves checkpoints of other histories out of the way of a dataset that needs their names.
type retirement struct {
	p  *Prefix
	by dataset.Dataset
}

// one retires a checkpoint. If it is interrupted, the checkpoint can be used, and the next
// call continues. It is collective; the result is agreed.
func (r retirement) one(id int) error {
	p := r.p
	var e Entry
	err := mpi.OnRoot(p.Comm, func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return err
		}
		if e = x.ByID(id); !e.retires(r.by.History()) {
			return fmt.Errorf("dataset %d (%s) has changed meanwhile", id, e.Name)
		}
		if e.Retired == nil {
			if err := r.makeDir(e.Dataset); err != nil {
				return err
			}
			e.Retired = &Retired{As: unusedName(x, retiredName(e.Dataset))}
		}
		p.at("retire")
		return r.record(e)
	})
	if err != nil {
		return cannotMove(id, err)
	}
	o, err := p.origin(id)
	if err != nil {
		return err
	}
	if _, err = p.each(o, func(_ int, files []redundancy.File) error { return r.moveAway(o, files) }); err != nil {
		return cannotMove(id, err)
	}
	return mpi.OnRoot(p.Comm, func() error {
		e.Retired.Moved = true
		p.at("retired")
		if err := r.record(e); err != nil {
			return err
		}
		p.Log.WarnJob("checkpoint %s is of a computation that this one does not continue, and is not replaced: its name is %s now. "+
			"scr_index --current %s restarts from it, scr_index --drop %s deletes it", e.Dataset.Name(), e.Retired.As, e.Retired.As, e.Retired.As)
		return nil
	})
}

func cannotMove(id int, err error) error {
	return fmt.Errorf("checkpoint %d of another computation has the same name or files of the same names, and cannot be moved: %w "+
		"(with SCR_RESTART=never a run that starts from the beginning replaces it)", id, err)
}

// makeDir makes the directory for the files of a dataset. What is in one of that name already, and is not empty, is
// somebody else's.
func (r retirement) makeDir(d dataset.Dataset) error {
	dir, root := filepath.Join(r.p.Dir, retiredDir(d)), r.p.root()
	err := root.Mkdir(dir, 0o777)
	if errors.Is(err, fs.ErrExist) && root.Rmdir(dir) == nil { // a kill has left it
		err = root.Mkdir(dir, 0o777)
	}
	return err
}

// record records how far a dataset is retired in the index, and in its summary, since the index can be rebuilt from
// the summaries.
func (r retirement) record(e Entry) error {
	err := UpdateIndex(r.p.Dir, func(x *Index) error {
		if !x.Has(e.Dataset) {
			return fmt.Errorf("dataset %d (%s) was removed from the index meanwhile", e.ID, e.Name)
		}
		x.retire(e)
		return nil
	})
	if err != nil {
		return err
	}
	f, err := Summary(r.p.Dir, e.ID)
	if err != nil {
		return err
	}
	f.Retired = e.Retired
	return f.store(r.p.Dir)
}

// moveAway moves files of a dataset that is being retired. One that has moved has left its path to another dataset.
func (r retirement) moveAway(o origin, files []redundancy.File) error {
	dir := r.p.Dir
	var moved []redundancy.File
	for _, f := range redundancy.Counted(files) {
		from, to := filepath.Join(dir, f.Meta.File()), filepath.Join(dir, o.Retired, f.Meta.File())
		there, err := r.isThere(to, f.Meta.StoredSize())
		if err == nil && !there {
			there, err = r.move(from, to)
		}
		if err != nil {
			return err
		}
		if there {
			moved = append(moved, redundancy.File{Path: to, Meta: f.Meta, Below: r.p.root()})
		}
	}
	return syncNames(dir, moved)
}

// move moves a file, if it is there: if not, it cannot be replaced either.
func (r retirement) move(from, to string) (there bool, err error) {
	if there, err = r.isThere(from, -1); err != nil || !there {
		return there, err
	}
	if err := r.p.root().MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return true, err
	}
	r.p.at("move")
	return true, r.p.root().Rename(from, to)
}

// isThere reports whether there is a file at a path. It is an error if that is not a regular file of a size.
func (r retirement) isThere(path string, size int64) (bool, error) {
	info, err := r.p.root().Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case !info.Mode().IsRegular() || size >= 0 && info.Size() != size:
		return false, fmt.Errorf("%s is not the file that was flushed", path)
	}
	return true, nil
}

// named retires the checkpoint that has the name of the dataset, which is about to be written or completed: the index
// has one complete dataset of a name. It continues with those that have begun to move, since the program may write over
// their files. It is collective; the result is agreed.
func (r retirement) named() error {
	d := r.by
	if d.History() == dataset.AnyHistory {
		return nil
	}
	list, err := r.p.choose(func(x *Index) (list []Entry) {
		for _, e := range x.own() {
			if (e.Dataset.Name() == d.Name() || e.Retired != nil) && e.ID != d.ID() && e.retires(d.History()) {
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
		_, err := r.p.List(e.ID)
		if lost, err := isDamage(r.p.Comm, err); err != nil {
			return err
		} else if lost {
			continue // it is replaced
		}
		ids = append(ids, e.ID)
	}
	return r.all(ids)
}

// all retires checkpoints, and deletes those that are kept no longer then. It is collective; the result is agreed.
func (r retirement) all(ids []int) error {
	if len(ids) == 0 {
		return nil
	}
	for _, id := range ids {
		if err := r.one(id); err != nil {
			return err
		}
	}
	history := r.by.History()
	old, err := r.p.choose(func(x *Index) (old []Entry) {
		kept := histories(x.own(), history)
		for _, e := range x.own() {
			if e.moved() && e.History() != history && !kept[e.History()] && !e.Current {
				old = append(old, e)
			}
		}
		return old
	})
	for _, e := range old {
		r.p.Log.WarnJob("checkpoint %s is deleted: checkpoints of the present computation and of the %d others that have come farthest are kept", e.Name, Histories)
		if err := (removal{r.p, e, true}).run(); err != nil {
			r.p.Log.WarnJob("checkpoint %s cannot be deleted from %s: %v", e.Name, r.p.Dir, err)
		}
	}
	return err
}
