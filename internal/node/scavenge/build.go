package scavenge

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goscr/goscr/internal/observe/progress"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/offline"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/trust"
)

// Built is the result of Build.
type Built struct {
	dataset.Dataset
	There   bool // the dataset was complete before
	Rebuilt []offline.Rebuilt
}

// Build makes a dataset usable that has been scavenged to a prefix directory: it
// rebuilds missing files and enters the dataset in the index. If it cannot rebuild
// all files it enters the dataset as incomplete, and returns an error that names the
// ranks whose files are missing. It calls warn with errors of single files, and adds
// the bytes that it reads to meter, which may be nil.
func Build(prefixDir string, id int, warn func(error), meter progress.Meter) (Built, error) {
	dir := prefix.Dir(prefixDir, id)
	if _, err := os.Stat(dir); err != nil {
		return Built{}, fmt.Errorf("%s has no files of dataset %d: copy them from the nodes with scr_scavenge or scr_copy, or choose another dataset with scr_index --list: %w", prefixDir, id, err)
	}
	alone, err := lock.Wait(filepath.Join(dir, "build.lock")) // one process builds it at a time
	if err != nil {
		return Built{}, err
	}
	defer alone.Release()
	alone.KeepAlive()
	x, err := prefix.ReadIndex(prefixDir) // before any long work
	if err != nil {
		return Built{}, err
	}
	if err := replaced(x, id); err != nil {
		return Built{}, err
	}
	if b, there, err := finishFlush(prefixDir, id); there || err != nil {
		return b, errors.Join(err, replacedNow(prefixDir, id))
	}
	if _, err := written(prefixDir, id); err != nil {
		return Built{}, err
	}
	s, err := read(prefixDir, id)
	if err != nil {
		return Built{}, err
	}
	b := Built{Dataset: s.dataset}
	for _, e := range s.bad {
		warn(e)
	}
	var failed error
	if s.missing() > 0 {
		b.Rebuilt, failed = s.rebuild(warn, meter)
	}
	if s.missing() > 0 {
		return b, s.incomplete(failed)
	}
	if err := s.check(); err != nil {
		return b, errors.Join(err, prefix.Incomplete(s.prefix, s.dataset))
	}
	if err := prefix.Publish(prefixDir, s.dataset, s.ranks, s.own); err != nil {
		return b, err
	}
	s.removeRedundancy(warn)
	s.removeAsides(warn)
	return b, replacedNow(prefixDir, id)
}

// replaced returns an error if newer datasets that are complete have taken over files of a
// dataset.
func replaced(x *prefix.Index, id int) error {
	if e := x.ByID(id); x.Outdated(e) && !e.Complete {
		return fmt.Errorf("dataset %d (%s): %s", id, e.Name, e.Why())
	}
	return nil
}

// replacedNow is replaced for the index as it is now.
func replacedNow(prefixDir string, id int) error {
	x, err := prefix.ReadIndex(prefixDir)
	if err != nil {
		return err
	}
	return replaced(x, id)
}

// finishFlush completes a dataset whose flush was interrupted near its end. If there is a
// summary, which a flush writes last, only the entry in the index may be missing. If there
// is no summary but a list of all files, some files may still have temporary names. The
// second result reports whether the dataset is complete now.
func finishFlush(prefixDir string, id int) (Built, bool, error) {
	list, bad := prefix.Summary(prefixDir, id)
	if errors.Is(bad, fs.ErrNotExist) || bad == nil && !list.Complete {
		d, done, err := prefix.Finish(prefixDir, id)
		return Built{Dataset: d}, done, err
	}
	if bad != nil {
		// The dataset can be built without its summary if there are lists of ranks.
		if ranks, err := prefix.PartsOf(prefixDir, id); err == nil && len(ranks) > 0 {
			return Built{}, false, nil
		}
		return Built{}, false, bad
	}
	there, err := prefix.Complete(prefixDir, list.Dataset)
	if err == nil && !there {
		err = prefix.Enter(prefixDir, list)
	} else if err == nil {
		err = endFlushing(prefixDir, list.Dataset)
	}
	return Built{Dataset: list.Dataset, There: true}, err == nil, err
}

// endFlushing corrects the flush file after a job was killed between the last two steps of a flush, which change the
// index and this file.
func endFlushing(prefixDir string, d dataset.Dataset) error {
	if on, err := prefix.UnderWay(prefixDir, d); err != nil || !on {
		return nil // the dataset is complete, whatever the flush file says
	}
	return prefix.EnterFlushed(prefixDir, d)
}

// incomplete enters the dataset in the index as incomplete, and returns an error with the
// reason.
func (s *scan) incomplete(why error) error {
	err := fmt.Errorf("dataset %d (%s): the files of %d of its %d ranks are missing (%s)",
		s.id, s.dataset.Name(), s.missing(), s.ranks, s.missingRanks())
	switch {
	case s.scr31:
		err = fmt.Errorf("%w; scr_copy of SCR 3.1 has scavenged it, whose redundancy files goscr does not read: build it with scr_index of SCR 3.1", err)
	case why != nil:
		err = fmt.Errorf("%w, and not all can be rebuilt: %w", err, why)
	case len(s.sets) == 0:
		err = fmt.Errorf("%w, and there are no redundancy files to rebuild them from; scr_copy on the nodes of the job brings both", err)
	default:
		err = fmt.Errorf("%w, and they are in none of the redundancy sets that are there", err)
	}
	if on, e := prefix.UnderWay(s.prefix, s.dataset); on && e == nil {
		err = fmt.Errorf("%w; scr_transfer may still be copying it", err)
	}
	return errors.Join(err, prefix.Incomplete(s.prefix, s.dataset))
}

// check compares number and size of all files with the description of the dataset,
// and checks that no two ranks have the same file.
func (s *scan) check() error {
	var files, bytes int64
	owner := map[string]int{}
	for rank := range s.parts {
		for _, f := range redundancy.Counted(s.own(rank)) {
			path := filepath.Join(s.prefix, f.Meta.File())
			if other, taken := owner[path]; taken {
				return fmt.Errorf("dataset %d: ranks %d and %d both list %s", s.id, min(rank, other), max(rank, other), path)
			}
			owner[path] = rank
			files, bytes = files+1, bytes+f.Meta.Size()
		}
	}
	if int64(s.dataset.Files()) != files || s.dataset.Size() != bytes {
		return fmt.Errorf("dataset %d has %d files of %d bytes in all, its description says %d of %d",
			s.id, files, bytes, s.dataset.Files(), s.dataset.Size())
	}
	return nil
}

// removeRedundancy removes redundancy files, which are no longer needed. It does not change
// the lists, which still name them.
func (s *scan) removeRedundancy(warn func(error)) {
	for _, x := range s.sets {
		for _, path := range x.paths {
			if err := trust.Root(s.prefix).Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				warn(err)
			}
		}
	}
}

// removeAsides deletes temporary files that are not used. There may be some if a file was
// copied twice, or if a copy was interrupted.
func (s *scan) removeAsides(warn func(error)) {
	dirs := map[string]bool{}
	for rank := range s.ranks {
		for _, f := range s.own(rank) {
			dirs[filepath.Dir(f.Path)] = true
		}
	}
	if err := prefix.RemoveAsides(s.prefix, s.id, slices.Sorted(maps.Keys(dirs))); err != nil {
		warn(err)
	}
}
