package sockets

import (
	"cmp"
	"encoding/binary"
	"runtime"
	"slices"

	"github.com/goscr/goscr/internal/mpi/buffer"
	"github.com/goscr/goscr/internal/mpi/collective"
	"github.com/goscr/goscr/mpi"
)

// comm is a communicator.
type comm struct {
	net      *network
	context  *context
	rank     int
	barriers uint32 // that this rank has entered
	anyone   bool   // this rank is connected to all, or will be
}

func (c *comm) Rank() int { return c.rank }
func (c *comm) Size() int { return len(c.context.members) }

// ForgetsBuffers implements buffer.Forgetter: see input.abandon, output.abandon and link.ready.
func (c *comm) ForgetsBuffers() bool {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	return c.net.failed != nil || c.context.family.over() != nil
}

var _ buffer.Forgetter = revocable{}

// check panics if an operation has failed.
func check(op string, err error) {
	if err != nil {
		panic(&mpi.OpError{Op: op, Err: err})
	}
}

// alive panics if the communicator is revoked. The mutex is locked.
func (c *comm) alive() {
	if why := c.context.family.over(); why != nil {
		panic(why)
	}
}

// do runs f, which begins an operation, with the mutex locked.
func (c *comm) do(op string, f func()) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.alive()
	if c.net.failed == nil {
		f()
	}
	check(op, c.net.failed)
}

// await waits for a condition that the mutex guards.
func (c *comm) await(op string, done func() bool) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	check(op, c.net.until(func() bool {
		c.alive()
		return done()
	}))
}

// test returns whether a condition holds that the mutex guards.
func (c *comm) test(op string, done func() bool) bool {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.alive()
	if done() {
		return true
	}
	check(op, c.net.failed)
	return false
}

func (c *comm) start(buf []byte, dst, tag int, purpose uint64, sync bool) *send {
	mpi.CheckTarget(c.Size(), dst, tag)
	s := &send{key: key(c.context.id, purpose), buf: buf, family: c.context.family}
	c.do("send", func() { c.net.send(s, c.context.members[dst], uint32(tag), sync) })
	return s
}

// from prepares to wait for messages from src. The mutex is locked.
func (c *comm) from(src, tag int, purpose uint64) *receive {
	r := &receive{key: key(c.context.id, purpose), from: src, tag: uint32(tag)}
	if src != mpi.AnySource {
		r.from = c.context.members[src]
		c.connect(r.from)
		return r
	}
	if !c.anyone { // any of them could die
		c.anyone = true
		for _, member := range c.context.members {
			c.connect(member)
		}
	}
	return r
}

func (c *comm) connect(member int) {
	if member != c.net.me {
		c.net.peers[member].connect()
	}
}

func (c *comm) post(buf []byte, src, tag int, purpose uint64) (r *receive) {
	mpi.CheckSource(c.Size(), src, tag)
	c.do("receive", func() {
		r = c.from(src, tag, purpose)
		r.buf = buf
		c.net.post(r)
	})
	return r
}

func (c *comm) status(r *receive) mpi.Status {
	return mpi.Status{Source: c.context.ranks[r.source], Tag: int(r.tag), Count: r.size}
}

func (c *comm) send(buf []byte, dst, tag int, purpose uint64) {
	s := c.start(buf, dst, tag, purpose, false)
	c.await("send", func() bool { return s.done })
}

func (c *comm) recv(buf []byte, src, tag int, purpose uint64) mpi.Status {
	return recvRequest{c, c.post(buf, src, tag, purpose)}.Wait()
}

func (c *comm) Send(buf []byte, dst, tag int) { c.send(buf, dst, tag, forUser) }

func (c *comm) Recv(buf []byte, src, tag int) mpi.Status {
	return c.recv(buf, src, tag, forUser)
}

func (c *comm) Sendrecv(send []byte, dst, sendtag int, recv []byte, src, recvtag int) mpi.Status {
	mpi.CheckTarget(c.Size(), dst, sendtag)
	r := c.post(recv, src, recvtag, forUser)
	c.send(send, dst, sendtag, forUser)
	return recvRequest{c, r}.Wait()
}

type sendRequest struct {
	c *comm
	s *send
}

func (r sendRequest) Wait() mpi.Status {
	r.c.await("send", func() bool { return r.s.done })
	return mpi.Status{}
}

func (r sendRequest) Test() (mpi.Status, bool) {
	done := r.c.test("send", func() bool { return r.s.done })
	if !done {
		runtime.Gosched()
	}
	return mpi.Status{}, done
}

type recvRequest struct {
	c *comm
	r *receive
}

func (r recvRequest) Wait() mpi.Status {
	r.c.await("receive", func() bool { return r.r.done })
	check("receive", r.r.err())
	return r.c.status(r.r)
}

func (r recvRequest) Test() (mpi.Status, bool) {
	done := r.c.test("receive", func() bool { return r.r.done })
	if !done {
		runtime.Gosched()
		return mpi.Status{}, false
	}
	check("receive", r.r.err())
	return r.c.status(r.r), true
}

func (c *comm) Isend(buf []byte, dst, tag int) mpi.Request {
	return sendRequest{c, c.start(buf, dst, tag, forUser, false)}
}

func (c *comm) Issend(buf []byte, dst, tag int) mpi.Request {
	return sendRequest{c, c.start(buf, dst, tag, forUser, true)}
}

func (c *comm) Irecv(buf []byte, src, tag int) mpi.Request {
	return recvRequest{c, c.post(buf, src, tag, forUser)}
}

// probe returns what waits for a message and keeps it: a function that reports whether there
// is one, and a receive that describes it then.
func (c *comm) probe(src, tag int) (r *receive, found func() bool) {
	mpi.CheckSource(c.Size(), src, tag)
	c.do("probe", func() { r = c.from(src, tag, forUser) })
	return r, func() bool {
		m := c.net.box.find(r)
		if m != nil {
			r.take(m)
		}
		return m != nil
	}
}

func (c *comm) Probe(src, tag int) mpi.Status {
	r, found := c.probe(src, tag)
	c.await("probe", found)
	return c.status(r)
}

func (c *comm) Iprobe(src, tag int) (mpi.Status, bool) {
	r, found := c.probe(src, tag)
	if !c.test("probe", found) {
		runtime.Gosched()
		return mpi.Status{}, false
	}
	return c.status(r), true
}

func (c *comm) Barrier() { c.Ibarrier().Wait() }

// barrier is a dissemination barrier: log P rounds.
type barrier struct {
	c      *comm
	number uint32
	round  int
	done   bool
}

func (c *comm) Ibarrier() mpi.Request {
	b := &barrier{c: c, number: c.barriers}
	c.barriers++
	c.do("barrier", b.next)
	return b
}

// next does the rounds for which the messages are there. The mutex is locked.
func (b *barrier) next() {
	c, n := b.c, b.c.Size()
	step := 1 << b.round
	if step >= n {
		b.done = true
		c.net.cond.Broadcast()
		return
	}
	// Barriers and their rounds have tags of their own. There are no more than 32 rounds.
	tag := b.number<<5 | uint32(b.round)
	b.round++
	s := &send{key: key(c.context.id, forBarrier), family: c.context.family}
	c.net.send(s, c.context.members[(c.rank+step)%n], tag, false)
	if c.net.failed != nil {
		return
	}
	r := c.from((c.rank-step+n)%n, 0, forBarrier)
	r.tag, r.then = tag, b.next
	c.net.post(r)
}

func (b *barrier) Wait() mpi.Status {
	b.c.await("barrier", func() bool { return b.done })
	return mpi.Status{}
}

func (b *barrier) Test() (mpi.Status, bool) {
	done := b.c.test("barrier", func() bool { return b.done })
	if !done {
		runtime.Gosched()
	}
	return mpi.Status{}, done
}

// messages sends the messages of collective operations.
type messages struct{ *comm }

func (m messages) Send(buf []byte, dst int) { m.send(buf, dst, 0, forCollective) }

func (m messages) Recv(buf []byte, src int) { m.recv(buf, src, 0, forCollective) }

func (m messages) Start(buf []byte, dst int) (wait func()) {
	s := m.start(buf, dst, 0, forCollective, false)
	return func() { m.await("send", func() bool { return s.done }) }
}

// ready lets operations fail that may have nothing to send or receive.
func (c *comm) ready(op string) { c.do(op, func() {}) }

func (c *comm) Bcast(buf []byte, root int) {
	c.ready("bcast")
	collective.Bcast(messages{c}, buf, root)
}

func (c *comm) Allreduce(values []int64, op mpi.Op) {
	c.ready("allreduce")
	collective.Allreduce(messages{c}, values, op)
}

func (c *comm) Exscan(values []int64, op mpi.Op) {
	c.ready("exscan")
	collective.Exscan(messages{c}, values, op)
}

func (c *comm) Gather(send, recv []byte, root int) {
	c.ready("gather")
	collective.Gather(messages{c}, send, recv, root)
}

func (c *comm) Split(color, key int) mpi.Comm {
	mpi.CheckColor(color)
	if part := c.split(color, key, false); part != nil {
		return part
	}
	return nil
}

// split makes the communicator of all ranks of one color, nil for mpi.Undefined. It may be
// one that can be revoked.
func (c *comm) split(color, key int, revocable bool) *comm {
	const numbers = 3 // of each rank: color, key, and the lowest id of a new communicator
	n := c.Size()
	var own [8 * numbers]byte
	c.net.mu.Lock()
	next := c.net.box.next
	c.net.mu.Unlock()
	for i, v := range []uint64{uint64(color), uint64(key), next} {
		binary.LittleEndian.PutUint64(own[8*i:], v)
	}
	all := make([]byte, n*len(own))
	c.Gather(own[:], all, 0)
	c.Bcast(all, 0)
	of := func(rank, i int) uint64 { return binary.LittleEndian.Uint64(all[rank*len(own)+8*i:]) }
	var ranks []int // of this rank's color
	for rank := range n {
		if next = max(next, of(rank, 2)); int(of(rank, 0)) == color {
			ranks = append(ranks, rank)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(int64(of(a, 1)), int64(of(b, 1))) })
	place := slices.Index(ranks, c.rank)
	members := make([]int, len(ranks))
	for i, rank := range ranks {
		members[i] = c.context.members[rank]
	}
	var part *comm
	c.do("split", func() {
		c.net.box.next = max(c.net.box.next, next+1)
		if color == mpi.Undefined {
			return
		}
		x := newContext(next, members, c.context.family)
		if revocable {
			x.family = &family{root: x, parent: c.context.family}
		}
		c.net.box.enter(x)
		part = &comm{net: c.net, context: x, rank: place}
	})
	return part
}

func (c *comm) Free() {
	c.Barrier()
	c.do("free", c.forget)
}

// forget drops the communicator. The mutex is locked.
func (c *comm) forget() {
	delete(c.net.box.contexts, c.context.id)
	c.net.clean()
}

// revocable is a communicator that can be revoked.
type revocable struct{ *comm }

// Forget drops a communicator that c.Revocable has made, and what nobody has received of it, also if it is revoked. It is not
// collective, but no rank may use the communicator any more: nobody would tell it of the revocation.
func (c *Comm) Forget(old mpi.Revocable) {
	r := old.(revocable)
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	r.forget()
}

func (c *comm) Revocable() mpi.Revocable {
	own := c.split(0, c.rank, true)
	// After it all ranks know the communicator, and are connected, so that they can tell each
	// other of a revocation.
	c.Barrier()
	return revocable{own}
}

// Revoke may be called by any goroutine.
func (r revocable) Revoke(reason string) {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	if r.net.failed == nil || r.context.family.over() == nil {
		r.net.revoke(r.context.family, &mpi.RevokedError{Rank: r.rank, Reason: mpi.Reason(reason)})
	}
}

func (r revocable) Revoked() error {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	if why := r.context.family.over(); why != nil {
		return why
	}
	return nil
}
