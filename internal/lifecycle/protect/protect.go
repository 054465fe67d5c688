// Package protect protects datasets of the cache, while the program waits or while it continues.
//
//	protect.go  decides who waits, and runs protections in the background
//	choose.go   compares what both cost (SCR_ENCODE_ASYNC=AUTO)
//	carrier.go  the communicators over which members of a set protect their files meanwhile
//
// In the background at most one dataset is being protected. Complete records that its files are
// valid, a background.Queue encodes, and a later call records the result (Poll, Wait). Until then
// package flush keeps the newest dataset that is protected.
//
// All methods are collective over the ranks of the job, and their results are agreed, unless
// their comment says otherwise.
package protect

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/lifecycle/background"
	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Config has the parameters of a Protector.
type Config struct {
	World, Node mpi.Comm // all ranks of the job; those on the caller's node
	Cache       *cache.Cache
	Queue       *background.Queue // of the process
	Log         *report.Logger

	Async     bool            // SCR_ENCODE_ASYNC=1 or AUTO: protect while the program continues
	Auto      bool            // SCR_ENCODE_ASYNC=AUTO: if that costs the program less time
	Carrier   Carrier         // SCR_ENCODE_CARRIER
	Interface string          // SCR_NET_INTERFACE
	Limits    transfer.Limits // of the bandwidth and processor time of a node that protection uses

	// Done is called once a dataset is protected that was not when Complete returned. start is
	// when that began.
	Done func(c *cache.Cached, start time.Time) error
	// SizeName returns the parameter that a user can set to make a store hold more datasets.
	SizeName func(store string) string
}

// Protector protects the datasets of a session.
type Protector struct {
	Config
	carriers map[*redundancy.Set]*carrier
	sets     []*redundancy.Set // those of carriers, in the same order on all ranks
	current  *running          // nil if nothing is being protected
	waited   bool              // the program has protected the last one, see Wait
	failures int               // of protections in the background, in a row
	choice   choice            // with Auto
}

// running is a protection in the background.
type running struct {
	protection *cache.Protection
	over       *carrier
	task       *background.Task
	begun      bool
	size       int64        // bytes of the caller
	spent      atomic.Int64 // of them, that the thread has processed
	used       atomic.Int64 // ns of processor time of the thread
	abandoned  atomic.Bool  // the session cannot continue
	start      time.Time
}

// run is the work of the task.
func (r *running) run(pace *transfer.Pace) error {
	before := processorTime()
	defer func() { r.used.Store(int64(processorTime() - before)) }()
	return r.protection.Run(func(bytes int) error {
		r.spent.Add(int64(bytes))
		err := pace.Spent(bytes)
		if r.abandoned.Load() { // others of the set may have nothing to exchange any more
			r.protection.Cancel()
		}
		return err
	})
}

// done returns the part of the work that the thread has done, which ended with err.
func (r *running) done(err error) float64 {
	if err == nil || r.size == 0 {
		return 1
	}
	return min(1, float64(r.spent.Load())/float64(r.size))
}

// New returns a Protector.
func New(c Config) *Protector { return &Protector{Config: c, carriers: map[*redundancy.Set]*carrier{}} }

// Complete makes a dataset usable, as Cache.Complete does, while no other is being protected. wait is whether the program has to wait
// until it is protected, the same on all ranks. Otherwise its protection is started, which begins
// with Begin.
func (p *Protector) Complete(c *cache.Cached, failed error, wait bool) error {
	if p.Auto {
		p.choice.count()
		defer p.choice.end()
	}
	if wait || !p.behind(c) {
		start := time.Now()
		err := p.Cache.Complete(c, failed)
		if err == nil {
			p.choice.waitedFor(time.Since(start))
		}
		return err
	}
	over, err := p.carry(c.Desc.Set)
	if err != nil {
		p.Log.WarnJobOnce("%v; the program waits while datasets are protected", err)
		p.fallBack(c.Desc.Set, err)
		return p.Cache.Complete(c, failed)
	}
	protection, err := p.Cache.CompleteFirst(c, failed, over.comm)
	if err != nil || protection == nil {
		return err
	}
	limits := p.share(protection)
	p.current = &running{protection: protection, over: over, size: protection.Size(), start: time.Now()}
	stop := protection.Cancel
	if over.net == nil { // only its thread may use that communicator: all of the set take part to the end
		stop = nil
	}
	p.current.task = p.Queue.AddUrgent(limits, p.current.run, stop)
	return nil
}

// behind reports whether a dataset is protected while the program continues. It is collective with Auto, and the same on
// all ranks.
func (p *Protector) behind(c *cache.Cached) bool {
	if !p.Async {
		return false
	}
	if room := c.Store().Count; room <= 1 {
		p.Log.WarnJobOnce("%s=%d: the program waits while a dataset is protected, in spite of %s, since the one before has to leave first; "+
			"2 lets it continue", p.SizeName(c.Store().Name), room, p.asked())
		return false
	}
	return !p.Auto || p.choice.background(p.World, p.Node.Size(), p.Log)
}

// asked returns what the user has set.
func (p *Protector) asked() string {
	if p.Auto {
		return "SCR_ENCODE_ASYNC=AUTO"
	}
	return "SCR_ENCODE_ASYNC=1"
}

// share returns the caller's share of the limits of its node, in proportion to its bytes.
func (p *Protector) share(protection *cache.Protection) transfer.Limits {
	return p.Limits.Share(p.Node, protection.Size())
}

// Dataset returns the dataset that is being protected, nil if there is none. It is not collective,
// but the same on all ranks.
func (p *Protector) Dataset() *cache.Cached {
	if p.current == nil {
		return nil
	}
	return p.current.protection.Cached()
}

// Describe returns a function that records checksums in the descriptions of files of a dataset once
// it is protected, nil if it is not being protected. Any goroutine may call that function. It is not
// collective.
func (p *Protector) Describe(c *cache.Cached) func([]redundancy.File) {
	if p.Dataset() != c || c == nil {
		return nil
	}
	return p.current.protection.Describe
}

// Begin begins the protection that Complete has started. It is called at the end of a call of the
// program. It is not collective.
func (p *Protector) Begin() {
	if p.current != nil && !p.current.begun {
		p.current.begun = true
		p.current.task.Begin()
	}
}

// Ended reports whether the caller has nothing to do any more for a dataset that is being
// protected. It is not collective.
func (p *Protector) Ended() bool { return p.current != nil && p.current.task.Ended() }

// Share is the part of a protection that a thread has to have done for a call that waits to leave the rest to it. Else the
// call begins again, with the priority and over the MPI of the program, which takes a third of the time
// (docs/decisions/taking-over.md). Tests change it.
var Share = 0.5

// takeOver ends the thread of a protection if the program, which waits, protects the dataset sooner itself.
func (p *Protector) takeOver(r *running) (taken bool) {
	if r.over.net == nil { // on all ranks (carry): over MPI threads take part to the end
		return false
	}
	for range 2 { // when all ranks wait: a thread may have ended while its rank waited for others
		behind := !r.task.Ended() && float64(r.spent.Load()) < Share*float64(r.size)
		if !mpi.Any(p.World, behind) {
			return false
		}
	}
	r.task.Cancel()
	return true
}

// Wait waits until no dataset is being protected, and records the result. If the thread has done little yet, or members of a set
// could not protect their files, the caller protects the dataset; if that fails, too, Wait
// warns. It returns only the error of Done.
func (p *Protector) Wait() error {
	r := p.current
	if r == nil {
		return nil
	}
	if p.Auto && !r.task.Ended() {
		p.choice.count()
	}
	start := time.Now()
	taken := p.takeOver(r)
	if !taken {
		p.Begin()
	}
	err := r.task.Wait()
	used, done := time.Duration(r.used.Load()), r.done(err)
	p.current = nil
	c := r.protection.Cached()
	err = p.Cache.EndProtection(r.protection, err)
	if taken || err != nil { // takeOver has revoked the communicator, also if all threads had ended by then
		r.over.renew()
	}
	var agreed *mpi.AgreedError
	p.waited = err != nil
	if taken && err != nil {
		err = p.Cache.Protect(c)
	} else if errors.As(err, &agreed) {
		if agreed.Err != nil { // only the rank with the error
			p.Log.Warn("dataset %d (%s): it cannot be protected while the program continues: %v; it is protected while the program waits", c.ID(), c.Name(), agreed.Err)
		}
		p.fallBack(c.Desc.Set, agreed)
		err = p.Cache.Protect(c)
	} else {
		p.failures = 0
	}
	p.choice.ended(used, time.Since(start), done, r.over.net != nil)
	if err != nil {
		p.Log.WarnJob("dataset %d (%s) is not protected: %v; it is used, but a lost node would lose it", c.ID(), c.Name(), err)
		return nil
	}
	return p.Done(c, r.start)
}

// fallBack counts a failure of a protection in the background, unless a rank had no room. After two in a row
// we assume that the network is at fault, and each further one could cost a minute: so they go over the program's MPI if
// several of its threads may call it, else the program waits for them.
func (p *Protector) fallBack(set *redundancy.Set, failed error) {
	const most = 2
	if mpi.Any(p.World, errors.Is(failed, unix.ENOSPC) || errors.Is(failed, unix.EDQUOT)) {
		return
	}
	if p.failures++; p.failures < most || !p.Async {
		return
	}
	p.failures = 0
	over := mpi.All(p.World, concurrent(set) != nil)
	const twice = "%s: two datasets in a row could not be protected in the background (the last error: %v). Until the next SCR_Init "
	const remedy = "; if goscr has chosen the wrong network, SCR_NET_INTERFACE names another"
	if p.Carrier == Sockets && over {
		for _, set := range slices.Clone(p.sets) {
			p.drop(set)
		}
		p.Carrier = MPI
		p.Log.WarnJob(twice+"goscr sends their data over the program's MPI"+remedy, p.asked(), failed)
		return
	}
	p.Async = false
	p.Log.WarnJob(twice+"the program waits while datasets are protected"+remedy, p.asked(), failed)
}

// Cancel ends the protection of a dataset that is to be deleted, if it is being protected.
func (p *Protector) Cancel(c *cache.Cached) {
	if p.Dataset() == c && c != nil {
		p.Abandon()
		p.Cache.Happened(c, life.ProtectionFailed)
	}
}

// Abandon ends the protection in the background, if there is one, for a session that cannot continue.
// It is not collective.
func (p *Protector) Abandon() {
	if p.current != nil {
		p.current.task.Cancel()
		p.current.over.renew()
		p.current = nil
	}
}

// Sever ends the connections of the caller, for tests. It is not collective.
func (p *Protector) Sever() {
	for _, x := range p.carriers {
		x.close()
	}
}

// Close ends connections to other ranks. Nothing is being protected any more, or the session
// cannot continue. It is not collective.
func (p *Protector) Close() {
	// A thread of another rank may wait for this one in MPI. Where this rank has a thread that uses the
	// communicator, that revokes it.
	for _, x := range p.carriers {
		switch r := p.current; {
		case x.net != nil || x.comm == nil:
		case r != nil && r.over == x && r.begun:
			r.abandoned.Store(true)
		default:
			x.comm.Revoke("the session has ended")
		}
	}
	for _, set := range slices.Clone(p.sets) {
		p.drop(set)
	}
	p.Abandon()
}
