package mpi

import "testing"

func TestAllocGivesUsableMemoryOfAnySize(t *testing.T) {
	for _, n := range []int{0, 1, 4095, 4096, 4097, hugePage - 1, hugePage, hugePage + 1, 5*hugePage + 12345} {
		buf := Alloc(n)
		if len(buf) != n {
			t.Fatalf("Alloc(%d): %d bytes", n, len(buf))
		}
		for i := range buf {
			if buf[i] != 0 {
				t.Fatalf("Alloc(%d): byte %d is %d", n, i, buf[i])
			}
			buf[i] = byte(i)
		}
		for i := range buf {
			if buf[i] != byte(i) {
				t.Fatalf("Alloc(%d): byte %d changed", n, i)
			}
		}
		Free(buf)
	}
}

// What is left mapped would add up.
func TestFreeGivesAllBack(t *testing.T) {
	for range 20_000 {
		buf := Alloc(3 * hugePage) // 20,000 of which are 120 GB
		buf[0] = 1
		Free(buf)
	}
}
