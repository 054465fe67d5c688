package mpi_test

import (
	"errors"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// Try returns a failure of MPI and the error of the function. It lets other panics pass.
func TestTry(t *testing.T) {
	own := errors.New("own")
	if err := mpi.Try(func() error { return own }); err != own {
		t.Errorf("the error of the function: %v", err)
	}
	cleaned := false
	err := mpi.Try(func() error {
		defer func() { cleaned = true }()
		local.One().Send(nil, 1, 0)
		return own
	})
	if failed, ok := err.(*mpi.OpError); !ok || !cleaned {
		t.Errorf("a failure: %v, cleaned up: %t", failed, cleaned)
	}
	for _, other := range []any{"a bug", &mpi.RevokedError{Rank: 1}, own} {
		func() {
			defer func() {
				if p := recover(); p != other {
					t.Errorf("a panic with %v becomes one with %v", other, p)
				}
			}()
			t.Errorf("a panic with %v becomes %v", other, mpi.Try(func() error { panic(other) }))
		}()
	}
}
