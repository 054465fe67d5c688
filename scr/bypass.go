package scr

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/halt"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/mpi"
)

// direct is a dataset that the program writes to the prefix directory itself. The
// index has it as incomplete while it does. Several ranks may write one file, each
// its part of it.
type direct struct {
	dataset.Dataset
	files map[string]redundancy.File // the caller's, by path
}

// beginDirect begins such a dataset.
func (s *Session) beginDirect(d dataset.Dataset) error {
	if err := s.clearWay(d.Name(), nil); err != nil {
		return err
	}
	d.SetBypass()
	if err := s.prefix.Begin(d); err != nil {
		return err
	}
	s.direct = &direct{d, map[string]redundancy.File{}}
	return nil
}

// add enters a file, makes the directories it is to be in, and returns its path.
func (d *direct) add(prefix string, md meta.Meta) (string, error) {
	path := filepath.Join(prefix, md.File())
	if _, ok := d.files[path]; ok {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return "", err
	}
	d.files[path] = redundancy.File{Path: path, Meta: md}
	return path, nil
}

// completeDirect is complete for such a dataset. It counts as complete when
// every file is on the medium. One that is not valid stays in the index as
// incomplete, and its files, which may be what they were before, stay too.
func (s *Session) completeDirect(valid bool) error {
	d := s.direct
	s.state, s.direct = idle, nil
	err := s.finishDirect(d, valid)
	s.result(kindOf(d.Dataset), "END", d.Dataset, s.began, err)
	if err == nil {
		s.completed(d.Dataset)
	}
	return err
}

func (s *Session) finishDirect(d *direct, valid bool) error {
	failed := s.routeError
	if failed == nil && !valid {
		failed = fmt.Errorf("the program says that its files of dataset %s are not valid", d.Name())
	}
	written := time.Now()
	// Only when all ranks have come here is nobody writing any more.
	if err := mpi.Agree(s.world, failed); err != nil {
		return err
	}
	var files []redundancy.File
	var err error
	for _, path := range slices.Sorted(maps.Keys(d.files)) {
		f := d.files[path]
		if err = settle(f); err != nil {
			break
		}
		files = append(files, f)
	}
	if err := mpi.Agree(s.world, err); err != nil {
		return err
	}
	owners, err := redundancy.Owners(s.world, files)
	if err != nil {
		return err
	}
	totals := []int64{0, 0}
	for _, f := range files {
		if rank, shared := owners[f.Meta.File()]; shared {
			f.Meta.SetShared(rank)
			continue
		}
		totals[0]++
		totals[1] += f.Meta.Size()
	}
	if err := s.world.Allreduce(totals, mpi.Sum); err != nil {
		return err
	}
	d.SetTotals(totals[0], totals[1])
	d.SetComplete(true)
	if err := s.prefix.Commit(d.Dataset, files); err != nil {
		return err
	}
	s.log.Info("dataset %d (%s): %s, %s, written to %s in %.3f s, complete after %.3f s more", d.ID(), d.Name(), report.Count(d.Files(), "file"),
		report.Bytes(d.Size()), s.prefix.Dir, written.Sub(s.began).Seconds(), time.Since(written).Seconds())
	if d.Flags().Has(Checkpoint) {
		s.written = d.ID()
		s.note(func() error { return halt.CountCheckpoint(s.prefix.Dir) })
	}
	return s.window(d.Dataset)
}

// settle waits until a file is on its medium, and takes what is recorded of it.
func settle(f redundancy.File) error {
	if err := f.Record(); err != nil {
		return err
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	err = file.Sync()
	if e := file.Close(); err == nil {
		err = e
	}
	f.Meta.SetComplete(err == nil)
	return err
}
