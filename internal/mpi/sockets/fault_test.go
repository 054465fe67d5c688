package sockets

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ranks makes the communicators of n ranks, which wait for each other for limit. change, unless
// nil, changes the secret that a rank has.
func ranks(t testing.TB, n int, limit time.Duration, change func(rank int, secret []byte)) []*Comm {
	t.Helper()
	comms := make([]*Comm, n)
	networks := make([]*network, n)
	var records []byte
	for i := range networks {
		var err error
		networks[i], err = openNetwork(Options{Limit: limit})
		must(t, err)
		records = append(records, networks[i].here.record()...)
	}
	secret := random(secretSize)
	for i := range comms {
		own := bytes.Clone(secret)
		if change != nil {
			change(i, own)
		}
		comms[i] = join(networks[i], i, own, records, nil)
		t.Cleanup(comms[i].Close)
	}
	return comms
}

// each runs f on all ranks, and returns their errors, also those of revocations.
func each(comms []*Comm, f func(c *Comm) error) []error {
	errs := make([]error, len(comms))
	var wg sync.WaitGroup
	for i, c := range comms {
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer func() {
				if p, ok := recover().(error); ok {
					errs[i] = p
				}
			}()
			errs[i] = f(c)
		}()
	}
	wg.Wait()
	return errs
}

// tried returns the error with which an operation fails, nil if it does not.
func tried(operation func()) error {
	return mpi.Try(func() error {
		operation()
		return nil
	})
}

// opError checks that an error is one of an operation, whose text contains all parts.
func opError(t *testing.T, who int, err error, parts ...string) {
	t.Helper()
	var failed *mpi.OpError
	if !errors.As(err, &failed) {
		t.Errorf("rank %d: %v, want an error of an operation", who, err)
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("rank %d: %v, want %q in it", who, err, p)
		}
	}
}

const long = time.Hour // a limit that no test waits for

func TestSecret_WrongOnOneRank(t *testing.T) {
	for wrong := range 3 {
		comms := ranks(t, 3, long, func(rank int, secret []byte) {
			if rank == wrong {
				secret[5] ^= 1
			}
		})
		for i, err := range each(comms, func(c *Comm) error {
			c.Barrier()
			return nil
		}) {
			opError(t, i, err)
		}
		// One of the ranks that have tried to connect has found out why.
		found := false
		for i, err := range each(comms, func(c *Comm) error {
			c.Barrier()
			return nil
		}) {
			opError(t, i, err, "cannot be reached")
			found = found || strings.Contains(err.Error(), errStranger.Error()) || strings.Contains(err.Error(), errEnd.Error())
		}
		if !found {
			t.Error("no rank says why")
		}
	}
}

// raw connects to a rank as anybody can.
func raw(t *testing.T, c *Comm) (fd int) {
	t.Helper()
	to := c.net.here.toward(c.net.here)[0]
	fd, err := newSocket(to.Addr())
	must(t, err)
	must(t, unix.SetNonblock(fd, false))
	must(t, unix.Connect(fd, sockaddr(to)))
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func write(t *testing.T, fd int, b []byte) {
	t.Helper()
	for len(b) > 0 {
		n, err := unix.SendmsgN(fd, b, nil, nil, unix.MSG_NOSIGNAL)
		must(t, err)
		b = b[n:]
	}
}

// read reads n bytes, or until the end.
func read(t *testing.T, fd, n int) []byte {
	t.Helper()
	var all []byte
	for len(all) < n {
		b := make([]byte, n-len(all))
		k, err := unix.Read(fd, b)
		if err == unix.EINTR {
			continue
		}
		if k <= 0 || err != nil {
			break
		}
		all = append(all, b[:k]...)
	}
	return all
}

// Strangers say nothing, rubbish, too little, or greet as a rank does and prove nothing. They
// are closed, and ranks that work meanwhile notice nothing.
func TestStrangers(t *testing.T) {
	comms := ranks(t, 3, long, nil)
	for _, err := range each(comms, func(c *Comm) error {
		c.Barrier()
		return nil
	}) {
		must(t, err)
	}
	comms[0].net.mu.Lock()
	comms[0].net.limit = 100 * time.Millisecond // for strangers, now that the ranks are connected
	comms[0].net.mu.Unlock()
	hello := newHello(1, 0)
	for name, says := range map[string][]byte{
		"nothing":              nil,
		"rubbish":              bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 10),
		"a part of a hello":    hello[:20],
		"only a hello":         hello,
		"no proof":             append(bytes.Clone(hello), make([]byte, proofSize)...),
		"from itself":          newHello(0, 0),
		"from no rank":         newHello(3, 0),
		"to another rank":      newHello(1, 2),
		"frames, not a proof":  append(bytes.Clone(hello), frame{kind: kindBye}.appendTo(nil)...),
		"of an older greeting": []byte("goscrnt0" + string(hello[8:])),
	} {
		fd := raw(t, comms[0])
		write(t, fd, says)
		for i, err := range each(comms, func(c *Comm) error {
			c.Barrier()
			return nil
		}) {
			if err != nil {
				t.Errorf("%s: rank %d: %v", name, i, err)
			}
		}
		if got := read(t, fd, 1000); len(got) > answerSize {
			t.Errorf("%s: a stranger gets %d bytes", name, len(got))
		}
	}
	comms[0].net.mu.Lock()
	comms[0].net.limit = long
	comms[0].net.mu.Unlock()
	for i, err := range each(comms, func(c *Comm) error {
		c.Free()
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

// More strangers than a rank keeps do not keep a rank away.
func TestStrangers_Many(t *testing.T) {
	comms := ranks(t, 2, long, nil)
	first := raw(t, comms[0])
	for range mostStrangers {
		raw(t, comms[0])
	}
	if got := read(t, first, 1); len(got) > 0 { // it would wait if it were not closed
		t.Errorf("a stranger gets %x", got)
	}
	for i, err := range each(comms, func(c *Comm) error {
		c.Free()
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

// known connects to rank 0 as rank 1 does, and proves the secret.
func known(t *testing.T, c *Comm) (fd int) {
	t.Helper()
	fd = raw(t, c)
	hello := newHello(1, 0)
	write(t, fd, hello)
	proof, err := checkAnswer(c.net.secret, hello, read(t, fd, answerSize))
	must(t, err)
	write(t, fd, proof)
	if got := read(t, fd, 1); len(got) != 1 || got[0] != verdictTaken {
		t.Fatalf("verdict % x", got)
	}
	return fd
}

// A rank dies in the middle of a message. The one that receives it and a third that waits for
// that get errors which say so.
func TestPeer_DiesInMessage(t *testing.T) {
	offer := frame{kind: kindOffer, tag: 1, context: key(0, forUser), size: 1 << 20}
	data := frame{kind: kindData, size: 1000}
	for name, says := range map[string][]byte{
		"before a message": nil,
		"in a head":        offer.appendTo(nil)[:7],
		"in a short one":   frame{kind: kindSend, tag: 1, context: key(0, forUser), size: 10}.appendTo(nil),
		"after the offer":  offer.appendTo(nil),
		"in its data":      append(data.appendTo(offer.appendTo(nil)), make([]byte, 400)...),
		"between its data": append(data.appendTo(offer.appendTo(nil)), make([]byte, 1000)...),
	} {
		comms := ranks(t, 3, long, nil)
		comms[1].Close() // known stands for it
		fd := known(t, comms[0])
		for _, err := range each([]*Comm{comms[0], comms[2]}, func(c *Comm) error { // they are connected
			c.Sendrecv(nil, 2-c.Rank(), 2, nil, 2-c.Rank(), 2)
			return nil
		}) {
			must(t, err)
		}
		write(t, fd, says)
		var posted sync.WaitGroup
		posted.Add(1)
		go func() {
			posted.Wait()
			unix.Shutdown(fd, unix.SHUT_RDWR)
		}()
		errs := each([]*Comm{comms[0], comms[2]}, func(c *Comm) error {
			from := 1
			if c.Rank() == 2 {
				from = 0 // which waits for rank 1
			}
			r := c.Irecv(make([]byte, 1<<20), from, 1)
			if c.Rank() == 0 {
				posted.Done()
			}
			r.Wait()
			return nil
		})
		for i, err := range errs {
			opError(t, 2*i, err, "rank 0 cannot continue", "connection to rank 1")
		}
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// What a rank with the secret sends is checked all the same.
func TestPeer_SendsWhatItMustNot(t *testing.T) {
	offer := frame{kind: kindOffer, tag: 1, context: key(0, forUser), size: 100}
	after := func(f ...frame) (b []byte) {
		for _, x := range f {
			b = x.appendTo(b)
		}
		return b
	}
	var many []byte
	for i := range mostUntaken + 1 {
		many = frame{kind: kindSend, tag: 2, context: key(0, forUser), id: uint64(i)}.appendTo(many)
	}
	for want, says := range map[string][]byte{
		"unknown kind":          {99, headSize - 1: 0},
		"must be 0":             {1, 1, headSize - 1: 0},
		"too large":             after(frame{kind: kindSend, size: mostShort + 1}),
		"where 0 is due":        after(frame{kind: kindOffer, id: 1, size: 3}),
		"not announced":         after(frame{kind: kindData, size: 3}),
		"was not sent":          after(frame{kind: kindTake, size: 3}),
		"of which 100 are miss": append(after(offer, frame{kind: kindData, size: 101}), make([]byte, 101)...),
		"before one was taken":  many,
	} {
		comms := ranks(t, 2, long, nil)
		comms[1].Close()
		fd := known(t, comms[0])
		r := comms[0].Irecv(make([]byte, 200), 1, 1)
		write(t, fd, says)
		opError(t, 0, tried(func() { r.Wait() }), want)
	}
}

// A peer that has left is no peer to wait for.
func TestPeer_HasLeft(t *testing.T) {
	comms := ranks(t, 2, long, nil)
	comms[1].Close()
	fd := known(t, comms[0])
	r := comms[0].Irecv(make([]byte, 200), 1, 1)
	write(t, fd, frame{kind: kindBye}.appendTo(nil))
	opError(t, 0, tried(func() { r.Wait() }), "rank 1 has left")

	comms = ranks(t, 2, long, nil)
	comms[1].Close()
	fd = known(t, comms[0])
	write(t, fd, frame{kind: kindBye}.appendTo(nil))
	unix.Shutdown(fd, unix.SHUT_WR)
	if got := read(t, fd, 1); len(got) > 0 {
		t.Errorf("an answer to the end: % x", got)
	}
	opError(t, 0, tried(func() { comms[0].Recv(nil, 1, 1) }), "rank 1 has left")
}

// A rank that is not there when it is needed, and one that does not answer.
func TestPeer_NotThere(t *testing.T) {
	comms := ranks(t, 3, long, nil)
	comms[1].Close()
	for i, err := range each([]*Comm{comms[0], comms[2]}, func(c *Comm) error {
		c.Barrier()
		return nil
	}) {
		opError(t, 2*i, err, "rank 1 cannot be reached", "refused")
	}
	comms = ranks(t, 2, time.Second, nil)
	comms[1].net.mu.Lock() // its goroutine does nothing
	err := tried(func() { comms[0].Recv(nil, 1, 1) })
	comms[1].net.mu.Unlock()
	opError(t, 0, err, "no answer in time")
}

// descriptorsAndGoroutines counts what a process has.
// Two ranks connect to each other at the same time. The lower one says that its connection counts,
// and dies before that is made. The other notices this, although it waits for no answer.
func TestPeer_DiesBeforeItConnects(t *testing.T) {
	dying, err := openNetwork(Options{Limit: long})
	must(t, err)
	living, err := openNetwork(Options{Limit: long})
	must(t, err)
	secret := random(secretSize)
	c := join(living, 1, secret, append(dying.here.record(), living.here.record()...), nil)
	defer c.Close()
	r := c.Irecv(make([]byte, 8), 0, 1)

	var polls []unix.PollFd
	for _, fd := range dying.listeners {
		polls = append(polls, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	fd := -1
	for fd < 0 {
		if _, err := unix.Poll(polls, -1); err != unix.EINTR {
			must(t, err)
		}
		for _, p := range polls {
			if p.Revents != 0 {
				fd, _, err = unix.Accept4(int(p.Fd), unix.SOCK_CLOEXEC)
				must(t, err)
			}
		}
	}
	hello := read(t, fd, helloSize)
	write(t, fd, answer(secret, hello))
	read(t, fd, proofSize)
	write(t, fd, []byte{verdictOther})
	read(t, fd, 1) // until it has given up this connection
	unix.Close(fd)
	dying.close()
	opError(t, 1, tried(func() { r.Wait() }), "rank 0 cannot be reached", "refused")
}

func descriptorsAndGoroutines(t *testing.T) (int, int) {
	t.Helper()
	runtime.GC()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list), runtime.NumGoroutine()
}

// Nothing is left after Free, nor after Close, whatever has happened before.
func TestFree_LeavesNothing(t *testing.T) {
	use := func() {
		comms := ranks(t, 4, long, nil)
		for i, err := range each(comms, func(c *Comm) error {
			part := c.Split(c.Rank()%2, 0)
			part.Barrier()
			c.Free()
			return nil
		}) {
			must(t, err)
			if tried(func() { comms[i].Recv(nil, (i+1)%4, 1) }) == nil {
				t.Error("a communicator can be used after Free")
			}
		}
		comms = ranks(t, 4, long, nil)
		each(comms, func(c *Comm) error {
			if c.Rank() == 2 {
				c.Close()
				return nil
			}
			opError(t, c.Rank(), tried(c.Barrier))
			c.Free()
			return nil
		})
	}
	use() // the runtime opens some descriptors that stay
	fds, goroutines := descriptorsAndGoroutines(t)
	for range 5 {
		use()
	}
	for runtime.NumGoroutine() > goroutines { // the last ones end after Free; go test ends a test that waits for good
		time.Sleep(time.Millisecond)
	}
	if f, _ := descriptorsAndGoroutines(t); f != fds {
		t.Errorf("%d descriptors, before %d", f, fds)
	}
}

// All descriptors are closed on exec and above 2, though the program has closed 0, 1 and 2.
func TestDescriptors(t *testing.T) {
	var kept [3]int
	for fd := range kept {
		var err error
		kept[fd], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 100)
		must(t, err)
	}
	restore := func() {
		for fd, k := range kept {
			if k >= 0 {
				unix.Dup2(k, fd)
				unix.Close(k)
			}
			kept[fd] = -1
		}
	}
	defer restore()
	for fd := range kept {
		unix.Close(fd)
	}
	comms := ranks(t, 3, long, nil)
	errs := each(comms, func(c *Comm) error {
		c.Barrier()
		return nil
	})
	var low []int
	for fd := range kept {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			low = append(low, fd)
		}
	}
	restore()
	if len(low) > 0 {
		t.Errorf("descriptors %v are open", low)
	}
	count := 0
	for i, c := range comms {
		must(t, errs[i])
		c.net.mu.Lock()
		fds := append([]int{c.net.watcher.fd}, c.net.listeners...)
		for fd := range c.net.links {
			fds = append(fds, fd)
			for name, want := range map[int]bool{unix.TCP_NODELAY: true, unix.TCP_USER_TIMEOUT: true, unix.TCP_KEEPIDLE: true} {
				v, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, name)
				if err != nil || (v != 0) != want {
					t.Errorf("option %d of a connection is %d: %v", name, v, err)
				}
			}
		}
		c.net.mu.Unlock()
		for _, fd := range fds {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			must(t, err)
			if fd < 3 || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("descriptor %d has flags %x", fd, flags)
			}
			count++
		}
	}
	if want := 3*2 + 3*2; count != want { // of a rank: to wait, to listen, and to two peers
		t.Errorf("%d descriptors, want %d", count, want)
	}
}

// Another goroutine revokes the communicator that a rank waits on, as when a flush is cancelled.
// All waits end, and the communicator that it was made from continues.
func TestRevoke_ByAnotherGoroutine(t *testing.T) {
	comms := ranks(t, 3, long, nil)
	for round := range 20 {
		size := []int{1, mostShort, mostShort + 1, 3 << 20}[round%4]
		for i, err := range each(comms, func(c *Comm) error {
			g := c.Revocable()
			buf := mpi.Alloc(size)
			err := mpi.Guard(g, func() error {
				for i := 0; ; i++ {
					if i == round && c.Rank() == 1 {
						go g.Revoke("cancelled")
					}
					g.Sendrecv(make([]byte, size), (c.Rank()+1)%3, 1, buf, (c.Rank()+2)%3, 1)
				}
			})
			mpi.Free(buf) // what still writes there ends this process
			var revoked *mpi.RevokedError
			if !errors.As(err, &revoked) || revoked.Rank != 1 || revoked.Reason != "cancelled" {
				return fmt.Errorf("revoked by rank 1: %w", err)
			}
			c.Barrier()
			return nil
		}) {
			if err != nil {
				t.Fatalf("round %d, rank %d: %v", round, i, err)
			}
		}
	}
	for _, err := range each(comms, func(c *Comm) error {
		c.Free()
		return nil
	}) {
		must(t, err)
	}
}

// work uses all kinds of messages.
func work(c *Comm) {
	n, me := c.Size(), c.Rank()
	part := c.Split(me%2, 0)
	for _, size := range []int{0, 100, mostShort + 1, 2*mostData + 5} {
		buf := make([]byte, size)
		c.Sendrecv(make([]byte, size), (me+1)%n, 1, buf, (me+n-1)%n, 1)
	}
	part.Allreduce(make([]int64, 3), mpi.Max)
	part.Free()
	c.Free()
}

// A rank dies in place of any frame that it sends. All others come to their end, with an
// error or because they need it no more.
func TestDeath_AtEveryFrame(t *testing.T) {
	const n = 4
	var counts [n]int64
	run := func(who int, at int64) []error {
		comms := ranks(t, n, long, nil)
		var sent atomic.Int64
		for i, c := range comms {
			c.net.mu.Lock()
			c.net.before = func() {
				if who < 0 {
					atomic.AddInt64(&counts[i], 1)
				} else if i == who && sent.Add(1) == at {
					c.net.abort()
				}
			}
			c.net.mu.Unlock()
		}
		return each(comms, func(c *Comm) error {
			defer c.Close() // also after an error, as the program ends
			work(c)
			return nil
		})
	}
	for i, err := range run(-1, 0) {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
	failures := 0
	for who := range n {
		for at := int64(1); at <= counts[who]; at++ {
			for i, err := range run(who, at) {
				if i != who && err != nil {
					opError(t, i, err, "cannot continue")
					failures++
				}
			}
		}
	}
	if failures < 100 {
		t.Errorf("only %d errors on ranks that have not died", failures)
	}
}

// New over a communicator that is revoked, or fails on one rank, leaves nothing.
func TestNew_Fails(t *testing.T) {
	before, _ := descriptorsAndGoroutines(t)
	_, err := local.Run(3, local.Options{}, func(c mpi.Comm) error {
		opt := Options{}
		if c.Rank() == 1 {
			opt.Interface = "no-such-interface"
		}
		_, err := New(c, opt)
		if err == nil || !strings.Contains(err.Error(), "rank 1: there is no network interface no-such-interface; there are lo") {
			return fmt.Errorf("error is %v", err)
		}
		return nil
	})
	must(t, err)
	_, err = local.Run(3, local.Options{KillAt: 4}, func(c mpi.Comm) error {
		_, err := New(c, Options{})
		return err
	})
	if !errors.Is(err, local.ErrKilled) {
		t.Error(err)
	}
	if after, _ := descriptorsAndGoroutines(t); after > before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}

// A rank that connects to one that has revoked learns of that before its message counts as taken.
func TestRevoke_ConnectedLater(t *testing.T) {
	for _, size := range []int{10, mostShort + 1} {
		comms := ranks(t, 7, long, nil)
		parts := make([]mpi.Revocable, len(comms))
		for _, err := range each(comms, func(c *Comm) (err error) {
			parts[c.Rank()] = c.Revocable()
			return nil
		}) {
			must(t, err)
		}
		// As if it had had no connection to rank 0 when it revoked.
		from, to := comms[0].net, comms[4].net
		to.mu.Lock()
		family := parts[4].(revocable).context.family
		family.why = &mpi.RevokedError{Rank: 4, Reason: "told nobody"}
		to.mu.Unlock()
		err := mpi.Guard(parts[0], func() error {
			parts[0].Issend(make([]byte, size), 4, 1).Wait()
			return nil
		})
		var revoked *mpi.RevokedError
		if !errors.As(err, &revoked) || revoked.Reason != "told nobody" {
			t.Errorf("%d bytes: %v", size, err)
		}
		from.mu.Lock()
		if from.failed != nil {
			t.Error(from.failed)
		}
		from.mu.Unlock()
	}
}

// What a rank has announced before a revocation is acknowledged after it.
func TestRevoke_AfterAnnouncement(t *testing.T) {
	comms := ranks(t, 2, long, nil)
	errs := each(comms, func(c *Comm) error {
		g := c.Revocable()
		if c.Rank() == 1 {
			g.Probe(0, 1) // it has arrived
			g.Revoke("enough")
			return nil
		}
		return mpi.Guard(g, func() error {
			g.Issend(make([]byte, 10), 1, 1).Wait()
			return nil
		})
	})
	var revoked *mpi.RevokedError
	if !errors.As(errs[0], &revoked) || errs[1] != nil {
		t.Errorf("%v, want the sender to learn of the revocation", errs)
	}
}
