// Package faultfs is a file system for tests, by FUSE, that does what real ones do and
// tests cannot wait for: power fails, errors come late, calls get stuck, times have
// whole seconds, and what one node caches is not what another has written. It stores
// everything in another directory, on whatever that is on.
//
//	faultfs.go  what it does, by Options
//	mount.go    for a test: a mount, in a process of its own
//	serve.go    ... that process
//	node.go     files and directories
//	handle.go   open files
//	fault.go    calls that fail, are slow, or get stuck
//	record.go   what has changed, in order, and what is durable of it
//	survive.go  what a power failure leaves
//
// A test binary that mounts it calls Main in its TestMain: a process must not serve a
// file system that it uses, since a garbage collection would wait for a thread that
// waits for the file system.
package faultfs

import (
	"syscall"
	"time"
)

// Options are what a mount does. The zero value passes everything through.
type Options struct {
	// Times says what files have as their times: every nanosecond, whole seconds, or
	// none.
	Times Times
	// CloseToOpen is how long names, attributes and data of files are cached, as NFS
	// caches them: this mount sees what another has changed when it opens a file, and
	// otherwise after that time. That there is no file of a name is not cached, as with
	// lookupcache=positive. 0: nothing is cached.
	CloseToOpen time.Duration
	// Attributes is how it fails to set a mode, an owner or a time, as on mounts of object stores;
	// 0: it does not fail.
	Attributes syscall.Errno
	// Locks is how it refuses locks of fcntl, as Lustre without the mount option flock; 0: it has them.
	Locks syscall.Errno
	// Syncs is how it refuses fsync, of files and of directories; 0: it does not.
	Syncs syscall.Errno
	// Record keeps what changes, for Mount.Survivors.
	Record bool
	// Faults are calls that fail or get stuck.
	Faults []Fault
	// Slow delays each call that may wait for a medium or a server, by up to that time.
	Slow time.Duration
	// Seed decides what is decided at random.
	Seed uint64
}

// Times is what a file system knows of the times of its files.
type Times int

// What a file system may know.
const (
	Exact Times = iota
	Seconds
	None
)

// Call is a kind of call that can fail.
type Call string

// The calls.
const (
	Open   Call = "open" // or create
	Read   Call = "read"
	Write  Call = "write"
	Sync   Call = "fsync" // of a file or a directory
	Close  Call = "close"
	Rename Call = "rename"
	Remove Call = "unlink"
	Mkdir  Call = "mkdir"
	Stat   Call = "stat" // or lookup
	Lock   Call = "flock"
)

// Fault is a call that fails, once, or that gets stuck.
type Fault struct {
	Call Call
	// Path is a part of the path below the mount, "" for any.
	Path string
	// Skip is how many files that are opened for writing pass before it, if Call is
	// Write, Sync or Close; else, how many such calls.
	Skip int
	// Errno is how the call fails. What was written to the file before a Sync or a Close
	// that fails was accepted, and is lost in part. 0: the call waits for
	// Mount.Release.
	Errno syscall.Errno
}
