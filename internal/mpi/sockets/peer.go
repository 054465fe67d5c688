package sockets

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/mpi"
)

// peer is another rank: the way to it, and what is exchanged with it.
type peer struct {
	net  *network
	rank int
	link *link // nil: there is no connection
	left bool  // it has said that it leaves

	// While there is no connection:
	dial     *link            // that this rank makes
	tries    []netip.AddrPort // that are left
	until    time.Time        // for all tries
	failures []string
	awaited  time.Time // until then the peer has to make the connection; zero: it need not
	again    time.Time // when this rank tries again, in case the peer has died meanwhile

	out output
	// What it has announced:
	next    uint64 // id of its next message
	untaken int    // number of short messages that no receive has taken
	takes   map[uint64]*receive
}

// output is what goes to a peer.
type output struct {
	control []byte   // frames that are complete
	data    []*send  // messages that the peer wants, in turn
	writing [][]byte // what is being written; the last of it is of current, unless that is nil
	current *send
	next    uint64           // id of the next message
	sends   map[uint64]*send // that the peer has not taken
	untaken int              // number of short ones among them
}

// connect begins to make the connection, if there is none.
func (p *peer) connect() {
	switch {
	case p.net.failed != nil, p.link != nil, p.dial != nil, !p.awaited.IsZero():
		return
	case p.left:
		p.net.fail(fmt.Errorf("rank %d has left", p.rank))
		return
	}
	p.begin(time.Now().Add(p.net.limit))
}

// begin begins to make the connection, which must be there at a time.
func (p *peer) begin(until time.Time) {
	there, err := p.net.place(p.rank)
	if err != nil {
		p.net.fail(err)
		return
	}
	p.tries, p.failures = p.net.here.toward(there), nil
	p.until = until
	p.try()
}

// try begins to connect to the next address that is left.
func (p *peer) try() {
	for len(p.tries) > 0 {
		to := p.tries[0]
		now := time.Now()
		deadline := now.Add(p.until.Sub(now) / time.Duration(len(p.tries)))
		p.tries = p.tries[1:]
		p.failures = append(p.failures, to.String())
		fd, err := connectTo(to)
		if err == nil {
			p.dial, err = p.net.newLink(fd, connecting)
		}
		if err == nil {
			p.dial.peer, p.dial.deadline = p, deadline
			p.net.wake(deadline)
			return
		}
		p.dial = nil
		p.failed(err)
	}
	if len(p.failures) == 0 {
		p.failures = []string{"it has no address but those of this node, and may be on a node with the same addresses"}
	}
	p.net.fail(fmt.Errorf("rank %d cannot be reached: %s", p.rank, strings.Join(p.failures, "; ")))
}

// failed notes why the last try has failed.
func (p *peer) failed(err error) {
	if n := len(p.failures); n > 0 {
		p.failures[n-1] += ": " + err.Error()
	}
}

// offered decides about a connection that the peer has made. If both ranks make one at the
// same time, that of the lower rank counts.
func (p *peer) offered(l *link) error {
	if p.link != nil || p.left {
		return errors.New("it has a connection")
	}
	if p.dial != nil && p.net.me < p.rank {
		err := l.write([]byte{verdictOther})
		p.net.drop(l)
		return err
	}
	if err := l.write([]byte{verdictTaken}); err != nil {
		return err
	}
	if p.dial != nil {
		p.net.drop(p.dial)
	}
	p.opened(l)
	return nil
}

// opened uses a connection whose handshake is done.
func (p *peer) opened(l *link) {
	l.peer, l.state, l.hello, l.nonce = p, open, nil, nil
	p.link, p.dial, p.awaited = l, nil, time.Time{}
	if told, ok := p.net.failed.(*lost); ok {
		f, text := told.frame()
		_ = l.write(append(f.appendTo(nil), text...)) // without it the end of the connection tells enough
		p.net.finishLink(l)
		return
	}
	if p.net.leaving() {
		p.out.control = frame{kind: kindBye}.appendTo(p.out.control)
	}
	p.net.cond.Broadcast()
	p.pump()
}

// patience is how long a rank waits for the connection of a peer before it tries again. A peer
// that dies before its connection is made closes nothing that this rank knows to be its own;
// trying again shows it.
const patience = 100 * time.Millisecond

// yields gives up the connection that this rank has made: that of the peer counts.
func (p *peer) yields(l *link) {
	p.net.drop(l)
	p.dial = nil
	if p.link != nil {
		return
	}
	now := time.Now()
	if p.awaited.IsZero() {
		p.awaited = now.Add(p.net.limit)
	}
	p.again = now.Add(patience)
	p.net.wake(p.again)
}

// queue sends a frame, with the bytes that follow it.
func (p *peer) queue(f frame, data []byte) {
	if p.net.before != nil {
		p.net.before()
	}
	p.out.control = append(f.appendTo(p.out.control), data...)
	p.pump()
}

// start begins to send a message.
func (p *peer) start(s *send, tag uint32, sync bool) {
	p.connect()
	o := &p.out
	f := frame{kind: kindOffer, tag: tag, context: s.key, id: o.next, size: uint64(len(s.buf))}
	o.sends[o.next] = s
	o.next++
	if len(s.buf) > mostShort || o.untaken == mostUntaken {
		p.queue(f, nil)
		return
	}
	f.kind = kindSend
	o.untaken++
	data := s.buf
	s.short, s.done, s.buf = true, !sync, nil
	p.queue(f, data)
}

// mostWrites bounds how much is sent to one peer before it is the turn of others.
const mostWrites = 4

// pump sends what the connection takes.
func (p *peer) pump() {
	l, o := p.link, &p.out
	if l == nil || p.net.failed != nil {
		return
	}
	full := true
	for range mostWrites {
		if len(o.writing) == 0 {
			if p.net.before != nil && len(o.data) > 0 {
				p.net.before()
			}
			if p.net.closed {
				return
			}
			if !o.refill() {
				full = false
				break
			}
		}
		n, err := sendSome(l.fd, o.writing)
		if err != nil {
			p.net.lost(p, err)
			return
		}
		if n == 0 {
			break
		}
		if o.wrote(n) {
			p.net.cond.Broadcast()
		}
	}
	if full != l.out {
		l.out = full
		if err := l.watch(unix.EPOLL_CTL_MOD, full); err != nil {
			p.net.lost(p, err)
		}
	}
	if !full && p.net.leaving() {
		p.net.cond.Broadcast()
	}
}

// idle reports whether nothing is left to send.
func (o *output) idle() bool { return len(o.control)+len(o.writing)+len(o.data) == 0 }

// refill takes what is written next. It returns false if there is nothing.
func (o *output) refill() bool {
	if len(o.data) > 0 {
		s := o.data[0]
		o.data = slices.Delete(o.data, 0, 1)
		n := min(s.limit-s.sent, mostData)
		o.control = frame{kind: kindData, id: s.number, size: uint64(n)}.appendTo(o.control)
		o.current = s
		o.writing = append(o.writing, o.control, s.buf[s.sent:s.sent+n])
	} else if len(o.control) > 0 {
		o.writing = append(o.writing, o.control)
	} else {
		return false
	}
	o.control = nil
	return true
}

// wrote says that n bytes were written. It returns true if a message was sent with them.
func (o *output) wrote(n int) (done bool) {
	for n > 0 {
		part := min(n, len(o.writing[0]))
		o.writing[0], n = o.writing[0][part:], n-part
		if s := o.current; s != nil && len(o.writing) == 1 {
			s.sent += part
		}
		if len(o.writing[0]) == 0 {
			o.writing = o.writing[1:]
		}
	}
	if len(o.writing) > 0 {
		return false
	}
	o.writing = nil
	s := o.current
	o.current = nil
	if s != nil && s.sent < s.limit {
		o.data = append(o.data, s)
	} else if s != nil {
		s.done, done = true, true
	}
	return done
}

// zeros are sent in place of the rest of a frame whose communicator was revoked.
var zeros [mostData]byte

// abandon stops reading from memory of revoked communicators.
func (o *output) abandon() {
	over := func(s *send) bool { return s.family.over() != nil }
	if o.current != nil && over(o.current) {
		last := len(o.writing) - 1
		o.writing[last] = zeros[:len(o.writing[last])]
		o.current = nil
	}
	o.data = slices.DeleteFunc(o.data, over)
	for id, s := range o.sends {
		if over(s) && !s.short { // a short one is acknowledged all the same
			delete(o.sends, id)
		}
	}
}

// frame begins to receive a frame.
func (p *peer) frame(f frame, in *input) error {
	n := p.net
	switch f.kind {
	case kindSend, kindOffer:
		return p.announced(f, in)
	case kindTake:
		return p.taken(f)
	case kindData:
		r := p.takes[f.id]
		if r == nil && f.id >= p.next {
			return fmt.Errorf("data of message %d, which was not announced", f.id)
		}
		if r == nil { // its communicator was revoked
			in.skip = int(f.size)
			return nil
		}
		if int(f.size) > r.want-r.got {
			return fmt.Errorf("%d bytes of message %d, of which %d are missing", f.size, f.id, r.want-r.got)
		}
		in.into, in.of = r.buf[r.got:r.got+int(f.size)], n.family(r.key)
		in.done = func() {
			if r.got += int(f.size); r.got == r.want {
				delete(p.takes, f.id)
				n.finish(r)
			}
		}
	case kindRevoke:
		text := make([]byte, f.size)
		in.into = text
		in.done = func() { n.told(p, f.context, int(f.tag), string(text)) }
	case kindFail:
		text := make([]byte, f.size)
		in.into = text
		in.done = func() { n.fail(&lost{int(f.tag), strings.ToValidUTF8(string(text), "?")}) }
	case kindBye:
		p.left = true
		in.done = func() { n.farewell(p) }
	}
	return nil
}

// announced begins to receive a message, or the offer of one.
func (p *peer) announced(f frame, in *input) error {
	n := p.net
	if f.id != p.next {
		return fmt.Errorf("message %d where %d is due", f.id, p.next)
	}
	p.next++
	if x := n.box.contexts[f.context>>2]; x != nil {
		if _, member := x.ranks[p.rank]; !member {
			return fmt.Errorf("a message in communicator %d, of which it is no member", x.id)
		}
	}
	if over := n.family(f.context).revoked(); over != nil {
		p.queue(over.frame()) // before anything ends its wait
	}
	m := &message{key: f.context, from: p.rank, tag: f.tag, id: f.id, size: int(f.size)}
	if f.kind == kindOffer {
		if n.box.wanted(m.key) {
			if r := n.box.deliver(m); r != nil {
				n.accept(r, m)
			} else {
				n.cond.Broadcast() // for a probe
			}
		}
		return nil
	}
	if p.untaken == mostUntaken {
		return fmt.Errorf("more than %d messages before one was taken", mostUntaken)
	}
	p.untaken++
	if !n.box.wanted(m.key) {
		in.skip = m.size
		p.acknowledge(m)
		return nil
	}
	m.left = m.size
	r := n.box.deliver(m)
	if r == nil {
		m.data = make([]byte, m.size)
		in.into = m.data
		in.done = func() { n.arrived(m) }
		n.cond.Broadcast()
		return nil
	}
	r.take(m)
	in.into, in.skip, in.of = r.buf[:r.want], m.size-r.want, n.family(r.key)
	in.done = func() { n.finish(r) }
	p.acknowledge(m)
	return nil
}

// acknowledge says that a short message is taken.
func (p *peer) acknowledge(m *message) {
	p.untaken--
	p.queue(frame{kind: kindTake, id: m.id}, nil)
}

// taken says that the peer has taken a message.
func (p *peer) taken(f frame) error {
	o := &p.out
	s := o.sends[f.id]
	if s == nil {
		if f.id >= o.next {
			return fmt.Errorf("it takes message %d, which was not sent", f.id)
		}
		return nil // its communicator was revoked
	}
	delete(o.sends, f.id)
	if s.short {
		o.untaken--
	} else if f.size > uint64(len(s.buf)) {
		return fmt.Errorf("it takes %d bytes of message %d, which has %d", f.size, f.id, len(s.buf))
	} else if f.size > 0 {
		s.number, s.limit = f.id, int(f.size)
		o.data = append(o.data, s)
		p.pump()
		return nil
	}
	s.done = true
	p.net.cond.Broadcast()
	return nil
}

// take asks the peer for a message that it has offered.
func (p *peer) take(r *receive, m *message) {
	if r.want > 0 {
		p.takes[m.id] = r
	}
	p.queue(frame{kind: kindTake, id: m.id, size: uint64(r.want)}, nil)
	if r.want == 0 {
		p.net.finish(r)
	}
}

// needed reports whether an operation of this rank waits for the peer.
func (p *peer) needed() bool {
	for _, s := range p.out.sends {
		if !s.done {
			return true
		}
	}
	return len(p.takes)+len(p.out.data) > 0 || p.out.current != nil ||
		slices.ContainsFunc(p.net.box.posted, func(r *receive) bool { return r.from == p.rank }) ||
		slices.ContainsFunc(p.net.box.arrived, func(m *message) bool { return m.from == p.rank && m.data == nil })
}

// lost is the error of a network that a rank has lost the connection to another.
type lost struct {
	rank   int // that has noticed it
	reason string
}

func (e *lost) Error() string { return fmt.Sprintf("rank %d cannot continue: %s", e.rank, e.reason) }

// frame returns the frame that tells others of it.
func (e *lost) frame() (frame, []byte) {
	text := mpi.Reason(e.reason)
	return frame{kind: kindFail, tag: uint32(e.rank), size: uint64(len(text))}, []byte(text)
}
