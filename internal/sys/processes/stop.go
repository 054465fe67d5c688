package processes

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Stop stops this process by SIGSTOP, and returns when it has been continued. The signal is for the
// calling thread: one for the process may be for another thread, and then the caller continues until
// that one has received it.
func Stop() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
}
