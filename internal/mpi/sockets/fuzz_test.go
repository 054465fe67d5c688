package sockets

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/mpi"
)

// A head that is accepted is exactly what appendTo makes of it.
func FuzzParseFrame(f *testing.F) {
	for _, x := range []frame{
		{kind: kindSend, tag: 3, context: 8, id: 1, size: mostShort}, {kind: kindOffer, size: 1 << 40},
		{kind: kindTake, id: 9}, {kind: kindData, id: 9, size: mostData}, {kind: kindRevoke, context: 2, size: 10},
		{kind: kindFail, tag: 7, size: mpi.MaxReason}, {kind: kindBye},
	} {
		head := x.appendTo(nil)
		if got, err := parseFrame([headSize]byte(head)); err != nil || got != x {
			f.Errorf("%+v becomes %+v: %v", x, got, err)
		}
		f.Add(head)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != headSize {
			return
		}
		x, err := parseFrame([headSize]byte(b))
		if err == nil && !bytes.Equal(x.appendTo(nil), b) {
			t.Errorf("% x is read as %+v", b, x)
		}
	})
}

// Whatever a rank with the secret sends, no other rank panics, stores without limit, or
// waits when the connection has ended.
func FuzzFrames(f *testing.F) {
	var all, data []byte
	for i := range 2 * mostUntaken {
		all = append(frame{kind: kindSend, tag: 1, context: key(0, forUser), id: uint64(i), size: 5}.appendTo(all), "hello"...)
	}
	f.Add(all)
	data = frame{kind: kindOffer, tag: 1, context: key(0, forUser), size: 100}.appendTo(data)
	data = append(frame{kind: kindData, size: 60}.appendTo(data), make([]byte, 60)...)
	data = append(frame{kind: kindData, size: 40}.appendTo(data), make([]byte, 40)...)
	f.Add(data)
	f.Add(frame{kind: kindTake, id: 0}.appendTo(nil))
	f.Add(frame{kind: kindTake, id: 1, size: 10000}.appendTo(nil))
	f.Add(append(frame{kind: kindFail, tag: 1, size: 4}.appendTo(nil), "dead"...))
	f.Add(append(frame{kind: kindRevoke, tag: 1, context: 1, size: 4}.appendTo(nil), "why?"...))
	f.Add(append(frame{kind: kindRevoke, tag: 9, context: 1, size: 4}.appendTo(nil), "why?"...))
	f.Add(frame{kind: kindBye}.appendTo(nil))
	f.Fuzz(func(t *testing.T, says []byte) {
		comms := ranks(t, 2, long, nil)
		c, n := comms[0], comms[0].net
		comms[1].Close()
		fd := known(t, c)
		// A communicator that can be revoked, as Revocable makes it.
		x := newContext(1, []int{0, 1}, nil)
		x.family = &family{root: x}
		n.mu.Lock()
		n.box.enter(x)
		n.mu.Unlock()
		for _, size := range []int{0, 3, 200} {
			c.Irecv(make([]byte, size), 1, 1)
		}
		for _, size := range []int{10, 2 * mostShort} { // messages 0 and 1
			c.Isend(make([]byte, size), 1, 1)
		}
		ended := make(chan struct{})
		defer func() {
			c.Close()
			<-ended // before its descriptor is closed
		}()
		go func() {
			defer close(ended)
			for b := says; len(b) > 0; {
				k, err := unix.SendmsgN(fd, b, nil, nil, unix.MSG_NOSIGNAL)
				if err != nil {
					break
				}
				b = b[k:]
			}
			unix.Shutdown(fd, unix.SHUT_WR)
			for buf := make([]byte, 1<<16); ; { // what it answers is not held back
				if k, err := unix.Read(fd, buf); k <= 0 || err != nil {
					return
				}
			}
		}()
		receive := func() { c.Recv(nil, 1, 2) } // tag 2 comes only from the fuzzer
		err := tried(receive)
		for err == nil || errors.Is(err, mpi.ErrTruncated) {
			err = tried(receive)
		}
		opError(t, 0, err)
		n.mu.Lock()
		defer n.mu.Unlock()
		stored := 0
		for _, m := range n.box.arrived {
			stored += len(m.data)
		}
		if stored > mostUntaken*mostShort {
			t.Errorf("%d bytes are stored", stored)
		}
	})
}
