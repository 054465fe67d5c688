// Package rs is the Reed-Solomon scheme: a set of N ranks tolerates the loss of any
// K of its members, for K/(N-K) of the data in additional storage.
//
// Package internal/redundancy/stripe moves the data, as for XOR; this package has
// the arithmetic over GF(2^8), by github.com/klauspost/reedsolomon. So a set has at
// most 256 members.
package rs

import (
	"fmt"

	"github.com/klauspost/reedsolomon"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/stripe"
)

// MaxMembers is the number of different shards in GF(2^8).
const MaxMembers = 256

// Scheme is the Reed-Solomon scheme for the loss of k members of a set.
func Scheme(k int) redundancy.Scheme { return stripe.New("RS", k, code{}) }

type code struct{}

// Adder finds the factor of each shard in each wanted one: the result if that shard
// is 1 and the others are 0.
func (code) Adder(n, k int, from, wanted []int) (stripe.Adder, error) {
	if n > MaxMembers {
		return nil, fmt.Errorf("RS in a set of %d members: at most %d are possible; lower SCR_SET_SIZE", n, MaxMembers)
	}
	plain, err := reedsolomon.New(n-k, k, options...)
	if err != nil {
		return nil, fmt.Errorf("RS for %d losses in a set of %d members: %w", k, n, err)
	}
	required := make([]bool, n)
	factors := make([][]byte, len(wanted))
	for t, w := range wanted {
		required[w] = true
		factors[t] = make([]byte, len(from))
	}
	for i := range from {
		shards := make([][]byte, n)
		for j, f := range from {
			shards[f] = []byte{0}
			if j == i {
				shards[f][0] = 1
			}
		}
		if err := plain.ReconstructSome(shards, required); err != nil {
			return nil, fmt.Errorf("RS for %d losses in a set of %d members: %w", k, n, err)
		}
		for t, w := range wanted {
			factors[t][i] = shards[w][0]
		}
	}
	sum, err := reedsolomon.New(len(from), len(wanted), append(options, reedsolomon.WithCustomMatrix(factors))...)
	if err != nil {
		return nil, err
	}
	begin := make([][]byte, len(wanted))
	for t := range begin {
		begin[t] = factors[t][:1]
	}
	first, err := reedsolomon.New(1, len(wanted), append(options, reedsolomon.WithCustomMatrix(begin))...)
	if err != nil {
		return nil, err
	}
	return adder{first, sum, make([][]byte, 1+len(wanted))}, nil
}

// options: nothing runs beside the caller, whose core has other ranks to serve.
var options = []reedsolomon.Option{reedsolomon.WithMaxGoroutines(1), reedsolomon.WithAutoGoroutines(0), reedsolomon.WithInversionCache(false)}

// adder multiplies and adds. What comes first is not added to zeros, which would
// have to be written and read.
type adder struct {
	first, sum reedsolomon.Encoder
	shards     [][]byte // of first
}

func (a adder) Add(i int, first bool, part []byte, sums [][]byte) {
	var err error
	if first {
		err = a.first.Encode(append(append(a.shards[:0], part), sums...))
	} else {
		err = a.sum.EncodeIdx(part, i, sums)
	}
	if err != nil {
		panic(err) // of arguments that this package does not give
	}
}
