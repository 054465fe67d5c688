package mpi

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Alloc returns n bytes of zeroed memory outside the Go heap, where MPI may
// keep a pointer to them while Go code runs. It is to be given back with Free.
func Alloc(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	buf, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("no memory for a buffer of %d bytes: %w", n, err)
	}
	return buf, nil
}

// Free gives memory from Alloc back. The slice must be the one Alloc returned.
func Free(buf []byte) {
	if len(buf) > 0 {
		_ = unix.Munmap(buf) // fails only for memory that is not from Alloc
	}
}
