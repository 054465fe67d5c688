package sockets

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// link is a connection: the handshake, then what comes in. What goes out is the peer's.
type link struct {
	net      *network
	fd       int
	serial   int32 // tells it from an earlier one with the same descriptor
	peer     *peer // of a connection that was accepted: once it has proved the secret
	state    state
	deadline time.Time // of the handshake
	out      bool      // events of the socket include that it can be written

	// In the handshake:
	buf, hello, nonce []byte
	need              int // bytes in buf, for the next step

	in input // afterwards
}

type state int

const (
	connecting state = iota // then the rank that has connected
	awaitsAnswer
	awaitsVerdict
	awaitsHello // the rank that has accepted
	awaitsProof
	open
)

// input is the frame that is being received.
type input struct {
	head [headSize]byte
	have int     // bytes of the head
	into []byte  // where the bytes after the head go,
	skip int     // and how many after those go nowhere
	done func()  // called when the frame is complete, unless nil
	of   *family // that must not be revoked for into to be written
}

// ready does what the socket can do.
func (l *link) ready(events uint32) {
	if l.state == open && l.net.failed != nil { // callers may have taken their buffers back
		return
	}
	if l.state == connecting {
		if events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			l.greet()
		}
		return
	}
	if l.state != open {
		l.shake()
		return
	}
	if events&unix.EPOLLOUT != 0 {
		l.peer.pump()
	}
	if events&^unix.EPOLLOUT != 0 && l.state == open && l.net.links[l.fd] == l {
		if err := l.receive(); err != nil {
			l.net.lost(l.peer, err)
		}
	}
}

// watch says which events are waited for.
func (l *link) watch(op int, out bool) error { return l.net.watcher.set(op, l.fd, l.serial, out) }

// greet sends the hello on a connection that was begun.
func (l *link) greet() {
	err := connected(l.fd)
	if err == nil {
		err = l.watch(unix.EPOLL_CTL_MOD, false)
	}
	l.hello = newHello(l.net.me, l.peer.rank)
	l.state, l.need = awaitsAnswer, answerSize
	if err == nil {
		err = l.write(l.hello)
	}
	if err != nil {
		l.net.refused(l, err)
	}
}

// write sends a part of the handshake, for which a new connection always has room.
func (l *link) write(b []byte) error {
	n, err := sendSome(l.fd, [][]byte{b})
	if err == nil && n < len(b) {
		err = errors.New("it takes no data")
	}
	return err
}

// shake does the steps of the handshake for which there are bytes.
func (l *link) shake() {
	for l.state != open && l.net.links[l.fd] == l {
		if missing := l.need - len(l.buf); missing > 0 {
			b := make([]byte, missing)
			n, err := receiveSome(l.fd, b)
			l.buf = append(l.buf, b[:n]...)
			if err != nil {
				l.net.refused(l, err)
				return
			}
			if n < missing {
				return
			}
		}
		got := l.buf
		l.buf = nil
		if err := l.step(got); err != nil {
			l.net.refused(l, err)
			return
		}
	}
}

// step does one step of the handshake.
func (l *link) step(got []byte) error {
	n := l.net
	switch l.state {
	case awaitsAnswer:
		proof, err := checkAnswer(n.secret, l.hello, got)
		if err != nil {
			return err
		}
		l.state, l.need = awaitsVerdict, 1
		return l.write(proof)
	case awaitsVerdict:
		switch got[0] {
		case verdictTaken:
			l.peer.opened(l)
		case verdictOther:
			l.peer.yields(l)
		default:
			return errors.New("it says what no rank says")
		}
	case awaitsHello:
		if _, err := parseHello(got, n.me, len(n.peers)); err != nil {
			return err
		}
		l.hello = got
		reply := answer(n.secret, got)
		l.nonce = reply[:nonceSize]
		l.state, l.need = awaitsProof, proofSize
		return l.write(reply)
	case awaitsProof:
		if err := checkProof(n.secret, l.hello, l.nonce, got); err != nil {
			return err
		}
		from, err := parseHello(l.hello, n.me, len(n.peers))
		if err != nil {
			return err
		}
		return n.peers[from].offered(l)
	}
	return nil
}

// mostReads bounds how much is received from one peer before it is the turn of others.
const mostReads = 4

// receive receives frames.
func (l *link) receive() error {
	for range mostReads {
		if l.net.links[l.fd] != l { // closed by what a frame has caused
			return nil
		}
		if len(l.in.into) > 0 {
			n, err := receiveSome(l.fd, l.in.into)
			l.in.into = l.in.into[n:]
			if err != nil || n == 0 {
				return err
			}
			l.finish()
			continue
		}
		n, err := receiveSome(l.fd, l.net.scratch)
		if err != nil || n == 0 {
			return err
		}
		if err := l.take(l.net.scratch[:n]); err != nil {
			return err
		}
	}
	return nil
}

// take takes bytes that were received.
func (l *link) take(b []byte) error {
	in := &l.in
	for len(b) > 0 && l.net.failed == nil {
		switch {
		case len(in.into) > 0:
			n := copy(in.into, b)
			in.into, b = in.into[n:], b[n:]
		case in.skip > 0:
			n := min(in.skip, len(b))
			in.skip, b = in.skip-n, b[n:]
		default:
			n := copy(in.head[in.have:], b)
			in.have, b = in.have+n, b[n:]
			if in.have < headSize {
				return nil
			}
			f, err := parseFrame(in.head)
			if err == nil {
				err = l.peer.frame(f, in)
			}
			if err != nil {
				return err
			}
		}
		l.finish()
	}
	return nil
}

// finish ends a frame that has arrived entirely.
func (l *link) finish() {
	in := &l.in
	if in.have < headSize || len(in.into) > 0 || in.skip > 0 {
		return
	}
	done := in.done
	*in = input{}
	if done != nil {
		done()
	}
}

// abandon stops writing to memory of a revoked communicator; the bytes go nowhere.
func (in *input) abandon() {
	if in.of.over() != nil {
		in.skip += len(in.into)
		in.into, in.done, in.of = nil, nil, nil
	}
}
