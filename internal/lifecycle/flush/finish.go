package flush

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/mpi"
)

// Finish waits for protection and background flushes at the end of the session. It then flushes outputs
// and withheld checkpoints that are not in the prefix directory, and the newest checkpoint, unless
// flushing is turned off. written is the id of the newest checkpoint that the program itself has
// written to the prefix directory; an older checkpoint is not flushed. With
// SCR_FLUSH_POSTSTAGE, scr_transfer continues its copies after the session. Finish goes
// on after an error, and returns the first.
func (f *Flusher) Finish(written int) error {
	first := f.Settle()
	f.waitOrLeave()
	record := func(err error) {
		if first == nil {
			first = err
		}
	}
	for list := f.unflushed(written); len(list) > 0; {
		c := list[0]
		list = list[1:]
		if f.outlives(c) && f.Start(c) == nil {
			if f.waitOrLeave(); f.find(c) != nil {
				continue
			}
		}
		err := f.Flush(c)
		if errors.As(err, new(*FullError)) {
			err = fmt.Errorf("%w; dataset %d (%s) stays in the caches of the nodes for as long as the job has them: make room in the prefix directory, "+
				"then start the program again on these nodes, or run scr_copy --id %d on each of them and scr_index --build %d on one (scr_postrun does both)",
				err, c.ID(), c.Name(), c.ID(), c.ID())
		}
		if record(err); err != nil && f.Cache.Find(c.ID()) == nil {
			list = f.unflushed(written) // an older checkpoint has taken its place
		}
	}
	record(f.closeMovers())
	return first
}

// waitOrLeave waits for background flushes, except those that scr_transfer continues
// after the session.
func (f *Flusher) waitOrLeave() {
	for _, b := range slices.Clone(f.running) {
		if f.outlives(b.cached) && mpi.Agree(f.World, b.begin()) == nil {
			f.Log.Info("dataset %d (%s): %s still copies it; scr_postrun or scr_index --build %d make it complete then",
				b.cached.ID(), b.cached.Name(), mover.Command, b.cached.ID())
			continue
		}
		f.wait(b)
	}
}

// unflushed returns the datasets that Finish has to flush, oldest first.
func (f *Flusher) unflushed(written int) (list []*cache.Cached) {
	for _, c := range slices.Backward(f.Cache.List()) {
		if f.Flushed(c.ID()) || f.find(c) != nil {
			continue
		}
		if f.flushFirst(c) || f.Policy.On() && c == f.Cache.NewestCheckpoint(c.Series()) && c.ID() > written {
			list = append(list, c)
		}
	}
	return list
}

// closeMovers tells scr_transfer to end, unless it has copies to continue.
func (f *Flusher) closeMovers() error {
	if f.movers[mover.ByDaemon] == nil || len(f.running) > 0 {
		return nil
	}
	var err error
	if f.Node.Rank() == 0 {
		err = mover.Close(f.Cache.ControlDir())
	}
	return mpi.Agree(f.World, err)
}
