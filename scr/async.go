package scr

import (
	"errors"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/detached"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/mover"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/transfer"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/reddesc"
)

// flight is a dataset on its way to the prefix directory while the program goes on.
// It departs when the dataset is complete (depart), takes off at the end of the call
// (takeOff), is looked for in the calls that follow (look), and arrives once all ranks
// have seen that their files have (arrive), in the order in which flights have departed.
// What has to go before is cancelled.
type flight struct {
	cached   *cache.Cached
	transfer mover.Transfer
	off      bool  // its files are being copied
	failed   error // ... or this is why not
	start    time.Time
}

// glance is how long a call that a program may make very often does not look again.
const glance = 100 * time.Millisecond

// openMovers readies those who copy while the program goes on, and stops those of an
// earlier run. It is collective; the result is agreed.
func (s *Session) openMovers() error {
	node, err := s.groups.Comm(reddesc.Node)
	if err != nil {
		return err
	}
	if node.Rank() == 0 {
		err = mover.Reset(s.cache.Control())
	}
	if err := mpi.Agree(s.world, err); err != nil {
		return err
	}
	s.movers = map[mover.Kind]mover.Mover{mover.ByThread: &mover.Threads{Copier: s.prefix.Packer}}
	s.node = node
	s.limits = transfer.Limits{Bandwidth: float64(s.config.Size("SCR_FLUSH_ASYNC_BW")), CPU: s.config.Float("SCR_FLUSH_ASYNC_PERCENT") / 100}
	if !s.config.Bool("SCR_FLUSH_ASYNC") {
		return nil
	}
	if s.config.Bool("SCR_FLUSH_POSTSTAGE") && s.config.String("SCR_FLUSH_TYPE") != string(mover.ByDaemon) && s.world.Rank() == 0 {
		s.log.Warn("SCR_FLUSH_POSTSTAGE=1 has an effect with SCR_FLUSH_TYPE=DAEMON only: other copies end with the program, and SCR_Finalize waits for them")
	}
	daemon := slices.ContainsFunc(s.stores, func(store *reddesc.Store) bool { return s.flushKind(store.Name) == mover.ByDaemon })
	if !daemon {
		return nil
	}
	if s.launch == nil && node.Rank() == 0 {
		_, err = detached.Find(mover.Command, "SCR_FLUSH_TYPE=PTHREAD")
	}
	if err := mpi.Agree(s.world, err); err != nil {
		if s.world.Rank() == 0 {
			s.log.Warn("%v; threads of the processes copy instead", err)
		}
		return nil
	}
	s.movers[mover.ByDaemon] = &mover.Daemon{Control: s.cache.Control(), First: node.Rank() == 0, Launch: s.launch,
		Manner: mover.Manner{Buffer: s.prefix.Buffer, Bare: s.prefix.Bare, Blind: s.prefix.Blind}, Compression: s.prefix.Compression}
	return nil
}

// flushKind is who copies what is in a store, as the user wants it.
func (s *Session) flushKind(store string) mover.Kind {
	return mover.Kind(itemText(s.config.Items("STORE").Get(store), "FLUSH", s.config.String("SCR_FLUSH_TYPE")))
}

// moverOf is who copies a dataset: Sync if the program is to wait.
func (s *Session) moverOf(c *cache.Cached) mover.Kind {
	if !s.config.Bool("SCR_FLUSH_ASYNC") {
		return mover.Sync
	}
	kind := s.flushKind(c.Desc.Store)
	if kind != mover.Sync && s.movers[kind] == nil {
		return mover.ByThread
	}
	return kind
}

// depart begins to flush a dataset while the program goes on.
func (s *Session) depart(c *cache.Cached) error {
	if err := s.clearWay(c.Name(), s.names(c)); err != nil {
		return err
	}
	start := time.Now()
	s.event("FLUSH_START", c.Dataset, eventlog.Record{Note: s.prefix.Dir})
	f, err := s.board(c, start)
	if err != nil {
		s.result("FLUSH", "SUCCESS", c.Dataset, start, err)
		return err
	}
	s.flights = append(s.flights, f)
	return nil
}

// names are those of the caller's files of a dataset, below the prefix directory.
func (s *Session) names(c *cache.Cached) map[string]bool {
	names := map[string]bool{}
	own, _ := redundancy.Split(s.cache.Files(c.ID()))
	for _, f := range own {
		names[f.Meta.File()] = true
	}
	return names
}

// clearWay waits for the flights whose place a dataset takes: those of its name, which
// would enter the index after it and push it out, and those of files of the same
// names, which would be put where the newer ones are.
func (s *Session) clearWay(name string, files map[string]bool) error {
	if len(s.flights) == 0 {
		return nil
	}
	flights := slices.Clone(s.flights)
	first := []int64{0} // so many of them, which arrive in their order
	for i, f := range flights {
		taken := f.cached.Name() == name
		for file := range s.names(f.cached) {
			taken = taken || files[file]
		}
		if taken {
			first[0] = int64(i + 1)
		}
	}
	if err := s.world.Allreduce(first, mpi.Max); err != nil {
		return err
	}
	for _, f := range flights[:first[0]] {
		if err := s.arriveOrWarn(f); err != nil {
			return err
		}
	}
	return nil
}

// takeOff has those files copied that are ready to be. No rank needs another from here
// on until they have arrived: who copies takes the processors that others need to agree
// on something.
func (s *Session) takeOff() {
	for _, f := range s.flights {
		_ = f.takeOff() // is an error of its arrival, too
	}
}

func (f *flight) takeOff() error {
	if !f.off {
		f.off, f.failed = true, f.transfer.Begin()
	}
	return f.failed
}

// board hands the files of a dataset over to whoever copies them.
func (s *Session) board(c *cache.Cached, start time.Time) (*flight, error) {
	kind := s.moverOf(c)
	load, err := s.load(c, kind)
	if err != nil {
		return nil, err
	}
	if err := s.prefix.StartFlush(c.Dataset, s.world.Size()); err != nil {
		return nil, err
	}
	f := &flight{cached: c, start: start}
	f.transfer, err = s.movers[kind].Start(load)
	if err = mpi.Agree(s.world, err); err != nil {
		var stopped error
		if f.transfer != nil { // the rank that could not start has none
			stopped = f.transfer.Cancel()
		}
		err = errors.Join(err, mpi.Agree(s.world, stopped))
		return nil, errors.Join(err, s.prefix.GiveUpFlush(c.Dataset))
	}
	return f, nil
}

// load is what the caller has to copy of a dataset, with the limits of whoever does.
func (s *Session) load(c *cache.Cached, kind mover.Kind) (*mover.Request, error) {
	own, _ := redundancy.Split(s.cache.Files(c.ID()))
	l := mover.NewRequest(c.Dataset, s.world.Rank(), s.world.Size(), s.prefix.Dir, own)
	l.Limits = s.limits
	if kind == mover.ByThread && l.Limits != (transfer.Limits{}) {
		// The limits are the node's: each rank gets as much as makes all end together.
		total := []int64{l.Bytes()}
		if err := s.node.Allreduce(total, mpi.Sum); err != nil {
			return nil, err
		}
		l.Limits = l.Limits.Part(float64(l.Bytes()) / float64(max(total[0], 1)))
	}
	return l, nil
}

// flightOf returns the flight of a dataset, nil if it is not on its way.
func (s *Session) flightOf(c *cache.Cached) *flight {
	for _, f := range s.flights {
		if f.cached == c {
			return f
		}
	}
	return nil
}

// Copying reports whether threads of the process copy in the background. Whoever limits
// what the process may use has to leave something for them.
func (s *Session) Copying() bool {
	return slices.ContainsFunc(s.flights, func(f *flight) bool { return s.moverOf(f.cached) == mover.ByThread && !f.transfer.Ended() })
}

// look lets the flights arrive whose files all have. As long as some have taken off it
// costs one reduction.
func (s *Session) look() error {
	if len(s.flights) == 0 || !s.flights[0].off {
		return nil
	}
	s.looked = time.Now()
	ended := []int64{0}
	for _, f := range s.flights {
		if !f.transfer.Ended() {
			break
		}
		ended[0]++
	}
	if err := s.world.Allreduce(ended, mpi.Min); err != nil {
		return err
	}
	for _, f := range slices.Clone(s.flights[:ended[0]]) {
		if err := s.arriveOrWarn(f); err != nil {
			return err
		}
	}
	return nil
}

// worthALook reports, on rank 0, whether a flight may have arrived: its own files
// have, and it has not looked just now.
func (s *Session) worthALook() bool {
	return len(s.flights) > 0 && time.Since(s.looked) >= glance && s.flights[0].transfer.Ended()
}

// arrive waits for the files of a flight, and makes its dataset complete in the
// prefix directory.
func (s *Session) arrive(f *flight) error {
	c := f.cached
	s.takeOff() // it may wait for those before it
	s.flights = slices.DeleteFunc(s.flights, func(g *flight) bool { return g == f })
	var files []redundancy.File
	err := f.transfer.Wait()
	if err == nil {
		files, err = f.transfer.Files()
	}
	if err = mpi.Agree(s.world, err); err == nil {
		err = s.prefix.FinishFlush(c.Dataset, s.world.Size(), prefix.Parts{s.world.Rank(): files}, f.start)
	} else {
		err = errors.Join(err, s.prefix.GiveUpFlush(c.Dataset))
	}
	err = errors.Join(err, s.forgetTransfer(c))
	s.result("FLUSH", "SUCCESS", c.Dataset, f.start, err)
	if err != nil {
		s.passOver(err)
		return err
	}
	s.moved("FLUSH", c.Dataset, c.Desc.Store, s.prefix.Dir, f.start)
	s.flushed[c.ID()] = true
	if err := s.window(c.Dataset); err != nil {
		return err
	}
	return s.leave(c)
}

// forgetTransfer takes a dataset that has ended out of what the node's scr_transfer
// knows. It is collective; the result is agreed.
func (s *Session) forgetTransfer(c *cache.Cached) error {
	if s.moverOf(c) != mover.ByDaemon {
		return nil
	}
	var err error
	if s.node.Rank() == 0 {
		err = mover.Forget(s.cache.Control(), c.ID())
	}
	return mpi.Agree(s.world, err)
}

// arriveOrWarn is arrive for who goes on if it fails: the dataset is in the cache all
// the same, and is flushed while the program waits when it has to be there, as an output
// has, and the newest checkpoint at the end. The error is of something that leaves no way
// to go on.
func (s *Session) arriveOrWarn(f *flight) error {
	err := s.arrive(f)
	var agreed *mpi.AgreedError
	if err == nil || !errors.As(err, &agreed) {
		return err
	}
	// Whoever has met it says so.
	if agreed.Err != nil {
		after := "unless there is a newer one by then, Finalize flushes it"
		if f.cached.Flags().Has(Output) {
			after = "it is flushed while the program waits, when it leaves or in Finalize"
		}
		s.log.Warn("flush of dataset %d (%s) in the background: %v; it stays in the cache: %s", f.cached.ID(), f.cached.Name(), agreed.Err, after)
	}
	return nil
}

// cancel ends the flight of a dataset that has to go. What has arrived of it is
// deleted.
func (s *Session) cancel(f *flight) error {
	c := f.cached
	s.flights = slices.DeleteFunc(s.flights, func(g *flight) bool { return g == f })
	err := mpi.Agree(s.world, f.transfer.Cancel())
	err = errors.Join(err, s.forgetTransfer(c), s.prefix.GiveUpFlush(c.Dataset))
	s.result("FLUSH", "SUCCESS", c.Dataset, f.start, transfer.ErrStopped)
	s.log.Info("dataset %d (%s): its flush is cancelled", c.ID(), c.Name())
	return err
}

// land ends what is on its way before the session does; or, with
// SCR_FLUSH_POSTSTAGE, leaves it to those who go on without the program.
func (s *Session) land() error {
	var first error
	for _, f := range slices.Clone(s.flights) {
		if s.outlives(f.cached) && mpi.Agree(s.world, f.takeOff()) == nil {
			s.log.Info("dataset %d (%s): %s goes on copying it; scr_postrun or scr_index --build %d make it complete then",
				f.cached.ID(), f.cached.Name(), mover.Command, f.cached.ID())
			continue
		}
		if err := s.arriveOrWarn(f); first == nil {
			first = err
		}
	}
	return first
}

// outlives reports whether the flush of a dataset goes on after the session.
func (s *Session) outlives(c *cache.Cached) bool {
	return s.config.Bool("SCR_FLUSH_POSTSTAGE") && s.moverOf(c) == mover.ByDaemon
}

// closeMovers leaves nothing behind of what copies, unless there is something left to
// copy. It is collective; the result is agreed.
func (s *Session) closeMovers() error {
	if s.movers[mover.ByDaemon] == nil || len(s.flights) > 0 {
		return nil
	}
	var err error
	if s.node.Rank() == 0 {
		err = mover.Close(s.cache.Control())
	}
	return mpi.Agree(s.world, err)
}

// departAgain flushes what an earlier run had begun to flush in the background and
// this one has in its cache.
func (s *Session) departAgain(ids []int) error {
	for _, c := range slices.Backward(slices.Clone(s.cache.List())) {
		if !slices.Contains(ids, c.ID()) || s.flushed[c.ID()] || s.moverOf(c) == mover.Sync {
			continue
		}
		if err := s.depart(c); err != nil {
			var agreed *mpi.AgreedError
			if !errors.As(err, &agreed) {
				return err
			}
			if s.world.Rank() == 0 {
				s.log.Warn("%v; dataset %s stays in the cache", err, c.Name())
			}
		}
	}
	return nil
}
