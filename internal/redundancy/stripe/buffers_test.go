package stripe

import (
	"math/rand/v2"
	"testing"

	"github.com/goscr/goscr/internal/mpi/buffer"
)

// Of two members, each gets its result from the other. Neither can end before the other has
// begun, so each encoding needs two buffers, and the later ones find those of the first.
func TestEncode_UsesBuffersOfTheEncodingBefore(t *testing.T) {
	defer buffer.Release()
	buffer.Release()
	before := buffer.Made()
	for i := range uint64(5) {
		e := example{n: 2, k: 1, chunk: 1000, piece: 64}
		if err := e.run(rand.New(rand.NewPCG(i, 1))); err != nil {
			t.Fatal(err)
		}
		if n := buffer.Made() - before; n != 2 {
			t.Fatalf("%d encodings made %d buffers, want 2", i+1, n)
		}
	}
}
