// Package local runs the ranks of an MPI job as goroutines of one process.
//
// It is for tests, which need no launcher, can run a protocol at 16,384
// ranks, count its messages and kill the job between any two of them; and it
// is stricter than MPI has to be: a send is done only when the receiver has
// taken the message, so a protocol that would deadlock under some MPI does so
// here, and a buffer that is reused too early shows up under the race
// detector.
package local

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goscr/goscr/mpi"
)

// ErrKilled is returned by Run when KillAt ended the job.
var ErrKilled = errors.New("job killed")

// ErrDeadlock is wrapped by the error of a job all of whose ranks wait for each other.
var ErrDeadlock = errors.New("no rank has got further")

// Options say how Run runs a job. The zero value is an undisturbed job.
type Options struct {
	// KillAt, if > 0, kills the whole job in place of its KillAt-th message
	// (counting from 1, over all ranks): no rank's call of MPI returns after
	// that, as when a launcher kills a job that has lost a process.
	KillAt int64
	// Watch, if not nil, is called by a rank before each of its messages.
	Watch func(rank int)
	// Timeout is how long all ranks that have not returned wait in MPI, and none of
	// them gets further, before the job is taken to be deadlocked; 0 is a minute. However
	// long a rank takes for other work, the job is not.
	Timeout time.Duration
}

// Stats is what one rank sent, collective operations included, and how many messages it was
// sent, without those of Split and Ibarrier, which are not sent one by one.
type Stats struct {
	Messages int64
	Bytes    int64
	Received int64
}

// Run calls f on n ranks and returns what each sent and the first error that
// one of them returned, or with which one of its operations failed; ErrKilled if
// the job was killed, or an error that names the ranks which wait for each other.
func Run(n int, opt Options, f func(c mpi.Comm) error) ([]Stats, error) {
	w := &world{boxes: make([]mailbox, n), killAt: opt.KillAt, watch: opt.Watch, contexts: map[int]*context{}}
	members := make([]int, n)
	for i := range members {
		members[i] = i
		w.boxes[i].cond.L = &w.boxes[i].mu
	}
	first := w.context(n, nil)

	errs := make([]error, n)
	done := make([]atomic.Bool, n)
	var wg sync.WaitGroup
	wg.Add(n)
	for r := range n {
		go func() {
			defer wg.Done()
			defer w.progress.Add(1)
			defer done[r].Store(true)
			errs[r] = mpi.Try(func() error { return f(&comm{world: w, context: first, members: members, rank: r}) })
		}()
	}
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	if opt.Timeout == 0 {
		opt.Timeout = time.Minute
	}
	if w.deadlocked(finished, done, opt.Timeout) {
		var stuck []int
		var cause error // why a rank left the others waiting, if one did
		for r := range done {
			if !done[r].Load() {
				stuck = append(stuck, r)
			} else if errs[r] != nil && cause == nil {
				cause = fmt.Errorf("; rank %d: %w", r, errs[r])
			}
		}
		w.kill()
		err := fmt.Errorf("%w for %v; ranks still waiting: %v", ErrDeadlock, opt.Timeout, stuck)
		if cause != nil {
			err = fmt.Errorf("%w%w", err, cause)
		}
		return nil, err
	}
	stats := make([]Stats, n)
	for r := range stats {
		stats[r] = w.boxes[r].sent
	}
	if w.killed.Load() {
		return stats, ErrKilled
	}
	for r, err := range errs {
		if err != nil {
			return stats, fmt.Errorf("rank %d: %w", r, err)
		}
	}
	return stats, nil
}

// deadlocked returns true when, for a time, all ranks that have not returned wait in MPI,
// and none of them gets further; false once all have returned.
func (w *world) deadlocked(finished <-chan struct{}, done []atomic.Bool, limit time.Duration) bool {
	// Not one look at the end of the limit, but some in between: on a loaded machine this
	// process may have stood still. After each look all ranks that can continue do so.
	const looks = 20
	tick := time.NewTicker(max(limit/looks, time.Millisecond))
	defer tick.Stop()
	progress, polls := int64(-1), make([]int64, len(done))
	for same := 0; ; {
		select {
		case <-finished:
			return false
		case <-tick.C:
		}
		same++
		if now := w.progress.Load(); now != progress {
			progress, same = now, 0
		}
		for r := range done {
			n := w.boxes[r].polls.Load()
			if !done[r].Load() && !w.boxes[r].waits.Load() && n == polls[r] { // it works
				same = 0
			}
			polls[r] = n
		}
		if same >= looks {
			return true
		}
	}
}

// world is what all ranks of a job share.
type world struct {
	boxes    []mailbox // by rank in the job
	messages atomic.Int64
	progress atomic.Int64 // grows when a rank sends a message, has waited, or returns
	killAt   int64
	watch    func(rank int)
	killed   atomic.Bool
	once     sync.Once // of kill

	mu       sync.Mutex
	contexts map[int]*context
	next     int
}

// kill wakes every rank that waits; each ends at its next step. When it
// returns, no message is being copied or will be: the ranks that now end may
// release the memory of messages that others were sending or receiving.
func (w *world) kill() {
	w.once.Do(func() {
		w.killed.Store(true)
		w.wake()
	})
}

// Kill kills the job of a communicator, which Run has made, at once, as KillAt does: for
// a rank that is to die between two of its messages. It does not return.
func Kill(c mpi.Comm) {
	c.(*comm).kill()
	runtime.Goexit()
}

// wake wakes every rank that waits, so that it looks whether it should continue. When it
// returns, no rank copies a message that had begun before.
func (w *world) wake() {
	for i := range w.boxes {
		w.boxes[i].mu.Lock()
		w.boxes[i].cond.Broadcast()
		w.boxes[i].mu.Unlock()
	}
	// Not one mutex inside the other: Split makes contexts while it holds
	// the mutex of one.
	w.mu.Lock()
	contexts := slices.Collect(maps.Values(w.contexts))
	w.mu.Unlock()
	for _, x := range contexts {
		x.mu.Lock()
		x.cond.Broadcast()
		x.mu.Unlock()
	}
}

// alive ends the calling rank if the job has been killed.
func (w *world) alive() {
	if w.killed.Load() {
		w.kill() // waits for the rank that does it
		runtime.Goexit()
	}
}

// count counts messages about to be sent, and kills the job at the KillAt-th.
func (w *world) count(rank int, messages, bytes int64) {
	w.alive()
	w.progress.Add(1)
	if w.watch != nil {
		w.watch(rank)
	}
	if n := w.messages.Add(messages); w.killAt > 0 && n >= w.killAt {
		w.kill()
		runtime.Goexit()
	}
	box := &w.boxes[rank]
	box.mu.Lock()
	box.sent.Messages += messages
	box.sent.Bytes += bytes
	box.mu.Unlock()
}

// context is the message space of one communicator, with the state of its
// Ibarriers and Splits.
type context struct {
	id     int
	size   int
	family *family // nil: it cannot be revoked

	mu      sync.Mutex
	cond    sync.Cond
	passed  int   // Ibarriers that all ranks have entered
	waiting []int // how many ranks have entered each of those after them
	joined  int
	wants   []want
	groups  []group // by rank: what the last Split gave
}

// enter records that one more rank is in the round-th Ibarrier. A rank may be
// in several at once.
func (x *context) enter(round int) {
	for x.passed+len(x.waiting) <= round {
		x.waiting = append(x.waiting, 0)
	}
	x.waiting[round-x.passed]++
	if x.waiting[0] == x.size {
		x.waiting = x.waiting[1:]
		x.passed++
		x.cond.Broadcast()
	}
}

type want struct{ color, key int }

type group struct {
	context *context
	members []int // ranks in the context that was split
	rank    int
}

func (w *world) context(size int, f *family) *context {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := &context{id: w.next, size: size, family: f, wants: make([]want, size)}
	x.cond.L = &x.mu
	w.next++
	w.contexts[x.id] = x
	return x
}

// mailbox holds the messages sent to a rank and the receives that wait for some.
type mailbox struct {
	mu         sync.Mutex
	cond       sync.Cond
	unexpected []*message
	posted     []*receive
	sent       Stats

	waits atomic.Bool  // the rank waits in MPI
	polls atomic.Int64 // how often it has looked in MPI whether something has happened
}

// deliver gives a message to the first receive that waits for it, or keeps it.
func (b *mailbox) deliver(m *message) {
	for i, r := range b.posted {
		if m.matches(r.context, r.src, r.tag) {
			r.take(m)
			b.posted = slices.Delete(b.posted, i, i+1)
			b.cond.Broadcast()
			return
		}
	}
	b.unexpected = append(b.unexpected, m)
	b.cond.Broadcast()
}

// post gives a receive the first message that fits it, or keeps it.
func (b *mailbox) post(r *receive) {
	for i, m := range b.unexpected {
		if m.matches(r.context, r.src, r.tag) {
			r.take(m)
			b.unexpected = slices.Delete(b.unexpected, i, i+1)
			b.cond.Broadcast()
			return
		}
	}
	b.posted = append(b.posted, r)
}

type message struct {
	context, src, tag int
	data              []byte
	taken             bool     // guarded by the mutex of the receiver's box
	box               *mailbox // the receiver's
}

type receive struct {
	context, src, tag int
	buf               []byte
	done              bool
	status            mpi.Status
}

func (m *message) matches(context, src, tag int) bool {
	return m.context == context && m.tag == tag && (src == mpi.AnySource || src == m.src)
}

// take moves a message into the buffer of a receive that matches it.
func (r *receive) take(m *message) {
	r.status = mpi.Status{Source: m.src, Tag: m.tag, Count: len(m.data)}
	copy(r.buf, m.data)
	r.done, m.taken = true, true
}

// result returns the status of a receive that is done.
func (r *receive) result() mpi.Status {
	if s := r.status; s.Count > len(r.buf) {
		panic(&mpi.OpError{Op: "receive", Err: fmt.Errorf("%w: %d bytes from rank %d with tag %d, room for %d",
			mpi.ErrTruncated, s.Count, s.Source, s.Tag, len(r.buf))})
	}
	return r.status
}

// One returns the communicator of a single process, for commands that make
// collective calls without an MPI job.
func One() mpi.Comm {
	w := &world{boxes: make([]mailbox, 1), contexts: map[int]*context{}}
	w.boxes[0].cond.L = &w.boxes[0].mu
	return &comm{world: w, context: w.context(1, nil), members: []int{0}}
}
