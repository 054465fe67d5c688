package session

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/failures"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/test/sample"
)

// asksFor enters a request as a command does, on rank 0, at the same place of the program
// on all ranks.
func (c *cluster) asksFor(s *Session, rank int, wish request.Wish) error {
	var err error
	if rank == 0 {
		_, err = request.Ask(c.prefix(""), "", request.NewAsker(), wish)
	}
	return s.Agree(err)
}

// request fails the test unless a request has come to a state for dataset id.
func (c *cluster) request(number int, state request.State, id int) request.Request {
	c.t.Helper()
	r, _, err := request.Read(c.prefix(""), number)
	if err != nil || r.State != state || r.Dataset != id {
		c.t.Errorf("request %d: %+v, %v; want %s, dataset %d\n%s", number, r, err, state, id, c.said())
	}
	return r
}

// reaches is request on rank 0 while the program runs, for all ranks.
func (c *cluster) reaches(s *Session, rank, number int, state request.State) error {
	var err error
	if rank == 0 {
		var r request.Request
		if r, _, err = request.Read(c.prefix(""), number); err == nil && r.State != state {
			err = fmt.Errorf("request %d is in state %s, want %s", number, r.State, state)
		}
	}
	return s.Agree(err)
}

// A request makes the next call say yes, on all ranks, until the checkpoint begins.
func TestRequest(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CHECKPOINT_SECONDS=100000")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(
			asked(2, "00")(s, rank), c.asksFor(s, rank, request.Wish{}), c.asksFor(s, rank, request.Wish{}),
			asked(2, "11")(s, rank), c.reaches(s, rank, 1, request.Pending), checkpoint(s, rank, 1),
			c.reaches(s, rank, 1, request.Finished), asked(2, "00")(s, rank),
			c.asksFor(s, rank, request.Wish{}), checkpoint(s, rank, 2), // the program does not ask
			c.reaches(s, rank, 2, request.Finished), asked(1, "0")(s, rank), s.Finalize())
	})
	if r := c.request(1, request.Finished, 1); len(r.Askers) != 2 || r.Name != name(1) || r.Size == 0 {
		t.Errorf("%+v", r)
	}
	c.request(2, request.Finished, 2)
}

// An output that is no checkpoint does not answer.
func TestRequest_Output(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(c.asksFor(s, rank, request.Wish{}), output(s, rank, 1, Output), asked(1, "1")(s, rank),
			output(s, rank, 2, Output|Checkpoint), c.reaches(s, rank, 1, request.Finished))
	})
	c.request(1, request.Finished, 2)
}

// One that is written directly to the prefix directory does.
func TestRequest_Bypass(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_BYPASS=1")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(c.asksFor(s, rank, request.Wish{Term: true}), checkpoint(s, rank, 1))
	})
	c.request(1, request.Finished, 1)
}

// With --term the checkpoint is flushed, whatever SCR_FLUSH says, and then the program is
// told to end. The next job is not.
func TestRequest_Term(t *testing.T) {
	t.Parallel()
	for _, env := range sample.Of(t, []string{"SCR_FLUSH=0", "SCR_FLUSH=1", "SCR_FLUSH=1 SCR_FLUSH_ASYNC=1", "SCR_FLUSH=7 SCR_HALT_EXIT=1", "SCR_CACHE_BYPASS=1"}, 2, sample.Every) {
		t.Run(env, func(t *testing.T) {
			c := newCluster(t, strings.Fields(env)...)
			c.job(four, func(s *Session, rank int) error {
				err := c.asksFor(s, rank, request.Wish{Term: true})
				if strings.Contains(env, "EXIT") {
					if e := checkpoint(s, rank, 1); !errors.Is(e, ErrHalted) {
						err = errors.Join(err, fmt.Errorf("not halted: %v", e))
					}
					return err
				}
				if exit, e := s.ShouldExit(); exit || e != nil {
					err = errors.Join(err, fmt.Errorf("before the checkpoint: exit %v, %v", exit, e))
				}
				err = errors.Join(err, checkpoint(s, rank, 1))
				if exit, e := s.ShouldExit(); !exit || e != nil {
					err = errors.Join(err, fmt.Errorf("exit %v, %v", exit, e))
				}
				return err
			})
			c.request(1, request.Finished, 1)
			if !c.index()[name(1)].Complete {
				t.Error("it is not flushed")
			}
			reasons, err := halt.Stop(halt.Path(c.prefix("")), 0, time.Now())
			if err != nil || len(reasons) != 1 || !strings.Contains(reasons[0], halt.Terminated) {
				t.Errorf("%q, %v", reasons, err) // scr_run starts no other run
			}
			c.lose(four...)
			c.job(four, func(s *Session, rank int) error {
				exit, err := s.ShouldExit()
				if exit {
					err = errors.Join(err, errors.New("the next job is told to end"))
				}
				return errors.Join(err, restarts(1)(s, rank))
			})
			// The first run has ended without Finalize, and is no failure. The next two are.
			for range 2 {
				c.job(four, func(*Session, int) error { return nil })
			}
			if got, err := failures.MTBF(c.prefix("")); got != 0 || err != nil {
				t.Errorf("it counts as a failure: %v, %v", got, err)
			}
			c.job(four, func(*Session, int) error { return nil })
			if got, err := failures.MTBF(c.prefix("")); got == 0 || err != nil {
				t.Errorf("no run counts as a failure: %v, %v", got, err)
			}
		})
	}
}

// The flush of a checkpoint in the background is part of the answer.
func TestRequest_Async(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		c.job(four, func(s *Session, rank int) error {
			if err := errors.Join(c.asksFor(s, rank, request.Wish{}), checkpoint(s, rank, 1), c.reaches(s, rank, 1, request.Flushing),
				c.asksFor(s, rank, request.Wish{})); err != nil { // a request during a flush
				return err
			}
			for s.flusher.Running() > 0 {
				if _, err := s.ShouldExit(); err != nil {
					return err
				}
			}
			return errors.Join(c.reaches(s, rank, 1, request.Finished), asked(1, "1")(s, rank), checkpoint(s, rank, 2), s.Finalize())
		})
		c.whole(1, 4)
		c.request(1, request.Finished, 1)
		c.request(2, request.Finished, 2)
	})
}

// A dataset leaves the cache in the same call in which its flush ends.
func TestRequest_AsyncAndEvicted(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		c.set("SCR_CACHE_SIZE=1")
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(c.asksFor(s, rank, request.Wish{}), checkpoint(s, rank, 1), checkpoint(s, rank, 2), s.Finalize())
		})
		c.request(1, request.Finished, 1)
	})
}

// A checkpoint that fails is told as such, and so is a job that ends without one.
func TestRequest_Fails(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error {
		err := c.asksFor(s, rank, request.Wish{Term: true})
		if e := errors.Join(s.StartOutput("bad", Checkpoint), s.CompleteOutput(rank != 2)); e == nil {
			err = errors.Join(err, errors.New("a checkpoint that one rank calls invalid is complete"))
		}
		if exit, e := s.ShouldExit(); exit || e != nil {
			err = errors.Join(err, fmt.Errorf("after a failed checkpoint: exit %v, %v", exit, e))
		}
		return errors.Join(err, c.asksFor(s, rank, request.Wish{}), s.Finalize())
	})
	if r := c.request(1, request.Failed, 1); !strings.Contains(r.Reason, "not valid") {
		t.Errorf("%q", r.Reason)
	}
	if r := c.request(2, request.Failed, 0); !strings.Contains(r.Reason, "ended without") {
		t.Errorf("%q", r.Reason)
	}
	c.job(four, func(s *Session, rank int) error { // Finalize in the middle of it
		var state *StateError
		err := errors.Join(c.asksFor(s, rank, request.Wish{}), s.StartOutput("open", Checkpoint))
		if e := s.Finalize(); !errors.As(e, &state) {
			err = errors.Join(err, e)
		}
		return err
	})
	c.request(3, request.Failed, 1)
}

// A request that is entered while the program restarts is answered after that; one of an
// earlier run is not.
func TestRequest_Restart(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(checkpoint(s, rank, 1), c.asksFor(s, rank, request.Wish{Term: true}), asked(1, "1")(s, rank), s.Finalize())
	})
	c.request(1, request.Failed, 0)
	if _, err := request.Ask(c.prefix(""), "", "x", request.Wish{Term: true}); err != nil {
		t.Fatal(err)
	}
	c.job(four, func(s *Session, rank int) error {
		if err := asked(1, "0")(s, rank); err != nil {
			return err
		}
		if _, ok, err := s.HaveRestart(); err != nil || !ok {
			return fmt.Errorf("%v, %v", ok, err)
		}
		return errors.Join(c.asksFor(s, rank, request.Wish{}), read(s, rank, 1),
			asked(1, "1")(s, rank), checkpoint(s, rank, 2), s.Finalize())
	})
	c.request(2, "", 0)
	c.request(3, request.Finished, 2)
}

// Without a place to answer the job continues.
func TestRequest_NoFile(t *testing.T) {
	t.Parallel()
	for _, of := range []func(string) string{request.Path, request.LockPath} {
		c := newCluster(t)
		path := of(c.prefix(""))
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(asked(1, "0")(s, rank), checkpoint(s, rank, 1), s.Finalize())
		})
	}
}

// With --stop all ranks stop at the same step, with the checkpoint safe; processes that
// have stopped are listed until they continue.
func TestRequest_Stop(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"SCR_FLUSH=0", "SCR_FLUSH=1 SCR_FLUSH_ASYNC=1", "SCR_CACHE_BYPASS=1"} {
		t.Run(env, func(t *testing.T) {
			c := newCluster(t, strings.Fields(env)...)
			var stopped atomic.Int32
			var gate sync.WaitGroup
			gate.Add(len(four))
			c.pause = func() {
				stopped.Add(1)
				gate.Done()
				gate.Wait() // all stop before any continues
				c.request(1, request.Finished, 1)
			}
			c.job(four, func(s *Session, rank int) error {
				err := errors.Join(c.asksFor(s, rank, request.Wish{Stop: true}), checkpoint(s, rank, 1))
				if rank == 0 && stopped.Load() != 4 {
					err = errors.Join(err, fmt.Errorf("%d ranks have stopped", stopped.Load()))
				}
				return errors.Join(err, s.Agree(nil), asked(1, "0")(s, rank), checkpoint(s, rank, 2), s.Finalize())
			})
			c.request(1, request.Finished, 1)
			if list, err := request.StoppedNodes(c.prefix("")); len(list) > 0 || err != nil {
				t.Error(list, err)
			}
			if n := stopped.Load(); n != 4 {
				t.Errorf("stopped %d times", n)
			}
		})
	}
}

// With --attach the ranks wait for debuggers at a gate of their own, after the call; if one has
// none, all are stopped.
func TestRequest_Attach(t *testing.T) {
	t.Parallel()
	for _, gates := range []int32{4, 3, 0} {
		c := newCluster(t)
		var stopped, asked atomic.Int32
		c.pause = func() { stopped.Add(1) }
		if gates > 0 {
			c.gate = func() bool { return asked.Add(1) <= gates }
		}
		c.job(four, func(s *Session, rank int) error {
			err := errors.Join(c.asksFor(s, rank, request.Wish{Attach: true}), checkpoint(s, rank, 1))
			record, waits := s.Gate()
			if waits != (gates == 4) {
				err = errors.Join(err, fmt.Errorf("rank %d waits: %v", rank, waits))
			}
			if waits {
				c.request(1, request.Finished, 1)
				_, e := os.Stat(record)
				list, e2 := request.StoppedNodes(c.prefix(""))
				if len(list) == 0 {
					e2 = errors.Join(e2, errors.New("nobody waits"))
				}
				err = errors.Join(err, e, e2)
			}
			err = errors.Join(err, s.Agree(nil), s.LeaveGate())
			if _, waits := s.Gate(); waits {
				err = errors.Join(err, errors.New("it waits after it has left"))
			}
			return errors.Join(err, checkpoint(s, rank, 2), s.Finalize())
		})
		if list, err := request.StoppedNodes(c.prefix("")); len(list) > 0 || err != nil {
			t.Error(list, err)
		}
		if want := map[bool]int32{true: 0, false: 4}[gates == 4]; stopped.Load() != want {
			t.Errorf("with %d gates, %d ranks were stopped", gates, stopped.Load())
		}
	}
}

// Where it cannot be recorded which processes have stopped, they continue.
func TestRequest_StopFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.pause = func() { t.Error("a rank has stopped") }
	c.job(four, func(s *Session, rank int) error {
		var err error
		if rank == 0 {
			err = os.WriteFile(c.prefix(".scr/stopped"), nil, 0o600)
		}
		return errors.Join(s.Agree(err), c.asksFor(s, rank, request.Wish{Stop: true}), checkpoint(s, rank, 1), s.Finalize())
	})
	if r := c.request(1, request.Failed, 1); !strings.Contains(r.Reason, "the ranks continue") {
		t.Errorf("%q", r.Reason)
	}
}

// asksAt waits until the lock of a file is held by this test and the job waits for it, which it
// shows by reached; enters a request in the way of scr_checkpoint, and lets the job continue. It
// returns a function that returns how the request has ended: "" if the job has ended before
// it was answered.
func (c *cluster) asksAt(path string, reached func() bool) (held func(), ended func() request.Request) {
	locked, entered, result := make(chan error, 1), make(chan struct{}), make(chan request.Request, 1)
	go func() {
		_ = hash.Update(path, func(*hash.Hash) error {
			locked <- nil
			for !reached() {
				time.Sleep(time.Millisecond)
			}
			go func() { result <- c.command(entered) }()
			<-entered
			return errors.New("nothing is to be changed")
		})
	}()
	return func() { <-locked }, func() request.Request { return <-result }
}

// command asks for a checkpoint as scr_checkpoint does, in a job that runs already or is in
// SCR_Init. It closes entered once the request is there.
func (c *cluster) command(entered chan struct{}) request.Request {
	dir := c.prefix("")
	id, asker, first := 0, request.NewAsker(), true
	for {
		if id == 0 {
			var err error
			if id, err = request.Ask(dir, "", asker, request.Wish{}); err != nil {
				c.t.Error(err)
			}
			if first {
				close(entered)
				first = false
			}
		}
		alive := request.Alive(dir)
		r, ok, err := request.Read(dir, id)
		switch {
		case err != nil:
			c.t.Error(err)
			return r
		case !ok && alive:
			id = 0 // a new run has forgotten it
		case r.State.Over():
			return r
		case !alive && id != 0 && c.over.Load():
			if done, err := request.TakeBack(dir, id, asker); !done || err != nil {
				c.t.Errorf("nobody has answered, and it cannot be taken back: %v, %v", done, err)
			}
			return request.Request{}
		}
		time.Sleep(time.Millisecond)
	}
}

// A request that is entered in the middle of a call is answered by what comes after it, or by the end.
func TestRequest_During(t *testing.T) {
	t.Parallel()
	index := func(c *cluster) string { return c.prefix(".scr/index.scr") }
	cached := func(c *cluster) bool { return c.unflushed(1) }
	two := func(_ *cluster, s *Session, rank int) error {
		return errors.Join(checkpoint(s, rank, 1), asked(1, "1")(s, rank), checkpoint(s, rank, 2), s.Finalize())
	}
	for what, test := range map[string]struct {
		env     string
		lock    func(c *cluster) string
		reached func(c *cluster) bool
		job     func(c *cluster, s *Session, rank int) error
		state   request.State
		id      int
	}{
		"a flush":                                {"SCR_FLUSH=1", index, cached, two, request.Finished, 2},
		"the start of a flush in the background": {"SCR_FLUSH=1 SCR_FLUSH_ASYNC=1", index, cached, two, request.Finished, 2},
		"Finalize": {"SCR_FLUSH=5", index, cached, func(_ *cluster, s *Session, rank int) error {
			return errors.Join(checkpoint(s, rank, 1), s.Finalize())
		}, request.Failed, 0},
		"Init": {"SCR_FLUSH=0", func(c *cluster) string { return failures.Path(c.prefix("")) },
			func(c *cluster) bool { _, err := os.Stat(c.prefix(".scr/nodes.scr")); return err == nil },
			func(c *cluster, s *Session, rank int) error {
				// The command enters its request again when it sees that the job runs.
				return errors.Join(c.asksAgain(s, rank), asked(1, "1")(s, rank), checkpoint(s, rank, 1), s.Finalize())
			}, request.Finished, 1},
	} {
		t.Run(what, func(t *testing.T) {
			c := newCluster(t, strings.Fields(test.env)...)
			if err := hash.MakeDirs(c.prefix(".scr")); err != nil {
				t.Fatal(err)
			}
			held, ended := c.asksAt(test.lock(c), func() bool { return test.reached(c) })
			held()
			c.job(four, func(s *Session, rank int) error {
				return test.job(c, s, rank)
			})
			c.over.Store(true)
			if r := ended(); r.State != test.state || r.Dataset != test.id {
				t.Errorf("%+v\n%s", r, c.said())
			}
		})
	}
}

// asksAgain waits until a request is there.
func (c *cluster) asksAgain(s *Session, rank int) error {
	var err error
	for rank == 0 && err == nil {
		var h *hash.Hash
		if h, err = hash.ReadOrNew(request.Path(c.prefix(""))); h.Get("CHECKPOINT").Size() > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return s.Agree(err)
}
