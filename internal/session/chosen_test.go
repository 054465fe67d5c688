package session

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix"
)

// choose is what scr_index --current does.
func (c *cluster) choose(name string) {
	c.t.Helper()
	dir := c.prefix("")
	if err := prefix.UpdateIndex(dir, func(x *prefix.Index) error { return prefix.Choose(x, dir, name, time.Now()) }); err != nil {
		c.t.Fatal(err)
	}
}

// No run could restart from an output.
func TestChoice_Output(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(checkpoint(s, rank, 1), writesAs(s, rank, 2, Output))
	})
	err := prefix.UpdateIndex(c.prefix(""), func(x *prefix.Index) error { return prefix.Choose(x, c.prefix(""), name(2), time.Now()) })
	if err == nil || !strings.Contains(err.Error(), "ckpt.2 is not a checkpoint") {
		t.Error(err)
	}
	c.job(four, restarts(1))
}

// looks is a run that reads the checkpoint it is offered, and ends before it writes one.
func looks(step int) func(s *Session, rank int) error { return reads("right", step) }

func reads(computation string, step int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error { return resumes(s, rank, computation, step, 4) }
}

// What a user chooses with scr_index counts more than what the cache has, until a run continues from it.
func TestChoice(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"all are flushed":        {"SCR_FLUSH=1"},
		"with the flush behind":  {"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1"},
		"newer are in the cache": {"SCR_FLUSH=2", "SCR_CACHE_SIZE=3"},
		"it is in the cache":     {"SCR_FLUSH=2", "SCR_CACHE_SIZE=5"},
		"in place":               {"SCR_FLUSH=1", "SCR_FETCH_BYPASS=1"},
		"never written there":    {"SCR_CACHE_BYPASS=1"},
		"restart where it is":    {"SCR_FLUSH=1", "SCR_GLOBAL_RESTART=1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, env...)
			end := func(s *Session) error { return nil } // killed
			if name == "with the flush behind" {
				end = (*Session).Finalize
			}
			c.job(four, func(s *Session, rank int) error { return errors.Join(computes("right", 1, 5)(s, rank), end(s)) })
			c.job(four, looks(5))
			c.choose("ckpt.2")
			c.job(four, looks(2))
			c.job(four, looks(2)) // it has written nothing
			c.job(four, goesOn("right", 2, 4, 4))
			c.job(four, looks(4))
			c.set("SCR_CURRENT=ckpt.2")
			c.choose("ckpt.4")
			c.job(four, goesOn("right", 2, 4, 3)) // what the run is told counts more
			c.set("SCR_CURRENT=")
			c.job(four, looks(3))
			c.wants(c.names())
		})
	}
	t.Run("the cache of the choice is lost", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1")
		c.job(four, computes("right", 1, 5))
		c.choose("ckpt.2")
		c.lose(four...)
		c.job(four, goesOn("right", 2, 4, 3))
		c.lose(four...)
		c.job(four, looks(3))
	})
	t.Run("while a job works", func(t *testing.T) {
		for _, every := range []string{"1", "10"} {
			c := newCluster(t, "SCR_FLUSH=1")
			c.job(four, computes("right", 1, 3))
			c.set("SCR_FLUSH=" + every)
			c.job(four, func(s *Session, rank int) error {
				if err := resumes(s, rank, "right", 3, 4); err != nil {
					return err
				}
				if rank == 0 {
					c.choose("ckpt.1")
				}
				return computes("right", 4, 5)(s, rank)
			})
			c.job(four, looks(5))
			if every == "10" { // the flush of a newer one ends a choice without a word
				c.says("scr_index --current has chosen ckpt.1, but a job has written another dataset since")
			}
			c.job(four, looks(5))
		}
	})
	t.Run("flushed late", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=2")
		c.job(four, computes("right", 1, 3))
		c.choose("ckpt.2")
		c.set("SCR_FLUSH=1") // ckpt.3 is flushed when the next run begins
		c.job(four, goesOn("right", 2, 4, 3))
		c.says("this run restarts from ckpt.2, which scr_index --current has chosen; what would be offered in its place leaves the cache: ckpt.3")
		c.job(four, looks(3))
	})
	t.Run("a run that starts from the beginning", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=2")
		c.job(four, computes("right", 1, 3))
		c.choose("ckpt.2")
		c.set("SCR_RESTART=never")
		c.job(four, computes("right", 1, 1))
		c.set("SCR_RESTART=may")
		c.job(four, looks(1))
	})
	t.Run("it is damaged", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=1")
		c.job(four, computes("right", 1, 3))
		c.choose("ckpt.2")
		c.change(c.prefix("ckpt.2/rank_1"), func(data []byte) []byte { data[0] ^= 1; return data })
		c.job(four, looks(3))
		c.says("scr_index --current names ckpt.2, from which this run cannot restart")
	})
}

// The program cannot choose a checkpoint whose files a newer one has replaced: what is newer in the cache would leave for nothing.
// It was found by soak seed 1334269.
func TestCurrent_Replaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=1")
	same := func(s *Session, rank int, name string) error {
		if err := s.StartOutput(name, Checkpoint); err != nil {
			return err
		}
		failed := write(s, of("right", rank, 1))
		return errors.Join(failed, s.CompleteOutput(failed == nil))
	}
	c.job(four, func(s *Session, rank int) error {
		if err := errors.Join(same(s, rank, "one"), same(s, rank, "two")); err != nil {
			return err
		}
		if err := s.Current("one"); err == nil || !strings.Contains(err.Error(), "its files were replaced by two") {
			return fmt.Errorf("chosen: %w", err)
		}
		return nil
	})
	c.job(four, func(s *Session, rank int) error { return offers(s, "two") })
}

// The job was killed while it wrote ckpt.4, before the user chose.
func TestChoice_KilledWriting(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(computes("right", 1, 3)(s, rank), s.StartOutput("ckpt.4", Checkpoint), write(s, of("right", rank, 4)))
	})
	c.choose("ckpt.2")
	c.job(four, looks(2))
}

// A run on other nodes, before the user chose, has found nothing in its caches.
func TestChoice_OtherNodesBefore(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=3")
	c.job(four, computes("right", 1, 3))
	c.job(on(1, "e", "f", "g", "h"), func(s *Session, rank int) error { return nil })
	c.choose("ckpt.2")
	c.job(four, looks(2))
}

// The cache has a newer checkpoint of the same name, of the same computation gone on from an older one.
func TestChoice_SameName(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, computes("first", 1, 4))
	c.choose("ckpt.2")
	c.set("SCR_FLUSH=10")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(resumes(s, rank, "first", 2, 4), computes("second", 3, 4)(s, rank))
	})
	c.choose("ckpt.3")
	c.job(four, reads("first", 3))
}

// ... of a mistaken computation, which has refused it.
func TestChoice_SameNameOfAnother(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, computes("first", 1, 3))
	c.lose(four...)
	c.set("SCR_FLUSH=10")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(refused(s, "ckpt.3"), refused(s, "ckpt.2"), computes("wrong", 1, 2)(s, rank))
	})
	c.choose("ckpt.2")
	c.job(four, reads("first", 2))
}

// The cache has room for one only, and the chosen one is damaged: the newest stays.
func TestChoice_NoRoomAndDamaged(t *testing.T) {
	t.Parallel()
	c := mounted(t, "node", "SCR_FLUSH=2", "SCR_CACHE_SIZE=1")
	if c == nil {
		return
	}
	c.job(four, func(s *Session, rank int) error {
		for step := 1; step <= 3; step++ {
			err := s.StartOutput(name(step), Checkpoint)
			f := of("right", rank, step)
			f[0].data = []byte(strings.Repeat(fmt.Sprintf("%d %d,", rank, step), 15000))
			if err = errors.Join(err, write(s, f)); err != nil {
				return err
			}
			if err := s.CompleteOutput(true); err != nil {
				return err
			}
		}
		return nil
	})
	c.choose("ckpt.2")
	c.change(c.prefix("ckpt.2/rank_1"), func(data []byte) []byte { data[0] ^= 1; return data })
	c.fill(filepath.Join(c.root, "node"), 60<<10)
	c.job(four, func(s *Session, rank int) error { return offers(s, "ckpt.3") })
}

// A line names the newest, which leaves the cache for the chosen one, also if that is to make room.
func TestChoice_Silent(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=1", "SCR_DEBUG=0")
	c.job(four, computes("right", 1, 3))
	c.choose("ckpt.2")
	c.job(four, looks(2))
	c.says("what would be offered in its place leaves the cache: ckpt.3")
}

// Numbers are used again after the nodes are lost, and the end of the choice could not be recorded: new work counts.
func TestChoice_FullThenAgain(t *testing.T) {
	t.Parallel()
	c := mounted(t, "prefix", "SCR_FLUSH=2")
	if c == nil {
		return
	}
	c.job(four, computes("right", 1, 5))
	c.choose("ckpt.2") // NEWEST=5, which is in the cache only
	c.lose(four...)
	c.set("SCR_FLUSH=10")
	end := c.fill(c.prefix(""), 0)
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(resumes(s, rank, "right", 2, 4), computes("second", 3, 3)(s, rank))
	})
	end()
	c.job(four, reads("second", 3))
}

// The chosen one was not complete, as scr_index says, and is completed then (scr_index --build, or a flush that continues).
func TestChoice_CompletedLater(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=3")
	c.job(four, computes("right", 1, 3))
	dir := c.prefix("")
	e := c.index()["ckpt.2"]
	c.must(prefix.Incomplete(dir, e.Dataset)) // as while its flush is under way
	c.choose("ckpt.2")
	f, err := prefix.Summary(dir, e.ID)
	c.must(err)
	c.must(prefix.Enter(dir, f)) // as scr_index --build, and the end of the flush
	c.job(four, looks(2))
}

// SCR_CURRENT names a later wish, which is in the cache only; the run is killed before its first dataset.
func TestChoice_SCRCurrentAfter(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=3")
	c.job(four, computes("right", 1, 3))
	c.choose("ckpt.2")
	c.set("SCR_CURRENT=ckpt.3") // scr_index --current ckpt.3 says to do so
	c.job(four, looks(3))
	c.set("SCR_CURRENT=")
	c.job(four, looks(3))
}

// The same with SCR_Current of the program.
func TestChoice_ProgramCurrent(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=3")
	c.job(four, computes("right", 1, 3))
	c.choose("ckpt.2")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(s.Current("ckpt.3"), resumes(s, rank, "right", 3, 4))
	})
	c.job(four, looks(3))
}

// A job that shares the prefix directory does not end the choice of another one.
func TestChoice_OtherJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=3", "SCR_PREFIX_SHARED=1", "SCR_JOB_ID=a")
	c.job(four, computes("right", 1, 3))
	c.choose("ckpt.2")
	c.set("SCR_JOB_ID=b")
	c.job(four, func(s *Session, rank int) error { return s.StartOutput("b.1", Checkpoint) })
	if strings.Contains(c.said(), "ckpt.2, which is no complete checkpoint") {
		t.Errorf("it is complete: %s", c.said())
	}
	c.set("SCR_JOB_ID=a")
	c.job(four, looks(2))
}

// A run with a wrong number of ranks does not say that the chosen one is not there. It ends the choice, as any run does that begins a dataset.
func TestChoice_WrongRanks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, computes("right", 1, 3))
	c.choose("ckpt.2")
	c.job(on(1, "a", "b", "c", "d", "a"), func(s *Session, rank int) error {
		return errors.Join(offers(s, ""), s.StartOutput("ckpt.1", Checkpoint))
	})
	if strings.Contains(c.said(), "ckpt.2, which is no complete checkpoint") {
		t.Errorf("it is complete: %s", c.said())
	}
}

// With SCR_DROP_AFTER_CURRENT=1 no newer one leaves the index if the chosen one is damaged.
func TestChoice_DropAfterDamaged(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_DROP_AFTER_CURRENT=1", "SCR_DEBUG=0")
	c.job(four, computes("right", 1, 4))
	c.choose("ckpt.2")
	c.change(c.prefix("ckpt.2/rank_1"), func(data []byte) []byte { data[0] ^= 1; return data })
	c.lose(four...)
	c.job(four, looks(4))
}

// The user chooses again while the run that has taken a choice computes its first step.
func TestChoice_ChosenAgain(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		c := newCluster(t, "SCR_FLUSH=1")
		c.job(four, computes("right", 1, 4))
		if before {
			c.choose("ckpt.3")
		}
		c.job(four, func(s *Session, rank int) error {
			if _, err := offered(s); err != nil {
				return err
			}
			if rank == 0 {
				c.choose("ckpt.2")
			}
			if err := errors.Join(s.Agree(nil), s.StartOutput("ckpt.9", Checkpoint)); err != nil {
				return err
			}
			_ = s.CompleteOutput(false) // not valid
			return nil
		})
		c.job(four, looks(2))
	}
}

// The program refuses the chosen one: the newest is offered next.
func TestChoice_Refused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, computes("right", 1, 5))
	c.choose("ckpt.2")
	c.job(four, func(s *Session, rank int) error { return errors.Join(refused(s, "ckpt.2"), offers(s, "ckpt.5")) })
}

// The chosen one is of another job, and read in place; killed in its first dataset, the run goes back to its own older one.
func TestChoice_ForeignInPlace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=3", "SCR_CACHE_SIZE=3")
	c.job(four, computes("right", 1, 3))
	c.set("SCR_JOB_ID=other", "SCR_FLUSH=1")
	c.job(four, computes("second", 4, 6))
	c.set("SCR_JOB_ID=job", "SCR_FETCH_BYPASS=1")
	c.choose("ckpt.6")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(reads("second", 6)(s, rank), s.StartOutput("ckpt.7", Checkpoint))
	})
	c.says("what would be offered in its place leaves the cache: ckpt.3")
	c.job(four, reads("second", 6))
}
