package checksum

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestCombineIsTheChecksumOfTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 100_000)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	cuts := []int{0, 1, 2, 7, 8, 4095, 4096, 65537, len(data) - 1, len(data)}
	for range 50 {
		cuts = append(cuts, random.IntN(len(data)))
	}
	want := crc32.ChecksumIEEE(data)
	for _, cut := range cuts {
		a, b := Update(0, data[:cut]), Update(0, data[cut:])
		if got := Combine(a, b, int64(len(data)-cut)); got != want {
			t.Errorf("cut at %d: %#x, want %#x", cut, got, want)
		}
	}
}

// Lengths beyond memory: the checksum of zeros, doubled up to 2^40 bytes, must
// not depend on how it is cut.
func TestCombineOfLongParts(t *testing.T) {
	zeros := Update(0, make([]byte, 1<<20))
	size := int64(1 << 20)
	for size < 1<<40 {
		zeros = Combine(zeros, zeros, size)
		size *= 2
	}
	part := Update(0, make([]byte, 1<<20))
	for at := int64(1 << 20); at < 1<<30; at += 1 << 20 {
		part = Combine(part, Update(0, make([]byte, 16)), 16)
		part = Combine(part, zerosOf(1<<20-16), 1<<20-16)
	}
	if part != zerosOf(1<<30) {
		t.Errorf("2^30 zeros in small parts: %#x, doubled: %#x", part, zerosOf(1<<30))
	}
	if zeros != zerosOf(1<<40) {
		t.Errorf("2^40 zeros: %#x and %#x", zeros, zerosOf(1<<40))
	}
}

// zerosOf builds the checksum of n zeros from the powers of two in n.
func zerosOf(n int64) uint32 {
	crc, unit := uint32(0), Update(0, []byte{0})
	for size := int64(1); size <= n; size *= 2 {
		if n&size != 0 {
			crc = Combine(crc, unit, size)
		}
		unit = Combine(unit, unit, size)
	}
	return crc
}

func TestZeros(t *testing.T) {
	for _, n := range []int{0, 1, 7, 4096, 1_000_003} {
		for _, data := range []string{"", "\x00", "some data"} {
			want := Update(0, append([]byte(data), make([]byte, n)...))
			if got := Zeros(Update(0, []byte(data)), int64(n)); got != want {
				t.Errorf("%q and %d zeros: 0x%08x instead of 0x%08x", data, n, got, want)
			}
		}
	}
}
