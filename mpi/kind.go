package mpi

import (
	"errors"
	"fmt"
)

// Kind is a kind of error that Agree preserves: if the error of any rank is of the
// kind, by errors.Is, so is the error that Agree returns on every rank.
//
// Kinds are package variables, so that the ranks of a job, which may run
// different programs, identify them by the same numbers.
type Kind struct {
	number int
	text   string
}

// mostKinds is the largest number of kinds. After an error a reduction has a count
// for each of them.
const mostKinds = 16

var kinds [mostKinds]*Kind

// NewKind makes the kind of a number, which no other kind may have. text is its
// text as an error. It is for the initialization of package variables, and panics
// if the number is taken. The kinds of this module are
//
//	0  redundancy.ErrUnrecoverable    3  prefix.ErrRanks
//	1  redundancy.ErrCorrupt          4  restart.errUnusable
//	2  prefix.ErrTaken                5  cache.ErrShared
//	6  prefix.ErrIndex
func NewKind(number int, text string) *Kind {
	if number < 0 || number >= mostKinds || kinds[number] != nil {
		panic(fmt.Sprintf("mpi: the kind of error %d (%s) cannot be had", number, text))
	}
	kinds[number] = &Kind{number, text}
	return kinds[number]
}

func (k *Kind) Error() string { return k.text }

// countKinds returns, by number, 1 for each kind of which an error is.
func countKinds(err error) []int64 {
	counts := make([]int64, mostKinds)
	for i, k := range kinds {
		if k != nil && err != nil && errors.Is(err, k) {
			counts[i] = 1
		}
	}
	return counts
}
