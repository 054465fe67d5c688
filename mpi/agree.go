package mpi

import (
	"fmt"
	"strings"

	"github.com/goscr/goscr/internal/sys/kind"
)

// Agree makes one result out of every rank's: nil if err is nil on all ranks,
// else on every rank an AgreedError; it returns no other error. It is collective, and the only way a
// collective call of goscr decides on failure, so that no rank returns early
// while others wait.
//
// It costs one reduction if there is no error. Otherwise it counts the ranks that
// have each error and each kind of error, so that one rank can report for all.
func Agree(c Comm, err error) error {
	size := int64(c.Size())
	// An error that a smaller group has agreed on is attributed to the rank that
	// met it.
	first := []int64{2 * size}
	told, isTold := err.(*AgreedError)
	switch {
	case isTold && told.Err == nil:
		first[0] = size + int64(c.Rank())
	case err != nil:
		first[0] = int64(c.Rank())
	}
	c.Allreduce(first, Min)
	if first[0] == 2*size {
		return nil
	}
	if first[0] < size && isTold && told.Err == nil {
		err = nil // the rank that met it takes part and reports it
	}
	return survey(c, err, int(first[0]%size))
}

// AgreeSum is Agree, and sums values over all ranks in the same reduction.
func AgreeSum(c Comm, err error, values []int64) error { return agreeWith(c, err, values, Sum) }

// AgreeMax is Agree, and replaces each of the values by the largest of all ranks, in the same
// reduction.
func AgreeMax(c Comm, err error, values []int64) error { return agreeWith(c, err, values, Max) }

func agreeWith(c Comm, err error, values []int64, op Op) error {
	all := make([]int64, len(values)+1) // and whether a rank has an error
	copy(all, values)
	if err != nil {
		all[len(values)] = 1
	}
	c.Allreduce(all, op)
	if all[len(values)] > 0 {
		return Agree(c, err)
	}
	copy(values, all)
	return nil
}

const (
	// maxErrors bounds the different errors of one call that are told apart.
	maxErrors = 3
	// sampleSize is the number of ranks that are named, spread over all.
	sampleSize = 4
)

// survey finds the ranks that have each error, beginning with the error of rank root.
func survey(c Comm, err error, root int) error {
	size := c.Size()
	var mine string
	if told, ok := err.(*AgreedError); ok {
		mine = told.Text
	} else if err != nil {
		mine = err.Error()
	}
	result := &AgreedError{Rank: root}
	if c.Rank() == root {
		result.Err = err
	}
	open := err != nil       // my error is not counted yet
	kinds := countKinds(err) // sent once
	for root < size && len(result.Errors) < maxErrors {
		text := BcastBytes(c, []byte(mine), root)
		same := c.Rank() == root || open && kind.Of(mine) == kind.Of(string(text))
		open = open && !same

		// The next rank with another error, then a sample of those with this one.
		least := make([]int64, 1+sampleSize)
		counts := append([]int64{0, 0}, kinds...) // ranks with this error, and with others; of each kind
		for i := range least {
			least[i] = int64(size)
		}
		me := int64(c.Rank())
		if open {
			least[0], counts[1] = me, 1
		}
		if same {
			counts[0] = 1
		}
		if same && c.Rank() != root {
			least[1+c.Rank()*sampleSize/size] = me
		}
		c.Allreduce(least, Min)
		c.Allreduce(counts, Sum)
		if kinds != nil {
			copy(result.kinds[:], counts[2:])
			kinds = nil
		}
		found := RankError{Rank: root, Text: string(text), Ranks: int(counts[0])}
		for _, rank := range least[1:] {
			if rank < int64(size) {
				found.Sample = append(found.Sample, int(rank))
			}
		}
		result.Errors = append(result.Errors, found)
		result.More = int(counts[1])
		root = int(least[0])
	}
	result.Text = result.Errors[0].Text
	return result
}

// AgreedError is an error that every rank of a communicator returns because
// one of them met it.
type AgreedError struct {
	Rank   int         // in the communicator that agreed
	Text   string      // of that rank's error
	Err    error       // the error itself, on that rank only
	Errors []RankError // this one first, then others that ranks have
	More   int         // ranks with errors that are not among these

	kinds [mostKinds]int64 // ranks with errors of each kind
}

// RankError is an error that some ranks have, with texts that differ at most in
// words with digits.
type RankError struct {
	Rank   int // the lowest of them
	Text   string
	Ranks  int   // number of ranks that have it
	Sample []int // some of the others
}

// Error lists all errors.
func (e *AgreedError) Error() string {
	var parts []string
	for _, x := range e.Errors {
		parts = append(parts, x.Error())
	}
	if e.More > 0 {
		parts = append(parts, fmt.Sprintf("%d more ranks have other errors", e.More))
	}
	return strings.Join(parts, "; ")
}

// Is reports whether the error of any rank is of the kind target.
func (e *AgreedError) Is(target error) bool {
	k, ok := target.(*Kind)
	return ok && e.kinds[k.number] > 0
}

// Unwrap returns the rank's own error, on that rank.
func (e *AgreedError) Unwrap() error { return e.Err }

func (e *RankError) Error() string {
	text := fmt.Sprintf("rank %d: %s", e.Rank, e.Text)
	others := e.Ranks - 1
	if others == 0 {
		return text
	}
	sample := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(e.Sample)), ", "), "[]")
	if others == len(e.Sample) {
		word := "rank"
		if others > 1 {
			word = "ranks"
		}
		return fmt.Sprintf("%s (also on %s %s)", text, word, sample)
	}
	return fmt.Sprintf("%s (also on %d other ranks, as %s)", text, others, sample)
}
