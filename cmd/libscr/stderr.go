//go:build mpi

package main

import (
	"errors"

	"golang.org/x/sys/unix"
)

// stderr writes to descriptor 2. An os.File would end the program with SIGPIPE when
// nobody reads the messages (docs/go-runtime.md).
type stderr struct{}

// patience is how long a message waits for a reader that is slow, in
// milliseconds; what does not fit is lost then, and the job goes on.
const patience = 1000

func (stderr) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, err := unix.Write(2, p[written:])
		switch {
		case err == nil:
			written += n
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			ready, err := unix.Poll([]unix.PollFd{{Fd: 2, Events: unix.POLLOUT}}, patience)
			if err != nil && !errors.Is(err, unix.EINTR) || err == nil && ready == 0 {
				return written, unix.EAGAIN
			}
		default:
			return written, err
		}
	}
	return written, nil
}
