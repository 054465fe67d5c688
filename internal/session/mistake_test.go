package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goscr/goscr/test/faultfs"
	"github.com/goscr/goscr/test/sample"
)

// A mistaken run starts from the beginning although there are checkpoints, and writes under names that these have.

// of is what a rank of a computation writes in a step, under names that do not tell which computation it is.
func of(computation string, rank, step int) []file {
	return []file{{name: fmt.Sprintf("ckpt.%d/rank_%d", step, rank), mode: 0o640, time: time.Unix(1e9, 0),
		data: []byte(strings.Repeat(fmt.Sprintf("%s %d %d,", computation, rank, step), 200))}}
}

// computes is a computation that writes checkpoints.
func computes(computation string, from, to int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		for step := from; step <= to; step++ {
			if err := s.StartOutput(name(step), Checkpoint); err != nil {
				return err
			}
			failed := write(s, of(computation, rank, step))
			if err := s.CompleteOutput(failed == nil); err != nil || failed != nil {
				return errors.Join(failed, err)
			}
		}
		return nil
	}
}

// begins is a computation that asks for a checkpoint, and is offered none.
func begins(computation string, to int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		return errors.Join(offers(s, ""), computes(computation, 1, to)(s, rank))
	}
}

// goesOn is a computation that restarts from a step of another one and writes more.
func goesOn(computation string, step, of, to int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		return errors.Join(resumes(s, rank, computation, step, of), computes(computation, step+1, to)(s, rank))
	}
}

// resumes restarts from a checkpoint, of which a rank can also open the file of another one where it is in the prefix directory.
func resumes(s *Session, rank int, computation string, step, ranks int) error {
	if err := offers(s, name(step)); err != nil {
		return err
	}
	if _, err := s.StartRestart(); err != nil {
		return err
	}
	var err error
	for of, f := range map[int]file{rank: of(computation, rank, step)[0], -1: of(computation, ranks-1, step)[0]} {
		path, e := s.Route(filepath.Join(s.prefix.Dir, f.name))
		if of < 0 && e != nil {
			continue
		}
		if e == nil {
			e = same(path, f)
		}
		err = errors.Join(err, e)
	}
	return errors.Join(err, s.CompleteRestart(err == nil))
}

// names are the names of the complete checkpoints in the index, newest first.
func (c *cluster) names() string {
	c.t.Helper()
	type entry struct {
		id   int
		name string
	}
	var list []entry
	for name, e := range c.index() {
		if e.Complete {
			list = append(list, entry{e.ID, name})
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return b.id - a.id })
	var names []string
	for _, e := range list {
		names = append(names, e.name)
	}
	return strings.Join(names, " ")
}

func (c *cluster) wants(want string) {
	c.t.Helper()
	if got := c.names(); got != want {
		c.t.Errorf("listed: %s, want %s", got, want)
	}
}

// A run with the wrong number of ranks, or whose input refuses the checkpoint, costs no checkpoint that was there.
func TestMistake(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"SCR_FLUSH_ASYNC=0", "SCR_FLUSH_ASYNC=1", "SCR_CACHE_BYPASS=1", "SCR_FETCH_BYPASS=1"} {
		t.Run("ranks "+way, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=1", way)
			run := func(nodes []string, f func(s *Session, rank int) error) {
				t.Helper()
				c.job(nodes, func(s *Session, rank int) error { return errors.Join(f(s, rank), s.Finalize()) })
				c.lose(four...)
			}
			run(four, computes("right", 1, 4))
			any := strings.Contains(way, "BYPASS") // any number of ranks can restart: it is the input that is wrong
			wrong := begins("wrong", 2)
			if any {
				wrong = func(s *Session, rank int) error {
					return errors.Join(refused(s, "ckpt.4"), refused(s, "ckpt.3"), computes("wrong", 1, 2)(s, rank))
				}
			}
			run(four[:2], wrong)
			c.says("checkpoint ckpt.1 is of a computation that this one does not continue, and is not replaced: its name is ckpt.1~1 now")
			c.wants("ckpt.2 ckpt.1 ckpt.4 ckpt.3 ckpt.2~2 ckpt.1~1")
			// The mistaken computation continues, which is as little a reason to replace the right one.
			run(four[:2], goesOn("wrong", 2, 2, 3))
			c.wants("ckpt.3 ckpt.2 ckpt.1 ckpt.4 ckpt.3~3 ckpt.2~2 ckpt.1~1")

			for _, back := range []string{"ckpt.1~1", "ckpt.2~2", "ckpt.3~3", "ckpt.4"} {
				c.set("SCR_CURRENT=" + back)
				step := int(back[len("ckpt.")] - '0')
				run(four, goesOn("right", step, 4, step))
			}
			c.set("SCR_CURRENT=")
			run(four, goesOn("right", 4, 4, 5))
			run(four, goesOn("right", 5, 4, 6))
			if !any {
				run(four[:2], goesOn("wrong", 3, 2, 3)) // the other one is there, too
			}
			c.wants("ckpt.6 ckpt.5 ckpt.3 ckpt.2 ckpt.1 ckpt.4 ckpt.3~3 ckpt.2~2 ckpt.1~1")
		})
	}
	five := append(slices.Clone(four), "a")
	for name, test := range map[string]struct {
		nodes []string
		run   func(s *Session, rank int) error
		says  string
	}{
		"ranks, only in the cache": {five, begins("wrong", 3), "ckpt.3 in the cache was written by 4 ranks, this run has 5: "},
		"not asked for":            {four, computes("wrong", 1, 3), "the complete checkpoint ckpt.3: the program has not asked for one (SCR_Have_restart)"},
		"refused, and only in the cache": {four, func(s *Session, rank int) error {
			return errors.Join(refused(s, "ckpt.3"), offers(s, ""), computes("wrong", 1, 3)(s, rank))
		}, "unless SCR_CURRENT=ckpt.3 names it"},
	} {
		for _, way := range []string{"SCR_FLUSH_ASYNC=0", "SCR_FLUSH_ASYNC=1"} {
			t.Run(name+" "+way, func(t *testing.T) {
				c := newCluster(t, "SCR_FLUSH=10", "SCR_CACHE_SIZE=1", way)
				c.job(four, computes("right", 1, 3))
				c.wants("")
				c.set("SCR_FLUSH=1")
				c.job(test.nodes, func(s *Session, rank int) error { return errors.Join(test.run(s, rank), s.Finalize()) })
				c.says(test.says)
				c.wants("ckpt.3 ckpt.2 ckpt.1 ckpt.3~3")
				c.lose(four...)
				c.set("SCR_CURRENT=ckpt.3~3")
				c.job(four, goesOn("right", 3, 4, 4))
			})
		}
	}
	for _, set := range []string{"SCR_FETCH=0", "SCR_RESTART=never", "SCR_FETCH=1"} {
		t.Run("of other ranks in the cache "+set, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=10", "SCR_CACHE_SIZE=1", set)
			c.job(four, computes("right", 1, 3))
			c.job(five, computes("wrong", 1, 1))
			c.wants("ckpt.3")
		})
	}
	t.Run("an older one fits", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=1")
		c.job(five, computes("right", 1, 1))
		c.lose(four...)
		c.set("SCR_FLUSH=10")
		c.job(four, computes("right", 2, 3))
		c.job(five, func(s *Session, rank int) error {
			return errors.Join(offers(s, "ckpt.1"), computes("right", 2, 2)(s, rank))
		})
		c.wants("ckpt.3 ckpt.1")
	})
	t.Run("of other ranks, refused before", func(t *testing.T) { // soak seed 1351435
		c := newCluster(t, "SCR_FLUSH=1", "SCR_FETCH_BYPASS=1")
		c.job(four, computes("right", 1, 1))
		c.job(five, func(s *Session, rank int) error { return refused(s, "ckpt.1") })
		c.job(five, begins("wrong", 0))
	})
	t.Run("of other ranks, refused", func(t *testing.T) { // soak seed 1333124
		c := newCluster(t, "SCR_FLUSH=1", "SCR_FETCH_BYPASS=1")
		c.job(four, computes("right", 1, 1))
		c.set("SCR_FLUSH=10")
		c.job(five, func(s *Session, rank int) error {
			return errors.Join(refused(s, "ckpt.1"), computes("wrong", 2, 2)(s, rank))
		})
		c.lose(four...)
		c.job(five, begins("wrong", 0))
	})
	t.Run("the only one is refused", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_PREFIX_SIZE=1")
		c.job(four, computes("right", 1, 1))
		c.lose(four...)
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(refused(s, "ckpt.1"), computes("wrong", 1, 3)(s, rank))
		})
		c.lose(four...)
		c.wants("ckpt.3 ckpt.1~1")
		c.set("SCR_CURRENT=ckpt.1~1")
		c.job(four, func(s *Session, rank int) error { return resumes(s, rank, "right", 1, 4) })
	})
	t.Run("again, after the right run has gone on", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1")
		run := func(nodes []string, f func(s *Session, rank int) error) {
			t.Helper()
			c.job(nodes, f)
			c.lose(four...)
		}
		run(four, computes("right", 1, 3))
		run(four[:2], begins("wrong", 2))
		run(four, goesOn("right", 3, 4, 5))
		run(four[:2], goesOn("wrong", 2, 2, 5))
		c.wants("ckpt.5 ckpt.4 ckpt.3 ckpt.5~7 ckpt.4~6 ckpt.2 ckpt.1 ckpt.3~3 ckpt.2~2 ckpt.1~1")
		run(four, goesOn("right", 5, 4, 5))
	})
	t.Run("with a window of its own", func(t *testing.T) {
		for name, remove := range map[string]func(s *Session, name string) error{"delete": (*Session).Delete, "drop": (*Session).Drop} {
			c := newCluster(t, "SCR_FLUSH=1")
			c.job(four, computes("right", 1, 4))
			c.lose(four...)
			c.set("SCR_FLUSH=10") // nothing of the mistaken run is in the prefix directory
			c.job(four[:2], func(s *Session, rank int) error {
				err := offers(s, "")
				for step := 1; step <= 4; step++ {
					err = errors.Join(err, computes("wrong", step, step)(s, rank))
					if step > 1 {
						err = errors.Join(err, remove(s, fmt.Sprintf("ckpt.%d", step-1)))
					}
				}
				return err
			})
			if got := c.names(); got != "ckpt.4 ckpt.3 ckpt.2 ckpt.1" {
				t.Errorf("%s: %s", name, got)
			}
			c.lose(four...)
			c.set("SCR_FLUSH=1")
			c.job(four, func(s *Session, rank int) error { // its own ones it can remove
				return errors.Join(goesOn("right", 4, 4, 5)(s, rank), remove(s, "ckpt.1"))
			})
			c.wants("ckpt.5 ckpt.4 ckpt.3 ckpt.2")
		}
	})
	t.Run("of another job that shares the directory", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_PREFIX_SHARED=1", "SCR_JOB_ID=a")
		c.job(four, computes("other", 1, 1))
		c.lose(four...)
		c.set("SCR_JOB_ID=b")
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(offers(s, ""), s.StartOutput("b.1", Checkpoint), write(s, of("wrong", rank, 1)), s.CompleteOutput(true))
		})
		c.says("belongs to job a")
		c.wants("ckpt.1")
	})
	t.Run("with a choice that is refused", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_BYPASS=1")
		c.job(four, computes("right", 1, 1))
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(refused(s, "ckpt.1"), offers(s, ""), s.Current("ckpt.1"), refused(s, "ckpt.1"), offers(s, ""), computes("wrong", 1, 1)(s, rank))
		})
		c.wants("ckpt.1 ckpt.1~1")
	})
	t.Run("the right input after the wrong one", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1")
		c.job(four, computes("right", 1, 2))
		c.lose(four...)
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(refused(s, "ckpt.2"), refused(s, "ckpt.1"), computes("wrong", 1, 3)(s, rank))
		})
		c.lose(four...)
		c.job(four, func(s *Session, rank int) error {
			err := errors.Join(refused(s, "ckpt.3"), refused(s, "ckpt.2"))
			if _, _, e := s.HaveRestart(); e == nil || !strings.Contains(e.Error(), "SCR_CURRENT=ckpt.2~2 chooses") {
				err = errors.Join(err, fmt.Errorf("HaveRestart: %w", e))
			}
			return err
		})
		c.lose(four...)
		c.set("SCR_CURRENT=ckpt.2~2")
		c.job(four, goesOn("right", 2, 4, 3))
	})
	t.Run("who wants it", func(t *testing.T) {
		for _, env := range []string{"SCR_RESTART=never", "SCR_FETCH=0"} {
			c := newCluster(t, "SCR_FLUSH=1")
			c.job(four, computes("old", 1, 2))
			c.lose(four...)
			c.set(env)
			c.job(four, begins("new", 1))
			c.wants("ckpt.1 ckpt.2")
			if said := c.said(); strings.Contains(said, "not replaced") || strings.Contains(said, "THE RUN STARTS") {
				t.Errorf("%s: %s", env, said)
			}
		}
	})
	t.Run("a program that restarts, and makes that the current one", func(t *testing.T) { // soak seed 1283216
		for _, before := range []bool{false, true} {
			c := newCluster(t, "SCR_FLUSH=1", "SCR_FETCH_BYPASS=1")
			c.job(four, computes("one", 1, 3))
			c.lose(four...)
			c.job(four, func(s *Session, rank int) error {
				var err error
				if before {
					err = resumes(s, rank, "one", 3, 4)
				}
				return errors.Join(err, s.Current("ckpt.2"), computes("one", 3, 3)(s, rank))
			})
			c.wants("ckpt.3 ckpt.2 ckpt.1")
			if strings.Contains(c.said(), "THE RUN STARTS") {
				t.Errorf("%s", c.said())
			}
		}
	})
	t.Run("who reads it himself", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_ON_RESTART=1")
		c.job(four, computes("old", 1, 2))
		c.lose(four...)
		c.job(four, computes("old", 2, 2))
		c.wants("ckpt.2 ckpt.1")
	})
	t.Run("a checkpoint that cannot be moved", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1")
		c.job(four, computes("right", 1, 2))
		c.lose(four...)
		e := c.index()["ckpt.1"]
		in := c.prefix(fmt.Sprintf(".scr/retired.1.%d", e.Created().UnixMicro()))
		if err := os.WriteFile(in, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c.job(four[:2], begins("wrong", 1)) // its checkpoint stays in the cache
		c.says("cannot be moved")
		c.says("with SCR_RESTART=never a run that starts from the beginning replaces it")
		if err := os.Remove(in); err != nil {
			t.Fatal(err)
		}
		c.lose(four...)
		c.wants("ckpt.2 ckpt.1")
		c.set("SCR_CURRENT=ckpt.1")
		c.job(four, func(s *Session, rank int) error { return resumes(s, rank, "right", 1, 4) })
	})
}

// A program that dies while it writes, itself, over the files of an older checkpoint has damaged this. Where it has checksums,
// because it was flushed, it is not offered.
func TestBypass_WrittenOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, computes("first", 1, 2))
	c.lose(four...)
	c.set("SCR_CACHE_BYPASS=1")
	c.job(four, func(s *Session, rank int) error {
		if err := resumes(s, rank, "first", 2, 4); err != nil {
			return err
		}
		if err := s.StartOutput("another", Checkpoint); err != nil {
			return err
		}
		f := of("other", rank, 2)[0] // as long, and under the same name
		f.time = f.time.Add(time.Millisecond)
		return write(s, []file{f})
	})
	c.job(four, func(s *Session, rank int) error { return resumes(s, rank, "first", 1, 4) })
	c.says("checkpoint ckpt.2 cannot be fetched")

	// A copy of the prefix directory has other times as a rule, and the right bytes.
	for rank := range four {
		now := time.Now()
		if err := os.Chtimes(c.prefix(of("first", rank, 1)[0].name), now, now); err != nil {
			t.Fatal(err)
		}
	}
	c.job(four, func(s *Session, rank int) error { return offers(s, "ckpt.1") })
}

// That a list cannot be read now does not make a checkpoint damaged: what needs its place is not flushed.
func TestMistake_Faults(t *testing.T) {
	t.Parallel()
	oneOf := map[sample.Size]int{sample.Quick: 24, sample.Drawn: 8, sample.All: 1, sample.Campaign: 1}[sample.Now()]
	m := faultfs.New(t, faultfs.Options{})
	tried := 0
	for _, way := range []struct {
		call     faultfs.Call
		path     string
		ds, file string // of the mistaken run
	}{
		{faultfs.Open, "scr.dataset.1/rank2file", "w.1", "ckpt.1/rank_%d"},
		{faultfs.Open, "scr.dataset.1/rank2file", "ckpt.1", "w.1/rank_%d"},
		{faultfs.Stat, "ckpt.1/rank_", "ckpt.1", "w.1/rank_%d"},
	} {
		random, hit := sample.Rand(t), true
		for skip := 0; hit; skip++ {
			if random.IntN(oneOf) > 0 { // there are some twelve
				hit = skip < 12
				continue
			}
			tried++
			c := clusterAt(t, filepath.Join(m.Dir, fmt.Sprint(tried)), "SCR_FLUSH=1")
			c.job(four, computes("right", 1, 1))
			c.lose(four...)
			m.Set(faultfs.Options{Faults: []faultfs.Fault{{Call: way.call, Path: way.path, Errno: syscall.EIO, Skip: skip}}})
			_ = c.try(four[:2], func(s *Session, rank int) error {
				f := of("wrong", rank, 1)[0]
				f.name = fmt.Sprintf(way.file, rank)
				return errors.Join(offers(s, ""), s.StartOutput(way.ds, Checkpoint), write(s, []file{f}), s.CompleteOutput(true))
			})
			hit = len(m.Hit()) > 0
			m.Set(faultfs.Options{})
			c.lose(four...)
			for name, e := range c.index() {
				if e.ID == 1 {
					c.set("SCR_CURRENT=" + name)
				}
			}
			if err := c.try(four, func(s *Session, rank int) error { return resumes(s, rank, "right", 1, 4) }); err != nil {
				t.Errorf("%v of %s after %d: %v", way.call, way.path, skip, err)
			}
			c.lose(four...)
		}
	}
}

// A program means a retired checkpoint by the name that it has given it, if the run continues from it. If not, it only clears the
// name for one of its own.
func TestRetired_Removed(t *testing.T) {
	t.Parallel()
	for call, remove := range map[string]func(*Session, string) error{"Delete": (*Session).Delete, "Drop": (*Session).Drop} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "SCR_FLUSH=1")
			c.job(four, computes("right", 1, 2))
			c.lose(four...)
			c.job(four[:2], begins("wrong", 1))
			c.wants("ckpt.1 ckpt.2 ckpt.1~1")
			c.job(four[:2], func(s *Session, rank int) error {
				return errors.Join(offers(s, "ckpt.1"), remove(s, "ckpt.1"), remove(s, "ckpt.1"))
			})
			c.wants("ckpt.2 ckpt.1~1")
			c.lose(four...)
			c.set("SCR_CURRENT=ckpt.1~1")
			c.job(four, func(s *Session, rank int) error {
				return errors.Join(offers(s, "ckpt.1"), remove(s, "ckpt.1"), offers(s, "ckpt.2"))
			})
			c.wants("ckpt.2")
		})
	}
}
