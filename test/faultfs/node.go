package faultfs

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// system is what the nodes of a mount have in common.
type system struct {
	backing    string
	times      Times
	attributes syscall.Errno // Options.Attributes
	locks      syscall.Errno // Options.Locks
	syncs      syscall.Errno // Options.Syncs
	close      bool          // to open
	faults     faults
	rec        recorder
}

// node is a file, directory or link. What it does not do itself the LoopbackNode passes
// through: lookups, readdir, readlink, statfs.
type node struct {
	*fs.LoopbackNode
	sys *system
}

// WrapChild makes a node of the LoopbackNode of a child.
func (n *node) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{ops.(*fs.LoopbackNode), n.sys}
}

// name is the path below the mount.
func (n *node) name(child string) string { return filepath.Join(n.Path(nil), child) }

// path is where a child is stored, or the node itself if child is "".
func (n *node) path(child string) string { return filepath.Join(n.sys.backing, n.name(child)) }

// round leaves of times what the file system knows of them.
func (s *system) round(a *fuse.Attr) {
	switch s.times {
	case Seconds:
		a.Atimensec, a.Mtimensec, a.Ctimensec = 0, 0, 0
	case None:
		a.Atime, a.Mtime, a.Ctime, a.Atimensec, a.Mtimensec, a.Ctimensec = 0, 0, 0, 0, 0, 0
	}
}

// entered describes what was made at a path to the kernel, as of the caller.
func (n *node) entered(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if caller, ok := fuse.FromContext(ctx); ok && os.Getuid() == 0 && caller.Uid != 0 {
		_ = unix.Lchown(n.path(name), int(caller.Uid), int(caller.Gid)) // as far as the directory there allows
	}
	return n.LoopbackLookup(ctx, name, out)
}

// LoopbackLookup looks a child up without faults.
func (n *node) LoopbackLookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	child, errno := n.LoopbackNode.Lookup(ctx, name, out)
	n.sys.round(&out.Attr)
	return child, errno
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.sys.faults.before(ctx, Stat, n.name(name)); errno != 0 {
		return nil, errno
	}
	return n.LoopbackLookup(ctx, name, out)
}

func (n *node) Getattr(ctx context.Context, f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if errno := n.sys.faults.before(ctx, Stat, n.name("")); errno != 0 {
		return errno
	}
	return n.getattr(f, out)
}

func (n *node) getattr(f fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	var st syscall.Stat_t
	var err error
	if h, ok := f.(*handle); ok {
		err = syscall.Fstat(h.fd, &st)
	} else {
		err = syscall.Lstat(n.path(""), &st)
	}
	if err != nil {
		return fs.ToErrno(err)
	}
	out.FromStat(&st)
	n.sys.round(&out.Attr)
	return 0
}

// Statx makes the kernel use Getattr.
func (n *node) Statx(context.Context, fs.FileHandle, uint32, uint32, *fuse.StatxOut) syscall.Errno {
	return syscall.ENOSYS
}

// CopyFileRange makes the kernel read and write.
func (n *node) CopyFileRange(context.Context, fs.FileHandle, uint64, *fs.Inode, fs.FileHandle, uint64, uint64, uint64) (uint32, syscall.Errno) {
	return 0, syscall.EOPNOTSUPP
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.enter(ctx, Mkdir, name, out, func(path string) error { return syscall.Mkdir(path, mode) })
}

func (n *node) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.enter(ctx, Open, name, out, func(path string) error { return syscall.Symlink(target, path) })
}

func (n *node) Mknod(ctx context.Context, name string, mode, dev uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.enter(ctx, Open, name, out, func(path string) error { return syscall.Mknod(path, mode, int(dev)) })
}

// enter makes something that has no handle.
func (n *node) enter(ctx context.Context, call Call, name string, out *fuse.EntryOut, make func(path string) error) (*fs.Inode, syscall.Errno) {
	if errno := n.sys.faults.before(ctx, call, n.name(name)); errno != 0 {
		return nil, errno
	}
	r := &n.sys.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	path := n.path(name)
	if err := make(path); err != nil {
		return nil, fs.ToErrno(err)
	}
	child, errno := n.entered(ctx, name, out)
	if r.on {
		r.keep(record{kind: enter, dir: r.of(n.path("")), name: name, file: r.made(path)})
	}
	return child, errno
}

func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	r := &n.sys.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	from := filepath.Join(n.sys.backing, target.EmbeddedInode().Path(nil))
	if err := unix.Linkat(unix.AT_FDCWD, from, unix.AT_FDCWD, n.path(name), 0); err != nil {
		return nil, fs.ToErrno(err)
	}
	if r.on {
		r.keep(record{kind: enter, dir: r.of(n.path("")), name: name, file: r.of(from)})
	}
	return n.LoopbackLookup(ctx, name, out)
}

func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	return n.remove(ctx, name, syscall.Unlink)
}

func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno {
	return n.remove(ctx, name, syscall.Rmdir)
}

func (n *node) remove(ctx context.Context, name string, remove func(string) error) syscall.Errno {
	if errno := n.sys.faults.before(ctx, Remove, n.name(name)); errno != 0 {
		return errno
	}
	r := &n.sys.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	path := n.path(name)
	x := record{kind: leave, dir: r.of(n.path("")), name: name, file: r.of(path)}
	if err := remove(path); err != nil {
		return fs.ToErrno(err)
	}
	r.keep(x)
	return 0
}

func (n *node) Rename(ctx context.Context, name string, to fs.InodeEmbedder, toName string, flags uint32) syscall.Errno {
	into, ok := to.(*node)
	if !ok || flags&unix.RENAME_EXCHANGE != 0 {
		return syscall.EINVAL
	}
	if errno := n.sys.faults.before(ctx, Rename, into.name(toName)); errno != 0 {
		return errno
	}
	r := &n.sys.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	from := n.path(name)
	x := record{kind: rename, dir: r.of(n.path("")), name: name, to: r.of(into.path("")), toName: toName, file: r.of(from)}
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, into.path(toName), uint(flags)); err != nil {
		return fs.ToErrno(err)
	}
	r.keep(x)
	return 0
}

func (n *node) Setattr(_ context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	r := &n.sys.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	path := n.path("")
	h, open := f.(*handle)
	if open { // the file may have no name any more
		path = h.path()
	}
	if size, ok := in.GetSize(); ok && (!open || h.fault == nil) {
		if err := syscall.Truncate(path, int64(size)); err != nil {
			return fs.ToErrno(err)
		}
	}
	if refuse := n.sys.attributes; refuse != 0 && in.Valid&(fuse.FATTR_MODE|fuse.FATTR_UID|fuse.FATTR_GID|fuse.FATTR_ATIME|fuse.FATTR_MTIME) != 0 {
		return refuse
	}
	if err := setattr(path, open, in); err != nil {
		return fs.ToErrno(err)
	}
	if r.on {
		n.keepAttributes(path, in)
	}
	return n.getattr(f, out)
}

// setattr changes owner, mode and times.
func setattr(path string, follow bool, in *fuse.SetAttrIn) error {
	uid, gid := -1, -1
	if id, ok := in.GetUID(); ok {
		uid = int(id)
	}
	if id, ok := in.GetGID(); ok {
		gid = int(id)
	}
	flag := unix.AT_SYMLINK_NOFOLLOW
	if follow {
		flag = 0
	}
	if uid >= 0 || gid >= 0 {
		if err := unix.Fchownat(unix.AT_FDCWD, path, uid, gid, flag); err != nil {
			return err
		}
	}
	if mode, ok := in.GetMode(); ok {
		if err := syscall.Chmod(path, mode&0o7777); err != nil {
			return err
		}
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
	if t, ok := in.GetATime(); ok {
		times[0] = unix.NsecToTimespec(t.UnixNano())
	}
	if t, ok := in.GetMTime(); ok {
		times[1] = unix.NsecToTimespec(t.UnixNano())
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, times, flag)
}

// keepAttributes records what Setattr has done.
func (n *node) keepAttributes(path string, in *fuse.SetAttrIn) {
	r := &n.sys.rec
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return
	}
	now := newInode(st)
	x := record{kind: change, file: r.number[st.Ino], mode: now.mode, uid: now.uid, gid: now.gid, time: now.time}
	if size, ok := in.GetSize(); ok {
		y := x
		y.kind, y.size = resize, int64(size)
		r.keep(y)
	}
	if in.Valid&^(fuse.FATTR_SIZE|fuse.FATTR_FH|fuse.FATTR_LOCKOWNER|fuse.FATTR_KILL_SUIDGID) != 0 {
		r.keep(x)
	}
}

func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.sys.faults.before(ctx, Open, n.name(name)); errno != 0 {
		return nil, nil, 0, errno
	}
	r := &n.sys.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	path := n.path(name)
	_, err := lstat(path)
	fresh := err != nil
	fd, err := syscall.Open(path, int(flags)&^(syscall.O_APPEND|syscall.O_NOFOLLOW)|syscall.O_CREAT|syscall.O_CLOEXEC, mode)
	if err != nil {
		return nil, nil, 0, fs.ToErrno(err)
	}
	child, errno := n.entered(ctx, name, out)
	if errno != 0 {
		syscall.Close(fd)
		return nil, nil, 0, errno
	}
	if r.on && fresh {
		r.keep(record{kind: enter, dir: r.of(n.path("")), name: name, file: r.made(path)})
	}
	h := newHandle(n.sys, fd, n.name(name))
	h.written()
	return child, h, 0, 0
}

func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.sys.faults.before(ctx, Open, n.name("")); errno != 0 {
		return nil, 0, errno
	}
	fd, err := syscall.Open(n.path(""), int(flags)&^(syscall.O_APPEND|syscall.O_CREAT|fuse.FMODE_EXEC)|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		if err == syscall.ENOENT { // another mount has removed it: the kernel looks it up again
			err = syscall.ESTALE
		}
		return nil, 0, fs.ToErrno(err)
	}
	h := newHandle(n.sys, fd, n.name(""))
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR || n.sys.close && st.Ino != n.StableAttr().Ino {
		syscall.Close(fd)
		return nil, 0, syscall.ESTALE // it is removed, and has no path, or another mount has replaced it
	}
	if n.sys.close {
		n.fresh()
	}
	if flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		h.written()
	}
	return h, 0, 0
}

// fresh has the kernel ask for the attributes of the file again.
func (n *node) fresh() { _ = n.NotifyContent(-1, 0) } // fails if the kernel has forgotten the file

// Fsync is of files and directories.
func (n *node) Fsync(ctx context.Context, f fs.FileHandle, _ uint32) syscall.Errno {
	if n.sys.syncs != 0 {
		return n.sys.syncs
	}
	if errno := n.sys.faults.before(ctx, Sync, n.name("")); errno != 0 {
		return errno
	}
	h, open := f.(*handle)
	if open && h.fault != nil && h.fault.Call == Sync && !h.done {
		h.done = true
		return n.sys.faults.strike(ctx, *h.fault, Sync, h.name)
	}
	r := &n.sys.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on {
		return 0 // what is below is no test's concern
	}
	id := 0
	if open {
		id, _ = r.ofFd(h.fd)
	} else {
		id = r.of(n.path(""))
	}
	r.keep(record{kind: settle, file: id})
	return 0
}
