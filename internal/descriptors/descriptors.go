// Package descriptors opens files so that none of them becomes descriptor 0, 1 or 2, which a
// program may have closed: what it prints would be written into the file.
//
// For as long as something is opened, those that are closed are held by descriptors that
// neither read nor write (O_PATH): what the program prints fails as if they were closed.
package descriptors

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const lowest = 3 // that is not the program's

var held struct {
	mu    sync.Mutex
	users int
	ours  [lowest]bool
}

// Hold holds those of the descriptors 0 to 2 that are closed, until Release is called as
// often.
func Hold() {
	held.mu.Lock()
	defer held.mu.Unlock()
	held.users++
	if held.users > 1 {
		return
	}
	for fd := range lowest {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			continue
		}
		got, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err == nil && got != fd { // another thread was faster
			_ = unix.Close(got)
		}
		held.ours[fd] = err == nil && got == fd
	}
}

// Release gives them back. One that the program has replaced meanwhile is its own.
func Release() {
	held.mu.Lock()
	defer held.mu.Unlock()
	held.users--
	if held.users > 0 {
		return
	}
	for fd := range lowest {
		if !held.ours[fd] {
			continue
		}
		held.ours[fd] = false
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil && flags&unix.O_PATH != 0 {
			_ = unix.Close(fd) // closed in any case
		}
	}
}

// OpenFile is os.OpenFile.
func OpenFile(name string, flag int, perm os.FileMode) (*os.File, error) {
	Hold()
	defer Release()
	return os.OpenFile(name, flag, perm)
}

// Open is os.Open.
func Open(name string) (*os.File, error) { return OpenFile(name, os.O_RDONLY, 0) }

// ReadDir is os.ReadDir.
func ReadDir(name string) ([]os.DirEntry, error) {
	Hold()
	defer Release()
	return os.ReadDir(name)
}
