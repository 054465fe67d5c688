// Package snapshot says which checkpoints of a prefix directory a job can be restarted
// from, and what is recorded of the job that has written them.
//
//	list.go     the checkpoints, in the caches of nodes and in the prefix directory
//	facts.go    what is recorded
//	filter.go   ... of environment and command lines, without secrets
//	launch.go   ... of the launcher and scr_run
//	gather.go   ... of all ranks, on rank 0
//	store.go    ... in the prefix directory, once for all checkpoints of which it is true
package snapshot

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// Snapshot is a checkpoint of all ranks of a job. The prefix directory is the reference to
// the snapshots of a job, and Seq tells them from each other.
type Snapshot struct {
	Seq      int       `json:"sequence"` // id of the dataset
	Name     string    `json:"name"`
	Created  time.Time `json:"created"`
	Size     int64     `json:"size"` // bytes
	Files    int       `json:"files"`
	InCache  bool      `json:"in_cache"`  // in the caches of the nodes on which the job has run last
	InPrefix bool      `json:"in_prefix"` // in the prefix directory
	Current  bool      `json:"current"`   // the one to restart from first
	Problem  string    `json:"problem"`   // why no job can restart from it, "" if one can
}

// List returns the checkpoints of a prefix directory, newest first, with those that cannot
// be used.
func List(dir string) (list []Snapshot, err error) {
	// First what is in the caches: a checkpoint that leaves them is in the index by then.
	cached, err := prefix.ReadFlushFile(filepath.Join(dir, prefix.Metadata, "flush.scr"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	x, err := prefix.ReadIndex(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range x.Entries() {
		if !e.Flags().Has(dataset.Checkpoint) {
			continue
		}
		s := Snapshot{Seq: e.ID, Name: e.Name, Created: e.Created(), Size: e.Size(), Files: e.Files(), InPrefix: e.Complete, Current: e.Current}
		switch {
		case e.Replaced != nil:
			s.Problem = "files of it were replaced by " + e.Replaced.By
		case !e.Complete:
			s.Problem = "it is incomplete"
		case e.Failed:
			s.Problem = "a restart from it has failed"
		}
		list = append(list, s)
	}
	condemned, err := prefix.Condemned(dir)
	if err != nil {
		return nil, err
	}
	for _, l := range cached {
		if !l.Is(prefix.InCache) || !l.Flags().Has(dataset.Checkpoint) {
			continue
		}
		i := slices.IndexFunc(list, func(s Snapshot) bool { return s.Seq == l.ID && s.Name == l.Name })
		if i < 0 {
			d := l.Dataset
			list = append(list, Snapshot{Seq: l.ID, Name: l.Name, Created: d.Created(), Size: d.Size(), Files: d.Files()})
			i = len(list) - 1
		}
		list[i].InCache = true
		if !list[i].InPrefix {
			list[i].Problem = ""
		}
		if v, ok := condemned[l.ID]; ok && v.Of(l.Dataset) {
			list[i].Problem = v.Why
		}
	}
	slices.SortStableFunc(list, func(a, b Snapshot) int { return b.Seq - a.Seq })
	return list, nil
}
