package prefix

import (
	"time"

	"github.com/goscr/goscr/internal/prefix/dataset"
)

// Progress describes the checkpoints of a job, from flush.scr and the index.
type Progress struct {
	Newest   int       // id of the newest complete one, 0 if there is none
	Name     string    // of the newest complete one
	Latest   time.Time // when the most recently begun one was begun
	Flushing bool      // a dataset is being flushed
}

// ReadProgress reads the progress of a job. It may be called at any time.
func ReadProgress(prefix string) (Progress, error) {
	var p Progress
	x, err := ReadIndex(prefix)
	if err != nil {
		return p, err
	}
	if e, ok := x.Next(0); ok {
		p.Newest, p.Name = e.ID, e.Name
	}
	for _, e := range x.Entries() {
		p.begun(e.Dataset)
	}
	list, err := Locations(prefix)
	for _, l := range list {
		p.Flushing = p.Flushing || l.Is(Flushing)
		if !l.Is(InCache) && !l.Is(InPrefix) {
			continue
		}
		p.begun(l.Dataset)
		if l.ID > p.Newest && l.Flags().Has(dataset.Checkpoint) {
			p.Newest, p.Name = l.ID, l.Name
		}
	}
	return p, err
}

// begun sets Latest to when d was begun, if d is a checkpoint and that is later.
func (p *Progress) begun(d dataset.Dataset) {
	if t := d.Created(); d.Flags().Has(dataset.Checkpoint) && t.After(p.Latest) {
		p.Latest = t
	}
}

// Unflushed is a dataset that is in the cache only.
type Unflushed struct {
	ID         int
	Name       string
	Checkpoint bool
	Output     bool
}

// OnlyInCache returns the datasets that are in the cache and not in the prefix
// directory, oldest first, without those that are leaving the cache.
func OnlyInCache(prefix string) ([]Unflushed, error) {
	all, err := Locations(prefix)
	x, unreadable := ReadIndex(prefix)
	var list []Unflushed
	for _, l := range all {
		if l.Is(InCache) && !l.Is(InPrefix) && (unreadable != nil || !x.leaves(l.Dataset)) {
			list = append(list, Unflushed{l.ID, l.Name, l.Flags().Has(dataset.Checkpoint), l.Flags().Has(dataset.Output)})
		}
	}
	return list, err
}

// NewestFlushed returns the id of the newest usable checkpoint in the prefix
// directory, 0 if there is none.
func NewestFlushed(prefix string) (int, error) {
	x, err := ReadIndex(prefix)
	if err != nil {
		return 0, err
	}
	e, _ := x.Next(x.Highest() + 1)
	return e.ID, nil
}
