package local_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/mpi/mpitest"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

func conform(t *testing.T, n int, opt mpitest.Options) {
	_, err := local.Run(n, local.Options{}, func(c mpi.Comm) error {
		mpitest.Run(c, opt, func(name string, err error) {
			if err != nil && c.Rank() == 0 {
				t.Errorf("%s: %v", name, err)
			}
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestComm_Conforms(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 7, 64} {
		if n == 64 && testing.Short() {
			continue
		}
		// No length is special here, so the big messages need not be very big.
		t.Run(fmt.Sprint(n, " ranks"), func(t *testing.T) { conform(t, n, mpitest.Options{Big: 16<<20 + 5}) })
	}
}

// protocol uses every kind of wait, and gives its buffers back however it ends.
func protocol(c mpi.Comm) error {
	send := mpi.Alloc(1 << 16)
	defer mpi.Free(send)
	recv := mpi.Alloc(1 << 16)
	defer mpi.Free(recv)
	s := c.Split(c.Rank()%2, 0)
	n := s.Size()
	out := s.Isend(send, (s.Rank()+1)%n, 0)
	s.Probe(mpi.AnySource, 0)
	in := s.Irecv(recv, (s.Rank()-1+n)%n, 0)
	for done := false; !done; {
		_, done = in.Test()
	}
	out.Wait()
	b := c.Ibarrier()
	b.Wait()
	if err := mpi.Agree(c, fmt.Errorf("as it should be")); err == nil {
		return errors.New("no error agreed")
	}
	s.Free()
	return nil
}

func TestRun_KilledAtEveryMessage(t *testing.T) {
	const ranks = 5
	stats, err := local.Run(ranks, local.Options{}, protocol)
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, s := range stats {
		total += s.Messages
	}
	if total < 10*ranks {
		t.Fatalf("only %d messages counted", total)
	}
	for at := int64(1); at <= total; at++ {
		returned := make([]bool, ranks)
		stats, err := local.Run(ranks, local.Options{KillAt: at}, func(c mpi.Comm) error {
			err := protocol(c)
			returned[c.Rank()] = true
			return err
		})
		if !errors.Is(err, local.ErrKilled) {
			t.Fatalf("killed at message %d of %d: %v", at, total, err)
		}
		var sent int64
		for _, s := range stats {
			sent += s.Messages
		}
		if sent >= at {
			t.Errorf("killed at message %d, but %d were sent", at, sent)
		}
		all := true
		for _, r := range returned {
			all = all && r
		}
		if all {
			t.Errorf("killed at message %d, but every rank came to its end", at)
		}
	}
	if _, err := local.Run(ranks, local.Options{KillAt: total + 1}, protocol); err != nil {
		t.Errorf("killed after the last message: %v", err)
	}
}

func TestRun_NamesRanksThatNeverReturn(t *testing.T) {
	why := errors.New("gave up")
	_, err := local.Run(4, local.Options{Timeout: 50 * time.Millisecond}, func(c mpi.Comm) error {
		switch c.Rank() {
		case 1:
			return why
		case 2:
			return nil
		}
		c.Barrier()
		return nil
	})
	if !errors.Is(err, why) || !strings.Contains(err.Error(), "[0 3]") {
		t.Errorf("error is %v, want ranks 0 and 3 and why rank 1 left them", err)
	}
}

// A rank that works for long is no deadlock, and one that looks again and again for what
// does not come is.
func TestRun_Deadlock(t *testing.T) {
	const limit = 20 * time.Millisecond
	_, err := local.Run(2, local.Options{Timeout: limit}, func(c mpi.Comm) error {
		if c.Rank() == 0 {
			for began := time.Now(); time.Since(began) < 10*limit; {
				time.Sleep(limit)
			}
		}
		c.Barrier()
		return nil
	})
	if err != nil {
		t.Errorf("a rank that works: %v", err)
	}
	_, err = local.Run(2, local.Options{Timeout: limit}, func(c mpi.Comm) error {
		for found := false; c.Rank() == 0 && !found; {
			_, found = c.Iprobe(1, 0)
		}
		c.Barrier()
		return nil
	})
	if !errors.Is(err, local.ErrDeadlock) || !strings.Contains(err.Error(), "[0 1]") {
		t.Errorf("a rank that polls: %v", err)
	}
}

func TestRun_ReturnsErrorOfLowestRank(t *testing.T) {
	_, err := local.Run(3, local.Options{}, func(c mpi.Comm) error {
		if c.Rank() > 0 {
			return fmt.Errorf("error %d", c.Rank())
		}
		return nil
	})
	if err == nil || err.Error() != "rank 1: error 1" {
		t.Errorf("error is %v", err)
	}
}
