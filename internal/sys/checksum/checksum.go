// Package checksum computes the CRC-32 (IEEE polynomial, as in zlib) that goscr
// records for files, and combines the checksums of the parts of a file.
package checksum

import (
	"hash/crc32"
	"math/bits"
)

// Update returns the checksum of data that has checksum crc followed by buf.
func Update(crc uint32, buf []byte) uint32 { return crc32.Update(crc, crc32.IEEETable, buf) }

// Combine returns the checksum of data a followed by data b, from the
// checksums of both and the length of b in bytes.
//
// Over GF(2), appending a zero byte to data multiplies its remainder by x^8
// modulo the polynomial. So the remainder of a is multiplied by x^(8·size),
// found by squaring, and the remainder of b added. The pre- and postconditioning of
// CRC-32 with ones cancels out.
func Combine(a, b uint32, size int64) uint32 {
	if a == 0 {
		return b // most files lie in one part
	}
	return multiply(power(uint64(size)*8), a) ^ b
}

// Zeros returns the checksum of data that has checksum crc followed by n zeros.
func Zeros(crc uint32, n int64) uint32 { return ^multiply(power(uint64(n)*8), ^crc) }

// Polynomials are kept with the coefficient of x^0 in the highest bit, as
// CRC-32 does.
const one = 1 << 31

// multiply returns the product of two polynomials modulo the polynomial of CRC-32.
func multiply(p, q uint32) uint32 {
	var product uint32
	for p != 0 {
		shift := bits.LeadingZeros32(p) // the lowest power left in p
		product ^= shiftUp(q, shift)
		p &^= one >> shift
	}
	return product
}

// shiftUp multiplies by x^n, n < 32.
func shiftUp(p uint32, n int) uint32 {
	for range n {
		p = p>>1 ^ crc32.IEEE&-(p&1)
	}
	return p
}

// power returns x^n.
func power(n uint64) uint32 {
	result, square := uint32(one), uint32(one>>1) // 1 and x
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = multiply(square, result)
		}
		square = multiply(square, square)
	}
	return result
}
