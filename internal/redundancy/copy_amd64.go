package redundancy

import "unsafe"

// line is the size of a cache line.
const line = 64

// copyLines copies n bytes with non-temporal stores, which bypass the cache. dst must be
// aligned to a cache line, and n must be a multiple of its size.
//
//go:noescape
func copyLines(dst, src *byte, n int)

// copyNonTemporal copies src to dst, which has the same length, without loading dst into
// the cache.
func copyNonTemporal(dst, src []byte) {
	head := min(int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst)))&(line-1)), len(src))
	copy(dst, src[:head])
	dst, src = dst[head:], src[head:]
	if n := len(src) &^ (line - 1); n > 0 {
		copyLines(&dst[0], &src[0], n)
		dst, src = dst[n:], src[n:]
	}
	copy(dst, src)
}
