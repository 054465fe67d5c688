package flush

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/detached"
	"github.com/goscr/goscr/mpi"
)

// background is a flush in the background. It is started in the call that completes the
// dataset, and begins to copy at the end of that call (BeginCopies). Poll tests in later
// calls whether all ranks have copied their files, and then finishes the flush. Flushes
// are finished in the order in which they were started. If the dataset is dropped, its
// flush is cancelled.
type background struct {
	cached *cache.Cached
	flush  *prefix.Flush
	copy   mover.Transfer
	begun  bool  // begin was called
	failed error // why the copy could not begin, nil if it has begun
	start  time.Time
}

// openMovers makes the movers.
func (f *Flusher) openMovers() {
	f.movers = map[mover.Kind]mover.Mover{mover.ByThread: &mover.Threads{Queue: f.Protector.Queue, Copier: f.Prefix.Packer}}
	daemon := slices.ContainsFunc(f.Cache.Config.Stores, func(s *reddesc.Store) bool { return f.Kind(s.Name) == mover.ByDaemon })
	if !f.Async || !daemon {
		return
	}
	var err error
	if f.Launch == nil && f.Node.Rank() == 0 {
		_, err = detached.Find(mover.Command, "SCR_FLUSH_TYPE=PTHREAD")
	}
	if err := mpi.Agree(f.World, err); err != nil {
		f.Log.WarnJob("%v; threads of the processes copy instead", err)
		return
	}
	f.movers[mover.ByDaemon] = &mover.Daemon{Control: f.Cache.ControlDir(), First: f.Node.Rank() == 0, Launch: f.launch(),
		Manner: mover.Manner{Buffer: f.Prefix.Buffer, Bare: f.Prefix.Bare, Blind: f.Prefix.Blind}, Compression: f.Prefix.Compression}
}

// launch returns Config.Launch as the mover calls it, nil if that is nil. It reads
// Config.Launch at each call.
func (f *Flusher) launch() func(control string) error {
	if f.Launch == nil {
		return nil
	}
	return func(control string) error { return f.Launch(control) }
}

// kind returns the kind of mover for a dataset. It is Sync if the program waits.
func (f *Flusher) kind(c *cache.Cached) mover.Kind {
	if !f.Async {
		return mover.Sync
	}
	kind := f.Kind(c.Desc.Store)
	if kind != mover.Sync && f.movers[kind] == nil {
		return mover.ByThread
	}
	return kind
}

// Start starts to flush a dataset in the background, unless it is postponed and cannot be restored.
func (f *Flusher) Start(c *cache.Cached) error {
	f.Restore(c)
	if f.Cache.Find(c.ID()) == nil {
		return nil
	}
	f.waitForConflicts(c.Name(), f.names(c))
	b := &background{cached: c, start: time.Now()}
	f.Events.Dataset(eventlog.FlushStart, c.Dataset, eventlog.Record{Note: f.Prefix.Dir})
	there, err := f.startCopy(b)
	switch {
	case err != nil:
		f.Events.Result(eventlog.FlushSuccess, eventlog.FlushFail, c.Dataset, b.start, err)
	case there:
		if err = f.conclude(c, b.start, 0, nil); err == nil {
			f.evictOutput(c)
		}
	default:
		f.running = append(f.running, b)
	}
	return err
}

// startCopy starts the request for the caller's files with the mover, unless they are
// there.
func (f *Flusher) startCopy(b *background) (there bool, err error) {
	c, kind := b.cached, f.kind(b.cached)
	load := f.Load(c, kind)
	b.flush = f.Prefix.NewFlush(c.Dataset, f.World.Size(), prefix.Parts{load.Rank: load.Files})
	if there, err := b.flush.Start(); there || err != nil {
		return there, err
	}
	b.copy, err = f.movers[kind].Start(load)
	if err = mpi.Agree(f.World, err); err != nil {
		var stopped error
		if b.copy != nil { // nil on the ranks that could not start
			stopped = b.copy.Cancel()
		}
		err = errors.Join(err, mpi.Agree(f.World, stopped))
		return false, errors.Join(err, f.Prefix.GiveUpFlush(c.Dataset))
	}
	return false, nil
}

// Load returns the request to copy the caller's files of a dataset, with its limits.
func (f *Flusher) Load(c *cache.Cached, kind mover.Kind) *mover.Request {
	own, _ := redundancy.Split(f.Cache.Files(c.ID()))
	l := mover.NewRequest(c.Dataset, f.World.Rank(), f.World.Size(), f.Prefix.Dir, own)
	l.Limits, l.Late = f.Limits, f.Protector.Describe(c)
	if kind == mover.ByThread { // the limits are for the node
		l.Limits = l.Limits.Share(f.Node, l.Bytes())
	}
	return l
}

// names returns the names of the caller's files of a dataset, relative to the prefix
// directory.
func (f *Flusher) names(c *cache.Cached) map[string]bool {
	names := map[string]bool{}
	own, _ := redundancy.Split(f.Cache.Files(c.ID()))
	for _, file := range own {
		names[file.Meta.File()] = true
	}
	return names
}

// WaitForName waits for the flush of a dataset called name. If that ended after a new
// dataset of the same name was entered in the index, it would replace the new entry.
func (f *Flusher) WaitForName(name string) {
	f.waitForConflicts(name, nil)
}

// waitForConflicts waits for the flushes of datasets called name, and of datasets that
// have any of files, which would overwrite the newer files of the same names.
func (f *Flusher) waitForConflicts(name string, files map[string]bool) {
	if len(f.running) == 0 {
		return
	}
	first := 0 // how many to wait for: up to the last conflict, since they finish in order
	for i, b := range f.running {
		conflict := b.cached.Name() == name
		for file := range f.names(b.cached) {
			conflict = conflict || files[file]
		}
		if conflict {
			first = i + 1
		}
	}
	first = mpi.AllreduceOne(f.World, first, mpi.Max)
	f.waitAll(f.running[:first])
}

// BeginCopies begins the protection and the copies of all flushes that were started. It is called at the end
// of a call of the program, when no rank waits for another any more: before, a copy would
// use processors that other ranks need to finish the collective call. It is not
// collective.
func (f *Flusher) BeginCopies() {
	f.Protector.Begin()
	for _, b := range f.running {
		_ = b.begin() // Wait returns the error too
	}
}

func (b *background) begin() error {
	if !b.begun {
		b.begun, b.failed = true, b.copy.Begin()
	}
	return b.failed
}

// took returns how long the caller's copy took: until it ended, if the mover says when,
// else until now.
func (b *background) took() time.Duration {
	if x, ok := b.copy.(interface{ Copying() time.Duration }); ok {
		return x.Copying()
	}
	return time.Since(b.start)
}

// find returns the background flush of a dataset, nil if there is none.
func (f *Flusher) find(c *cache.Cached) *background {
	for _, b := range f.running {
		if b.cached == c {
			return b
		}
	}
	return nil
}

// Flushing reports whether a dataset is being flushed in the background, or will be once it is
// protected. It is not collective.
func (f *Flusher) Flushing(id int) bool {
	return f.later != nil && f.later.ID() == id || slices.ContainsFunc(f.running, func(b *background) bool { return b.cached.ID() == id })
}

// Running returns how many background flushes have not ended. It is not collective.
func (f *Flusher) Running() int {
	if f.later != nil {
		return len(f.running) + 1
	}
	return len(f.running)
}

// Copying reports whether threads of the process are protecting or copying files. A caller that limits
// the processors of the process must leave some for these threads. It is not collective.
func (f *Flusher) Copying() bool {
	return f.Protector.Dataset() != nil && !f.Protector.Ended() || slices.ContainsFunc(f.running, func(b *background) bool { return f.kind(b.cached) == mover.ByThread && !b.copy.Ended() })
}

// Poll finishes the protection that has ended on all ranks, and the flushes whose files all ranks
// have copied. While ranks are still at it, that costs one reduction.
func (f *Flusher) Poll() error {
	copied := 0
	for copied < len(f.running) && f.running[copied].begun && f.running[copied].copy.Ended() {
		copied++
	}
	if f.Protector.Dataset() == nil && (len(f.running) == 0 || !f.running[0].begun) {
		return nil
	}
	f.polled = time.Now()
	ended := []int64{0, int64(copied)}
	if f.Protector.Ended() {
		ended[0] = 1
	}
	f.World.Allreduce(ended, mpi.Min)
	list := slices.Clone(f.running[:ended[1]])
	if ended[0] == 1 {
		if err := f.Settle(); err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(b *background) bool { return !slices.Contains(f.running, b) }) // it may have waited for some
	}
	f.waitAll(list)
	return nil
}

// PollDue reports whether to call Poll: the caller has protected its files, or those of the oldest
// flush are copied, and the last poll was not within PollInterval. Rank 0 decides by it for all
// ranks. It is not collective.
func (f *Flusher) PollDue() bool {
	return time.Since(f.polled) >= f.PollInterval &&
		(f.Protector.Ended() || len(f.running) > 0 && f.running[0].copy.Ended())
}

// Settle waits until no dataset is being protected, and starts the flush that has waited for
// that. It is collective.
func (f *Flusher) Settle() error {
	c := f.Protector.Dataset()
	if c == nil {
		return nil
	}
	if err := f.Protector.Wait(); err != nil {
		return err
	}
	if f.later != c {
		return nil
	}
	f.later = nil
	if err := f.startOrFlush(c); err != nil {
		return err
	}
	f.BeginCopies() // the program may not complete another dataset
	return nil
}

// Complete is Protector.Complete. It waits for the protection of the dataset before.
func (f *Flusher) Complete(c *cache.Cached, failed error, wait bool) error {
	if before := f.Protector.Dataset(); before != nil {
		f.Log.Info("dataset %d (%s): its protection has to end before dataset %d is complete", before.ID(), before.Name(), c.ID())
		if err := f.Settle(); err != nil {
			return err
		}
	}
	return f.Protector.Complete(c, failed, wait)
}

// safe waits until a dataset is protected, if it is being protected.
func (f *Flusher) safe(c *cache.Cached) error {
	if f.Protector.Dataset() != c {
		return nil
	}
	return f.Settle()
}

// WaitAll waits until nothing is being protected or flushed. If the newest dataset of the cache was to be flushed and is not, WaitAll
// flushes it: its flush has failed, or an earlier run ended before it began. It is collective; the error is agreed.
func WaitAll(f *Flusher) error {
	err := f.Settle()
	f.waitAll(f.running)
	if err != nil {
		return err
	}
	list := f.Cache.List()
	if len(list) == 0 || !dueAlways(f, list[0]) || f.Flushed(list[0].ID()) {
		return nil
	}
	c := list[0]
	if err := f.Flush(c); err != nil {
		return fmt.Errorf("dataset %s could not be flushed: %w", c.Name(), err)
	}
	if !f.Flushed(c.ID()) {
		return mpi.Agree(f.World, fmt.Errorf("too much of dataset %s is lost, and it could not be flushed", c.Name()))
	}
	f.evictOutput(c)
	return nil
}

// waitAll waits for background flushes, in the order of list.
func (f *Flusher) waitAll(list []*background) {
	for _, b := range slices.Clone(list) {
		f.wait(b)
	}
}

// wait waits for a flush and finishes it. If the flush has failed, wait only warns,
// because the dataset is still in the cache. It is flushed again while the program waits:
// at once if files in the cache were corrupt, which are rebuilt first; else an output
// before it is evicted or in Finalize, and the newest checkpoint in Finalize.
func (f *Flusher) wait(b *background) {
	err := f.finish(b)
	var agreed *mpi.AgreedError
	if !errors.As(err, &agreed) {
		return
	}
	corrupt := errors.Is(err, redundancy.ErrCorrupt)
	// Only the rank with the error warns.
	if agreed.Err != nil {
		why := agreed.Err.Error()
		if full := new(FullError); errors.As(err, &full) {
			why += ": " + full.lack()
		}
		after := "unless there is a newer one by then, Finalize flushes it"
		switch {
		case corrupt:
			after = "it is rebuilt, and flushed while the program waits"
		case b.cached.Flags().Has(dataset.Output):
			after = "it is flushed while the program waits, when it leaves or in Finalize"
		}
		f.Log.Warn("flush of dataset %d (%s) in the background: %v; it stays in the cache: %s", b.cached.ID(), b.cached.Name(), why, after)
	}
	if !corrupt {
		return
	}
	err = f.repair(b.cached)
	if err == nil {
		err = f.Flush(b.cached)
	}
	if err == nil {
		f.evictOutput(b.cached)
		return
	}
	f.Log.WarnJob("flush of dataset %d (%s) again: %v", b.cached.ID(), b.cached.Name(), err)
}

// finish waits until the files of a flush are copied, and makes its dataset complete
// in the prefix directory.
func (f *Flusher) finish(b *background) error {
	c := b.cached
	if err := f.safe(c); err != nil {
		return err
	}
	f.BeginCopies() // a mover may copy datasets in order, so b may wait for earlier ones
	f.remove(b)
	var files []redundancy.File
	err := b.copy.Wait()
	if err == nil {
		files, err = b.copy.Files()
	}
	if err = mpi.Agree(f.World, err); err == nil {
		err = b.flush.Finish(prefix.Parts{f.World.Rank(): files}, b.start)
		if err == nil {
			f.checked(c, files)
		}
	} else {
		err = errors.Join(err, mpi.Agree(f.World, b.copy.Cancel()), f.Prefix.GiveUpFlush(c.Dataset))
	}
	err = errors.Join(err, f.forgetCopy(c))
	if err := f.conclude(c, b.start, b.took(), err); err != nil {
		return err
	}
	f.evictOutput(c)
	return nil
}

// cancel cancels the flush of a dataset that is to be dropped. Files that were copied are
// deleted.
func (f *Flusher) cancel(b *background) error {
	c := b.cached
	f.remove(b)
	err := mpi.Agree(f.World, b.copy.Cancel())
	err = errors.Join(err, f.forgetCopy(c), f.Prefix.GiveUpFlush(c.Dataset))
	f.Events.Result(eventlog.FlushSuccess, eventlog.FlushFail, c.Dataset, b.start, transfer.ErrStopped)
	f.Log.Info("dataset %d (%s): its flush is cancelled", c.ID(), c.Name())
	return err
}

func (f *Flusher) remove(b *background) {
	f.running = slices.DeleteFunc(f.running, func(x *background) bool { return x == b })
}

// forgetCopy removes a dataset whose copy has ended from the transfer file of the node.
func (f *Flusher) forgetCopy(c *cache.Cached) error {
	if f.kind(c) != mover.ByDaemon {
		return nil
	}
	var err error
	if f.Node.Rank() == 0 {
		err = mover.Forget(f.Cache.ControlDir(), c.ID())
	}
	return mpi.Agree(f.World, err)
}

// outlives reports whether the flush of a dataset may continue after the session.
func (f *Flusher) outlives(c *cache.Cached) bool { return f.Poststage && f.kind(c) == mover.ByDaemon }

// Drain waits until all copies of the caller have ended, and ignores their errors. It is
// for tests, in which a rank is killed while its process continues. It is not collective.
func (f *Flusher) Drain() {
	f.Protector.Close()
	for _, b := range f.running {
		if b.begun { // else the rank was killed before the end of the call that begins it
			_ = b.copy.Wait()
		}
	}
}

// Abandon ends the copies by threads that have not ended, for a session that cannot go
// on. What is copied entirely stays for the next run, and so does what scr_transfer
// copies. It is not collective.
func (f *Flusher) Abandon() {
	f.Protector.Close()
	for _, b := range f.running {
		if f.kind(b.cached) == mover.ByThread && !b.copy.Ended() {
			_ = b.copy.Cancel() // the dataset is in the cache all the same
		}
	}
}

// Stop cancels all copies of the caller, after Init has failed. It is not collective.
func (f *Flusher) Stop() error {
	f.Protector.Abandon()
	var err error
	for _, b := range f.running {
		err = errors.Join(err, b.copy.Cancel())
	}
	return err
}
