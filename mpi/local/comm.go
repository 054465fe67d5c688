package local

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"github.com/goscr/goscr/internal/mpi/collective"
	"github.com/goscr/goscr/mpi"
)

// comm is one rank's view of a communicator.
type comm struct {
	*world
	context *context
	members []int // ranks in the job, by rank in this communicator
	rank    int
	entered int // Ibarriers this rank has entered
}

// Concurrent returns c: goroutines of a rank may use different communicators at the same time.
func (c *comm) Concurrent() mpi.Comm { return c }

func (c *comm) Rank() int { return c.rank }
func (c *comm) Size() int { return len(c.members) }

func (c *comm) box(rank int) *mailbox { return &c.boxes[c.members[rank]] }

// Collective operations send messages in a space of their own, with a negative
// context id.
func (c *comm) space(collective bool) int {
	if collective {
		return -1 - c.context.id
	}
	return c.context.id
}

func (c *comm) start(buf []byte, dst, tag int, collective bool) *message {
	mpi.CheckTarget(len(c.members), dst, tag)
	c.alive()
	c.count(c.members[c.rank], 1, int64(len(buf)))
	m := &message{context: c.space(collective), src: c.rank, tag: tag, data: buf, box: c.box(dst)}
	m.box.mu.Lock()
	if !c.over() {
		m.box.sent.Received++
		m.box.deliver(m)
	}
	m.box.mu.Unlock()
	c.alive()
	return m
}

func (c *comm) post(buf []byte, src, tag int, collective bool) *receive {
	mpi.CheckSource(len(c.members), src, tag)
	r := &receive{context: c.space(collective), src: src, tag: tag, buf: buf}
	box := c.box(c.rank)
	box.mu.Lock()
	if !c.over() {
		box.post(r)
	}
	box.mu.Unlock()
	c.alive()
	return r
}

// wait waits for a condition that is guarded by the mutex of cond, which is locked.
func (c *comm) wait(cond *sync.Cond, done func() bool) {
	own := &c.boxes[c.members[c.rank]]
	for !done() && !c.over() {
		own.waits.Store(true)
		cond.Wait()
		own.waits.Store(false)
	}
	c.progress.Add(1)
}

// polled counts that the rank looks whether something has happened.
func (c *comm) polled() {
	c.alive()
	c.boxes[c.members[c.rank]].polls.Add(1)
}

// until waits on a mailbox for a condition that is guarded by its mutex.
func (c *comm) until(box *mailbox, done func() bool) {
	box.mu.Lock()
	c.wait(&box.cond, done)
	box.mu.Unlock()
	c.alive()
}

func (c *comm) send(buf []byte, dst, tag int, collective bool) {
	m := c.start(buf, dst, tag, collective)
	c.until(m.box, func() bool { return m.taken })
}

func (c *comm) recv(buf []byte, src, tag int, collective bool) mpi.Status {
	return recvRequest{c, c.post(buf, src, tag, collective)}.Wait()
}

func (c *comm) Send(buf []byte, dst, tag int) { c.send(buf, dst, tag, false) }

func (c *comm) Recv(buf []byte, src, tag int) mpi.Status {
	return c.recv(buf, src, tag, false)
}

func (c *comm) Sendrecv(send []byte, dst, sendtag int, recv []byte, src, recvtag int) mpi.Status {
	mpi.CheckSource(len(c.members), src, recvtag)
	m := c.start(send, dst, sendtag, false)
	r := c.post(recv, src, recvtag, false)
	c.until(c.box(c.rank), func() bool { return r.done })
	c.until(m.box, func() bool { return m.taken })
	return r.result()
}

type sendRequest struct {
	c *comm
	m *message
}

func (r sendRequest) Wait() mpi.Status {
	r.c.until(r.m.box, func() bool { return r.m.taken })
	return mpi.Status{}
}

func (r sendRequest) Test() (mpi.Status, bool) {
	r.c.polled()
	r.m.box.mu.Lock()
	taken := r.m.taken
	r.m.box.mu.Unlock()
	if !taken {
		runtime.Gosched()
	}
	return mpi.Status{}, taken
}

type recvRequest struct {
	c *comm
	r *receive
}

func (r recvRequest) Wait() mpi.Status {
	r.c.until(r.c.box(r.c.rank), func() bool { return r.r.done })
	return r.r.result()
}

func (r recvRequest) Test() (mpi.Status, bool) {
	r.c.polled()
	box := r.c.box(r.c.rank)
	box.mu.Lock()
	done := r.r.done
	box.mu.Unlock()
	if !done {
		runtime.Gosched()
		return mpi.Status{}, false
	}
	return r.r.result(), true
}

func (c *comm) Isend(buf []byte, dst, tag int) mpi.Request {
	m := c.start(buf, dst, tag, false)
	return sendRequest{c, m}
}

// Issend is Isend: here every send is synchronous.
func (c *comm) Issend(buf []byte, dst, tag int) mpi.Request { return c.Isend(buf, dst, tag) }

func (c *comm) Irecv(buf []byte, src, tag int) mpi.Request {
	r := c.post(buf, src, tag, false)
	return recvRequest{c, r}
}

func (c *comm) find(src, tag int) (mpi.Status, bool) {
	for _, m := range c.box(c.rank).unexpected {
		if m.matches(c.space(false), src, tag) {
			return mpi.Status{Source: m.src, Tag: m.tag, Count: len(m.data)}, true
		}
	}
	return mpi.Status{}, false
}

func (c *comm) Probe(src, tag int) (status mpi.Status) {
	mpi.CheckSource(len(c.members), src, tag)
	c.until(c.box(c.rank), func() (found bool) {
		status, found = c.find(src, tag)
		return found
	})
	return status
}

func (c *comm) Iprobe(src, tag int) (mpi.Status, bool) {
	mpi.CheckSource(len(c.members), src, tag)
	c.polled()
	box := c.box(c.rank)
	box.mu.Lock()
	status, found := c.find(src, tag)
	box.mu.Unlock()
	if !found {
		runtime.Gosched()
	}
	return status, found
}

// Barrier is a dissemination barrier: log P rounds.
func (c *comm) Barrier() {
	c.alive()
	n := len(c.members)
	for step := 1; step < n; step *= 2 {
		m := c.start(nil, (c.rank+step)%n, 0, true)
		c.recv(nil, (c.rank-step+n)%n, 0, true)
		c.until(m.box, func() bool { return m.taken })
	}
}

type barrierRequest struct {
	c     *comm
	round int
}

func (c *comm) Ibarrier() mpi.Request {
	c.alive()
	c.count(c.members[c.rank], int64(bits.Len(uint(len(c.members)-1))), 0)
	round := c.entered
	c.entered++
	x := c.context
	x.mu.Lock()
	x.enter(round)
	x.mu.Unlock()
	return barrierRequest{c, round}
}

func (r barrierRequest) Wait() mpi.Status {
	r.c.meet(func() bool { return r.c.context.passed > r.round })
	return mpi.Status{}
}

func (r barrierRequest) Test() (mpi.Status, bool) {
	r.c.polled()
	x := r.c.context
	x.mu.Lock()
	done := x.passed > r.round
	x.mu.Unlock()
	if !done {
		runtime.Gosched()
	}
	return mpi.Status{}, done
}

// meet waits for a condition that is guarded by the context's mutex.
func (c *comm) meet(done func() bool) {
	x := c.context
	x.mu.Lock()
	c.wait(&x.cond, done)
	x.mu.Unlock()
	c.alive()
}

// messages sends the messages of collective operations.
type messages struct{ *comm }

func (m messages) Send(buf []byte, dst int) { m.send(buf, dst, 0, true) }

func (m messages) Recv(buf []byte, src int) { m.recv(buf, src, 0, true) }

func (m messages) Start(buf []byte, dst int) (wait func()) {
	sent := m.start(buf, dst, 0, true)
	return func() { m.until(sent.box, func() bool { return sent.taken }) }
}

func (c *comm) Bcast(buf []byte, root int) {
	c.alive()
	collective.Bcast(messages{c}, buf, root)
}

func (c *comm) Allreduce(values []int64, op mpi.Op) {
	c.alive()
	collective.Allreduce(messages{c}, values, op)
}

func (c *comm) Exscan(values []int64, op mpi.Op) {
	c.alive()
	collective.Exscan(messages{c}, values, op)
}

func (c *comm) Gather(send, recv []byte, root int) {
	c.alive()
	collective.Gather(messages{c}, send, recv, root)
}

func (c *comm) Split(color, key int) mpi.Comm {
	mpi.CheckColor(color)
	c.alive()
	c.count(c.members[c.rank], int64(bits.Len(uint(len(c.members)-1))), 0)
	x := c.context
	x.mu.Lock()
	x.wants[c.rank] = want{color, key}
	x.joined++
	round := (x.joined - 1) / x.size
	if x.joined == (round+1)*x.size {
		x.groups = c.divide(x.wants)
		x.cond.Broadcast()
	}
	x.mu.Unlock()
	c.meet(func() bool { return x.joined >= (round+1)*x.size })
	x.mu.Lock()
	g := x.groups[c.rank]
	x.mu.Unlock()
	// No rank may start the next split before all have read this one's result.
	c.Barrier()
	if g.context == nil {
		return nil
	}
	return &comm{world: c.world, context: g.context, members: g.members, rank: g.rank}
}

// divide makes the groups of a split.
func (c *comm) divide(wants []want) []group {
	order := make([]int, len(wants))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if d := wants[a].color - wants[b].color; d != 0 {
			return d
		}
		return wants[a].key - wants[b].key
	})
	groups := make([]group, len(wants))
	for lo := 0; lo < len(order); {
		hi := lo
		for hi < len(order) && wants[order[hi]].color == wants[order[lo]].color {
			hi++
		}
		if wants[order[lo]].color != mpi.Undefined {
			x := c.world.context(hi-lo, c.context.family)
			members := make([]int, hi-lo)
			for i, r := range order[lo:hi] {
				members[i] = c.members[r]
				groups[r] = group{x, members, i}
			}
		}
		lo = hi
	}
	return groups
}

func (c *comm) Free() {
	c.Barrier()
	c.mu.Lock()
	delete(c.contexts, c.context.id)
	c.mu.Unlock()
}
