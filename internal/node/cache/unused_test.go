package cache

import (
	"slices"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
)

func TestUnusedList_Places(t *testing.T) {
	store, other := &reddesc.Store{}, &reddesc.Store{}
	known := func(id int) dataset.Dataset {
		return dataset.New(id, "name", dataset.Checkpoint, id, dataset.Owner{}, time.Unix(1, 0))
	}
	l := &UnusedList{}
	for _, u := range []unused{
		{id: 1, store: store, Dataset: known(1), passed: true},
		{id: 7, store: store, Dataset: known(7)},
		{id: 2, store: store},
		{id: 3, store: other},
		{id: 4, store: store, Dataset: known(4), failed: true},
		{id: 5, store: store, other: &filemap.Description{}},
		{id: 6, store: store, other: &filemap.Description{}, saved: true},
	} {
		l.add(u)
	}
	want := []life.Unused{{ID: 4, Failed: true}, {ID: 1}, {ID: 2}, {ID: 6}, {ID: 7}}
	if got := l.Places(store, ""); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	l.Condemn(known(7), dataset.New(1, "another", dataset.Checkpoint, 1, dataset.Owner{}, time.Unix(1, 0)))
	want = []life.Unused{{ID: 4, Failed: true}, {ID: 7, Failed: true}, {ID: 1}, {ID: 2}, {ID: 6}}
	if got := l.Places(store, ""); !slices.Equal(got, want) {
		t.Errorf("one is condemned: %v, want %v", got, want)
	}
}
