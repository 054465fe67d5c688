package session

import (
	"errors"
	"time"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// numbers has the numbers of the newest dataset, from which those of the next one follow, and its history.
// All but latest are the same on all ranks.
type numbers struct {
	id         int       // highest id of any dataset of this or an earlier run
	checkpoint counts    // number of the newest checkpoint of each series
	written    int       // id of the newest checkpoint that the program has written to the prefix directory
	history    int64     // of the next dataset, if the run continues from a checkpoint, or has begun a dataset
	latest     time.Time // when the newest dataset was begun, as rank 0 has recorded
}

// counts has a number for each series; those that it lacks are 0.
type counts map[string]int

func (c *counts) set(series string, n int) {
	if *c == nil {
		*c = counts{}
	}
	(*c)[series] = n
}

// continueFrom makes the numbering continue after the checkpoint d, from which the
// program restarts.
func (n *numbers) continueFrom(d dataset.Dataset) {
	n.id = max(n.id, d.ID())
	n.checkpoint.set(d.Series(), d.Checkpoint())
	n.history = d.History()
}

// timestamp returns the time to record as the beginning of a dataset. It always
// increases, even if the clock has been set back, because it distinguishes datasets with
// the same id, and shows scr_run that the job makes progress.
func (n *numbers) timestamp() time.Time {
	now := time.Now()
	if least := n.latest.Add(time.Microsecond); now.Before(least) && least.Year() < 9999 { // a damaged file may have any time
		now = least
	}
	n.latest = now
	return now
}

// passOver makes the numbering continue after the highest id in the index, if err says
// that a dataset could not be entered because another job has used its id. err must be
// agreed. passOver is collective.
func (n *numbers) passOver(world mpi.Comm, err error) {
	if !errors.Is(err, prefix.ErrTaken) {
		return
	}
	highest := n.id
	var taken *prefix.TakenError // on the rank that has met it
	if errors.As(err, &taken) {
		highest = max(highest, taken.Highest)
	}
	n.id = mpi.AllreduceOne(world, highest, mpi.Max)
}
