package prefix

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
)

// A run that starts from the beginning although there are complete checkpoints may have been started by
// mistake: with another input, or another number of ranks. Neither it nor a run that restarts from its
// checkpoints replaces those that were there before (dataset.After). A checkpoint whose files or name such a
// run needs is retired: its files move to a directory below .scr, and it gets another name in the index, under
// which users choose and delete it. It stays complete. A program that restarts from it sees the names that it
// has given.
//
//	.scr/retired.<id>.<created>/<path below the prefix directory>
const retiredPrefix = "retired."

// Beginnings is the number of runs that have started from the beginning for which retired checkpoints are
// kept. When one more needs the names of checkpoints, those of the first are deleted.
const Beginnings = 2

const never = -1 // see Entry.retires

// Retired describes a checkpoint that is retired. It is stored in its entry in the index and in its summary,
// which say COMPLETE = 0, since SCR 3.1 does not find the files:
//
//	RETIRED / AS    = <name>   its name in the index
//	          AFTER = n        dataset.After of the datasets for which it was retired
//	          MOVED = 1        all of its files have moved; else those that have not have their own paths
type Retired struct {
	As    string
	After int
	Moved bool
}

const (
	keyRetired = "RETIRED"
	keyAs      = "AS"
	keyAfter   = "AFTER"
	keyMoved   = "MOVED"
)

func (r *Retired) encode() *hash.Hash {
	h := hash.New()
	h.SetValue(keyAs, r.As)
	h.SetInt(keyAfter, int64(r.After))
	if r.Moved {
		h.SetValue(keyMoved, "1")
	}
	return h
}

// decodeRetired reads Retired from the hash of an entry or a summary; nil if the dataset is not retired.
func decodeRetired(h *hash.Hash, d dataset.Dataset) *Retired {
	of := h.Get(keyRetired)
	if of == nil {
		return nil
	}
	after, _ := of.Int(keyAfter)
	r := &Retired{As: of.Text(keyAs), After: int(after), Moved: of.Text(keyMoved) == "1"}
	if dataset.CheckName(r.As) != nil {
		r.As = retiredName(d)
	}
	return r
}

func retiredName(d dataset.Dataset) string { return d.Name() + "~" + strconv.Itoa(d.ID()) }

// retiredDir returns the directory of the files of a retired dataset, relative to the prefix directory.
func retiredDir(d dataset.Dataset) string {
	return filepath.Join(Metadata, fmt.Sprintf("%s%d.%d", retiredPrefix, d.ID(), d.Created().UnixMicro()))
}

// retires reports whether a dataset is retired when one of a history that began after a dataset needs its names. One that has
// begun to move goes on.
func (e Entry) retires(after int) bool {
	if e.Retired != nil {
		return !e.Retired.Moved && after != never
	}
	return e.ID <= after && e.Complete && e.Flags().Has(dataset.Checkpoint) && e.Dir == ""
}
