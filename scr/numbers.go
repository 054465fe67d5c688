package scr

import (
	"errors"
	"time"

	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/mpi"
)

// numbers are the numbers of the newest dataset, from which those of the next follow.
// They are the same on all ranks.
type numbers struct {
	id         int       // of the newest dataset, ever
	checkpoint int       // number of the newest checkpoint
	written    int       // id of the newest checkpoint that the program has written to the prefix directory
	latest     time.Time // when the newest dataset was begun, as rank 0 has recorded
}

// continueFrom goes on counting from a checkpoint to restart from.
func (n *numbers) continueFrom(d dataset.Dataset) {
	n.id = max(n.id, d.ID())
	n.checkpoint = d.Checkpoint()
}

// timestamp is the time to record for the beginning of a dataset. It increases, also
// when the clock has been set back: it distinguishes datasets with the same number, and
// shows that a job makes progress.
func (n *numbers) timestamp() time.Time {
	now := time.Now()
	if least := n.latest.Add(time.Microsecond); now.Before(least) && least.Year() < 9999 { // if it is a time
		now = least
	}
	n.latest = now
	return now
}

// passOver continues counting above the numbers of another job in the index, if these
// are why a dataset could not be entered. err is agreed; it is collective.
func (n *numbers) passOver(world mpi.Comm, err error) {
	if !errors.Is(err, prefix.ErrTaken) {
		return
	}
	highest := n.id
	var taken *prefix.TakenError // on the rank that has met it
	if errors.As(err, &taken) {
		highest = max(highest, taken.Highest)
	}
	if highest, err := mpi.AllreduceOne(world, highest, mpi.Max); err == nil { // it is an error of the next call, too
		n.id = highest
	}
}
