package flush

import (
	"errors"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/detached"
	"github.com/goscr/goscr/mpi"
)

// Background has the copies that run while the program computes: those of flushes that have not ended, and of the
// Protector. It starts, completes and cancels one flush at a time; the Flusher decides when.
type Background struct {
	Config  Config
	movers  map[mover.Kind]mover.Mover
	running []*running // oldest first, the same on all ranks
}

// running is a flush in the background. It is started in the call that completes the dataset, and begins to copy at
// the end of that call (BeginCopies). Poll tests in later calls whether all ranks have copied their files, and then
// finishes the flush. Flushes are finished in the order in which they were started. If the dataset is dropped, its
// flush is cancelled.
type running struct {
	cached *cache.Cached
	flush  *prefix.Flush
	copy   mover.Transfer
	begun  bool  // begin was called
	failed error // why the copy could not begin, nil if it has begun
	start  time.Time
}

func (r *running) begin() error {
	if !r.begun {
		r.begun, r.failed = true, r.copy.Begin()
	}
	return r.failed
}

// took returns how long the caller's copy took: until it ended, if the mover says when, else until now.
func (r *running) took() time.Duration {
	if x, ok := r.copy.(interface{ Copying() time.Duration }); ok {
		return x.Copying()
	}
	return time.Since(r.start)
}

// openMovers makes the movers. If scr_transfer cannot be found, it returns an error, and threads of the processes copy.
func (b *Background) openMovers() error {
	b.movers = map[mover.Kind]mover.Mover{mover.ByThread: &mover.Threads{Queue: b.Config.Protector.Queue, Copier: b.Config.Prefix.Packer}}
	daemon := slices.ContainsFunc(b.Config.Cache.Config.Stores, func(s *reddesc.Store) bool { return b.Config.Kind(s.Name) == mover.ByDaemon })
	if !b.Config.Async || !daemon {
		return nil
	}
	var err error
	if b.Config.Launch == nil && b.Config.Node.Rank() == 0 {
		_, err = detached.Find(mover.Command, "SCR_FLUSH_TYPE=PTHREAD")
	}
	if err := mpi.Agree(b.Config.World, err); err != nil {
		return err
	}
	b.movers[mover.ByDaemon] = &mover.Daemon{Control: b.Config.Cache.ControlDir(), First: b.Config.Node.Rank() == 0, Launch: b.launch(),
		Manner: mover.Manner{Buffer: b.Config.Prefix.Buffer, Bare: b.Config.Prefix.Bare, Blind: b.Config.Prefix.Blind}, Compression: b.Config.Prefix.Compression}
	return nil
}

// launch returns Launch as the mover calls it, nil if that is nil. It reads Launch at each call.
func (b *Background) launch() func(control string) error {
	if b.Config.Launch == nil {
		return nil
	}
	return func(control string) error { return b.Config.Launch(control) }
}

// closeMovers tells scr_transfer to end, unless it has copies to continue.
func (b *Background) closeMovers() error {
	if b.movers[mover.ByDaemon] == nil || len(b.running) > 0 {
		return nil
	}
	var err error
	if b.Config.Node.Rank() == 0 {
		err = mover.Close(b.Config.Cache.ControlDir())
	}
	return mpi.Agree(b.Config.World, err)
}

// kind returns the kind of mover for a dataset. It is Sync if the program waits.
func (b *Background) kind(c *cache.Cached) mover.Kind {
	if !b.Config.Async {
		return mover.Sync
	}
	kind := b.Config.Kind(c.Desc.Store)
	if kind != mover.Sync && b.movers[kind] == nil {
		return mover.ByThread
	}
	return kind
}

// outlives reports whether the flush of a dataset may continue after the session.
func (b *Background) outlives(c *cache.Cached) bool {
	return b.Config.Poststage && b.kind(c) == mover.ByDaemon
}

// start starts the flush of a dataset with its mover, unless it is there: in the prefix directory.
func (b *Background) start(c *cache.Cached, at time.Time) (there bool, err error) {
	kind := b.kind(c)
	load := b.Load(c, kind)
	r := &running{cached: c, start: at, flush: b.Config.Prefix.NewFlush(c.Dataset, b.Config.World.Size(), prefix.Parts{load.Rank: load.Files})}
	if there, err := r.flush.Start(); there || err != nil {
		return there, err
	}
	r.copy, err = b.movers[kind].Start(load)
	if err = mpi.Agree(b.Config.World, err); err != nil {
		var stopped error
		if r.copy != nil { // nil on the ranks that could not start
			stopped = r.copy.Cancel()
		}
		err = errors.Join(err, mpi.Agree(b.Config.World, stopped))
		return false, errors.Join(err, b.Config.Prefix.GiveUpFlush(c.Dataset))
	}
	b.running = append(b.running, r)
	return false, nil
}

// Load returns the request to copy the caller's files of a dataset, with its limits.
func (b *Background) Load(c *cache.Cached, kind mover.Kind) *mover.Request {
	own, _ := redundancy.Split(b.Config.Cache.Files(c.ID()))
	l := mover.NewRequest(c.Dataset, b.Config.World.Rank(), b.Config.World.Size(), b.Config.Prefix.Dir, own)
	l.Limits, l.Late = b.Config.Limits, b.Config.Protector.Describe(c)
	if kind == mover.ByThread { // the limits are for the node
		l.Limits = l.Limits.Share(b.Config.Node, l.Bytes())
	}
	return l
}

// complete waits until the files of a flush are copied, and makes its dataset complete in the prefix directory. It
// returns the caller's files.
func (b *Background) complete(r *running) ([]redundancy.File, error) {
	b.remove(r)
	var files []redundancy.File
	err := r.copy.Wait()
	if err == nil {
		files, err = r.copy.Files()
	}
	if err = mpi.Agree(b.Config.World, err); err != nil {
		return nil, errors.Join(err, mpi.Agree(b.Config.World, r.copy.Cancel()), b.Config.Prefix.GiveUpFlush(r.cached.Dataset))
	}
	return files, r.flush.Finish(prefix.Parts{b.Config.World.Rank(): files}, r.start)
}

// cancel cancels the flush of a dataset that is to be dropped. Files that were copied are deleted.
func (b *Background) cancel(r *running) error {
	b.remove(r)
	err := mpi.Agree(b.Config.World, r.copy.Cancel())
	return errors.Join(err, b.forgetCopy(r.cached), b.Config.Prefix.GiveUpFlush(r.cached.Dataset))
}

func (b *Background) remove(r *running) {
	b.running = slices.DeleteFunc(b.running, func(x *running) bool { return x == r })
}

// forgetCopy removes a dataset whose copy has ended from the transfer file of the node.
func (b *Background) forgetCopy(c *cache.Cached) error {
	if b.kind(c) != mover.ByDaemon {
		return nil
	}
	var err error
	if b.Config.Node.Rank() == 0 {
		err = mover.Forget(b.Config.Cache.ControlDir(), c.ID())
	}
	return mpi.Agree(b.Config.World, err)
}

// find returns the flush of a dataset, nil if there is none. It is not collective.
func (b *Background) find(c *cache.Cached) *running {
	for _, r := range b.running {
		if r.cached == c {
			return r
		}
	}
	return nil
}

// oldest returns the flush that was started first, nil if there is none. It is not collective.
func (b *Background) oldest() *running {
	if len(b.running) == 0 {
		return nil
	}
	return b.running[0]
}

// copied returns of how many flushes, oldest first, the caller's files are copied. It is not collective.
func (b *Background) copied() (n int) {
	for n < len(b.running) && b.running[n].begun && b.running[n].copy.Ended() {
		n++
	}
	return n
}

// names returns the names of the caller's files of a dataset, relative to the prefix directory.
func (b *Background) names(c *cache.Cached) map[string]bool {
	names := map[string]bool{}
	own, _ := redundancy.Split(b.Config.Cache.Files(c.ID()))
	for _, file := range own {
		names[file.Meta.File()] = true
	}
	return names
}

// conflicts returns the flushes of datasets called name, and of datasets that have any of files, which would
// overwrite the newer files of the same names; and those that were started before them.
func (b *Background) conflicts(name string, files map[string]bool) []*running {
	if len(b.running) == 0 {
		return nil
	}
	first := 0 // how many: up to the last conflict, since they finish in order
	for i, r := range b.running {
		conflict := r.cached.Name() == name
		for file := range b.names(r.cached) {
			conflict = conflict || files[file]
		}
		if conflict {
			first = i + 1
		}
	}
	return b.running[:mpi.AllreduceOne(b.Config.World, first, mpi.Max)]
}

// BeginCopies begins the protection and the copies of all flushes that were started. It is called at the end of a
// call of the program, when no rank waits for another any more: before, a copy would use processors that other ranks
// need to finish the collective call. It is not collective.
func (b *Background) BeginCopies() {
	b.Config.Protector.Begin()
	for _, r := range b.running {
		_ = r.begin() // Wait returns the error too
	}
}

// Copying reports whether threads of the process are protecting or copying files. A caller that limits the
// processors of the process must leave some for these threads. It is not collective.
func (b *Background) Copying() bool {
	return b.Config.Protector.Dataset() != nil && !b.Config.Protector.Ended() || slices.ContainsFunc(b.running, b.byThread)
}

// byThread reports whether a thread of the process still copies files of a flush. It is not collective.
func (b *Background) byThread(r *running) bool {
	return b.kind(r.cached) == mover.ByThread && !r.copy.Ended()
}

// Drain waits until all copies of the caller have ended, and ignores their errors. It is for tests, in which a rank
// is killed while its process continues. It is not collective.
func (b *Background) Drain() {
	b.Config.Protector.Close()
	for _, r := range b.running {
		if r.begun { // else the rank was killed before the end of the call that begins it
			_ = r.copy.Wait()
		}
	}
}

// Abandon ends the copies by threads that have not ended, for a session that cannot go on. What is copied entirely
// stays for the next run, and so does what scr_transfer copies. It is not collective.
func (b *Background) Abandon() {
	b.Config.Protector.Close()
	for _, r := range b.running {
		if b.byThread(r) {
			_ = r.copy.Cancel() // the dataset is in the cache all the same
		}
	}
}

// Stop cancels all copies of the caller, after Init has failed. It is not collective.
func (b *Background) Stop() error {
	b.Config.Protector.Abandon()
	var err error
	for _, r := range b.running {
		err = errors.Join(err, r.copy.Cancel())
	}
	return err
}
