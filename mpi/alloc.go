package mpi

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the common size of a huge page. With small pages, moving data
// between processes spends as much time on page tables as on copying.
const hugePage = 2 << 20

// Alloc returns n bytes of zeroed memory outside the Go heap, where MPI may
// keep a pointer to them while Go code runs. The caller must release it with Free.
// If there is no memory, Alloc panics with an *OpError, as operations do: other ranks may wait for what the caller would have sent.
func Alloc(n int) []byte {
	if n == 0 {
		return nil
	}
	if n < hugePage {
		return mapMemory(n)
	}
	// Begin at a huge page, and unmap the memory before it.
	whole := mapMemory(n + hugePage)
	base := unsafe.Pointer(unsafe.SliceData(whole))
	skip := int(-uintptr(base) & (hugePage - 1))
	start := unsafe.Add(base, skip)
	for _, err := range []error{unmap(base, skip), unmap(unsafe.Add(start, pages(n)), hugePage-skip)} {
		if err != nil { // the system has too many mappings
			panic(&OpError{"MPI", err})
		}
	}
	buf := unsafe.Slice((*byte)(start), n)
	_ = unix.Madvise(buf, unix.MADV_HUGEPAGE) // advice only
	return buf
}

// Free releases memory from Alloc. The slice must be the one that Alloc returned.
func Free(buf []byte) {
	if len(buf) > 0 {
		_ = unmap(unsafe.Pointer(unsafe.SliceData(buf)), pages(len(buf))) // fails only for memory that is not from Alloc
	}
}

func mapMemory(n int) []byte {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(pages(n)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(&OpError{"MPI", fmt.Errorf("no memory for a buffer of %d bytes: %w", n, err)})
	}
	return unsafe.Slice((*byte)(p), n)
}

func unmap(p unsafe.Pointer, n int) error {
	if n == 0 {
		return nil
	}
	return unix.MunmapPtr(p, uintptr(n))
}

// pages rounds n up to whole pages.
func pages(n int) int {
	page := unix.Getpagesize()
	return (n + page - 1) / page * page
}
