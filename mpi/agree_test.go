package mpi_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// agreed is what ranks return that have the errors which f gives.
func agreed(t *testing.T, ranks int, f func(rank int) error) []string {
	t.Helper()
	texts := make([]string, ranks)
	_, err := local.Run(ranks, local.Options{}, func(c mpi.Comm) error {
		if err := mpi.Agree(c, f(c.Rank())); err != nil {
			texts[c.Rank()] = err.Error()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for rank, text := range texts {
		if text != texts[0] {
			t.Fatalf("rank %d returns %q, rank 0 %q", rank, text, texts[0])
		}
	}
	return texts
}

func TestAgree_SaysHowManyRanks(t *testing.T) {
	full := func(rank int) error { return fmt.Errorf("/p/rank_%d: no space left on device", rank) }
	for _, c := range []struct {
		name  string
		ranks int
		err   func(rank int) error
		want  string
	}{
		{"none", 5, func(int) error { return nil }, ""},
		{"one", 5, func(rank int) error {
			if rank != 3 {
				return nil
			}
			return full(rank)
		}, "rank 3: /p/rank_3: no space left on device"},
		{"two", 8, func(rank int) error {
			if rank%4 != 1 {
				return nil
			}
			return full(rank)
		}, "rank 1: /p/rank_1: no space left on device (also on rank 5)"},
		{"three", 4, func(rank int) error {
			if rank == 0 {
				return nil
			}
			return full(rank)
		}, "rank 1: /p/rank_1: no space left on device (also on ranks 2, 3)"},
		{"all of 10,000", 10000, full, "rank 0: /p/rank_0: no space left on device (also on 9999 other ranks, as 1, 2500, 5000, 7500)"},
		{"next to each other", 1000, func(rank int) error {
			if rank != 10 && rank != 11 {
				return nil
			}
			return full(rank)
		}, "rank 10: /p/rank_10: no space left on device (also on rank 11)"},
		{"of different kinds", 6, func(rank int) error {
			return errors.New(strings.Repeat("x", 1+rank/2))
		}, "rank 0: x (also on rank 1); rank 2: xx (also on rank 3); rank 4: xxx (also on rank 5)"},
		{"of too many kinds", 6, func(rank int) error {
			return errors.New(strings.Repeat("x", 1+rank))
		}, "rank 0: x; rank 1: xx; rank 2: xxx; 3 more ranks have other errors"},
		{"without words", 2, func(rank int) error { return errors.New("") }, "rank 0:  (also on rank 1)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := agreed(t, c.ranks, c.err)[0]; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestAgreeSum(t *testing.T) {
	for _, bad := range []int{-1, 0, 3} {
		_, err := local.Run(5, local.Options{}, func(c mpi.Comm) error {
			values := []int64{int64(c.Rank()), 1}
			var err error
			if c.Rank() == bad {
				err = errors.New("no")
			}
			err = mpi.AgreeSum(c, err, values)
			switch {
			case bad >= 0 && (err == nil || err.Error() != fmt.Sprintf("rank %d: no", bad)):
				return fmt.Errorf("with an error on rank %d: %v", bad, err)
			case bad < 0 && (err != nil || values[0] != 10 || values[1] != 5):
				return fmt.Errorf("sums %v, %v", values, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestAgreeMax(t *testing.T) {
	for _, bad := range []int{-1, 0, 3} {
		_, err := local.Run(5, local.Options{}, func(c mpi.Comm) error {
			values := []int64{int64(c.Rank()), int64(-1 - c.Rank())}
			var err error
			if c.Rank() == bad {
				err = errors.New("no")
			}
			err = mpi.AgreeMax(c, err, values)
			switch {
			case bad >= 0 && (err == nil || err.Error() != fmt.Sprintf("rank %d: no", bad)):
				return fmt.Errorf("with an error on rank %d: %v", bad, err)
			case bad < 0 && (err != nil || values[0] != 4 || values[1] != -1):
				return fmt.Errorf("largest %v, %v", values, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// The bytes of rank 0, whether they are short or long, or its error, of whatever kind.
func TestBytesFromRoot(t *testing.T) {
	own := errors.New("no index")
	for _, n := range []int{0, 1, 2039, 2040, 2041, 100_000} {
		for _, fails := range []bool{false, true} {
			_, err := local.Run(3, local.Options{}, func(c mpi.Comm) error {
				got, err := mpi.BytesFromRoot(c, func() ([]byte, error) {
					if c.Rank() > 0 {
						t.Errorf("rank %d is asked", c.Rank())
					}
					if fails {
						return nil, own
					}
					return bytes.Repeat([]byte{7}, n), nil
				})
				var agreed *mpi.AgreedError
				if fails && (!errors.As(err, &agreed) || agreed.Text != own.Error() || errors.Is(err, own) != (c.Rank() == 0)) {
					return fmt.Errorf("error %v", err)
				}
				if !fails && (err != nil || !bytes.Equal(got, bytes.Repeat([]byte{7}, n))) {
					return fmt.Errorf("%d bytes of %d: %v", len(got), n, err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// What a part of the ranks has agreed on is told by the rank that met it.
func TestAgree_OfAgreed(t *testing.T) {
	own := errors.New("trouble")
	_, err := local.Run(6, local.Options{}, func(c mpi.Comm) error {
		part := c.Split(c.Rank()%2, c.Rank())
		defer part.Free()
		var err error
		if c.Rank() == 5 {
			err = own
		}
		err = mpi.Agree(c, mpi.Agree(part, err))
		var agreed *mpi.AgreedError
		if !errors.As(err, &agreed) || agreed.Rank != 5 || err.Error() != "rank 5: trouble" {
			return fmt.Errorf("rank %d: %v", c.Rank(), err)
		}
		if errors.Is(err, own) != (c.Rank() == 5) {
			return fmt.Errorf("rank %d has the wrong error: %v", c.Rank(), err)
		}
		// And what is left of it where that rank is not.
		if c.Rank()%2 == 1 {
			return nil
		}
		if c.Rank() == 4 {
			err = &mpi.AgreedError{Rank: 1, Text: "elsewhere"}
		} else {
			err = nil
		}
		if err := mpi.Agree(part, err); err == nil || err.Error() != "rank 2: elsewhere" {
			return fmt.Errorf("rank %d: %v", c.Rank(), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
