package session

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/failures"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/test/sample"
)

// ask returns the answers of n questions, as a string of 0 and 1.
func ask(s *Session, n int) (string, error) {
	var b strings.Builder
	for range n {
		yes, err := s.NeedCheckpoint()
		if err != nil {
			return "", err
		}
		b.WriteString(map[bool]string{false: "0", true: "1"}[yes])
	}
	return b.String(), nil
}

func asked(n int, want string) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		got, err := ask(s, n)
		if err == nil && got != want {
			err = fmt.Errorf("answers %s, want %s", got, want)
		}
		return err
	}
}

func TestNeedCheckpoint(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		env   string
		first string // before any checkpoint
		then  string // right after one
	}{
		{"SCR_DEBUG=1", "000", "000"},
		{"SCR_CHECKPOINT_INTERVAL=2", "010", "101"},
		{"SCR_CHECKPOINT_SECONDS=0.000000001", "111", "111"},
		{"SCR_CHECKPOINT_SECONDS=1000", "000", "000"},
		{"SCR_CHECKPOINT_OVERHEAD=100", "111", "111"},
		{"SCR_CHECKPOINT_OVERHEAD=0.000001", "111", "000"},
		{"SCR_MTBF_SECONDS=1000000", "111", "000"},
		{"SCR_MTBF_SECONDS=1000000 SCR_CHECKPOINT_INTERVAL=2", "010", "101"},
	} {
		t.Run(kind.env, func(t *testing.T) {
			c := newCluster(t, strings.Fields(kind.env)...)
			c.job(four, func(s *Session, rank int) error {
				if err := asked(3, kind.first)(s, rank); err != nil {
					return err
				}
				if err := checkpoint(s, rank, 1); err != nil {
					return err
				}
				return asked(3, kind.then)(s, rank)
			})
		})
	}
}

// The interval follows from what checkpoints have cost, and is counted from the
// end of the last one.
func TestNeedCheckpoint_ByCost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_MTBF_SECONDS=5000")
	c.job(four, func(s *Session, rank int) error {
		if err := checkpoint(s, rank, 1); err != nil {
			return err
		}
		s.advisor.Observed.Cost = time.Second // √(2·1·5000) is 100
		for _, at := range []struct {
			ago  time.Duration
			want string
		}{{99 * time.Second, "0"}, {101 * time.Second, "1"}} {
			s.advisor.Last = time.Now().Add(-at.ago)
			if err := asked(1, at.want)(s, rank); err != nil {
				return fmt.Errorf("%v after the last: %w", at.ago, err)
			}
		}
		return nil
	})
}

// Where nobody says how often the job fails, its own runs do.
func TestNeedCheckpoint_ByFailures(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for range 3 {
		c.job(four, asked(2, "00")) // ends without Finalize
	}
	c.job(four, func(s *Session, rank int) error {
		if err := asked(2, "11")(s, rank); err != nil { // to learn the cost
			return err
		}
		if rank == 0 && s.advisor.Policy.MTBF != time.Second { // the least there is
			return fmt.Errorf("MTBF %v", s.advisor.Policy.MTBF)
		}
		return s.Finalize()
	})
	if got, err := failures.MTBF(c.prefix("")); got != time.Second || err != nil {
		t.Errorf("after a run that ended by itself: %v %v", got, err)
	}
	c.set("SCR_CHECKPOINT_INTERVAL=2")
	c.job(four, asked(4, "0101")) // who says what he wants gets that
}

// A halt that is pending makes every answer yes.
func TestHalt(t *testing.T) {
	t.Parallel()
	setHalt := func(c *cluster, key, value string) {
		t.Helper()
		if err := os.MkdirAll(c.prefix(".scr"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := hash.Update(halt.Path(c.prefix("")), func(h *hash.Hash) error { h.SetValue(key, value); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	in := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
	for _, kind := range sample.Of(t, []struct {
		name string
		env  string
		file [2]string
		want bool
		says string
	}{
		{name: "nothing"},
		{name: "a reason", file: [2]string{"ExitReason", "maintenance"}, want: true, says: "maintenance"},
		{name: "the last run's end", file: [2]string{"ExitReason", halt.Finalized}},
		{name: "no checkpoints left", file: [2]string{"CheckpointsLeft", "0"}, want: true},
		{name: "the time to stop after", file: [2]string{"ExitAfter", in(-time.Minute)}, want: true},
		{name: "not yet", file: [2]string{"ExitAfter", in(time.Hour)}},
		{name: "seconds before a time", env: "SCR_HALT_SECONDS=3600", file: [2]string{"ExitBefore", in(time.Minute)}, want: true},
		{name: "too early", env: "SCR_HALT_SECONDS=60", file: [2]string{"ExitBefore", in(time.Hour)}},
		{name: "seconds before the end", env: "SCR_HALT_SECONDS=3600 SCR_END_TIME=" + in(time.Minute), want: true, says: "allocation ends"},
		{name: "too early", env: "SCR_HALT_SECONDS=60 SCR_END_TIME=" + in(time.Hour)},
		{name: "as Slurm says", env: "SCR_HALT_SECONDS=3600 SLURM_JOB_ID=1 SLURM_JOB_END_TIME=" + in(time.Minute), want: true, says: "allocation ends"},
		{name: "as a person says later", env: "SCR_END_TIME=" + in(time.Minute), file: [2]string{"HaltSeconds", "3600"}, want: true},
		{name: "an end alone", env: "SCR_END_TIME=" + in(-time.Minute)},
		{name: "seconds alone", env: "SCR_HALT_SECONDS=3600", says: "SCR_END_TIME can say it"},
	}, 5, sample.Every) {
		t.Run(kind.name, func(t *testing.T) {
			c := newCluster(t, strings.Fields(kind.env)...)
			c.set("SCR_FLUSH=10")
			if kind.file[0] != "" {
				setHalt(c, kind.file[0], kind.file[1])
			}
			c.job(four, func(s *Session, rank int) error {
				exit, err := s.ShouldExit()
				if err == nil && exit != kind.want {
					err = fmt.Errorf("ShouldExit says %v", exit)
				}
				if err == nil {
					err = asked(2, map[bool]string{false: "00", true: "11"}[kind.want])(s, rank)
				}
				return errors.Join(err, checkpoint(s, rank, 1))
			})
			c.says(kind.says)
			if got := c.index()["ckpt.1"].Complete; got != kind.want {
				t.Errorf("the checkpoint is flushed: %v", got)
			}
		})
	}
	t.Run("exit", func(t *testing.T) {
		c := newCluster(t, "SCR_HALT_EXIT=1", "SCR_FLUSH=10", "SLURM_JOB_ID=17")
		setHalt(c, "CheckpointsLeft", "2")
		c.job(four, func(s *Session, rank int) error {
			if err := checkpoint(s, rank, 1); err != nil {
				return err
			}
			if err := checkpoint(s, rank, 2); !errors.Is(err, ErrHalted) {
				return fmt.Errorf("the last checkpoint: %v", err)
			}
			var state *StateError
			if err := s.StartCheckpoint(); !errors.As(err, &state) {
				return fmt.Errorf("after the end: %v", err)
			}
			return nil
		})
		if !c.index()["ckpt.2"].Complete {
			t.Error("the last checkpoint is not flushed")
		}
		if h, err := halt.Read(halt.Path(c.prefix(""))); err != nil || h.Text("ExitReason") != "NO_CHECKPOINTS_LEFT" {
			t.Errorf("the halt file has %v, %v", h, err)
		}
		err := c.try(four, func(*Session, int) error { return errors.New("Init has not halted") })
		if !errors.Is(err, ErrHalted) {
			t.Errorf("the next run of the allocation: %v", err)
		}
		if got, err := failures.MTBF(c.prefix("")); got != 0 || err != nil {
			t.Errorf("that counts as failures: %v %v", got, err)
		}
		c.set("SLURM_JOB_ID=18") // the same script, submitted again
		c.job(four, restarts(2))
	})
	t.Run("after an output", func(t *testing.T) { // the checkpoint of the same step comes next
		c := newCluster(t, "SCR_HALT_EXIT=1")
		c.job(four, func(s *Session, rank int) error {
			if rank == 0 {
				setHalt(c, "ExitReason", "ENOUGH")
			}
			if err := errors.Join(s.Agree(nil), writesAs(s, rank, 1, Output)); err != nil {
				return err
			}
			if err := checkpoint(s, rank, 2); !errors.Is(err, ErrHalted) {
				return fmt.Errorf("after the checkpoint: %v", err)
			}
			return nil
		})
	})
	t.Run("Finalize", func(t *testing.T) {
		c := newCluster(t, "SCR_HALT_EXIT=1")
		c.job(four, func(s *Session, rank int) error { return s.Finalize() })
		h, err := hash.ReadFile(halt.Path(c.prefix("")))
		if err != nil || h.Text("ExitReason") != "SCR_FINALIZE_CALLED" {
			t.Errorf("%v %v", h, err)
		}
		c.job(four, steps(1)) // it stops nobody
	})
}

// A program that was told to stop ends without Finalize, and no scr_run has started it. What has
// stopped it stops no other job, but another run in its allocation.
func TestHalt_EndWithoutFinalize(t *testing.T) {
	t.Parallel()
	ask := func(want bool) func(s *Session, rank int) error {
		return func(s *Session, rank int) error {
			if err := checkpoint(s, rank, 1); err != nil {
				return err
			}
			if got, err := s.ShouldExit(); err != nil || got != want {
				return fmt.Errorf("ShouldExit says %v, %v", got, err)
			}
			return nil
		}
	}
	for _, now := range []struct {
		name       string
		first      string                           // variables of the first job
		next       string                           // ... and of the next
		tell       func(s *Session, rank int) error // nil: as ask(true)
		between    func(c *cluster) (after func())  // the runs
		stopsAgain bool
	}{
		{name: "mpirun"},
		{name: "mpirun, another job", next: "SCR_JOB_ID=other"},
		{name: "another allocation", first: "SCR_JOB_ID=17 SLURM_JOB_ID=17", next: "SCR_JOB_ID=18 SLURM_JOB_ID=18"},
		{name: "the same allocation", first: "SCR_JOB_ID=17 SLURM_JOB_ID=17", stopsAgain: true},
		{name: "requeued", first: "SCR_JOB_ID=17 SLURM_JOB_ID=17", next: "SLURM_RESTART_COUNT=1"},
		{name: "the program has not asked", tell: steps(1), stopsAgain: true},
		{name: "the first job still runs", next: "SCR_JOB_ID=other SCR_PREFIX_SHARED=1", stopsAgain: true, between: func(c *cluster) func() {
			held, err := lock.Try(request.LockPath(c.prefix("")), lock.Exclusive)
			if err != nil || held == nil {
				t.Errorf("%v, %v", held, err)
			}
			return held.Release
		}},
		{name: "asked again", stopsAgain: true, between: func(c *cluster) func() {
			c.must(halt.Change(c.prefix(""), map[halt.Field]string{halt.Because: halt.Asked}))
			return func() {}
		}},
	} {
		t.Run(now.name, func(t *testing.T) {
			c := newCluster(t, strings.Fields(now.first)...)
			c.must(halt.Change(c.prefix(""), map[halt.Field]string{halt.Checkpoints: "1"}))
			if now.tell == nil {
				now.tell = ask(true)
			}
			c.job(four, now.tell)
			if now.between != nil {
				defer now.between(c)()
			}
			c.set(strings.Fields(now.next)...)
			c.job(four, ask(now.stopsAgain))
		})
	}
}

// A program that is killed before it has written anything has been told that nothing is set, once, at its third question.
func TestNeedCheckpoint_NothingIsSet(t *testing.T) {
	t.Parallel()
	const text = "the answer is always no"
	for _, set := range []string{"", "SCR_CHECKPOINT_INTERVAL=50", "SCR_CHECKPOINT_SECONDS=600", "SCR_CHECKPOINT_OVERHEAD=5", "SCR_MTBF_SECONDS=9000"} {
		c := newCluster(t)
		if set != "" {
			c.set(set)
		}
		c.job(four, func(s *Session, rank int) error {
			for call := 1; call <= 9; call++ {
				if need, err := s.NeedCheckpoint(); err != nil || need && set == "" {
					return fmt.Errorf("%v, %w", need, err)
				}
				if said := strings.Contains(c.said(), text); rank == 0 && said != (set == "" && call >= 3) {
					t.Errorf("%s: said at question %d: %v", set, call, said)
				}
			}
			return nil
		})
		if set != "" {
			continue
		}
		c.says("SCR_CHECKPOINT_INTERVAL=10 to " + c.prefix(".scrconf"))
		if n := strings.Count(c.said(), text); n != 1 {
			t.Errorf("said %d times:\n%s", n, c.said())
		}
	}
	// It writes checkpoints, as it decides itself.
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error {
		for step := 1; step < 9; step++ {
			if _, err := s.NeedCheckpoint(); err != nil {
				return err
			}
			if step%2 == 0 {
				if err := checkpoint(s, rank, step); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if strings.Contains(c.said(), text) {
		t.Error(c.said())
	}
}

// Finalize sums up what checkpoints have cost; a program that was never told to write one
// learns why.
func TestFinalize_Sums(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_DEBUG=1")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(checkpoint(s, rank, 1), checkpoint(s, rank, 2), s.Finalize())
	})
	c.says("2 checkpoints in ")
	asking := func(times int) func(s *Session, rank int) error {
		return func(s *Session, rank int) error {
			for range times {
				if _, err := s.NeedCheckpoint(); err != nil {
					return err
				}
			}
			return s.Finalize()
		}
	}
	asks := asking(3)
	c = newCluster(t)
	c.job(four, asking(2))
	c.says("has asked 2 times whether it needs a checkpoint, the answer was always no, and it wrote none: SCR_CHECKPOINT_INTERVAL=N")
	c = newCluster(t, "SCR_CHECKPOINT_INTERVAL=0")
	c.job(four, asking(9))
	c.says("has asked 9 times whether it needs a checkpoint, the answer was always no, and it wrote none: SCR_CHECKPOINT_INTERVAL=N")
	c = newCluster(t, "SCR_CHECKPOINT_INTERVAL=2")
	c.job(four, asks)
	if strings.Contains(c.said(), "always no") {
		t.Error(c.said())
	}
	c = newCluster(t, "SCR_CHECKPOINT_INTERVAL=4")
	c.job(four, asks)
	c.says("has asked 3 times whether it needs a checkpoint, less often than SCR_CHECKPOINT_INTERVAL=4 says, and it wrote none")
	if strings.Contains(c.said(), "always no") {
		t.Error(c.said())
	}
}
