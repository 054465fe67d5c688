package redundancy

import "unsafe"

// line is the size of a cache line.
const line = 64

// copyLines copies whole lines with non-temporal stores, which bypass the cache.
// dst begins at a line, and n is a multiple of its size.
//
//go:noescape
func copyLines(dst, src *byte, n int)

// copyAround copies src to dst, of the same length, and bypasses the cache for dst.
func copyAround(dst, src []byte) {
	head := min(int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst)))&(line-1)), len(src))
	copy(dst, src[:head])
	dst, src = dst[head:], src[head:]
	if n := len(src) &^ (line - 1); n > 0 {
		copyLines(&dst[0], &src[0], n)
		dst, src = dst[n:], src[n:]
	}
	copy(dst, src)
}
