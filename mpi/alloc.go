package mpi

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the common size of a huge page. With small pages, moving data
// between processes spends as much time on page tables as on copying.
const hugePage = 2 << 20

// keepAtMost is how many bytes of freed buffers stay mapped, so that the next calls of
// the library find their pages: to touch a new page can take longer than to send it.
const keepAtMost = 2 << 20

// kept has freed buffers, as Alloc mapped them. Its size is the sum of theirs.
var kept struct {
	sync.Mutex
	buffers [][]byte
	size    int
}

// reuse returns n zeroed bytes at the start of the smallest kept buffer that has them. It returns nil if none
// has, or if that one is much larger: a larger request would miss it.
func reuse(n int) []byte {
	kept.Lock()
	best := -1
	for i, b := range kept.buffers {
		if len(b) >= n && len(b) <= 4*pages(n) && (best < 0 || len(b) < len(kept.buffers[best])) {
			best = i
		}
	}
	if best < 0 {
		kept.Unlock()
		return nil
	}
	buf := kept.buffers[best]
	kept.buffers = slices.Delete(kept.buffers, best, best+1)
	kept.size -= len(buf)
	kept.Unlock()
	clear(buf[:n])
	return buf[:n]
}

// keep keeps a buffer, unless it is too large.
func keep(buf []byte) (done bool) {
	kept.Lock()
	defer kept.Unlock()
	if kept.size+len(buf) > keepAtMost {
		return false
	}
	kept.buffers = append(kept.buffers, buf)
	kept.size += len(buf)
	return true
}

// Trim unmaps the memory of freed buffers that Alloc would use again.
func Trim() {
	kept.Lock()
	buffers := kept.buffers
	kept.buffers, kept.size = nil, 0
	kept.Unlock()
	for _, b := range buffers {
		release(b)
	}
}

// Alloc returns n bytes of zeroed memory outside the Go heap, where MPI may
// keep a pointer to them while Go code runs. The caller must release it with Free.
// If there is no memory, Alloc panics with an *OpError, as operations do: other ranks may wait for what the caller would have sent.
func Alloc(n int) []byte {
	if n == 0 {
		return nil
	}
	if buf := reuse(n); buf != nil {
		return buf
	}
	if n < hugePage {
		return mapMemory(pages(n))[:n]
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

// Free releases memory from Alloc. The slice must be the one that Alloc returned. Alloc may
// return some of it again until Trim.
func Free(buf []byte) {
	if len(buf) == 0 {
		return
	}
	if buf = buf[:cap(buf)]; !keep(buf) {
		release(buf)
	}
}

func release(buf []byte) {
	_ = unmap(unsafe.Pointer(unsafe.SliceData(buf)), pages(len(buf))) // fails only for memory that is not from Alloc
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
