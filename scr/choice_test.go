package scr

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/prefix"
)

func (c *cluster) check(run func(s *Session, rank int) error) {
	c.t.Helper()
	if err := c.try(four, run); err != nil {
		c.t.Errorf("%v\n%s", err, c.said())
	}
}

func reads(computation string, step int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error { return resumes(s, rank, computation, step, 4) }
}

// The job was killed while it wrote ckpt.4, before the user chose.
func TestChoice_KilledWriting(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(computes("right", 1, 3)(s, rank), s.StartOutput("ckpt.4", Checkpoint), write(s, of("right", rank, 4)))
	})
	c.choose("ckpt.2")
	c.check(looks(2))
}

// A run on other nodes, before the user chose, has found nothing in its caches.
func TestChoice_OtherNodesBefore(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=3")
	c.job(four, computes("right", 1, 3))
	c.job(on(1, "e", "f", "g", "h"), func(s *Session, rank int) error { return nil })
	c.choose("ckpt.2")
	c.check(looks(2))
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
	c.choose("ckpt.3") // CHOSEN/DSET is 3, the star is there
	c.check(reads("first", 3))
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
	c.check(reads("first", 2))
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
	c.check(func(s *Session, rank int) error { return offers(s, "ckpt.3") })
}

// A line names the newest, which leaves the cache for the chosen one, also if that is to make room.
func TestChoice_Silent(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=2", "SCR_CACHE_SIZE=1", "SCR_DEBUG=0")
	c.job(four, computes("right", 1, 3))
	c.choose("ckpt.2")
	c.job(four, looks(2))
	c.says("what is newer leaves the cache: ckpt.3")
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
	c.check(reads("second", 3))
}

// The chosen one was not complete, as scr_index says, and is completed then (scr_index --build, or a flush that goes on).
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
	c.check(looks(2))
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
	c.check(looks(3))
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
	c.check(looks(3))
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
	c.check(looks(2))
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
	c.check(looks(4))
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
		c.check(looks(2))
	}
}

// The program refuses the chosen one: the newest is offered next.
func TestChoice_Refused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, computes("right", 1, 5))
	c.choose("ckpt.2")
	c.check(func(s *Session, rank int) error { return errors.Join(refused(s, "ckpt.2"), offers(s, "ckpt.5")) })
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
	c.check(func(s *Session, rank int) error {
		return errors.Join(reads("second", 6)(s, rank), s.StartOutput("ckpt.7", Checkpoint))
	})
	c.check(reads("second", 6))
}
