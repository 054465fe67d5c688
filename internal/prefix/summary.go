package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// summary is written when all files of a dataset, and the list of them, are in the prefix directory.
type summary struct {
	Version string `hash:"VERSION"`
	standing
	Owns     bool      `hash:"OWNS,omitempty"` // as in the index; ours
	Replaced *Replaced `hash:"REPLACED"`       // a newer dataset has taken over files; ours
}

// standing is what the summary of a dataset and its entry in the index both say of it.
//
// A dataset with compressed files has COMPLETE = 0, since SCR 3.1 would otherwise give the program the
// compressed files. The same is true of a retired dataset, whose files SCR 3.1 would not find. That they
// are complete is recorded by keys that only goscr reads.
type standing struct {
	Desc       dataset.Dataset `hash:"DSET,omitempty"`
	Complete   bool            `hash:"COMPLETE"`
	Compressed bool            `hash:"COMPRESSED,omitempty"` // in place of Complete
	Retired    *Retired        `hash:"RETIRED"`              // in place of Complete
}

const (
	summaryFile    = "summary.scr"
	summaryVersion = "6"
)

// standingOf describes a dataset, complete or not. retired is nil if it is not retired.
func standingOf(d dataset.Dataset, complete bool, retired *Retired) (s standing) {
	switch {
	case !complete:
	case retired != nil:
		s.Retired = retired
	case d.Compressed():
		s.Compressed = true
	default:
		s.Complete = true
	}
	if d.Compressed() || retired != nil {
		d.SetComplete(false)
	}
	s.Desc = d
	return s
}

// isComplete reports whether a dataset was described as complete.
func (s standing) isComplete() bool { return s.Complete || s.Compressed || s.Retired != nil }

// Found is a dataset with a summary in the prefix directory. The index may lack it.
type Found struct {
	dataset.Dataset
	Complete bool
	Flushed  time.Time // when its summary was written
	Dir      string    // its directory if SCR 1.1 wrote it, see Entry
	Owns     bool      // see Entry
	Replaced *Replaced // nil if it is not replaced
	Retired  *Retired  // nil if it is not retired
}

// store writes the summary of a dataset.
func (f Found) store(prefix string) error {
	s := summary{summaryVersion, standingOf(f.Dataset, f.Complete, f.Retired), f.Owns, f.Replaced}
	return hash.WriteShared(summaryPath(prefix, f.ID()), hash.Marshal(s))
}

func summaryPath(prefix string, id int) string { return filepath.Join(Dir(prefix, id), summaryFile) }

// Summary reads the summary of a dataset. It returns an error if the summary names
// another id, or no valid name.
func Summary(prefix string, id int) (Found, error) {
	f, _, err := readSummary(prefix, id)
	if err == nil && (f.ID() != id || dataset.CheckName(f.Name()) != nil) {
		return Found{}, fmt.Errorf("%s is the summary of dataset %d, %q", summaryPath(prefix, id), f.ID(), f.Name())
	}
	return f, err
}

// readSummary reads a summary without checking its id and name. version is the text of the
// key VERSION; a dataset whose summary has another version is never complete.
func readSummary(prefix string, id int) (f Found, version string, err error) {
	path := summaryPath(prefix, id)
	info, err := os.Lstat(path)
	if err != nil {
		return Found{}, "", err
	}
	h, err := hash.ReadFile(path)
	if err != nil {
		return Found{}, "", err
	}
	s := hash.As[summary](h)
	f = Found{Dataset: s.Desc, Complete: s.Version == summaryVersion && s.isComplete(), Flushed: info.ModTime(),
		Owns: s.Owns, Replaced: s.Replaced, Retired: s.retired()}
	return f, s.Version, nil
}

// completeSummary returns the description of a dataset, or an error if its summary does
// not say that it is complete.
func completeSummary(prefix string, id int) (dataset.Dataset, error) {
	f, version, err := readSummary(prefix, id)
	path := summaryPath(prefix, id)
	switch {
	case err != nil:
	case version != summaryVersion:
		err = fmt.Errorf("%s has version %q, this version of goscr reads version %s", path, version, summaryVersion)
	case f.Replaced != nil:
		err = fmt.Errorf("the files of dataset %d (%s) were replaced by %s", id, f.Name(), f.Replaced.By)
	case !f.Complete:
		err = fmt.Errorf("%s says that the dataset is not complete", path)
	case f.ID() != id:
		err = fmt.Errorf("%s is the summary of dataset %d", path, f.ID())
	}
	return f.Dataset, err
}

// Summaries returns all datasets that have a summary, lowest id first, and an error for
// each summary that cannot be read, or one if the directory cannot be listed.
func Summaries(prefix string) (list []Found, bad []error) {
	ids, err := IDs(prefix)
	if err != nil {
		return nil, []error{err}
	}
	for _, id := range ids {
		f, err := Summary(prefix, id)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the dataset was not completed
		case err != nil:
			bad = append(bad, err)
		default:
			list = append(list, f)
		}
	}
	return list, bad
}
