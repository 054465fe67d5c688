package flush

import (
	"errors"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/detached"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/mover"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/reddesc"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/transfer"
	"github.com/goscr/goscr/mpi"
)

// background is the flush of a dataset while the program goes on. It is started in
// the call that completes the dataset, and copies from the end of that call
// (BeginCopies). Poll looks in later calls whether all ranks have copied, and then
// finishes it. Flushes finish in the order in which they were started. One whose
// dataset is dropped is cancelled.
type background struct {
	cached *cache.Cached
	copy   mover.Transfer
	begun  bool  // files are being copied
	failed error // why copying could not begin
	start  time.Time
}

// pollInterval is how long a call that a program may make very often does not poll
// again.
const pollInterval = 100 * time.Millisecond

// openMovers opens the movers, and stops copies of an earlier run.
func (f *Flusher) openMovers() error {
	var err error
	if f.Node.Rank() == 0 {
		err = mover.Reset(f.Cache.Control())
	}
	if err := mpi.Agree(f.World, err); err != nil {
		return err
	}
	f.movers = map[mover.Kind]mover.Mover{mover.ByThread: &mover.Threads{Copier: f.Prefix.Packer}}
	daemon := slices.ContainsFunc(f.Cache.Stores, func(s *reddesc.Store) bool { return f.Kind(s.Name) == mover.ByDaemon })
	if !f.Async || !daemon {
		return nil
	}
	if f.Launch == nil && f.Node.Rank() == 0 {
		_, err = detached.Find(mover.Command, "SCR_FLUSH_TYPE=PTHREAD")
	}
	if err := mpi.Agree(f.World, err); err != nil {
		f.Log.WarnJob("%v; threads of the processes copy instead", err)
		return nil
	}
	f.movers[mover.ByDaemon] = &mover.Daemon{Control: f.Cache.Control(), First: f.Node.Rank() == 0, Launch: f.launch(),
		Manner: mover.Manner{Buffer: f.Prefix.Buffer, Bare: f.Prefix.Bare, Blind: f.Prefix.Blind}, Compression: f.Prefix.Compression}
	return nil
}

func (f *Flusher) launch() func(control string) error {
	if f.Launch == nil {
		return nil
	}
	return func(control string) error { return f.Launch(control) }
}

// kind is what copies a dataset: Sync if the program waits.
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

// Start starts to flush a dataset in the background.
func (f *Flusher) Start(c *cache.Cached) error {
	if err := f.waitForConflicts(c.Name(), f.names(c)); err != nil {
		return err
	}
	b := &background{cached: c, start: time.Now()}
	f.Events.Dataset("FLUSH_START", c.Dataset, eventlog.Record{Note: f.Prefix.Dir})
	if err := f.startCopy(b); err != nil {
		f.Events.Result("FLUSH", "SUCCESS", c.Dataset, b.start, err)
		return err
	}
	f.running = append(f.running, b)
	return nil
}

// startCopy starts the request for the caller's files with the mover.
func (f *Flusher) startCopy(b *background) error {
	c, kind := b.cached, f.kind(b.cached)
	load, err := f.Load(c, kind)
	if err != nil {
		return err
	}
	if err := f.Prefix.StartFlush(c.Dataset, f.World.Size()); err != nil {
		return err
	}
	b.copy, err = f.movers[kind].Start(load)
	if err = mpi.Agree(f.World, err); err != nil {
		var stopped error
		if b.copy != nil { // the rank that could not start has none
			stopped = b.copy.Cancel()
		}
		err = errors.Join(err, mpi.Agree(f.World, stopped))
		return errors.Join(err, f.Prefix.GiveUpFlush(c.Dataset))
	}
	return nil
}

// Load is the request for the caller's files of a dataset, with the limits of the mover.
func (f *Flusher) Load(c *cache.Cached, kind mover.Kind) (*mover.Request, error) {
	own, _ := redundancy.Split(f.Cache.Files(c.ID()))
	l := mover.NewRequest(c.Dataset, f.World.Rank(), f.World.Size(), f.Prefix.Dir, own)
	l.Limits = f.Limits
	if kind == mover.ByThread && l.Limits != (transfer.Limits{}) {
		// The limits are the node's: each rank gets a share such that all end together.
		total, err := mpi.AllreduceOne(f.Node, l.Bytes(), mpi.Sum)
		if err != nil {
			return nil, err
		}
		l.Limits = l.Limits.Part(float64(l.Bytes()) / float64(max(total, 1)))
	}
	return l, nil
}

// names are those of the caller's files of a dataset, below the prefix directory.
func (f *Flusher) names(c *cache.Cached) map[string]bool {
	names := map[string]bool{}
	own, _ := redundancy.Split(f.Cache.Files(c.ID()))
	for _, file := range own {
		names[file.Meta.File()] = true
	}
	return names
}

// WaitForName waits for the flush of a dataset of this name: it would enter the
// index after the new dataset and push it out.
func (f *Flusher) WaitForName(name string) error { return f.waitForConflicts(name, nil) }

// waitForConflicts waits for the flushes of a name, and for those of files of the
// same names, which would be put where the newer ones are.
func (f *Flusher) waitForConflicts(name string, files map[string]bool) error {
	if len(f.running) == 0 {
		return nil
	}
	first := 0 // so many of them, which finish in their order
	for i, b := range f.running {
		conflict := b.cached.Name() == name
		for file := range f.names(b.cached) {
			conflict = conflict || files[file]
		}
		if conflict {
			first = i + 1
		}
	}
	first, err := mpi.AllreduceOne(f.World, first, mpi.Max)
	if err != nil {
		return err
	}
	return f.waitAll(f.running[:first])
}

// BeginCopies begins the started copies. It is called at the end of a call of the
// program, when no rank waits for another any more: a copy takes processors that other
// ranks need to finish a collective call. It is not collective.
func (f *Flusher) BeginCopies() {
	for _, b := range f.running {
		_ = b.begin() // is an error of waiting for it, too
	}
}

func (b *background) begin() error {
	if !b.begun {
		b.begun, b.failed = true, b.copy.Begin()
	}
	return b.failed
}

// find returns the flush of a dataset in the background, nil if there is none.
func (f *Flusher) find(c *cache.Cached) *background {
	for _, b := range f.running {
		if b.cached == c {
			return b
		}
	}
	return nil
}

// Running is how many flushes are under way in the background. It is not collective.
func (f *Flusher) Running() int { return len(f.running) }

// Copying reports whether threads of the process copy. A caller that limits the process
// must leave processors for them. It is not collective.
func (f *Flusher) Copying() bool {
	return slices.ContainsFunc(f.running, func(b *background) bool { return f.kind(b.cached) == mover.ByThread && !b.copy.Ended() })
}

// Poll finishes the flushes of which all ranks have copied all files. As long as some
// copy it costs one reduction.
func (f *Flusher) Poll() error {
	if len(f.running) == 0 || !f.running[0].begun {
		return nil
	}
	f.polled = time.Now()
	ended := 0
	for ended < len(f.running) && f.running[ended].copy.Ended() {
		ended++
	}
	ended, err := mpi.AllreduceOne(f.World, ended, mpi.Min)
	if err != nil {
		return err
	}
	return f.waitAll(f.running[:ended])
}

// PollDue reports, on rank 0, whether a flush may have ended: the caller's files are
// copied, and it has not polled just now. It is not collective.
func (f *Flusher) PollDue() bool {
	return len(f.running) > 0 && time.Since(f.polled) >= pollInterval && f.running[0].copy.Ended()
}

// waitAll waits for flushes in the background, in their order.
func (f *Flusher) waitAll(list []*background) error {
	for _, b := range slices.Clone(list) {
		if err := f.wait(b); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for a flush and finishes it. A failed flush is a warning: the dataset is in
// the cache all the same, and is flushed again, while the program waits, when an output
// is evicted or, for the newest checkpoint, at the end. After an error the session
// cannot go on.
func (f *Flusher) wait(b *background) error {
	err := f.finish(b)
	var agreed *mpi.AgreedError
	if err == nil || !errors.As(err, &agreed) {
		return err
	}
	// The rank that has met it warns.
	if agreed.Err != nil {
		after := "unless there is a newer one by then, Finalize flushes it"
		if b.cached.Flags().Has(dataset.Output) {
			after = "it is flushed while the program waits, when it leaves or in Finalize"
		}
		f.Log.Warn("flush of dataset %d (%s) in the background: %v; it stays in the cache: %s", b.cached.ID(), b.cached.Name(), agreed.Err, after)
	}
	return nil
}

// finish waits until the files of a flush are copied, and makes its dataset complete
// in the prefix directory.
func (f *Flusher) finish(b *background) error {
	c := b.cached
	f.BeginCopies() // it may wait for those before it
	f.remove(b)
	var files []redundancy.File
	err := b.copy.Wait()
	if err == nil {
		files, err = b.copy.Files()
	}
	if err = mpi.Agree(f.World, err); err == nil {
		err = f.Prefix.FinishFlush(c.Dataset, f.World.Size(), prefix.Parts{f.World.Rank(): files}, b.start)
	} else {
		err = errors.Join(err, f.Prefix.GiveUpFlush(c.Dataset))
	}
	err = errors.Join(err, f.forgetCopy(c))
	if err := f.conclude(c, b.start, err); err != nil {
		return err
	}
	return f.evictOutput(c)
}

// cancel ends the flush of a dataset that has to go. What has been copied of it is
// deleted.
func (f *Flusher) cancel(b *background) error {
	c := b.cached
	f.remove(b)
	err := mpi.Agree(f.World, b.copy.Cancel())
	err = errors.Join(err, f.forgetCopy(c), f.Prefix.GiveUpFlush(c.Dataset))
	f.Events.Result("FLUSH", "SUCCESS", c.Dataset, b.start, transfer.ErrStopped)
	f.Log.Info("dataset %d (%s): its flush is cancelled", c.ID(), c.Name())
	return err
}

func (f *Flusher) remove(b *background) {
	f.running = slices.DeleteFunc(f.running, func(x *background) bool { return x == b })
}

// forgetCopy takes a dataset whose copy has ended out of what the node's scr_transfer
// knows.
func (f *Flusher) forgetCopy(c *cache.Cached) error {
	if f.kind(c) != mover.ByDaemon {
		return nil
	}
	var err error
	if f.Node.Rank() == 0 {
		err = mover.Forget(f.Cache.Control(), c.ID())
	}
	return mpi.Agree(f.World, err)
}

// outlives reports whether the flush of a dataset goes on after the session.
func (f *Flusher) outlives(c *cache.Cached) bool { return f.Poststage && f.kind(c) == mover.ByDaemon }

// Drain waits until nothing more of the caller's is copied, whatever comes of it: for
// tests, in which the process of a rank goes on that is killed. It is not collective.
func (f *Flusher) Drain() {
	for _, b := range f.running {
		_ = b.copy.Wait()
	}
}

// Abandon ends the copies by threads that have not ended, for a session that cannot go
// on. What is copied entirely stays for the next run, and so does what scr_transfer
// copies. It is not collective.
func (f *Flusher) Abandon() {
	for _, b := range f.running {
		if f.kind(b.cached) == mover.ByThread && !b.copy.Ended() {
			_ = b.copy.Cancel() // the dataset is in the cache all the same
		}
	}
}

// Stop ends all copies of the caller, for a session that could not begin. It is not
// collective.
func (f *Flusher) Stop() error {
	var err error
	for _, b := range f.running {
		err = errors.Join(err, b.copy.Cancel())
	}
	return err
}
