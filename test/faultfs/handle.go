package faultfs

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// handle is an open file.
type handle struct {
	sys  *system
	fd   int
	name string // when it was opened, below the mount

	fault  *Fault // that it is to have, nil for none
	stored int64  // bytes that are stored of what is written, if it has one
	mu     sync.Mutex
	done   bool // the fault has been reported
}

func newHandle(sys *system, fd int, name string) *handle {
	return &handle{sys: sys, fd: fd, name: name}
}

// path is a path of the file, which may have no name any more.
func (h *handle) path() string { return fmt.Sprintf("/proc/self/fd/%d", h.fd) }

// written says that the file was opened for writing.
func (h *handle) written() { h.fault, h.stored = h.sys.faults.opened(h.name) }

func (h *handle) Read(ctx context.Context, buf []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	if errno := h.sys.faults.before(ctx, Read, h.name); errno != 0 {
		return nil, errno
	}
	n, err := unix.Pread(h.fd, buf, at)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	return fuse.ReadResultData(buf[:n]), 0
}

func (h *handle) Write(ctx context.Context, data []byte, at int64) (uint32, syscall.Errno) {
	if errno := h.sys.faults.before(ctx, Write, h.name); errno != 0 {
		return 0, errno
	}
	length := uint32(len(data))
	if h.fault != nil {
		past := at+int64(length) > h.stored || h.fault.Errno == 0
		if h.fault.Call == Write && past && !h.reported() {
			if errno := h.sys.faults.strike(ctx, *h.fault, Write, h.name); errno != 0 {
				return 0, errno
			}
		}
		if h.fault.Errno != 0 { // accepted, and lost
			data = data[:max(min(h.stored-at, int64(length)), 0)]
		}
	}
	r := &h.sys.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	for done := 0; done < len(data); {
		n, err := unix.Pwrite(h.fd, data[done:], at+int64(done))
		if err != nil {
			return uint32(done), fs.ToErrno(err)
		}
		done += n
	}
	if r.on && len(data) > 0 {
		id, st := r.ofFd(h.fd)
		r.keep(record{kind: put, file: id, at: at, data: append([]byte(nil), data...), time: time.Unix(st.Mtim.Unix())})
	}
	return length, 0
}

// reported says whether the fault of the file was reported before, and that it is now.
func (h *handle) reported() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.done
	h.done = true
	return before
}

func (h *handle) Flush(ctx context.Context) syscall.Errno {
	if errno := h.sys.faults.before(ctx, Close, h.name); errno != 0 {
		return errno
	}
	if h.fault != nil && h.fault.Call == Close && !h.reported() {
		return h.sys.faults.strike(ctx, *h.fault, Close, h.name)
	}
	return 0
}

func (h *handle) Release(context.Context) syscall.Errno { return fs.ToErrno(syscall.Close(h.fd)) }

func (h *handle) Allocate(_ context.Context, at, size uint64, mode uint32) syscall.Errno {
	r := &h.sys.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := unix.Fallocate(h.fd, mode, int64(at), int64(size)); err != nil {
		return fs.ToErrno(err)
	}
	if id, st := r.ofFd(h.fd); r.on && mode&unix.FALLOC_FL_KEEP_SIZE == 0 {
		r.keep(record{kind: resize, file: id, size: st.Size, time: time.Unix(st.Mtim.Unix())})
	}
	return 0
}

// Setlk and Setlkw take locks of the file in the backing directory, so that all mounts
// of it have the same.
func (h *handle) Setlk(ctx context.Context, _ uint64, lock *fuse.FileLock, flags uint32) syscall.Errno {
	if errno := h.sys.faults.before(ctx, Lock, h.name); errno != 0 {
		return errno
	}
	if h.sys.locks != 0 {
		return h.sys.locks
	}
	if flags&fuse.FUSE_LK_FLOCK != 0 {
		return h.flock(lock)
	}
	var l syscall.Flock_t
	lock.ToFlockT(&l)
	errno := fs.ToErrno(syscall.FcntlFlock(uintptr(h.fd), unix.F_OFD_SETLK, &l))
	if errno == syscall.EACCES {
		errno = syscall.EAGAIN
	}
	return errno
}

func (h *handle) flock(lock *fuse.FileLock) syscall.Errno {
	how := map[uint32]int{syscall.F_RDLCK: syscall.LOCK_SH, syscall.F_WRLCK: syscall.LOCK_EX, syscall.F_UNLCK: syscall.LOCK_UN}[lock.Typ]
	return fs.ToErrno(syscall.Flock(h.fd, how|syscall.LOCK_NB))
}

func (h *handle) Setlkw(ctx context.Context, owner uint64, lock *fuse.FileLock, flags uint32) syscall.Errno {
	for {
		if errno := h.Setlk(ctx, owner, lock, flags); errno != syscall.EWOULDBLOCK {
			return errno
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done(): // a signal has come
			return syscall.EINTR
		}
	}
}

func (h *handle) Getlk(_ context.Context, _ uint64, lock *fuse.FileLock, _ uint32, out *fuse.FileLock) syscall.Errno {
	if h.sys.locks != 0 {
		return h.sys.locks
	}
	var l syscall.Flock_t
	lock.ToFlockT(&l)
	errno := fs.ToErrno(syscall.FcntlFlock(uintptr(h.fd), unix.F_OFD_GETLK, &l))
	out.FromFlockT(&l)
	return errno
}

// directory is an open directory.
type directory struct {
	entries
	n *node
}

// entries is what an open directory of the LoopbackNode can do.
type entries interface {
	fs.FileReaddirenter
	fs.FileSeekdirer
	fs.FileReleasedirer
}

func (n *node) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.sys.faults.before(ctx, Open, n.name("")); errno != 0 {
		return nil, 0, errno
	}
	f, more, errno := n.LoopbackNode.OpendirHandle(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	return &directory{f.(entries), n}, more, 0
}

func (d *directory) Fsyncdir(ctx context.Context, flags uint32) syscall.Errno {
	return d.n.Fsync(ctx, nil, flags)
}
