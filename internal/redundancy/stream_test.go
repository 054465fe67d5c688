package redundancy_test

import (
	"testing"

	"github.com/goscr/goscr/internal/mpi/buffer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// Two ranks send to each other. Neither can end before the other has begun, so each exchange
// needs two buffers, and the later ones find those of the first.
func TestStream_UsesBuffersOfTheExchangeBefore(t *testing.T) {
	defer buffer.Release()
	const size, piece = 10000, 512
	exchange := func(round byte) {
		t.Helper()
		_, err := local.Run(2, local.Options{}, func(c mpi.Comm) error {
			me, other := c.Rank(), 1-c.Rank()
			source := redundancy.Source{To: []int{other}, Size: size, Each: func(offset int64, n int, use func(int, []byte)) {
				data := make([]byte, n)
				for i := range data {
					data[i] = round + byte(me) + byte((offset+int64(i))%251)
				}
				use(0, data)
			}}
			next := int64(0)
			sink := redundancy.Sink{From: other, Size: size, Write: func(buf []byte, offset int64) {
				if offset != next {
					t.Errorf("round %d: a piece is written at %d, want %d", round, offset, next)
				}
				next += int64(len(buf))
				for i, b := range buf {
					if want := round + byte(other) + byte((offset+int64(i))%251); b != want {
						t.Errorf("round %d: byte %d is %d, want %d", round, offset+int64(i), b, want)
						return
					}
				}
			}}
			redundancy.Stream(c, []redundancy.Source{source}, []redundancy.Sink{sink}, piece)
			if next != size {
				t.Errorf("round %d: %d bytes came, want %d", round, next, size)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	buffer.Release()
	before := buffer.Made()
	exchange(1)
	if n := buffer.Made() - before; n != 2 {
		t.Fatalf("the first exchange made %d buffers, want 2", n)
	}
	for round := range byte(5) {
		exchange(round + 2)
	}
	if n := buffer.Made() - before; n != 2 {
		t.Errorf("six exchanges made %d buffers, want the 2 of the first", n)
	}
}
