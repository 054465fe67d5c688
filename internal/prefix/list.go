package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/mpi"
)

// origin identifies the list of files of a dataset. Where the list is depends on whether
// SCR 1.1 wrote the dataset, and on whether the dataset was replaced.
type origin struct {
	ID   int    `hash:"ID"`
	Old  bool   `hash:"OLD,omitempty"` // SCR 1.1 wrote it
	dir  string // directory of a dataset of SCR 1.1; known on rank 0 only
	List string `hash:"LIST,omitempty"` // directory of the list of files that a replaced dataset keeps, else ""
	// Retired is the directory of the files of a retired dataset, else ""; Moving says that not all have moved to it.
	Retired string `hash:"RETIRED,omitempty"`
	Moving  bool   `hash:"MOVING,omitempty"`
}

func (e Entry) origin() origin {
	o := origin{ID: e.ID, Old: e.Dir != "", dir: e.Dir}
	if e.Replaced != nil {
		o.List, o.Old = e.Replaced.List, false
	}
	if e.Retired != nil {
		o.Retired, o.Moving = retiredDir(e.Dataset), !e.Retired.Moved
	}
	return o
}

// ErrIndex says that the index cannot be read now, which says nothing of a dataset.
var ErrIndex = mpi.NewKind(6, "the index cannot be read")

type indexError struct{ error }

func (e *indexError) Unwrap() []error { return []error{e.error, ErrIndex} }

// origin reads the origin of a dataset from the index. It is collective; the result is
// agreed.
func (p *Prefix) origin(id int) (o origin, err error) {
	dir := ""
	h, err := hash.FromRoot(p.Comm, func() (*hash.Hash, error) {
		x, err := ReadIndex(p.Dir)
		if err != nil {
			return nil, &indexError{err}
		}
		o := x.ByID(id).origin()
		dir = o.dir
		return hash.Marshal(o), nil
	})
	if err != nil {
		return o, err
	}
	o = hash.As[origin](h)
	o.dir = dir
	return o, nil
}

// describe reads the description of a dataset that is complete.
func (o origin) describe(prefix string) (dataset.Dataset, error) {
	if !o.Old {
		return completeSummary(prefix, o.ID)
	}
	s, err := readOldSummary(prefix, o.dir, o.ID)
	if err != nil {
		return dataset.Dataset{}, err
	}
	return s.dataset()
}

// place returns the path of a file of a dataset.
func (o origin) place(prefix, name string) string {
	path := filepath.Join(prefix, name)
	if o.Retired == "" {
		return path
	}
	moved := filepath.Join(prefix, o.Retired, name)
	if o.Moving {
		if _, err := trust.Root(prefix).Lstat(moved); errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*trust.LinkError)) {
			return path
		}
	}
	return moved
}

// Place returns the path of a file of a dataset that is complete, whose name is relative to the prefix directory.
func (e Entry) Place(prefix, name string) string { return e.origin().place(prefix, name) }

// each calls visit for each rank of the dataset that the caller handles, with the files
// of that rank. If the job has as many ranks as the one that wrote the dataset, a process
// handles its own rank. each returns the number of ranks of the dataset. It is
// collective; the result is agreed.
func (p *Prefix) each(o origin, visit func(rank int, files []redundancy.File) error) (ranks int, err error) {
	return p.entries(o, func(ranks int, items []rank2file.Item) error {
		for _, it := range items {
			files, err := filesOf(it.Entry, p.Dir, o.place, ranks)
			if err == nil {
				err = visit(it.Rank, files)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// entries is like each, with the entries of the list in place of files.
func (p *Prefix) entries(o origin, visit func(ranks int, items []rank2file.Item) error) (ranks int, err error) {
	if !o.Old {
		return rank2file.Read(p.Comm, filepath.Join(Dir(p.Dir, o.ID), o.List), visit)
	}
	var items []rank2file.Item
	err = mpi.OnRoot(p.Comm, func() error {
		s, err := readOldSummary(p.Dir, o.dir, o.ID)
		if err == nil {
			ranks, items, err = s.items()
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	ranks = mpi.AllreduceOne(p.Comm, ranks, mpi.Max)
	items, err = rank2file.Deal(p.Comm, ranks, items)
	if err == nil {
		err = visit(ranks, items)
	}
	return ranks, mpi.Agree(p.Comm, err)
}

// files returns the number of ranks of a dataset, and the files of those ranks that the
// caller handles, see each.
func (p *Prefix) files(o origin) (ranks int, files []redundancy.File, err error) {
	ranks, err = p.each(o, func(_ int, more []redundancy.File) error {
		files = append(files, more...)
		return nil
	})
	return ranks, files, err
}

// Listing is a dataset in the prefix directory with its files.
type Listing struct {
	dataset.Dataset
	Ranks int // size of the job that wrote it
	// Files are the caller's own files if the job has as many ranks as the one that wrote
	// the dataset, else those of the caller's share of the ranks. Their paths are in the
	// prefix directory.
	Files []redundancy.File
	// Place returns the path of a file of any rank, whose name is relative to the prefix directory.
	Place func(name string) string
}

// List reads the summary and the list of files of a dataset, and checks, without
// reading the files, that they are present with the right sizes. It is collective; the
// result is agreed.
func (p *Prefix) List(id int) (*Listing, error) {
	from, err := p.origin(id)
	if err != nil {
		return nil, err
	}
	l := &Listing{Place: func(name string) string { return from.place(p.Dir, name) }}
	err = mpi.OnRoot(p.Comm, func() (err error) {
		l.Dataset, err = from.describe(p.Dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.Dataset = dataset.Decode(hash.Bcast(l.Dataset.Encode(), 0, p.Comm))
	if l.Ranks, l.Files, err = p.files(from); err != nil {
		return nil, err
	}
	totals := []int64{0, 0}
	for _, f := range l.Files {
		if e := Present(f); err == nil {
			err = e
		}
		if !f.Meta.Shared() {
			totals[0]++
			totals[1] += f.Meta.Size()
		}
	}
	if err := mpi.AgreeSum(p.Comm, err, totals); err != nil {
		return nil, err
	}
	if int64(l.Dataset.Files()) != totals[0] || l.Size() != totals[1] {
		return nil, mpi.Agree(p.Comm, fmt.Errorf("dataset %d has %d files of %d bytes in all, its summary says %d of %d",
			id, totals[0], totals[1], l.Dataset.Files(), l.Size()))
	}
	return l, nil
}

// Walk calls visit for each rank that has an entry in the list of files of a dataset,
// with the files of the rank and their paths in the prefix directory. It ends at the
// first error, which it returns. It is not collective: commands call it.
func Walk(prefix string, e Entry, visit func(rank int, files []redundancy.File) error) error {
	return alone(prefix, func(p *Prefix) error {
		if _, err := e.origin().describe(prefix); err != nil {
			return err
		}
		_, err := p.each(e.origin(), visit)
		return err
	})
}

// Present checks that a file in the prefix directory is a regular file with the size, or
// else the time, that was recorded. It sets size, mode, owner and times in the file's
// description if the list of files does not have them. A file that is counted with another
// rank is checked there: that rank's entry has the checksum, and how the file is compressed.
func Present(f redundancy.File) error {
	if f.Meta.Shared() {
		return nil
	}
	info, err := f.Below.Lstat(f.Path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", f.Path)
	}
	f.Meta.Find(info.Size())
	if size := f.Meta.StoredSize(); size >= 0 && size != info.Size() {
		return &redundancy.CorruptError{Path: f.Path, Reason: fmt.Sprintf("has %d bytes, was flushed with %d", info.Size(), size)}
	}
	// A file that the program itself wrote to the prefix directory has no checksum, so
	// its time must be unchanged.
	if _, known := f.Meta.CRC(); !known {
		if when, known := f.Meta.Modified(); known && !when.Equal(info.ModTime()) {
			return &redundancy.CorruptError{Path: f.Path, Reason: fmt.Sprintf("was changed at %v, after the dataset was complete",
				info.ModTime().Format(time.DateTime))}
		}
	}
	size := f.Meta.Size()
	if _, packed := f.Meta.Stored(); !packed {
		size = info.Size()
	}
	if !f.Meta.Recorded() {
		err = f.Meta.RecordBelow(f.Below, f.Path)
	}
	f.Meta.SetSize(size)
	return err
}

// Unchanged returns an error if the bytes of a file, which the program is going to read where it is, are not those that
// were flushed. A file with its recorded time is not read: only a program that has written over it without
// completing that dataset (bypass), or a user, has changed it.
func Unchanged(files []redundancy.File) error {
	for _, f := range redundancy.Counted(files) {
		info, err := f.Below.Lstat(f.Path)
		if err != nil {
			return err
		}
		when, timed := f.Meta.Modified()
		same := when.Equal(info.ModTime()) || info.ModTime().Nanosecond() == 0 && when.Unix() == info.ModTime().Unix()
		if _, known := f.Meta.CRC(); !known || !timed || same {
			continue
		}
		if _, err := reader(string(f.Below)).Verify(f.Path, f.Meta); err != nil {
			return err
		}
	}
	return nil
}

// RanksError says that a dataset was written by a job of another size than this one. The
// dataset is intact: a run of that size can use it.
type RanksError struct {
	Name        string
	Ranks, Size int // sizes of the job that wrote it, and of this run
}

// ErrRanks is the kind of every RanksError: errors.Is(err, ErrRanks) is true.
var ErrRanks = mpi.NewKind(3, "written by a job of another size")

// Is reports whether target is ErrRanks.
func (e *RanksError) Is(target error) bool { return target == ErrRanks }

func (e *RanksError) Error() string {
	return fmt.Sprintf("%s was written by %s, this run has %d: start again with %s, or with SCR_FETCH_BYPASS=1, "+
		"which lets any rank open any file", e.Name, report.Count(e.Ranks, "rank"), e.Size, report.Count(e.Ranks, "rank"))
}
