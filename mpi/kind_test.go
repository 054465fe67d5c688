package mpi_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

var (
	errOne = mpi.NewKind(14, "one")
	errTwo = mpi.NewKind(15, "two")
)

// Whichever rank meets an error, and however many others there are, it keeps its
// kind on all of them: of the first one, of a later one, of more different ones
// than are told apart, of one that a smaller group has agreed on.
func TestAgree_KindsReachEveryRank(t *testing.T) {
	for name, c := range map[string]struct {
		of       func(rank int) error
		one, two bool
	}{
		"of no kind": {func(rank int) error { return errors.New("plain") }, false, false},
		"of one":     {func(rank int) error { return onlyOn(rank, 6, fmt.Errorf("file: %w", errOne)) }, true, false},
		"of two": {func(rank int) error {
			return errors.Join(onlyOn(rank, 1, errOne), onlyOn(rank, 5, errTwo))
		}, true, true},
		"behind many others": {func(rank int) error {
			if rank == 6 {
				return errTwo
			}
			return fmt.Errorf("%c is different", 'a'+rank)
		}, false, true},
	} {
		_, err := local.Run(7, local.Options{}, func(comm mpi.Comm) error {
			half := comm.Split(comm.Rank()%2, 0)
			mine := c.of(comm.Rank())
			for _, err := range []error{mpi.Agree(comm, mine), mpi.Agree(comm, mpi.Agree(half, mine))} {
				if err == nil || errors.Is(err, errOne) != c.one || errors.Is(err, errTwo) != c.two {
					t.Errorf("%s, rank %d: %v is of kind one: %v, of kind two: %v", name, comm.Rank(), err, errors.Is(err, errOne), errors.Is(err, errTwo))
				}
			}
			half.Free()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func onlyOn(rank, which int, err error) error {
	if rank != which {
		return nil
	}
	return err
}
