package flush

import (
	"slices"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/mover"
	"github.com/goscr/goscr/mpi"
)

// Finish ends what is being flushed, and flushes what has to be in the prefix directory
// when the session ends: outputs that are not, and the newest checkpoint, unless
// flushing is turned off or the program has written a newer one (of the id written)
// there itself. With SCR_FLUSH_POSTSTAGE copies by scr_transfer go on. It goes on after
// an error, and returns the first.
func (f *Flusher) Finish(written int) error {
	first := f.waitOrLeave()
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	for _, c := range f.unflushed(written) {
		if f.outlives(c) && f.Start(c) == nil {
			if keep(f.waitOrLeave()); f.find(c) != nil {
				continue
			}
		}
		keep(f.Flush(c))
	}
	keep(f.closeMovers())
	return first
}

// waitOrLeave waits for what is being flushed in the background, or leaves it to what
// copies without the program.
func (f *Flusher) waitOrLeave() error {
	var first error
	for _, b := range slices.Clone(f.running) {
		if f.outlives(b.cached) && mpi.Agree(f.World, b.begin()) == nil {
			f.Log.Info("dataset %d (%s): %s goes on copying it; scr_postrun or scr_index --build %d make it complete then",
				b.cached.ID(), b.cached.Name(), mover.Command, b.cached.ID())
			continue
		}
		if err := f.wait(b); first == nil {
			first = err
		}
	}
	return first
}

// unflushed returns what Finish has to flush, oldest first.
func (f *Flusher) unflushed(written int) (list []*cache.Cached) {
	newest := f.Cache.NewestCheckpoint()
	for _, c := range slices.Backward(f.Cache.List()) {
		if f.flushed[c.ID()] || f.find(c) != nil {
			continue
		}
		if c.Flags().Has(dataset.Output) || f.Every > 0 && c == newest && c.ID() > written {
			list = append(list, c)
		}
	}
	return list
}

// closeMovers closes the movers, unless one still copies.
func (f *Flusher) closeMovers() error {
	if f.movers[mover.ByDaemon] == nil || len(f.running) > 0 {
		return nil
	}
	var err error
	if f.Node.Rank() == 0 {
		err = mover.Close(f.Cache.Control())
	}
	return mpi.Agree(f.World, err)
}
