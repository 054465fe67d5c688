package sockets

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/sys/descriptors"
)

// All descriptors are opened here: nonblocking, closed on exec, and above 2. The functions of
// package net would open some that are not, and write in a way that raises SIGPIPE while the
// program's own handlers are installed.

// above opens a descriptor that is above 2.
func above(open func() (int, error)) (int, error) {
	descriptors.Hold()
	defer descriptors.Release()
	const lowest = 3
	fd, err := open()
	if err != nil || fd >= lowest {
		return fd, err
	}
	defer unix.Close(fd) // the program has closed it after Hold looked at it
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, lowest)
}

// newSocket returns a TCP socket for the family of an address.
func newSocket(to netip.Addr) (int, error) {
	family := unix.AF_INET6
	if to.Is4() {
		family = unix.AF_INET
	}
	fd, err := above(func() (int, error) {
		return unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	})
	return fd, os.NewSyscallError("socket", err)
}

// sockaddr converts an address.
func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// listenOn returns a socket that listens on a free port of an address, and the port. An
// unspecified IPv6 address takes connections over IPv4, too.
func listenOn(at netip.Addr) (fd int, port uint16, err error) {
	if fd, err = newSocket(at); err != nil {
		return -1, 0, err
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
			err = fmt.Errorf("cannot listen on %v: %w", at, err)
		}
	}()
	if at.Is6() {
		only := 0
		if !at.IsUnspecified() {
			only = 1
		}
		if err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only); err != nil {
			return -1, 0, err
		}
	}
	if err = unix.Bind(fd, sockaddr(netip.AddrPortFrom(at, 0))); err != nil {
		return -1, 0, err
	}
	if err = unix.Listen(fd, unix.SOMAXCONN); err != nil {
		return -1, 0, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return -1, 0, err
	}
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return fd, uint16(a.Port), nil
	case *unix.SockaddrInet6:
		return fd, uint16(a.Port), nil
	}
	return -1, 0, errors.New("the socket has no port")
}

// connectTo begins to connect. The result is known when the socket can be written.
func connectTo(to netip.AddrPort) (int, error) {
	fd, err := newSocket(to.Addr())
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil && err != unix.EINPROGRESS && err != unix.EINTR {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("connect", err)
	}
	return fd, nil
}

// acceptOn accepts a connection. It returns unix.EAGAIN if there is none.
func acceptOn(listener int) (int, error) {
	return above(func() (int, error) {
		fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		return fd, err
	})
}

// tune sets the options of a connection: nothing is held back, and a peer that does not
// answer for limit is an error, whether data is on the way to it (TCP_USER_TIMEOUT) or not
// (keepalive).
func tune(fd int, limit time.Duration) error {
	const probes = 4
	every := max(int(limit.Seconds())/(probes+1), 1)
	for _, o := range []struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, every},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, every},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, probes},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(max(limit, time.Second).Milliseconds())},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return nil
}

// connected returns nil if a connection that was begun is made.
func connected(fd int) error {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	if err != nil {
		return os.NewSyscallError("connect", err)
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	// If nobody listens on a port of this node, the kernel may choose just that one for the
	// socket that connects, which is then connected to itself.
	if there, err := unix.Getpeername(fd); err != nil || reflect.DeepEqual(own, there) {
		return os.NewSyscallError("connect", unix.ECONNREFUSED)
	}
	return nil
}

// sendSome sends what the socket takes of the buffers, 0 bytes if it takes none.
func sendSome(fd int, buffers [][]byte) (int, error) {
	for {
		n, err := unix.SendmsgBuffers(fd, buffers, nil, nil, unix.MSG_NOSIGNAL)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, os.NewSyscallError("send", err)
		}
	}
}

// errEnd says that the other side has closed the connection.
var errEnd = errors.New("it has closed the connection")

// receiveSome receives what there is, 0 bytes if there is nothing yet.
func receiveSome(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return 0, nil
		case err != nil:
			return 0, os.NewSyscallError("receive", err)
		case n == 0 && len(buf) > 0:
			return 0, errEnd
		default:
			return n, nil
		}
	}
}

// watcher waits for events of any number of sockets. Its descriptor is one that Go's runtime
// waits for, so that a goroutine that waits takes no thread.
type watcher struct {
	file *os.File
	fd   int
}

func newWatcher() (*watcher, error) {
	descriptors.Hold() // the runtime opens descriptors of its own the first time
	defer descriptors.Release()
	fd, err := above(func() (int, error) { return unix.EpollCreate1(unix.EPOLL_CLOEXEC) })
	if err == nil {
		if err = unix.SetNonblock(fd, true); err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	w := &watcher{os.NewFile(uintptr(fd), "epoll"), fd}
	if err := w.file.SetReadDeadline(time.Time{}); err != nil { // the runtime cannot wait for it
		return nil, errors.Join(err, w.file.Close())
	}
	return w, nil
}

// set says which events of a socket are waited for, besides its errors. Its events have the
// serial number in Pad.
func (w *watcher) set(op, fd int, serial int32, out bool) error {
	e := unix.EpollEvent{Fd: int32(fd), Pad: serial, Events: unix.EPOLLIN}
	if out {
		e.Events |= unix.EPOLLOUT
	}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(w.fd, op, fd, &e))
}

// forget ends the wait for a socket.
func (w *watcher) forget(fd int) {
	_ = unix.EpollCtl(w.fd, unix.EPOLL_CTL_DEL, fd, nil) // closing it has the same effect
}

// wait waits for events, or until the time that wakeAt has set: then it returns none.
func (w *watcher) wait(events []unix.EpollEvent) (n int, err error) {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, failed = unix.EpollWait(int(fd), events, 0)
		if failed == unix.EINTR {
			n, failed = 0, nil
		}
		return n != 0 || failed != nil
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, nil
	}
	return max(n, 0), errors.Join(err, failed)
}

// wakeAt sets the time at which wait returns; zero: never. A wait that continues obeys it.
func (w *watcher) wakeAt(t time.Time) { _ = w.file.SetReadDeadline(t) }
