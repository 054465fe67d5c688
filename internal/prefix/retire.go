package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// retire retires a checkpoint for a dataset of some history. If it is interrupted, the checkpoint
// can be used, and the next call continues. It is collective; the result is agreed.
func retire(p *Prefix, id int, history int64) error {
	var e Entry
	err := mpi.OnRoot(p.Comm, func() error {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return err
		}
		if e = x.ByID(id); !e.retires(history) {
			return fmt.Errorf("dataset %d (%s) has changed meanwhile", id, e.Name)
		}
		if e.Retired == nil {
			if err := makeRetired(p, e.Dataset); err != nil {
				return err
			}
			e.Retired = &Retired{As: unusedName(x, retiredName(e.Dataset))}
		}
		p.at("retire")
		return recordRetired(p, e)
	})
	if err != nil {
		return cannotMove(id, err)
	}
	o, err := p.origin(id)
	if err != nil {
		return err
	}
	if _, err = p.each(o, func(_ int, files []redundancy.File) error { return moveAway(p, o, files) }); err != nil {
		return cannotMove(id, err)
	}
	return mpi.OnRoot(p.Comm, func() error {
		e.Retired.Moved = true
		p.at("retired")
		if err := recordRetired(p, e); err != nil {
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

// makeRetired makes the directory for the files of a dataset. What is in one of that name already, and is not empty, is
// somebody else's.
func makeRetired(p *Prefix, d dataset.Dataset) error {
	dir := filepath.Join(p.Dir, retiredDir(d))
	err := p.root().Mkdir(dir, 0o777)
	if errors.Is(err, fs.ErrExist) && p.root().Rmdir(dir) == nil { // a kill has left it
		err = p.root().Mkdir(dir, 0o777)
	}
	return err
}

// recordRetired records how far a dataset is retired in the index, and in its summary, since the index can be rebuilt from
// the summaries.
func recordRetired(p *Prefix, e Entry) error {
	err := UpdateIndex(p.Dir, func(x *Index) error {
		if !x.Has(e.Dataset) {
			return fmt.Errorf("dataset %d (%s) was removed from the index meanwhile", e.ID, e.Name)
		}
		x.retire(e)
		return nil
	})
	if err != nil {
		return err
	}
	f, err := Summary(p.Dir, e.ID)
	if err != nil {
		return err
	}
	f.Retired = e.Retired
	return f.store(p.Dir)
}

// moveAway moves files of a dataset that is being retired. One that has moved has left its path to another dataset.
func moveAway(p *Prefix, o origin, files []redundancy.File) error {
	var moved []redundancy.File
	for _, f := range redundancy.Counted(files) {
		from, to := filepath.Join(p.Dir, f.Meta.File()), filepath.Join(p.Dir, o.Retired, f.Meta.File())
		there, err := isThere(p, to, f.Meta.StoredSize())
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
	if there, err = isThere(p, from, -1); err != nil || !there {
		return there, err
	}
	if err := p.root().MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return true, err
	}
	p.at("move")
	return true, p.root().Rename(from, to)
}

// isThere reports whether there is a file at a path. It is an error if that is not a regular file of a size.
func isThere(p *Prefix, path string, size int64) (bool, error) {
	info, err := p.root().Lstat(path)
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

// isRetired reports whether a dataset of a prefix directory is to be retired. One that users have dropped is not, nor one that is damaged.
func isRetired(x *Index, prefix string, e Entry, history int64) (bool, error) {
	if !x.Has(e.Dataset) || !e.retires(history) {
		return false, nil
	}
	_, err := Summary(prefix, e.ID)
	if errors.Is(err, hash.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// retireNamed retires the checkpoint that has the name of a dataset which is about to be written or completed: the index
// has one complete dataset of a name. It continues with those that have begun to move, since the program may write over
// their files. It is collective; the result is agreed.
func retireNamed(p *Prefix, d dataset.Dataset) error {
	if d.History() == dataset.AnyHistory {
		return nil
	}
	list, err := p.choose(func(x *Index) (list []Entry) {
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
		_, err := p.List(e.ID)
		if lost, err := isDamage(p.Comm, err); err != nil {
			return err
		} else if lost {
			continue // it is replaced
		}
		ids = append(ids, e.ID)
	}
	return retireAll(p, ids, d.History())
}

// retireAll retires checkpoints, and deletes those that are kept no longer then. It is collective; the result is agreed.
func retireAll(p *Prefix, ids []int, history int64) error {
	if len(ids) == 0 {
		return nil
	}
	for _, id := range ids {
		if err := retire(p, id, history); err != nil {
			return err
		}
	}
	old, err := p.choose(func(x *Index) (old []Entry) {
		kept := histories(x.own(), history)
		for _, e := range x.own() {
			if e.moved() && e.History() != history && !kept[e.History()] && !e.Current {
				old = append(old, e)
			}
		}
		return old
	})
	for _, e := range old {
		p.Log.WarnJob("checkpoint %s is deleted: checkpoints of the present computation and of the %d others that have come farthest are kept", e.Name, Histories)
		if err := p.remove(e, listedFiles); err != nil {
			return err
		}
	}
	return err
}
