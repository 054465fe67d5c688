package remains

import (
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// Dataset is a dataset that is complete in the cache.
type Dataset struct {
	ID     int    `json:"id"`
	Name   string `json:"name"`
	Prefix string `json:"prefix"` // prefix directory of its job
	Safe   Safe   `json:"safe"`
}

// Safe says why a dataset is not needed on the node, "" if it is.
type Safe string

// The reasons.
const (
	InPrefix   Safe = "in prefix"  // the prefix directory has it
	Superseded Safe = "superseded" // it is a checkpoint, and the prefix directory has a newer one, of no other input
)

// indexes are the indexes of prefix directories that were read; nil for one that cannot be.
type indexes map[string]*prefix.Index

func (known indexes) of(dir string) *prefix.Index {
	x, ok := known[dir]
	if !ok && dir != "" {
		x, _ = prefix.ReadIndex(dir) // a dataset of a prefix directory that cannot be read counts as needed
		known[dir] = x
	}
	return x
}

// datasets lists the datasets that some rank of the node has recorded as complete.
func datasets(maps *filemap.Map, known indexes) []Dataset {
	list := []Dataset{}
	for _, id := range maps.Datasets() {
		var found filemap.Description
		for _, rank := range maps.Ranks(id) {
			d := maps.Dataset(id, rank)
			if files, _ := maps.Expected(id, rank); files < 0 || !d.Complete() {
				continue // a description kept for another node, or a dataset that was never completed
			}
			if found.IsZero() || d.Created().After(found.Created()) {
				found = d
			}
		}
		if !found.IsZero() {
			list = append(list, Dataset{ID: id, Name: found.Name(), Prefix: found.Prefix, Safe: safe(found, known.of(found.Prefix))})
		}
	}
	return list
}

// safe says why a dataset is not needed on the node.
func safe(d filemap.Description, x *prefix.Index) Safe {
	if x == nil {
		return ""
	}
	for _, e := range x.Entries() {
		if e.Same(d.Dataset) && (e.Complete && !e.Failed || x.Outdated(e)) {
			return InPrefix
		}
	}
	if d.Flags().Has(dataset.Output) {
		return ""
	}
	for _, e := range x.Entries() {
		if a, b := e.Owner().Input, d.Owner().Input; a != "" && b != "" && a != b {
			continue // no restart with the input of d is offered that one
		}
		if e.Complete && !e.Failed && e.Flags().Has(dataset.Checkpoint) && e.ID > d.ID() && e.Created().After(d.Created()) {
			return Superseded
		}
	}
	return ""
}
