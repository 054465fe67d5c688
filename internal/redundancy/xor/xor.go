// Package xor is the XOR scheme: a set of N ranks tolerates the loss of any one
// of its members, for 1/(N-1) of the data in additional storage (Gropp, Ross,
// Miller; SCR Developer Guide, "XOR").
//
// How data moves is common to all schemes that compute, and stands in
// internal/redundancy/stripe; this is the arithmetic.
package xor

import (
	"crypto/subtle"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/stripe"
)

// Scheme is the XOR scheme.
func Scheme() redundancy.Scheme { return stripe.New("XOR", 1, Code{}) }

// Code is addition in GF(2). Of a column, whatever is wanted is the sum of all
// the rest.
type Code struct{}

// Adder returns the sum itself.
func (c Code) Adder(_, _ int, _, _ []int) (stripe.Adder, error) { return c, nil }

// Add adds.
func (Code) Add(_ int, first bool, part []byte, sums [][]byte) {
	if first {
		copy(sums[0], part)
		return
	}
	subtle.XORBytes(sums[0], sums[0], part)
}
