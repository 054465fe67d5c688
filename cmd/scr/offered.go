package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/snapshot"
)

// nextOffered returns which of the checkpoints of a list the next run is offered, -1 if none, and whether a user has chosen it. x is the
// index, and located are the datasets of flush.scr. caches says whether there may be what is in the caches.
func nextOffered(list []snapshot.Snapshot, x *prefix.Index, located []prefix.Located, caches bool) (at int, chosen bool) {
	if e, ok := prefix.Chosen(x); ok && e.Holds(x, located, nil) {
		at = slices.IndexFunc(list, func(s snapshot.Snapshot) bool { return s.Seq == e.Of.ID && s.Name == e.Of.Name })
		return at, at >= 0
	}
	first, _ := x.Next(0) // a run fetches none that is newer
	at = slices.IndexFunc(list, func(s snapshot.Snapshot) bool {
		return s.Problem == "" && (caches && s.InCache || s.InPrefix && s.Seq <= first.ID)
	})
	return at, false
}

// thenNext writes, if a change to the index of a prefix directory was made without an error, from what the next run restarts: a change may
// end the choice of a user, and then that is not what the user has in mind. w is standard error, since scripts may read standard output.
func thenNext(w io.Writer, dir string, err error) error {
	if err != nil {
		return err
	}
	next, err := nextRestart(dir)
	if err != nil { // the change is made all the same
		next = "it is unknown from what the next run restarts: " + oneLine(err)
	}
	fmt.Fprintf(w, "scr_index: %s\n", next)
	return nil
}

// nextRestart says from what the next run restarts.
func nextRestart(dir string) (string, error) {
	list, err := snapshot.List(dir)
	if err != nil {
		return "", err
	}
	x, err := prefix.ReadIndex(dir)
	if err != nil {
		return "", err
	}
	located, err := prefix.Locations(dir)
	if err != nil {
		return "", err
	}
	at, _ := nextOffered(list, x, located, true)
	switch {
	case at < 0:
		return "the next run starts from the beginning: there is no checkpoint from which it can restart", nil
	case !list[at].InPrefix:
		return fmt.Sprintf("the next run restarts from %s, if the caches of the nodes are as the last run left them", printable(list[at].Name)), nil
	}
	return "the next run restarts from " + printable(list[at].Name), nil
}
