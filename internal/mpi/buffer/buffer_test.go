package buffer

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/goscr/goscr/mpi"
)

func address(buf []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(buf)) }

func TestGet_UsesTheSmallestThatIsLargeEnough(t *testing.T) {
	var s shelf
	defer s.release()
	small, large := s.get(100), s.get(3*granule)
	if len(small) != 100 || len(large) != 3*granule {
		t.Fatalf("%d and %d bytes, want 100 and %d", len(small), len(large), 3*granule)
	}
	smallAt, largeAt := address(small), address(large)
	s.put(large)
	s.put(small)
	if buf := s.get(granule); address(buf) != smallAt {
		t.Error("a page is not in the buffer of one page")
	}
	if buf := s.get(granule + 1); address(buf) != largeAt || len(buf) != granule+1 {
		t.Error("a page and a byte are not in the buffer of three pages")
	}
	if s.made != 2 || s.bytes != 0 || len(s.free) != 0 {
		t.Errorf("made %d, %d bytes are kept in %d, want 2, 0 and 0", s.made, s.bytes, len(s.free))
	}
}

func TestGet_NothingIsSharedByTwo(t *testing.T) {
	var s shelf
	defer s.release()
	var ranks sync.WaitGroup
	for rank := range 8 {
		ranks.Add(1)
		go func() {
			defer ranks.Done()
			for i := range 200 {
				buf := s.get(1 + (i*977+rank)%9000)
				for k := range buf {
					buf[k] = byte(rank)
				}
				for k := range buf {
					if buf[k] != byte(rank) {
						t.Errorf("byte %d of rank %d is %d", k, rank, buf[k])
						return
					}
				}
				s.put(buf)
			}
		}()
	}
	ranks.Wait()
}

func TestPut_KeepsNoMoreThanTheLimit(t *testing.T) {
	var s shelf
	defer s.release()
	s.put(s.get(most + 1))
	if len(s.free) != 0 {
		t.Fatal("a buffer above the limit is kept")
	}
	first, second, third := s.get(most/2), s.get(most/2), s.get(granule)
	secondAt, thirdAt := address(second), address(third)
	s.put(first)
	s.put(second)
	s.put(third) // the first has not been used for the longest time
	if s.bytes != most/2+granule || len(s.free) != 2 || address(s.free[0]) != secondAt || address(s.free[1]) != thirdAt {
		t.Errorf("%d bytes are kept in %d, want the second and the third", s.bytes, len(s.free))
	}
}

func TestPut_NothingAndPartsOfABuffer(t *testing.T) {
	var s shelf
	defer s.release()
	s.put(s.get(0))
	s.put(nil)
	if len(s.free) != 0 || s.made != 0 {
		t.Fatal("a buffer without bytes is kept")
	}
	s.put(s.get(10)[:3])
	if s.bytes != granule {
		t.Errorf("%d bytes are kept, want the whole page", s.bytes)
	}
}

func TestRelease_ReturnsAll(t *testing.T) {
	var s shelf
	s.put(s.get(granule))
	s.put(s.get(5 * granule))
	s.release()
	if s.bytes != 0 || len(s.free) != 0 {
		t.Errorf("%d bytes are kept in %d", s.bytes, len(s.free))
	}
	s.release()
	s.put(s.get(1))
	if s.made != 3 {
		t.Errorf("made %d buffers, want 3", s.made)
	}
	s.release()
}

type remembers struct{ mpi.Comm }

type forgets struct {
	mpi.Comm
	over bool
}

func (f forgets) ForgetsBuffers() bool { return f.over }

// After a panic a buffer is used again if the communicator forgets its buffers, and only then.
func TestLoan_AfterAPanic(t *testing.T) {
	Release()
	defer Release()
	for _, x := range []struct {
		comm        mpi.Comm
		done, again bool
	}{{remembers{}, true, true}, {remembers{}, false, false}, {forgets{over: true}, false, true}, {forgets{}, false, false}, {forgets{}, true, true}} {
		Release()
		before := Made()
		func() {
			defer func() { _ = recover() }()
			l := Lend(x.comm, granule)
			defer l.Return()
			if !x.done {
				panic("an operation has failed")
			}
			l.Done()
		}()
		buf := Get(granule)
		if again := Made() == before+1; again != x.again {
			t.Errorf("%+v, done %v: used again: %v", x.comm, x.done, again)
		}
		Put(buf)
	}
}
