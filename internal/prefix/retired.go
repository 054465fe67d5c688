package prefix

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/goscr/goscr/internal/prefix/dataset"
)

// A run that starts from the beginning although there are complete checkpoints may have been started by
// mistake: with another input, or another number of ranks. So a dataset replaces those of its own history only
// (dataset.History). A checkpoint of another history whose files or name it needs is retired: its files move to
// a directory below .scr, and it gets another name in the index, under which users choose and delete it. It stays
// complete. A program that restarts from it sees the names that it has given.
//
//	.scr/retired.<id>.<created>/<path below the prefix directory>
const retiredPrefix = "retired."

// Histories is the number of histories, besides that of what is being written, whose retired checkpoints are kept:
// those that have come farthest, since a mistake is noticed early, and of these the newest.
const Histories = 2

// Retired describes a checkpoint that is retired. It is stored in its entry in the index and in its summary,
// which say COMPLETE = 0, since SCR 3.1 does not find the files:
//
//	RETIRED / AS    = <name>   its name in the index
//	          MOVED = 1        all of its files have moved; else those that have not have their own paths
type Retired struct {
	As    string `hash:"AS"`
	Moved bool   `hash:"MOVED,omitempty"`
}

// retired returns what is recorded of a retired dataset, nil if it is not retired.
func (s standing) retired() *Retired {
	if s.Retired != nil && dataset.CheckName(s.Retired.As) != nil {
		s.Retired.As = retiredName(s.Desc)
	}
	return s.Retired
}

func retiredName(d dataset.Dataset) string { return d.Name() + "~" + strconv.Itoa(d.ID()) }

// retiredDir returns the directory of the files of a retired dataset, relative to the prefix directory.
func retiredDir(d dataset.Dataset) string {
	return filepath.Join(Metadata, fmt.Sprintf("%s%d.%d", retiredPrefix, d.ID(), d.Created().UnixMicro()))
}

// retires reports whether a dataset is retired when one of some history needs its names. One that has begun to move continues,
// whatever the history is, but for dataset.AnyHistory.
func (e Entry) retires(history int64) bool {
	switch {
	case history == dataset.AnyHistory:
		return false
	case e.Retired != nil:
		return !e.Retired.Moved
	}
	return e.History() != history && e.Complete && e.Flags().Has(dataset.Checkpoint) && e.Dir == ""
}
