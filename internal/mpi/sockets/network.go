package sockets

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/mpi"
)

// network is all that a rank has of the ranks of New. The mutex guards everything, also the
// memory of callers that messages are sent from and received into: while it is locked, and
// only then, one chunk of a message is copied, without waiting. So nobody uses the memory of
// an operation that has ended, also if it ended because of an error.
type network struct {
	mu   sync.Mutex
	cond sync.Cond // an operation may be done

	me      int
	limit   time.Duration
	secret  []byte
	here    place
	records []byte // the places of all ranks
	peers   []peer // by rank
	box     mailbox

	listeners []int
	watcher   *watcher
	links     map[int]*link // by descriptor
	made      int32         // number of links that were made
	scratch   []byte        // for frames that are received
	woken     time.Time     // when the watcher returns without an event; zero: never
	failed    error         // why no operation succeeds any more
	leaveBy   time.Time     // once this rank leaves
	closed    bool
	ended     chan struct{} // closed when run has ended; nil if it was not begun
	before    func()        // for tests: called before each frame, with the mutex locked
}

// errClosed is the error of operations after Close.
var errClosed = errors.New("the communicator is closed")

// openNetwork makes the network of a rank, which nothing is connected to yet.
func openNetwork(opt Options) (*network, error) {
	n := &network{limit: opt.Limit, links: map[int]*link{}, scratch: make([]byte, headSize+mostShort)}
	n.cond.L = &n.mu
	n.box.contexts = map[uint64]*context{}
	var err error
	if n.here, n.listeners, err = listen(opt.Interface); err != nil {
		return nil, err
	}
	if n.watcher, err = newWatcher(); err != nil {
		closeAll(n.listeners)
		return nil, err
	}
	for _, fd := range n.listeners {
		if err := n.watcher.set(unix.EPOLL_CTL_ADD, fd, 0, false); err != nil {
			n.close()
			return nil, err
		}
	}
	return n, nil
}

// begin lets the ranks use the network.
func (n *network) begin(me int, secret, records []byte, before func()) {
	n.me, n.secret, n.records = me, secret, records
	n.peers = make([]peer, len(records)/recordSize)
	for rank := range n.peers {
		n.peers[rank] = peer{net: n, rank: rank, takes: map[uint64]*receive{}, out: output{sends: map[uint64]*send{}}}
	}
	n.ended = make(chan struct{})
	go n.run(before)
}

// run moves data until the network is closed. It is the only goroutine of a network.
func (n *network) run(before func()) {
	defer close(n.ended)
	var err error
	defer func() {
		if err != nil {
			n.mu.Lock()
			n.fail(err)
			n.mu.Unlock()
		}
	}()
	defer report.Recover(&err)
	if before != nil {
		before()
	}
	events := make([]unix.EpollEvent, 64)
	for goOn := true; goOn; {
		var k int
		if k, err = n.watcher.wait(events); err != nil {
			return
		}
		goOn = n.handle(events[:k])
	}
}

// handle handles events. It returns false when the network is closed.
func (n *network) handle(events []unix.EpollEvent) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	if len(events) == 0 {
		n.expire()
	}
	for _, e := range events {
		if e.Pad != 0 {
			if l := n.links[int(e.Fd)]; l != nil && l.serial == e.Pad {
				l.ready(e.Events)
			}
			continue
		}
		for _, fd := range n.listeners {
			if fd == int(e.Fd) {
				n.welcome(fd)
			}
		}
	}
	return true
}

// mostStrangers bounds the connections that have proved nothing yet. When there are more the
// oldest is closed.
const mostStrangers = 64

// strangers returns how many there may be once one has the descriptor fd. Descriptors are the
// program's: strangers get an eighth of them, and next to none of the last quarter. All
// descriptors below a new one are in use.
func strangers(fd int) int {
	const least, few = 8, 2
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return least
	}
	if soft := limit.Cur; uint64(fd) >= soft-soft/4 {
		return few
	}
	return int(min(max(limit.Cur/8, least), mostStrangers))
}

// welcome accepts connections.
func (n *network) welcome(listener int) {
	for range mostStrangers {
		fd, err := acceptOn(listener)
		for (err == unix.EMFILE || err == unix.ENFILE) && n.crowd(nil, 0) { // the program has used up its descriptors
			fd, err = acceptOn(listener)
		}
		if err == unix.ECONNABORTED || err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			return
		}
		if err != nil { // no more descriptors or memory: other ranks could wait for ever
			n.fail(fmt.Errorf("cannot accept a connection: %w", err))
			return
		}
		l, err := n.newLink(fd, awaitsHello)
		if err != nil {
			continue
		}
		l.need, l.deadline = helloSize, time.Now().Add(n.limit)
		n.wake(l.deadline)
		for n.crowd(l, strangers(fd)) {
		}
	}
}

// crowd closes the oldest stranger if there are more than most, and reports whether it has closed
// one. last is not closed.
func (n *network) crowd(last *link, most int) bool {
	var oldest *link
	count := 0
	for _, l := range n.links {
		if l.state == awaitsHello || l.state == awaitsProof {
			count++
			if l != last && (oldest == nil || l.deadline.Before(oldest.deadline)) {
				oldest = l
			}
		}
	}
	if count <= most || oldest == nil {
		return false
	}
	n.drop(oldest)
	return true
}

// newLink watches a new connection. After an error it is closed.
func (n *network) newLink(fd int, s state) (*link, error) {
	n.made++
	l := &link{net: n, fd: fd, serial: n.made, state: s}
	err := tune(fd, n.limit)
	if err == nil {
		err = l.watch(unix.EPOLL_CTL_ADD, s == connecting)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	n.links[fd] = l
	return l, nil
}

// drop closes a connection.
func (n *network) drop(l *link) {
	if n.links[l.fd] == l {
		delete(n.links, l.fd)
		n.watcher.forget(l.fd)
		_ = unix.Close(l.fd)
	}
}

// refused ends a connection whose handshake has failed.
func (n *network) refused(l *link, err error) {
	n.drop(l)
	p := l.peer
	if n.failed != nil || p == nil || p.dial != l { // a stranger
		return
	}
	p.dial = nil
	p.failed(err)
	p.try()
}

// lost ends the connection to a peer after an error.
func (n *network) lost(p *peer, err error) {
	if p.link == nil {
		return
	}
	n.drop(p.link)
	p.link = nil
	n.cond.Broadcast()
	if !n.leaving() && !(p.left && err == errEnd) {
		n.fail(fmt.Errorf("the connection to rank %d: %w", p.rank, err))
	}
}

func (n *network) leaving() bool { return !n.leaveBy.IsZero() }

// farewell notes that a peer has left, which it does when no rank needs it.
func (n *network) farewell(p *peer) {
	if !n.leaving() && p.needed() {
		n.fail(fmt.Errorf("rank %d has left", p.rank))
	}
	n.cond.Broadcast()
}

// fail ends all operations, and tells the ranks to which there are connections. They tell
// others: of ranks that wait for each other, each has a connection to the one that it waits for.
func (n *network) fail(err error) {
	if n.failed != nil {
		return
	}
	told, isTold := err.(*lost)
	if !isTold {
		told = &lost{n.me, err.Error()}
	}
	for i := range n.peers {
		p := &n.peers[i]
		if p.link != nil {
			p.queue(told.frame())
		}
	}
	if n.failed != nil { // because a peer could not be told
		return
	}
	n.failed = told
	for _, l := range n.links {
		if l.state == open { // others are told when their handshake is done
			n.finishLink(l)
		}
	}
	n.cond.Broadcast()
}

// finishLink ends what is sent over a connection. If it was closed it could be reset before the
// other side has received all of it.
func (n *network) finishLink(l *link) {
	_ = unix.Shutdown(l.fd, unix.SHUT_WR)
	n.watcher.forget(l.fd)
}

// wake lets the watcher return at t at the latest.
func (n *network) wake(t time.Time) {
	if n.woken.IsZero() || t.Before(n.woken) {
		n.woken = t
		n.watcher.wakeAt(t)
	}
}

// expire ends what has taken too long.
func (n *network) expire() {
	now := time.Now()
	n.woken = time.Time{}
	n.watcher.wakeAt(n.woken)
	for _, l := range n.links {
		if l.state == open {
			continue
		}
		if now.Before(l.deadline) {
			n.wake(l.deadline)
		} else {
			n.refused(l, fmt.Errorf("no answer in time"))
		}
	}
	for i := range n.peers {
		p := &n.peers[i]
		switch {
		case p.awaited.IsZero() || n.failed != nil:
		case !now.Before(p.awaited):
			n.fail(fmt.Errorf("rank %d has not connected within %v", p.rank, n.limit))
		case p.dial != nil: // this rank tries again already
		case now.Before(p.again):
			n.wake(p.again)
		default:
			p.begin(p.awaited)
		}
	}
	if n.leaving() && n.failed == nil {
		if now.Before(n.leaveBy) {
			n.wake(n.leaveBy)
		} else {
			n.fail(errors.New("other ranks do not leave"))
		}
	}
}

// place returns where a rank can be reached.
func (n *network) place(rank int) (place, error) {
	p, err := parsePlace(n.records[rank*recordSize : (rank+1)*recordSize])
	if err != nil {
		err = fmt.Errorf("rank %d: %w", rank, err)
	}
	return p, err
}

// family returns the family of the communicator of a key.
func (n *network) family(key uint64) *family {
	if x := n.box.contexts[key>>2]; x != nil {
		return x.family
	}
	return nil
}

// post begins to receive.
func (n *network) post(r *receive) {
	if m := n.box.post(r); m != nil {
		n.accept(r, m)
	}
}

// accept gives a receive its message.
func (n *network) accept(r *receive, m *message) {
	r.take(m)
	switch {
	case m.own != nil:
		copy(r.buf, m.own.buf)
		m.own.done = true
		n.finish(r)
	case m.data == nil:
		n.peers[m.from].take(r, m)
	default:
		m.taker = r
		n.peers[m.from].acknowledge(m)
		if m.left == 0 {
			n.arrived(m)
		}
	}
}

// arrived notes that a short message that was not received at once is there.
func (n *network) arrived(m *message) {
	m.left = 0
	if r := m.taker; r != nil && n.box.wanted(m.key) {
		copy(r.buf, m.data)
		n.finish(r)
	}
}

// finish ends a receive.
func (n *network) finish(r *receive) {
	r.done = true
	n.cond.Broadcast()
	if r.then != nil {
		r.then()
	}
}

// send begins to send a message to a rank.
func (n *network) send(s *send, dst int, tag uint32, sync bool) {
	if dst != n.me {
		s.to = &n.peers[dst]
		s.to.start(s, tag, sync)
		return
	}
	m := &message{key: s.key, from: dst, tag: tag, size: len(s.buf), own: s}
	if r := n.box.deliver(m); r != nil {
		n.accept(r, m)
	}
}

// told handles that a peer says that a rank has revoked a communicator.
func (n *network) told(p *peer, id uint64, rank int, reason string) {
	x := n.box.contexts[id]
	if x == nil || x.family == nil || x.family.root != x {
		return // it was freed
	}
	if _, member := x.ranks[p.rank]; member && rank < len(x.members) {
		n.revoke(x.family, &mpi.RevokedError{Rank: rank, Reason: mpi.Reason(reason)})
	}
}

// revoke revokes a communicator and tells its ranks to which there are connections; these tell
// the others. The barrier of Revocable has connected each rank with some, and through them with
// all. A rank that is connected later is told when it sends something.
func (n *network) revoke(f *family, why *mpi.RevokedError) {
	if f.why != nil {
		return
	}
	f.why = why
	for _, member := range f.root.members {
		if p := &n.peers[member]; p.link != nil {
			p.queue(f.frame())
		}
	}
	n.clean() // after that: what it acknowledges must not end a wait
	for i := range n.peers {
		p := &n.peers[i]
		p.out.abandon()
		for id, r := range p.takes {
			if !n.box.wanted(r.key) {
				delete(p.takes, id)
			}
		}
		if p.link != nil {
			p.link.in.abandon()
		}
	}
	n.cond.Broadcast()
}

// clean drops the messages that no one can receive any more.
func (n *network) clean() {
	for _, m := range n.box.clean() {
		if m.data != nil { // its sender counts it
			n.peers[m.from].acknowledge(m)
		}
	}
}

// leave ends the connections, once all ranks have come to it: each says that it leaves, and
// waits until its peers have said so, too. So nothing that was sent is lost.
func (n *network) leave() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leaveBy = time.Now().Add(n.limit)
	n.wake(n.leaveBy)
	for i := range n.peers {
		if n.peers[i].link != nil {
			n.peers[i].queue(frame{kind: kindBye}, nil)
		}
	}
	return n.until(func() bool {
		for i := range n.peers {
			if p := &n.peers[i]; p.link != nil && !(p.left && p.out.idle()) {
				return false
			}
		}
		return true
	})
}

// settled waits until no connection is being made.
func (n *network) settled() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.until(func() bool {
		for i := range n.peers {
			if p := &n.peers[i]; p.dial != nil || !p.awaited.IsZero() {
				return false
			}
		}
		return true
	})
}

// until waits for a condition that the mutex guards, which is locked.
func (n *network) until(done func() bool) error {
	for !done() {
		if n.failed != nil {
			return n.failed
		}
		n.cond.Wait()
	}
	return nil
}

// close ends the network of this rank at once, and returns when its descriptors are closed.
func (n *network) close() {
	n.mu.Lock()
	n.abort()
	n.mu.Unlock()
	if n.ended != nil {
		<-n.ended
	}
	_ = n.watcher.file.Close() // nothing was written to it; it may have been closed before
}

// abort closes all connections, as the kernel does when the process ends.
func (n *network) abort() {
	if n.closed {
		return
	}
	n.closed = true
	if n.failed == nil {
		n.failed = errClosed
	}
	for _, l := range n.links {
		n.drop(l)
	}
	closeAll(n.listeners)
	n.listeners = nil
	n.cond.Broadcast()
	n.watcher.wakeAt(time.Unix(1, 0))
}
