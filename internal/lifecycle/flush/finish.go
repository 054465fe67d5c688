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
	first := f.WaitForProtection()
	f.waitOrLeave()
	record := func(err error) {
		if first == nil {
			first = err
		}
	}
	for list := f.unflushed(written); len(list) > 0; {
		c := list[0]
		list = list[1:]
		if f.Background.outlives(c) && f.Start(c) == nil {
			if f.waitOrLeave(); f.Background.find(c) != nil {
				continue
			}
		}
		err := f.Flush(c)
		if errors.As(err, new(*FullError)) {
			err = fmt.Errorf("%w; dataset %d (%s) stays in the caches of the nodes for as long as the job has them: make room in the prefix directory, "+
				"then start the program again on these nodes, or run scr_copy --id %d on each of them and scr_index --build %d on one (scr_postrun does both)",
				err, c.ID(), c.Name(), c.ID(), c.ID())
		}
		if record(err); err != nil && c.Gone() {
			list = f.unflushed(written) // an older checkpoint has taken its place
		}
	}
	record(f.Background.closeMovers())
	return first
}

// waitOrLeave waits for background flushes, except those that scr_transfer continues
// after the session.
func (f *Flusher) waitOrLeave() {
	for _, b := range slices.Clone(f.Background.running) {
		if f.Background.outlives(b.cached) && mpi.Agree(f.config.World, b.begin()) == nil {
			f.config.Log.Info("dataset %d (%s): %s still copies it; scr_postrun or scr_index --build %d make it complete then",
				b.cached.ID(), b.cached.Name(), mover.Command, b.cached.ID())
			continue
		}
		f.wait(b)
	}
}

// unflushed returns the datasets that Finish has to flush, oldest first.
func (f *Flusher) unflushed(written int) (list []*cache.Cached) {
	for _, c := range slices.Backward(f.config.Cache.List()) {
		if c.Flushed() || f.Background.find(c) != nil {
			continue
		}
		if held(c).MustFlush() || f.config.Policy.On() && c == f.config.Cache.NewestCheckpoint(c.Series()) && c.ID() > written {
			list = append(list, c)
		}
	}
	return list
}
