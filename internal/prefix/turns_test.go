package prefix

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

func TestInTurn(t *testing.T) {
	for _, width := range []int{0, 1, 2, 3, 7, 8, 100} {
		var now, most, all, failed atomic.Int64
		_, err := local.Run(8, local.Options{}, func(c mpi.Comm) error {
			p := &Prefix{Comm: c}
			err := p.InTurn(width, func() error {
				if n := now.Add(1); n > int64(width) && width > 0 {
					most.Store(n)
				}
				defer now.Add(-1)
				all.Add(1)
				if c.Rank()%3 == 0 {
					return errors.New("cannot")
				}
				return nil
			})
			if err != nil {
				failed.Add(1)
			}
			if (err != nil) != (c.Rank()%3 == 0) {
				return fmt.Errorf("rank %d: %v", c.Rank(), err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if most.Load() > 0 || all.Load() != 8 || failed.Load() != 3 {
			t.Errorf("width %d: %d at a time, %d took their turn, %d failed", width, most.Load(), all.Load(), failed.Load())
		}
	}
}
