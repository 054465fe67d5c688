package session

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/lifecycle/background"
	"github.com/goscr/goscr/internal/lifecycle/protect"
	"github.com/goscr/goscr/internal/mpi/mpitest"
	"github.com/goscr/goscr/mpi"
)

// Tests of SCR_ENCODE_ASYNC=1. They do not run at the same time as others: nothing works in the
// background until somebody waits for it.
func holdBack(t *testing.T) {
	before := background.Delay
	background.Delay = time.Hour
	t.Cleanup(func() { background.Delay = before })
}

// behind runs a test with each carrier.
func behind(t *testing.T, f func(t *testing.T, c *cluster), env ...string) {
	for _, m := range []mode{sockets, overMPI} {
		t.Run(string(m), func(t *testing.T) {
			holdBack(t)
			c := newCluster(t, env...)
			c.inMode(m)
			f(t, c)
		})
	}
}

// protecting returns the number of the dataset that is being protected, 0 if there is none.
func (s *Session) protecting() int {
	if c := s.flusher.Protector.Dataset(); c != nil {
		return c.ID()
	}
	return 0
}

// expect returns an error on all ranks unless two values are the same on each.
func (s *Session) expects(what string, got, want any) error {
	var err error
	if fmt.Sprint(got) != fmt.Sprint(want) {
		err = fmt.Errorf("%s: %v, want %v", what, got, want)
	}
	return mpi.Agree(s.world, err)
}

// With two places in the cache the next Start waits, with three the next Complete does.
func TestEncode_WhoWaits(t *testing.T) {
	for _, size := range []int{2, 3} {
		behind(t, func(t *testing.T, c *cluster) {
			c.job(four, func(s *Session, rank int) error {
				err := errors.Join(checkpoint(s, rank, 1), s.expects("after 1", s.protecting(), 1), s.expects("copying after 1", s.Copying(), true))
				for step := 2; step <= 4 && err == nil; step++ {
					if err = s.StartOutput(name(step), Checkpoint); err != nil {
						return err
					}
					want := step - 1
					if size == 2 && step > 2 {
						want = 0
					}
					err = errors.Join(s.expects(fmt.Sprint("in ", step), s.protecting(), want), write(s, contents(step, rank)),
						s.CompleteOutput(true), s.expects(fmt.Sprint("after ", step), s.protecting(), step))
				}
				return err
			})
			c.says("dataset 1 (ckpt.1): its protection has to end before dataset 2 is complete")
			if size == 2 {
				c.says("dataset 2 (ckpt.2): its protection has to end before the next dataset has room")
			} else {
				c.says("dataset 2 (ckpt.2): its protection has to end before dataset 3 is complete")
			}
			c.says("it is being protected with XOR")
			c.lose("c")
			c.job(four, restarts(4))
		}, fmt.Sprint("SCR_CACHE_SIZE=", size))
	}
}

// A job that dies before finds the dataset if no node is lost, and protects it; else it finds the one
// before.
func TestEncode_Dies(t *testing.T) {
	for _, lost := range []string{"", "a", "d"} {
		behind(t, func(t *testing.T, c *cluster) {
			c.dies = true
			c.job(four, steps(1, 2, 3))
			if got := c.places(3); got != "[CACHE EXPOSED]" {
				t.Errorf("flush.scr has %s", got)
			}
			if lost != "" {
				c.lose(lost)
				c.job(four, restarts(2))
				c.says("dataset 3 (ckpt.3) in the cache is passed over: cannot be rebuilt: 1 of 4 ranks (")
				c.says(") have lost files, and 3 of the others have no redundancy: it is lost, or was not complete yet; ")
				return
			}
			c.job(four, restarts(3))
			if got := c.places(3); got != "[CACHE]" {
				t.Errorf("flush.scr has %s", got)
			}
			if got := c.located(3).Protected; got != "XOR in sets of 4, bears 1" {
				t.Errorf("flush.scr says %q", got)
			}
			c.says("redundancy was made again")
			if strings.Contains(c.said(), "not all files of rank") {
				t.Errorf("what was never made is reported as lost:\n%s", c.said())
			}
			c.lose("b")
			c.job(four, restarts(3))
		})
	}
}

func TestEncode_FinalizeWaits(t *testing.T) {
	behind(t, func(t *testing.T, c *cluster) {
		c.dies = true
		c.job(four, func(s *Session, rank int) error { return errors.Join(steps(1, 2)(s, rank), s.Finalize()) })
		if got := c.places(2); got != "[CACHE]" {
			t.Errorf("flush.scr has %s", got)
		}
		c.lose("b")
		c.job(four, restarts(2))
	})
}

// A flush for which the program waits, and a job that is to stop, wait.
func TestEncode_FlushWaits(t *testing.T) {
	behind(t, func(t *testing.T, c *cluster) {
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(checkpoint(s, rank, 1), s.expects("a flush", s.protecting(), 0))
		})
		c.whole(1, 4)
	}, "SCR_FLUSH=1")
	behind(t, func(t *testing.T, c *cluster) {
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(checkpoint(s, rank, 1), s.expects("a job that is to stop", s.protecting(), 0))
		})
	}, "SCR_HALT_SECONDS=1000000", "SCR_END_TIME=1")
}

// A flush in the background comes after the protection, with each mover, and has its checksums.
func TestEncode_ThenFlush(t *testing.T) {
	for _, kind := range []string{"PTHREAD", "DAEMON"} {
		behind(t, func(t *testing.T, c *cluster) {
			defer c.serving.Wait()
			if kind == "DAEMON" { // it would rest, too
				background.Delay = 20 * time.Millisecond
			}
			c.job(four, func(s *Session, rank int) error { return errors.Join(steps(1, 2, 3)(s, rank), s.Finalize()) })
			for id := 1; id <= 3; id++ {
				c.whole(id, 4)
			}
			c.lose(four...)
			c.job(four, restarts(3))
		}, "SCR_CACHE_SIZE=3", "SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE="+kind)
	}
}

// With one place in the cache the program waits, and is told so.
func TestEncode_OnePlace(t *testing.T) {
	behind(t, func(t *testing.T, c *cluster) {
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(checkpoint(s, rank, 1), s.expects("with one place", s.protecting(), 0))
		})
		c.says("SCR_CACHE_SIZE=1: the program waits while a dataset is protected, in spite of SCR_ENCODE_ASYNC=1")
		c.lose("c")
		c.job(four, restarts(1))
	}, "SCR_CACHE_SIZE=1")
}

// If the connections are lost the program waits while the dataset is protected, and the next is
// protected behind it again.
func TestEncode_ConnectionsAreLost(t *testing.T) {
	holdBack(t)
	c := newCluster(t)
	c.inMode(sockets)
	c.job(four, func(s *Session, rank int) error {
		err := checkpoint(s, rank, 1)
		if rank == 2 {
			s.flusher.Protector.Sever()
		}
		err = errors.Join(err, checkpoint(s, rank, 2))
		if err == nil && strings.Count(c.said(), "it is protected while the program waits") == 0 {
			err = errors.New("nobody has noticed")
		}
		return errors.Join(err, s.expects("after 2", s.protecting(), 2), s.flusher.WaitForProtection())
	})
	c.says("dataset 2 (ckpt.2): protected with XOR")
	c.lose("a")
	c.job(four, restarts(2))
}

// oneThread hides that several threads may call MPI.
type oneThread struct{}

func (oneThread) Call(int, string)             {}
func (oneThread) Wrap(world mpi.Comm) mpi.Comm { return mpitest.Faulty(world, func(string) {}) }

// A network that has failed twice in a row is not tried a third time: then the program's MPI carries protections, or
// the program waits, until the next Init.
func TestEncode_NetworkIsBroken(t *testing.T) {
	holdBack(t)
	for _, test := range []struct {
		faults faults
		says   string
		behind int // the dataset that is being protected at the end
	}{
		{nil, "Until the next SCR_Init goscr sends their data over the program's MPI", 5},
		{oneThread{}, "Until the next SCR_Init the program waits while datasets are protected", 0},
	} {
		t.Run(test.says, func(t *testing.T) {
			c := newCluster(t)
			c.inMode(sockets)
			c.faults = test.faults
			c.job(four, func(s *Session, rank int) error {
				for step := 1; step <= 5; step++ {
					err := checkpoint(s, rank, step)
					if rank == 2 {
						s.flusher.Protector.Sever()
					}
					if err = s.Agree(err); err != nil {
						return err
					}
				}
				return s.expects("after 5", s.protecting(), test.behind)
			})
			c.says(test.says)
			if n := strings.Count(c.said(), "it is protected while the program waits"); n == 0 || strings.Contains(c.said(), "dataset 3 (ckpt.3): it cannot be protected") {
				t.Errorf("%s", c.said())
			}
			c.lose("a")
			c.job(four, restarts(5))
			c.job(four, func(s *Session, rank int) error { // again after Init
				return errors.Join(restartAt(s, rank, 5), checkpoint(s, rank, 6), s.expects("after 6", s.protecting(), 6))
			})
		})
	}
}

// The same if the members of a set cannot even be connected.
func TestEncode_NoNetwork(t *testing.T) {
	holdBack(t)
	c := newCluster(t, "SCR_NET_INTERFACE=no-such-one")
	c.inMode(sockets)
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(steps(1, 2)(s, rank), s.expects("after 2", s.protecting(), 0), checkpoint(s, rank, 3), s.expects("after 3", s.protecting(), 3))
	})
	c.says("the members of a set cannot be connected: there is no network interface no-such-one")
	c.says("Until the next SCR_Init goscr sends their data over the program's MPI")
	c.lose("a")
	c.job(four, restarts(3))
}

// What cannot be protected at all stays, but leaves before the newest that is protected.
func TestEncode_Fails(t *testing.T) {
	behind(t, func(t *testing.T, c *cluster) {
		c.job(four, func(s *Session, rank int) error {
			err := steps(1, 2)(s, rank)
			if rank == 3 {
				err = errors.Join(err, os.Remove(c.cached("d", 2, contents(2, 3)[0].name)))
			}
			if err = errors.Join(mpi.Agree(s.world, err), s.StartOutput(name(3), Checkpoint)); err != nil {
				return err
			}
			if got := c.in("a", "cache"); got != "1 3" {
				err = errors.New(got)
			}
			return mpi.Agree(s.world, err)
		})
		c.says("dataset 2 (ckpt.2) is not protected")
		c.lose("b")
		c.job(four, restarts(1))
	})
}

// A dataset that is dropped is not protected any more.
func TestEncode_Drop(t *testing.T) {
	behind(t, func(t *testing.T, c *cluster) {
		c.job(four, func(s *Session, rank int) error {
			err := errors.Join(steps(1, 2)(s, rank), s.Drop(name(2)), s.expects("after Drop", s.protecting(), 0))
			return errors.Join(err, checkpoint(s, rank, 3), s.flusher.WaitForProtection())
		})
		c.lose("d")
		c.job(four, restarts(3))
	})
}

// What an earlier run has left, and this run cannot use, stays until a checkpoint of this run is
// protected: before, a lost node would leave nothing.
func TestEncode_UnusedStay(t *testing.T) {
	behind(t, func(t *testing.T, c *cluster) {
		c.job(on(1, "a", "b", "c", "d", "e"), steps(1))
		c.job(four, func(s *Session, rank int) error {
			err := checkpoint(s, rank, 2)
			if got := c.in("a", "cache"); err == nil && got != "1 2" {
				err = fmt.Errorf("before it is protected: %s", got)
			}
			err = errors.Join(mpi.Agree(s.world, err), s.flusher.WaitForProtection())
			if got := c.in("a", "cache"); err == nil && got != "2" {
				err = fmt.Errorf("once it is protected: %s", got)
			}
			return mpi.Agree(s.world, err)
		})
	}, "SCR_CACHE_SIZE=3")
}

// A rank that cannot continue ends what the threads of all ranks do.
func TestEncode_RankFails(t *testing.T) {
	behind(t, func(t *testing.T, c *cluster) {
		err := c.try(four, func(s *Session, rank int) error {
			err := checkpoint(s, rank, 1)
			if rank == 1 {
				s.job.ranks.Revoke("a test")
			}
			_, e := s.NeedCheckpoint()
			for s.job.over == nil {
				_, e = s.NeedCheckpoint()
			}
			if s.protecting() != 0 {
				e = errors.New("it continues")
			}
			return errors.Join(err, e)
		})
		if !errors.As(err, new(*mpi.RevokedError)) {
			t.Errorf("%v\n%s", err, c.said())
		}
		c.job(four, restarts(1))
	})
}

// A command that has asked for a checkpoint is answered once it is protected.
func TestEncode_Request(t *testing.T) {
	behind(t, func(t *testing.T, c *cluster) {
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(c.asksFor(s, rank, request.Wish{}), checkpoint(s, rank, 1), c.reaches(s, rank, 1, request.InCache),
				s.flusher.WaitForProtection(), s.requests.poll(), c.reaches(s, rank, 1, request.Finished))
		})
	})
}

// SCR_NET_INTERFACE names a network interface of the node. Without it there is no protection in the
// background, and the program waits.
func TestEncode_Interface(t *testing.T) {
	for name, there := range map[string]bool{"lo": true, "nonet7": false} {
		holdBack(t)
		c := newCluster(t, "SCR_NET_INTERFACE="+name)
		c.inMode(sockets)
		want := 0
		if there {
			want = 1
		}
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(checkpoint(s, rank, 1), s.expects("with "+name, s.protecting(), want))
		})
		if !there {
			c.says("the members of a set cannot be connected: there is no network interface nonet7; there are ")
			c.says("the program waits while datasets are protected")
		}
		c.lose("b")
		c.job(four, restarts(1))
	}
}

// takesOver lets calls that wait protect datasets themselves. These tests do not run at the same time as others.
func takesOver(t *testing.T) {
	holdBack(t)
	protect.Share = 0.5
	t.Cleanup(func() { protect.Share = 0 })
}

// A call that waits protects the dataset itself if the thread has done little. Package protect tests what comes after that.
func TestEncode_TakenOver(t *testing.T) {
	takesOver(t)
	c := newCluster(t, "SCR_CACHE_SIZE=3")
	c.inMode(sockets)
	c.job(four, func(s *Session, rank int) error { return errors.Join(steps(1, 2, 3)(s, rank), s.Finalize()) })
	if n := strings.Count(c.said(), "protected with XOR while the program waited"); n != 3 {
		t.Errorf("calls have protected %d datasets, not 3:\n%s", n, c.said())
	}
	c.lose(four[1])
	c.job(four, restarts(3))
}

// A rank is killed at any message of calls that protect a dataset themselves, and a node is lost with it: an older dataset is whole.
func TestEncode_KilledWhileTakenOver(t *testing.T) {
	takesOver(t)
	c := newCluster(t, "SCR_CACHE_SIZE=3")
	c.inMode(sockets)
	c.job(four, func(s *Session, rank int) error { return errors.Join(steps(1, 2)(s, rank), s.Finalize()) })
	kills(t, c, four, steps(3, 4), func(at int64) {
		if at%2 == 0 {
			c.lose(four[at%3])
		}
		after(t, c, four, 2, 3, 4)
	})
}

// SCR_ENCODE_ASYNC=AUTO measures a wait, and then the background. Package protect tests what it chooses after that.
func TestEncode_Auto(t *testing.T) {
	holdBack(t)
	c := newCluster(t, "SCR_CACHE_SIZE=3")
	c.inMode(sockets)
	c.set("SCR_ENCODE_ASYNC=auto")
	c.job(four, func(s *Session, rank int) error {
		var err error
		for id, want := range []int{1: 0, 2: 0, 3: 3} {
			if id > 0 {
				err = errors.Join(err, checkpoint(s, rank, id), s.expects(fmt.Sprintf("after %d", id), s.protecting(), want))
			}
		}
		return errors.Join(err, steps(4, 5)(s, rank), s.Finalize())
	})
	c.lose(four[1])
	c.job(four, restarts(5))
}
