package mpi

import (
	"testing"
	"unsafe"
)

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

// A buffer that was freed is used again, and is zeroed; what is kept is bounded, and Trim unmaps it.
func TestAlloc_UsesMemoryAgain(t *testing.T) {
	Trim()
	defer Trim()
	first := Alloc(100_000)
	for i := range first {
		first[i] = 7
	}
	at := unsafe.SliceData(first)
	Free(first)
	if buf := Alloc(4096); unsafe.SliceData(buf) == at {
		t.Error("a page takes a buffer of 25")
	} else {
		Free(buf)
	}
	again := Alloc(90_000)
	if unsafe.SliceData(again) != at {
		t.Error("90,000 bytes do not take the freed buffer of 100,000")
	}
	for i, b := range again {
		if b != 0 {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
	other := Alloc(100_000)
	if unsafe.SliceData(other) == at {
		t.Fatal("memory that is in use was given away")
	}
	Free(again)
	Free(other)
	var many [][]byte
	for range 100 {
		many = append(many, Alloc(60_000))
	}
	for _, b := range many {
		Free(b)
	}
	if kept.size > keepAtMost || kept.size < keepAtMost/2 {
		t.Errorf("%d bytes are kept", kept.size)
	}
	Trim()
	if kept.size != 0 || len(kept.buffers) != 0 {
		t.Errorf("%d bytes are kept after Trim", kept.size)
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
