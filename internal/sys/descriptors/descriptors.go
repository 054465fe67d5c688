// Package descriptors opens files so that none of them becomes descriptor 0, 1 or 2. If a
// program has closed one of these, it would otherwise be reused for a file of ours, and the
// program's output would be written to that file.
//
// While a file is being opened, each of the three that is closed is occupied by a descriptor
// that can neither be read nor written (O_PATH), so that the program's output fails as if
// the descriptor were closed.
package descriptors

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const lowest = 3 // the lowest descriptor that a file of ours may have

var held struct {
	mu    sync.Mutex
	users int
	ours  [lowest]bool

	closed [lowest]bool // at some time
}

// Hold occupies those of the descriptors 0 to 2 that are closed, until Release has been
// called as many times as Hold.
func Hold() {
	held.mu.Lock()
	defer held.mu.Unlock()
	held.users++
	for fd := range lowest { // the program may have closed one since another user called Hold
		if isInUse(fd) {
			continue
		}
		held.closed[fd] = true
		got, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err == nil && got != fd { // another thread has opened fd meanwhile
			_ = unix.Close(got)
		}
		held.ours[fd] = held.ours[fd] || err == nil && got == fd
	}
}

// patience is how many milliseconds Hold waits for the C library to close a file.
const patience = 1000

// isInUse reports whether a descriptor is open and stays so. The C library counts the
// processors when a thread needs one more arena for malloc, and its file takes a descriptor
// that the program has closed. When it is closed again, our file would take its place.
func isInUse(fd int) bool {
	for wait := range patience {
		// F_GETFD does not block, so Go's scheduler need not know of it; each call of the library asks.
		if _, _, errno := unix.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_GETFD, 0); errno != 0 {
			return false
		}
		if !held.closed[fd] || held.ours[fd] || !countsProcessors(fd) {
			return true
		}
		if wait > 0 { // the first time, it may just have been closed
			time.Sleep(time.Millisecond)
		}
	}
	return true
}

// countsProcessors reports whether a descriptor is a file from which the C library reads the
// number of processors.
func countsProcessors(fd int) bool {
	var path [64]byte
	n, err := unix.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd), path[:])
	return err == nil && (string(path[:n]) == "/sys/devices/system/cpu/online" || string(path[:n]) == "/proc/stat")
}

// Release closes the descriptors that Hold occupies, except one that the program has
// replaced meanwhile.
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
			_ = unix.Close(fd) // Linux closes fd even if it returns an error
		}
	}
}

// OpenFile is os.OpenFile, with a descriptor above 2.
func OpenFile(name string, flag int, perm os.FileMode) (*os.File, error) {
	Hold()
	defer Release()
	return Above(os.OpenFile(name, flag, perm))
}

// Above gives a file that was opened a descriptor above 2. It has a lower one if the program
// has closed that after Hold looked at it.
func Above(f *os.File, err error) (*os.File, error) {
	if err != nil || number(f) >= lowest {
		return f, err
	}
	defer f.Close()
	fd, err := unix.FcntlInt(uintptr(number(f)), unix.F_DUPFD_CLOEXEC, lowest)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: f.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// number returns the descriptor of a file. File.Fd would make the file blocking.
func number(f *os.File) int {
	fd := lowest
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(n uintptr) { fd = int(n) }) // it fails only if the file is closed
	}
	return fd
}

// Open is os.Open, with a descriptor above 2.
func Open(name string) (*os.File, error) { return OpenFile(name, os.O_RDONLY, 0) }

// ReadDir is os.ReadDir, with a descriptor above 2.
func ReadDir(name string) ([]os.DirEntry, error) {
	Hold()
	defer Release()
	return os.ReadDir(name)
}
