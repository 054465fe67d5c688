package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/test/sample"
)

// movers runs a test with each of those who copy in the background.
func movers(t *testing.T, f func(t *testing.T, c *cluster)) {
	for _, kind := range sample.Of(t, []string{"PTHREAD", "DAEMON"}, 1, 2) {
		t.Run(kind, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE="+kind)
			defer c.serving.Wait()
			f(t, c)
		})
	}
}

// beforeFlushed runs a test of what happens while a flush continues, with a limit of its rate. f returns
// false if the flush ended before: on a busy machine the ranks may need more time than that. It runs
// again then, with a lower limit.
func (c *cluster) beforeFlushed(f func() bool) {
	c.t.Helper()
	for rate := 20_000; ; rate /= 8 {
		c.set(fmt.Sprintf("SCR_FLUSH_ASYNC_BW=%d", rate))
		if f() {
			return
		}
		if rate < 100 {
			c.t.Fatalf("the flush ended too early with %d bytes a second\n%s", rate, c.said())
		}
		c.serving.Wait()
		c.lose(four...)
		if err := os.RemoveAll(c.prefix("")); err != nil {
			c.t.Fatal(err)
		}
	}
}

// whole fails the test unless a dataset is complete in the prefix directory, with the
// contents of its step.
func (c *cluster) whole(id, ranks int) {
	c.t.Helper()
	x, err := prefix.ReadIndex(c.prefix(""))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range x.Entries() {
		if e.ID != id {
			continue
		}
		if !e.Complete {
			c.t.Errorf("dataset %d is not complete\n%s", id, c.said())
		}
		for rank := range ranks {
			for _, f := range contents(id, rank) {
				if err := same(c.prefix(f.name), f); err != nil {
					c.t.Error(err)
				}
			}
		}
		return
	}
	c.t.Errorf("dataset %d is not in the index\n%s", id, c.said())
}

// places is what flush.scr says of a dataset.
func (c *cluster) places(id int) string { return fmt.Sprint(c.located(id).Places) }

// leftovers are what copies leave while they are under way.
func (c *cluster) leftovers() (list []string) {
	filepath.WalkDir(c.root, func(path string, d os.DirEntry, err error) error {
		name := filepath.Base(path)
		if strings.HasSuffix(name, ".flush") || strings.HasSuffix(name, ".scrfilemap") || name == "transfer.scrinfo" {
			list = append(list, path)
		}
		return nil
	})
	return list
}

// SCR_FLUSH_ASYNC_USLEEP is the time between two tests in calls that a program makes often.
// SCR_AXL_MKDIR may be set, and changes nothing.
func TestAsync_TimeBetweenPolls(t *testing.T) {
	t.Parallel()
	const hour = "3600000000"
	for _, usleep := range []string{"0", hour} {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_ASYNC_USLEEP="+usleep, "SCR_AXL_MKDIR=1")
		c.inMode(waiting) // protection is tested for in the same calls
		c.job(four, func(s *Session, rank int) error {
			for step := 1; step <= 2; step++ {
				if err := checkpoint(s, rank, step); err != nil {
					return err
				}
				for s.Copying() {
					time.Sleep(time.Millisecond)
				}
				if err := s.Agree(nil); err != nil {
					return err
				}
				if _, err := s.NeedCheckpoint(); err != nil {
					return err
				}
				// The first test is at once, and the next after an hour.
				if left := s.flusher.Running(); (left > 0) != (usleep == hour && step == 2) {
					return fmt.Errorf("SCR_FLUSH_ASYNC_USLEEP=%s, checkpoint %d: %d flushes run", usleep, step, left)
				}
			}
			return s.Finalize()
		})
		c.whole(2, 4)
	}
}

func TestAsync_ArrivesInALaterCall(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		c.job(four, func(s *Session, rank int) error {
			if err := checkpoint(s, rank, 1); err != nil {
				return err
			}
			for s.flusher.Running() > 0 {
				if _, err := s.NeedCheckpoint(); err != nil {
					return err
				}
				time.Sleep(time.Millisecond)
			}
			return s.Agree(nil)
		})
		c.whole(1, 4)
		if got := c.places(1); got != "[CACHE PFS]" {
			t.Error(got)
		}
		c.lose(four...)
		c.job(four, restarts(1))
	})
}

func TestAsync_FinalizeWaitsForAll(t *testing.T) {
	movers(t, func(t *testing.T, c *cluster) {
		c.set("SCR_CACHE_SIZE=4")
		before := runtime.NumGoroutine()
		c.job(on(2, "a", "b"), func(s *Session, rank int) error {
			for step := 1; step <= 3; step++ {
				if err := checkpoint(s, rank, step); err != nil {
					return err
				}
			}
			if err := output(s, rank, 4, Output); err != nil {
				return err
			}
			return s.Finalize()
		})
		c.serving.Wait()
		for id := range 4 {
			c.whole(id+1, 4)
		}
		if got := c.places(4); got != "[PFS]" { // an output leaves the cache when it has arrived
			t.Error(got)
		}
		if left := c.leftovers(); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		for runtime.NumGoroutine() > before { // go test ends a test that waits for good
			time.Sleep(time.Millisecond)
		}
		c.lose("a", "b")
		c.job(on(2, "a", "b"), restarts(3))
	})
}

// Several are on their way, held back by a limit; the oldest has to arrive before there
// is room for another.
func TestAsync_EvictionWaits(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		c.beforeFlushed(func() bool {
			c.job(four, func(s *Session, rank int) error {
				return errors.Join(steps(1, 2, 3)(s, rank), s.Finalize())
			})
			return strings.Contains(c.said(), "dataset 1 (ckpt.1): its flush has to end before the next dataset has room")
		})
		for id := range 3 {
			c.whole(id+1, 4)
		}
	})
}

// The newest checkpoint does not leave the cache for an output that is on its way: the
// next dataset waits for that.
func TestAsync_OutputLeavesBeforeTheNewestCheckpoint(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		c.set("SCR_FLUSH=0", "SCR_FLUSH_ASYNC_BW=20k")
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(checkpoint(s, rank, 1), output(s, rank, 2, Output), s.StartOutput(name(3), Checkpoint))
		})
		c.job(four, restarts(1))
	})
}

// What was all copied when the program died is not copied again, whatever is left of
// the cache.
func TestAsync_CompletedByTheNextInit(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		for _, lost := range []bool{false, true} {
			c.set("SCR_FLUSH=0")
			c.job(four, sent(1)) // killed; what copies continues to the end
			c.set("SCR_FLUSH=1")
			c.serving.Wait()
			x, err := prefix.ReadIndex(c.prefix(""))
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := x.Find(name(1)); !ok || e.Complete {
				t.Fatalf("%v, %v", ok, e.Complete)
			}
			if got := c.places(1); got != "[CACHE FLUSHING]" {
				t.Error(got)
			}
			before := c.inodes(1, 4)
			if lost {
				c.lose(four...)
			}
			c.job(four, restarts(1))
			c.says("it is complete now")
			c.whole(1, 4)
			if now := c.inodes(1, 4); now != before {
				t.Errorf("files were copied again: %s, %s", before, now)
			}
			if err := os.RemoveAll(c.prefix("")); err != nil {
				t.Fatal(err)
			}
			c.lose(four...)
		}
	})
}

// One that somebody has dropped since, or that a restart has failed from, does not come
// back because all of it has arrived.
func TestAsync_NotWantedByTheNextInit(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(x *prefix.Index){
		"dropped": func(x *prefix.Index) { x.Remove(name(2)) },
		"failed":  func(x *prefix.Index) { x.MarkFailed(2, "a test", time.Now()) },
	} {
		movers(t, func(t *testing.T, c *cluster) {
			c.job(four, func(s *Session, rank int) error { return errors.Join(checkpoint(s, rank, 1), s.Finalize()) })
			c.serving.Wait()
			c.set("SCR_FLUSH=0")
			c.job(four, sent(2))
			c.set("SCR_FLUSH=1")
			c.serving.Wait()
			if err := prefix.UpdateIndex(c.prefix(""), func(x *prefix.Index) error { change(x); return nil }); err != nil {
				t.Fatal(err)
			}
			c.lose(four...)
			c.job(four, restarts(1))
			c.says("it has left the index, or cannot be restarted from")
			x, err := prefix.ReadIndex(c.prefix(""))
			if err != nil {
				t.Fatal(err)
			}
			if e := x.ByID(2); e.Complete || x.Current() != name(1) || c.places(2) != "[]" {
				t.Errorf("%s: %v, current %q, at %s", what, e.Complete, x.Current(), c.places(2))
			}
		})
	}
}

// begin flushes a dataset, as a call does that has nothing else to do.
func begin(s *Session, c *cache.Cached) error {
	defer s.flusher.Background.BeginCopies()
	return s.flusher.Start(c)
}

// sent is a program that writes a checkpoint and is killed when it has just begun to be
// flushed.
func sent(step int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		if err := checkpoint(s, rank, step); err != nil {
			return err
		}
		return begin(s, s.cache.NewestCheckpoint(""))
	}
}

// inodes are the inodes of the files of a dataset in the prefix directory, which
// change when one is copied.
func (c *cluster) inodes(id, ranks int) string {
	var all []string
	for rank := range ranks {
		for _, f := range contents(id, rank) {
			info, err := os.Stat(c.prefix(f.name))
			if errors.Is(err, fs.ErrNotExist) { // until the flush is finished
				info, err = os.Stat(prefix.Aside(c.prefix(f.name), id, prefix.ByFlush))
			}
			if err != nil {
				c.t.Fatal(err)
			}
			all = append(all, fmt.Sprint(info.Sys().(*syscall.Stat_t).Ino))
		}
	}
	return strings.Join(all, " ")
}

// One whose copy was cut short starts from the beginning.
func TestAsync_CutShort(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		c.set("SCR_FLUSH=0")
		c.job(four, sent(1))
		c.set("SCR_FLUSH=1")
		c.serving.Wait()
		if err := os.Remove(c.prefix(".scr/scr.dataset.1/2.scrfilemap")); err != nil {
			t.Fatal(err)
		}
		c.job(four, func(s *Session, rank int) error {
			if err := restarts(1)(s, rank); err != nil {
				return err
			}
			if s.flusher.Running() != 1 {
				return fmt.Errorf("%d flushes under way", s.flusher.Running())
			}
			return s.Finalize()
		})
		c.says("the previous run ended before all of it was copied")
		c.whole(1, 4)
	})
}

func TestAsync_CancelledWhenItsDatasetGoes(t *testing.T) {
	t.Parallel()
	for what, remove := range map[string]func(s *Session, name string) error{
		"Delete": (*Session).Delete, "Drop": (*Session).Drop,
		"Current": func(s *Session, string string) error { return s.Current(name(1)) },
	} {
		movers(t, func(t *testing.T, c *cluster) {
			c.set("SCR_CACHE_SIZE=4")
			c.job(four, func(s *Session, rank int) error {
				if err := errors.Join(checkpoint(s, rank, 1), s.flusher.Flush(s.cache.Find(1))); err != nil {
					return err
				}
				s.flusher.Background.Config.Limits.Bandwidth = 10 // would take minutes
				if err := checkpoint(s, rank, 2); err != nil {
					return err
				}
				if s.flusher.Running() != 1 {
					return fmt.Errorf("%d flushes under way", s.flusher.Running())
				}
				if err := remove(s, name(2)); err != nil {
					return err
				}
				if s.flusher.Running() != 0 {
					return fmt.Errorf("%s: %d flushes under way", what, s.flusher.Running())
				}
				return s.Finalize()
			})
			c.serving.Wait()
			c.whole(1, 4)
			if got := c.places(2); got != "[]" {
				t.Errorf("%s: %s", what, got)
			}
			if left, _ := filepath.Glob(c.prefix("ckpt.2/*")); len(left) > 0 {
				t.Errorf("%s: %v", what, left)
			}
			if left := c.leftovers(); len(left) > 0 {
				t.Errorf("%s: left behind: %v", what, left)
			}
		})
	}
}

// A copy that fails is no failure of the job; the dataset is flushed in Finalize.
func TestAsync_CannotBeDone(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		if err := errors.Join(os.MkdirAll(c.prefix(""), 0o700), os.WriteFile(c.prefix("ckpt.2"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		c.job(four, func(s *Session, rank int) error {
			if err := steps(1, 2)(s, rank); err != nil {
				return err
			}
			for s.flusher.Running() > 0 {
				if _, err := s.ShouldExit(); err != nil {
					return err
				}
			}
			if s.cache.Find(2) == nil || s.cache.Find(2).Flushed() {
				return errors.New("it is flushed")
			}
			if err := mpi.OnRoot(s.world, func() error { return os.Remove(c.prefix("ckpt.2")) }); err != nil {
				return err
			}
			return s.Finalize()
		})
		c.says("ckpt.2: not a directory; it stays in the cache")
		c.whole(1, 4)
		c.whole(2, 4)
	})
}

// A file of the cache that is corrupt is rebuilt for the second try.
func TestAsync_Corrupt(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		c.set("SCR_FLUSH=0")
		c.job(four, steps(1))
		c.set("SCR_FLUSH=1")
		c.job(four, func(s *Session, rank int) error {
			if rank == 0 {
				path := c.cached("a", 1, "ckpt.1/rank_0")
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				data[77] ^= 4
				os.Chmod(path, 0o600)
				if err := os.WriteFile(path, data, 0o600); err != nil {
					return err
				}
			}
			if err := s.Agree(nil); err != nil {
				return err
			}
			f := s.cache.Find(1)
			if err := begin(s, f); err != nil {
				return err
			}
			return s.Finalize()
		})
		c.says("rank 0 on a: flush of dataset 1 (ckpt.1) in the background: ")
		c.says("rebuilt from redundancy")
		c.whole(1, 4)
	})
}

// What is compressed on its way is told from its lists, too.
func TestAsync_Compressed(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		c.set("SCR_FLUSH_COMPRESS=zstd", "SCR_FLUSH=0")
		text := []file{{name: "ckpt.1/text", data: []byte(strings.Repeat("all work and no play ", 5000)), mode: 0o600, time: time.Unix(1e9, 0)}}
		c.job(four, func(s *Session, rank int) error {
			if err := s.StartOutput(name(1), Checkpoint); err != nil {
				return err
			}
			if rank == 0 {
				if err := write(s, text); err != nil {
					return err
				}
			}
			if err := s.CompleteOutput(true); err != nil {
				return err
			}
			return begin(s, s.cache.NewestCheckpoint(""))
		})
		c.serving.Wait()
		info, err := os.Stat(prefix.Aside(c.prefix("ckpt.1/text"), 1, prefix.ByFlush))
		if err != nil || info.Size() >= int64(len(text[0].data)) {
			t.Fatalf("%v, %v", info, err)
		}
		c.lose(four...)
		c.job(four, func(s *Session, rank int) error {
			got, err := offered(s)
			if err != nil || got != name(1) {
				return fmt.Errorf("%q, %w", got, err)
			}
			if _, err := s.StartRestart(); err != nil {
				return err
			}
			if rank == 0 {
				path, err := s.Route(c.prefix("ckpt.1/text"))
				if err == nil {
					err = same(path, text[0])
				}
				if err != nil {
					return err
				}
			}
			return s.CompleteRestart(true)
		})
		c.says("it is complete now")
	})
}

func TestAsync_Poststage(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=DAEMON", "SCR_FLUSH_POSTSTAGE=1", "SCR_FLUSH_ASYNC_BW=100k")
	c.job(four, func(s *Session, rank int) error {
		if err := checkpoint(s, rank, 1); err != nil {
			return err
		}
		return s.Finalize()
	})
	if got := c.places(1); got != "[CACHE FLUSHING]" {
		t.Error(got)
	}
	c.serving.Wait()
	missing := 0
	for rank := range four {
		if _, err := prefix.ReadPart(c.prefix(""), 1, rank); err != nil {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d ranks have no list\n%s", missing, c.said())
	}
	c.lose(four...)
	c.job(four, restarts(1))
	c.whole(1, 4)
}

// Where scr_transfer cannot be started, Finalize leaves nothing to it.
func TestAsync_PoststageWithoutTransfer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=DAEMON", "SCR_FLUSH_POSTSTAGE=1")
	c.job(four, func(s *Session, rank int) error {
		s.flusher.Background.Config.Launch = func(string) error { return errors.New("no more processes") }
		if err := checkpoint(s, rank, 1); err != nil {
			return err
		}
		return s.Finalize()
	})
	c.says("no more processes")
	c.whole(1, 4)
	if got := c.places(1); strings.Contains(got, "FLUSHING") {
		t.Error(got)
	}
}

// Of two datasets of one name the second takes the place of the first, which has
// arrived by then.
func TestAsync_SameName(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		c.set("SCR_CACHE_SIZE=4")
		c.job(four, func(s *Session, rank int) error {
			for range 3 {
				if err := checkpoint(s, rank, 1); err != nil {
					return err
				}
			}
			return s.Finalize()
		})
		x, err := prefix.ReadIndex(c.prefix(""))
		if err != nil {
			t.Fatal(err)
		}
		if list := x.Entries(); len(list) != 1 || list[0].ID != 3 || !list[0].Complete {
			t.Errorf("%+v", list)
		}
		c.lose(four...)
		c.job(four, restarts(1))
	})
}

// One that is flushed while the program waits is not replaced by an older one of its
// name, or by files of the same names, that is on its way.
func TestAsync_NewerWhileTheProgramWaits(t *testing.T) {
	t.Parallel()
	for what, names := range map[string][]string{"name": {"same", "same"}, "files": {"older", "newer"}} {
		movers(t, func(t *testing.T, c *cluster) {
			c.set("SCR_CACHE_SIZE=4")
			c.job(four, func(s *Session, rank int) error {
				s.flusher.Background.Config.Limits.Bandwidth = 200e3
				for i, name := range names {
					if err := s.StartOutput(name, Checkpoint); err != nil {
						return err
					}
					data := []byte(strings.Repeat(fmt.Sprint(i), 100_000))
					if err := write(s, []file{{name: fmt.Sprintf("files/%d", rank), data: data, mode: 0o600, time: time.Unix(1e9+int64(i), 0)}}); err != nil {
						return err
					}
					if i == 1 { // nothing departs any more
						err := mpi.OnRoot(s.world, func() error {
							return hash.Update(halt.Path(s.prefix.Dir), func(h *hash.Hash) error { h.SetValue("ExitReason", "TEST"); return nil })
						})
						if err != nil {
							return err
						}
					}
					if err := s.CompleteOutput(true); err != nil {
						return err
					}
				}
				if !s.cache.Find(2).Flushed() {
					return errors.New("it is not flushed")
				}
				return s.Finalize()
			})
			x, err := prefix.ReadIndex(c.prefix(""))
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := x.Find(names[1]); !ok || e.ID != 2 || !e.Complete {
				t.Errorf("%s: %+v", what, e)
			}
			for rank := range four {
				if got, err := os.ReadFile(c.prefix(fmt.Sprintf("files/%d", rank))); err != nil || len(got) == 0 || got[0] != '1' {
					t.Errorf("%s: rank %d: of the older: %v", what, rank, err)
				}
			}
		})
	}
}

func TestAsync_TypeOfAStore(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_CACHE_SIZE=4")
	c.configure("STORE=$SSD FLUSH=SYNC", "CKPT=0", "CKPT=1 INTERVAL=2 STORE=$SSD")
	c.job(four, func(s *Session, rank int) error {
		if err := checkpoint(s, rank, 1); err != nil {
			return err
		}
		under := s.flusher.Running()
		if err := checkpoint(s, rank, 2); err != nil {
			return err
		}
		if under > 1 || !s.cache.Find(2).Flushed() {
			return fmt.Errorf("%d flushes under way, 2 flushed: %v", under, s.cache.Find(2).Flushed())
		}
		return s.Finalize()
	})
	c.whole(1, 4)
	c.whole(2, 4)
}

// What is on its way is not deleted for a newer one that has overtaken it, but once it
// has arrived.
func TestAsync_Overtaken(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		c.set("SCR_CACHE_SIZE=4", "SCR_PREFIX_SIZE=1")
		c.inMode(waiting) // else the second would wait for the protection of the first, with these limits
		c.beforeFlushed(func() bool {
			c.configure("STORE=$SSD FLUSH=SYNC", "CKPT=0", "CKPT=1 INTERVAL=2 STORE=$SSD")
			var ended atomic.Bool
			c.job(four, func(s *Session, rank int) error {
				if err := steps(1, 2)(s, rank); err != nil {
					return err
				}
				if s.flusher.Running() != 1 {
					ended.Store(true)
				}
				if !s.cache.Find(2).Flushed() {
					return errors.New("the second is not flushed")
				}
				return s.Finalize()
			})
			return !ended.Load()
		})
		c.whole(2, 4)
		x, err := prefix.ReadIndex(c.prefix(""))
		if err != nil {
			t.Fatal(err)
		}
		if list := x.Entries(); len(list) != 1 || list[0].ID != 2 || x.Current() != name(2) {
			t.Errorf("%+v, current %q", list, x.Current())
		}
		for _, path := range []string{"ckpt.1", ".scr/scr.dataset.1"} {
			if _, err := os.Lstat(c.prefix(path)); err == nil {
				t.Errorf("%s is left\n%s", path, c.said())
			}
		}
	})
}

func TestKilled_WhileFlushingInTheBackground(t *testing.T) {
	t.Parallel()
	movers(t, func(t *testing.T, c *cluster) {
		c.job(four, func(s *Session, rank int) error {
			if err := steps(1, 2)(s, rank); err != nil {
				return err
			}
			return s.Finalize()
		})
		c.serving.Wait()
		kills(t, c, four, steps(3), func(at int64) {
			c.serving.Wait()
			x, err := prefix.ReadIndex(c.prefix(""))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range x.Entries() {
				if e.Complete {
					c.whole(e.ID, 4)
				} else if e.ID < 3 {
					t.Errorf("dataset %d in the prefix directory is incomplete now", e.ID)
				}
			}
			if at%2 == 0 {
				c.lose(four...)
			}
			after(t, c, four, 2, 3)
			c.serving.Wait()
		})
	})
}

// The limits are those of a node: what its ranks are given makes as much.
func TestAsync_Limits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_ASYNC_BW=20m", "SCR_FLUSH_ASYNC_PERCENT=25")
	c.job(on(4, "a", "b"), func(s *Session, rank int) error {
		if want := (transfer.Limits{Bandwidth: 20 << 20, CPU: 0.25}); s.flusher.Background.Config.Limits != want {
			return fmt.Errorf("%v, want %v", s.flusher.Background.Config.Limits, want)
		}
		if err := checkpoint(s, rank, 1); err != nil {
			return err
		}
		l := s.flusher.Background.Load(s.cache.NewestCheckpoint(""), mover.ByThread)
		sums := []int64{int64(l.Limits.Bandwidth), int64(l.Limits.CPU * 1e6)}
		s.flusher.Background.Config.Node.Allreduce(sums, mpi.Sum)
		if sums[0] < 20<<20-4 || sums[0] > 20<<20 || sums[1] < 250000-4 || sums[1] > 250000 {
			return fmt.Errorf("the limits of the ranks of a node make %v", sums)
		}
		if l = s.flusher.Background.Load(s.cache.NewestCheckpoint(""), mover.ByDaemon); l.Limits != s.flusher.Background.Config.Limits {
			return fmt.Errorf("scr_transfer has limits %v", l.Limits)
		}
		return nil
	})
}
