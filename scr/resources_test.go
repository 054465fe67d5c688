package scr

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// counted counts communicators that have not been freed.
type counted struct {
	mpi.Comm
	open *atomic.Int64
}

func (c counted) Split(color, key int) (mpi.Comm, error) {
	part, err := c.Comm.Split(color, key)
	if part == nil || err != nil {
		return part, err
	}
	c.open.Add(1)
	return counted{part, c.open}, nil
}

func (c counted) Free() error {
	c.open.Add(-1)
	return c.Comm.Free()
}

// An MPI has a limited number of communicators, and a process may begin and end
// any number of sessions.
func TestFinalize_FreesAllCommunicators(t *testing.T) {
	c := newCluster(t)
	var open atomic.Int64
	sessions := func(n int, f func(s *Session, rank int) error) {
		t.Helper()
		_, err := local.Run(4, c.opt, func(world mpi.Comm) error {
			for range n {
				s, err := Init(counted{world, &open}, c.options(four[world.Rank()]))
				if err != nil {
					return nil // as intended
				}
				if err := errors.Join(f(s, world.Rank()), s.Finalize()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := open.Load(); n != 0 {
			t.Errorf("%d communicators are left", n)
		}
		open.Store(0)
	}
	sessions(1, steps(1, 2))
	sessions(3, func(*Session, int) error { return nil })
	sessions(1, func(s *Session, rank int) error {
		_, err := s.StartRestart()
		_ = s.CompleteRestart(false)
		return err
	})
	c.lose("a", "b")
	sessions(1, steps(3, 4, 5))
	c.set("SCR_COPY_TYPE=FILE")
	sessions(1, steps())
	c.set("SCR_COPY_TYPE=XOR", "SCR_GROUP=nonsense")
	sessions(1, steps())
}
