//go:build mpi

package main

import (
	"errors"

	"golang.org/x/sys/unix"
)

// stderr writes to descriptor 2. It is not an os.File, which would end the program with
// SIGPIPE when the reader of a pipe has ended (docs/go-runtime.md).
type stderr struct{}

// patience is how long, in milliseconds, Write waits for a slow reader of a pipe. After
// that it drops the rest of the message, so that the job continues.
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
