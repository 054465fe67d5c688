package sockets_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/mpi/mpitest"
	"github.com/goscr/goscr/internal/mpi/sockets"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// patience is how long ranks may wait over sockets, which mpi/local takes for work.
const patience = 10 * time.Minute

func conform(t *testing.T, n int, opt mpitest.Options, with sockets.Options) {
	_, err := local.Run(n, local.Options{Timeout: patience}, func(world mpi.Comm) error {
		c, err := sockets.New(world, with)
		if err != nil {
			return err
		}
		mpitest.Run(c, opt, func(name string, err error) {
			if err != nil && c.Rank() == 0 {
				t.Errorf("%s: %v", name, err)
			}
		})
		c.Free()
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestComm_Conforms(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 7, 32} {
		if n == 32 && testing.Short() {
			continue
		}
		t.Run(fmt.Sprint(n, " ranks"), func(t *testing.T) {
			conform(t, n, mpitest.Options{Big: 16<<20 + 5}, sockets.Options{})
		})
	}
}
