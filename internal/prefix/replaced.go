package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
)

// Replaced describes a dataset that was complete and no longer is, since a newer one has
// files with the same paths. It is stored in the dataset's entry in the index and in its
// summary:
//
//	REPLACED / BY = <name>    the newer dataset
//	           LEFT = n       number of files that this dataset still owns
//	           LIST = <dir>   directory of the list of these files, in the dataset's own directory
type Replaced struct {
	By   string `hash:"BY"`
	Left int    `hash:"LEFT"`
	List string `hash:"LIST,omitempty"` // "" if Left is 0
}

// UnmarshalHash drops a List that is not a name that goscr gives.
func (r *Replaced) UnmarshalHash(h *hash.Hash) {
	hash.Unmarshal(h, r)
	if n, err := listNumber(r.List); r.Left <= 0 || err != nil || n <= 0 {
		r.Left, r.List = 0, "" // its files, if it has any, are not known
	}
}

// listName returns the directory of the n-th list of files that a replaced dataset keeps.
func listName(n int) string { return fmt.Sprintf("left.%d", n) }

func listNumber(list string) (n int, err error) {
	if list == "" {
		return 0, nil
	}
	if n, err = strconv.Atoi(list[min(len("left."), len(list)):]); err == nil && listName(n) != list {
		err = fs.ErrInvalid
	}
	return n, err
}

// Why returns the reason why no run may restart from a dataset, "" if the index has none.
func (e Entry) Why() string {
	switch {
	case e.Complete:
		return e.Fault
	case e.Replaced != nil:
		return "its files were replaced by " + e.Replaced.By
	case e.Placing > 0:
		return "its flush was interrupted; the next run or scr_index --build finishes it"
	}
	return e.Fault
}

// owns reports whether a dataset owns paths.
func (e Entry) owns() bool { return e.Complete || e.Replaced != nil && e.Replaced.Left > 0 }

// loss describes a dataset that loses files to one that is being completed.
type loss struct {
	id   int
	left int    // number of files that it keeps
	list string // directory of the list of these; "" if left is 0
	// retire says that it loses none, since it is retired.
	retire bool
}

// replaceBy makes datasets unusable whose files the newer dataset d takes over, and records
// that the flush of d, by a job of so many ranks, has to be finished.
func (x *Index) replaceBy(d dataset.Dataset, ranks int, losses []loss) {
	for _, l := range losses {
		e := x.ByID(l.id)
		if e.IsZero() {
			continue
		}
		r := &Replaced{By: d.Name(), Left: l.left, List: l.list}
		if e.Retired != nil { // it had begun to move
			x.h.UnsetKV(keyName, e.Name)
			e.Name = e.Dataset.Name()
		}
		x.replace(e.Dataset, false)
		x.change(l.id, func(e *stored) { e.Replaced = r })
	}
	x.change(d.ID(), func(e *stored) { e.Placing.Ranks = ranks })
}

// replaceSummary makes the summary of a dataset, if it has one, say that it was replaced.
func replaceSummary(prefix string, by dataset.Dataset, l loss) error {
	f, err := Summary(prefix, l.id)
	if errors.Is(err, fs.ErrNotExist) { // SCR 1.1 has written it, elsewhere
		return nil
	}
	if err != nil {
		return err
	}
	f.Complete, f.Replaced = false, &Replaced{By: by.Name(), Left: l.left, List: l.list}
	return f.store(prefix)
}
