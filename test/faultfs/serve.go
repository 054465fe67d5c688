package faultfs

import (
	"fmt"
	"io"
	"log"
	"net/rpc"
	"os"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// variable has, in the process that serves a mount, the backing directory and, in the
// next two, where it is mounted and how long names and attributes are cached.
const variable = "GOSCR_FAULTFS_BACKING"

// Main serves a mount and does not return, in the process that New has started for that.
// It is to be called first in TestMain.
func Main() {
	backing, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	cached, _ := time.ParseDuration(os.Getenv(variable + "_CACHED"))
	m, err := Serve(backing, os.Getenv(variable+"_DIR"), cached)
	if err == nil {
		fmt.Fprintln(os.Stderr, "mounted")
		server := rpc.NewServer()
		if err = server.RegisterName("FS", &remote{m}); err == nil {
			server.ServeConn(struct {
				io.Reader
				io.WriteCloser
			}{os.Stdin, os.Stdout}) // until the test ends
		}
		m.Unmount()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Served is a mount that this process serves. No program of the same process may use it.
type Served struct {
	server *fuse.Server
	sys    *system
	dir    string
}

// Serve mounts a directory of another.
func Serve(backing, dir string, cached time.Duration) (*Served, error) {
	syscall.Umask(0)
	loopback, err := fs.NewLoopbackRoot(backing)
	if err != nil {
		return nil, err
	}
	sys := &system{backing: backing, close: cached > 0}
	sys.faults.set(Options{})
	server, err := fs.Mount(dir, &node{loopback.(*fs.LoopbackNode), sys}, &fs.Options{
		EntryTimeout: &cached, AttrTimeout: &cached, NullPermissions: true,
		MountOptions: fuse.MountOptions{
			FsName: "faultfs", Name: "goscr", Options: []string{"default_permissions"}, AllowOther: os.Geteuid() == 0,
			DirectMount: true, EnableLocks: true, DisableReadDirPlus: true, DisableXAttrs: true, MaxBackground: 64,
			Logger: log.New(io.Discard, "", 0),
		},
		Logger: log.New(io.Discard, "", 0),
	})
	if err != nil {
		return nil, fmt.Errorf("mount: %w", err)
	}
	return &Served{server, sys, dir}, nil
}

// Set changes what the mount does.
func (m *Served) Set(opt Options) error {
	m.sys.faults.set(opt)
	m.sys.times = opt.Times
	m.sys.attributes, m.sys.locks, m.sys.syncs = opt.Attributes, opt.Locks, opt.Syncs
	r := &m.sys.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = false
	if opt.Record {
		return r.begin(m.sys.backing)
	}
	return nil
}

// Unmount ends the mount. Programs that use it get errors.
func (m *Served) Unmount() {
	m.sys.faults.let()
	_ = syscall.Unmount(m.dir, syscall.MNT_DETACH)
	_ = m.server.Unmount() // by fusermount3, for others than root
}

// Wait returns when the mount has ended.
func (m *Served) Wait() { m.server.Wait() }

// remote is what a test can ask the process that serves a mount.
type remote struct{ *Served }

// Nothing is what has no arguments or no result.
type Nothing struct{}

// Surviving says what Survivors is to make.
type Surviving struct {
	At   int // records
	Seed uint64
	Dir  string
}

// Options is Served.Set.
func (m *remote) Options(opt Options, _ *Nothing) error { return m.Set(opt) }

// Count is how many records there are.
func (m *remote) Count(_ Nothing, n *int) error {
	r := &m.sys.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	*n = len(r.records)
	return nil
}

// Survivors stores what survives.
func (m *remote) Survivors(s Surviving, _ *Nothing) error {
	r := &m.sys.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	return store(r.survivors(s.At, s.Seed), s.Dir)
}

// Off ends the mount, and keeps the records.
func (m *remote) Off(Nothing, *Nothing) error { m.Unmount(); return nil }

// Stuck lists the calls that are stuck.
func (m *remote) Stuck(_ Nothing, list *[]string) error { *list = m.sys.faults.waiting(); return nil }

// Hit lists the calls that have failed or were stuck.
func (m *remote) Hit(_ Nothing, list *[]string) error { *list = m.sys.faults.hits(); return nil }

// Release lets all calls continue that are stuck.
func (m *remote) Release(Nothing, *Nothing) error { m.sys.faults.let(); return nil }
