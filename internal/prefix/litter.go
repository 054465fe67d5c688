package prefix

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/mpi"
)

// copying.scr, in the directory of a dataset that is being flushed, lists the directories of
// its files. If the flush is interrupted and never repeated, because the dataset has left the
// cache or was lost with the nodes, parts of files with temporary names are left in them.
//
//	DIR / <path below the prefix directory>
const copyingFile = "copying.scr"

// copyTo records the directories to which a flush copies files. It is collective; the
// result is agreed.
func (f *Flush) copyTo() error {
	dirs := hash.New()
	for _, files := range f.parts {
		for _, file := range files {
			dirs.At(keyDir, filepath.Dir(filepath.Clean(file.Meta.File())))
		}
	}
	send := hash.New()
	if dirs.Size() > 0 {
		send.Set(strconv.Itoa(0), dirs)
	}
	received, err := hash.Exchange(send, f.p.Comm)
	if err != nil {
		return err
	}
	return mpi.OnRoot(f.p.Comm, func() error {
		all := hash.New()
		for _, h := range received.All() {
			all.Merge(h)
		}
		if all.Size() == 0 {
			return nil
		}
		return hash.WriteShared(filepath.Join(Dir(f.p.Dir, f.d.ID()), copyingFile), all)
	})
}

// copied records that no temporary files of a dataset are left. If it cannot be recorded,
// they are looked for in vain when the dataset is deleted.
func copied(prefix string, id int) {
	_ = trust.Root(prefix).Remove(filepath.Join(Dir(prefix, id), copyingFile))
	forgetCopied(prefix, id)
}

// removeLitter removes the temporary files of a dataset that no flush copies any more,
// except those of which keep is true; nil: all. It does nothing if there is no copying.scr.
func removeLitter(prefix string, id int, keep func(path string) bool) error {
	h, err := hash.ReadFile(filepath.Join(Dir(prefix, id), copyingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, hash.ErrCorrupt) {
		copied(prefix, id)
		return nil
	}
	if err != nil {
		return err
	}
	var first error
	for _, name := range h.Get(keyDir).Keys() {
		if name != "." && CheckName(name) != nil {
			continue
		}
		dir := filepath.Join(prefix, name)
		removed, err := removeAsides(prefix, id, dir, keep)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			first = errors.Join(first, err)
		}
		if removed > 0 {
			RemoveEmpty(prefix, filepath.Join(dir, "file"))
		}
	}
	if first == nil && keep == nil {
		copied(prefix, id)
	}
	return first
}

// RemoveLitter removes what interrupted flushes of a job have left in the prefix directory:
// parts of files of datasets that are incomplete, and not among those that the job still has
// in its cache. Whole files, which the lists of ranks name, stay: scr_index --build may be
// able to use them. If a file cannot be removed, it warns. Rank 0 calls it.
func (p *Prefix) RemoveLitter(jobID string, cached func(d dataset.Dataset) bool) {
	x, err := ReadIndex(p.Dir)
	if err != nil {
		p.Log.Warn("%v: what interrupted flushes have left there stays", err)
		return
	}
	for _, e := range x.own() {
		if e.Complete || e.Placing > 0 || e.Owner().JobID != jobID || cached(e.Dataset) {
			continue
		}
		if flushing, err := UnderWay(p.Dir, e.Dataset); err != nil || flushing {
			continue // its flush may continue; the error, if any, is reported where flush.scr is needed
		}
		whole := map[string]bool{}
		ranks, _ := PartsOf(p.Dir, e.ID) // a list that cannot be read is of no use
		for _, rank := range ranks {
			if part, err := ReadPart(p.Dir, e.ID, rank); err == nil {
				own, _ := redundancy.Split(part.Files)
				for _, f := range own {
					whole[f.Path] = true
				}
			}
		}
		keep := func(path string) bool { return whole[path] }
		if len(whole) == 0 {
			keep = nil
		}
		if err := removeLitter(p.Dir, e.ID, keep); err != nil {
			p.Log.WarnOnce("dataset %d (%s), whose flush was interrupted: %v", e.ID, e.Name, err)
		}
	}
}
