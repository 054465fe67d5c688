package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goscr/goscr/test/faultfs"
	"github.com/goscr/goscr/test/sample"
	"github.com/goscr/goscr/test/storagetest"
)

// manner is a way in which a checkpoint gets to the prefix directory.
type manner struct {
	name string
	env  []string
}

// flushing are the ways in which a checkpoint gets to the prefix directory.
var flushing = []manner{
	{"sync", []string{"SCR_FLUSH=1"}},
	{"threads", []string{"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=PTHREAD"}},
	{"daemon", []string{"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=DAEMON"}},
	{"zstd", []string{"SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd"}},
	{"bypass", []string{"SCR_CACHE_BYPASS=1"}},
}

// A call fails, with or without what was written before: the write, fsync or close of any
// file, or a call that changes names. Then no dataset is called complete that is not, the
// error is told, and a restart gets the newest complete one.
func TestFaults_Errors(t *testing.T) {
	t.Parallel()
	calls := []faultfs.Call{faultfs.Write, faultfs.Sync, faultfs.Close, faultfs.Rename, faultfs.Mkdir, faultfs.Open, faultfs.Remove}
	for _, way := range sample.Of(t, flushing, 1, 3) {
		t.Run(way.name, func(t *testing.T) {
			random := sample.Rand(t)
			m := faultfs.New(t, faultfs.Options{})
			c := clusterAt(t, m.Dir, append(way.env, "SCR_PREFIX_SIZE=2")...)
			step, tried := 100, 0 // files that are compressed, where that is tried
			try := func(fault faultfs.Fault) (hit bool) {
				t.Helper()
				step++
				tried++
				m.Set(faultfs.Options{Faults: []faultfs.Fault{fault}, Seed: random.Uint64()})
				err := c.try(four, func(s *Session, rank int) error {
					if err := checkpoint(s, rank, step); err != nil {
						return err
					}
					return s.Finalize()
				})
				c.serving.Wait()
				hits := m.Hit()
				m.Set(faultfs.Options{})
				what := fmt.Sprintf("%s in %q fails with %v after %d: %v", fault.Call, fault.Path, fault.Errno, fault.Skip, hits)
				if len(hits) > 0 && err == nil && !strings.Contains(c.said(), fault.Errno.Error()) {
					for _, hit := range hits {
						if !harmless(hit) {
							t.Errorf("%s: nobody is told\n%s", what, c.said())
						}
					}
				}
				if e, ok := c.index()[name(step)]; ok && e.Complete && !e.Compressed() {
					for rank := range four {
						for _, f := range contents(step, rank) {
							if err := sameBytes(c.prefix(f.name), f); err != nil {
								t.Errorf("%s: the index has %s as complete: %v", what, name(step), err)
							}
						}
					}
				}
				c.lose(four...)
				newest, complete := "", 0
				for _, e := range c.index() {
					if e.Complete && !e.Failed && e.ID > complete {
						newest, complete = e.Name, e.ID
					}
				}
				if err := c.try(four, func(s *Session, rank int) error {
					got, err := offered(s)
					if err != nil || got != newest {
						return fmt.Errorf("offered %q, %v; want %q", got, err, newest)
					}
					var of int
					if _, err := fmt.Sscanf(got, "ckpt.%d", &of); err != nil {
						return nil // there is none yet
					}
					return read(s, rank, of)
				}); err != nil {
					t.Errorf("%s: %v\n%s", what, err, c.said())
				}
				c.lose(four...)
				return len(hits) > 0
			}
			fault := func(call faultfs.Call, skip int) faultfs.Fault {
				errno := []syscall.Errno{syscall.EIO, syscall.ENOSPC}[skip%2]
				return faultfs.Fault{Call: call, Path: []string{"prefix/", "node/"}[skip/2%2], Skip: skip / 4, Errno: errno}
			}
			if sample.Now() < sample.Campaign {
				try(fault(calls[random.IntN(3)], 4*random.IntN(12)+random.IntN(2)))
				try(fault(calls[3+random.IntN(4)], random.IntN(32)))
				return
			}
			for _, call := range calls {
				for skip, missed := 0, 0; missed < 4 && !t.Failed(); skip++ { // neither path, with no error
					if try(fault(call, skip)) {
						missed = 0
					} else {
						missed++
					}
				}
			}
			t.Logf("%d errors", tried)
		})
	}
}

// harmless reports whether an error means nothing to a job.
func harmless(hit string) bool {
	call, path, _ := strings.Cut(hit, " ")
	base := filepath.Base(path)
	if base == "flush.scr" || base == "flushing.scr" {
		return true // for commands only; the second is there only while a flush takes long
	}
	switch faultfs.Call(call) {
	case faultfs.Open:
		// A directory is listed to limit lines, or to remove what is not used any more; a
		// record of a job's facts is written again; the checkpoints left in the halt file are
		// counted under its lock then, which reads it again.
		return base == "records" || strings.HasPrefix(base, "said.") || base == "halt.scr" || base == "scr.job" || base == ".scr" || strings.Contains(path, "/.scr/records/") && strings.HasSuffix(base, ".scr")
	case faultfs.Write:
		return strings.HasSuffix(base, ".lock") // the text is for messages
	case faultfs.Close:
		// The file is a lock, or empty, or has been replaced.
		return base == "lock" || strings.HasPrefix(base, "said.") || strings.HasSuffix(base, ".lock") || strings.HasSuffix(base, ".journal")
	case faultfs.Remove:
		// Temporary files are looked for in vain later; the list of a rank is of a dataset that
		// is complete; a slot limits lines; a later run removes old probes.
		return base == "copying.scr" || strings.HasSuffix(base, ".scrfilemap") || strings.HasPrefix(base, "said.") || strings.HasPrefix(base, "probe.")
	}
	return false
}

// core is what the library does, on whatever file system it is.
func core(t *testing.T, root string, ways []manner) {
	in := func(t *testing.T, env ...string) *cluster {
		t.Helper()
		dir, err := os.MkdirTemp(root, "core-")
		if err != nil {
			t.Fatal(err)
		}
		return clusterAt(t, dir, env...)
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			c := in(t, way.env...)
			c.job(four, func(s *Session, rank int) error {
				if err := steps(101, 102)(s, rank); err != nil {
					return err
				}
				return s.Finalize()
			})
			c.serving.Wait()
			for _, step := range []int{101, 102} {
				if e := c.index()[name(step)]; !e.Complete {
					t.Errorf("%s is not complete\n%s", name(step), c.said())
				}
			}
			if way.name != "bypass" {
				c.job(four, restarts(102))
				c.lose("b")
				c.job([]string{"a", "spare", "c", "d"}, restarts(102))
				c.says("rebuilt")
			}
			c.lose(append(four, "spare")...)
			c.job(four, restarts(102))
			c.lose(four...)
			c.job(four, func(s *Session, rank int) error {
				if err := s.Delete(name(102)); err != nil {
					return err
				}
				return nil
			})
			if _, err := os.Lstat(c.prefix("ckpt.102")); !os.IsNotExist(err) {
				t.Errorf("files of a deleted dataset are there: %v", err)
			}
			c.lose(four...)
			c.job(four, restarts(101))
		})
	}
	t.Run("window", func(t *testing.T) {
		c := in(t, "SCR_FLUSH=1", "SCR_PREFIX_SIZE=2")
		c.job(four, steps(1, 2, 3, 4))
		entries := c.index()
		if len(entries) != 2 || !entries[name(3)].Complete || !entries[name(4)].Complete {
			t.Errorf("in the index: %v", entries)
		}
		c.lose(four...)
		c.job(four, restarts(4))
	})
	t.Run("same names", func(t *testing.T) {
		c := in(t, "SCR_FLUSH=1")
		one := func(rank, step int) file {
			f := file{name: fmt.Sprintf("restart.%d.dat", rank), data: []byte(strings.Repeat(name(step), 300)), mode: 0o600, time: time.Unix(1e9, 1)}
			return f
		}
		c.job(four, func(s *Session, rank int) error {
			for step := 1; step <= 3; step++ {
				if err := s.StartOutput(name(step), Checkpoint); err != nil {
					return err
				}
				if err := write(s, []file{one(rank, step)}); err != nil {
					return err
				}
				if err := s.CompleteOutput(true); err != nil {
					return err
				}
			}
			return nil
		})
		c.lose(four...)
		c.job(four, func(s *Session, rank int) error {
			got, err := offered(s)
			if err != nil || got != name(3) {
				return fmt.Errorf("offered %q, %v", got, err)
			}
			if _, err := s.StartRestart(); err != nil {
				return err
			}
			f := one(rank, 3)
			path, err := s.Route(c.prefix(f.name))
			if err == nil {
				err = same(path, f)
			}
			if err != nil {
				return err
			}
			return s.CompleteRestart(true)
		})
	})
	t.Run("scavenge", func(t *testing.T) {
		c := in(t, "SCR_FLUSH=0")
		c.job(four, steps(1))
		c.lose("c")
		scavenged(1)(c, none)
		c.lose(four...)
		c.job(four, restarts(1))
	})
}

// The core of the library on the file system that GOSCR_TEST_BASE names.
func TestCore(t *testing.T) {
	t.Parallel()
	core(t, newCluster(t).root, sample.Of(t, flushing, 1, len(flushing)))
}

// The file system is full, of the prefix directory and of the caches: a flush fails on all
// ranks, what was flushed before can be used, and with room all continues. No other test runs
// meanwhile: it would find the file system full.
func TestFull(t *testing.T) {
	if _, own := os.LookupEnv("GOSCR_TEST_BASE"); !own {
		t.Skip("GOSCR_TEST_BASE names no file system that may be filled")
	}
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1))
	c.set("SCR_FLUSH=5")
	filler := filepath.Join(c.root, "filler")
	var each everyRank
	c.job(four, func(s *Session, rank int) error {
		err := checkpoint(s, rank, 2)
		if err == nil && rank == 0 {
			if full := storagetest.Fill(filler); !errors.Is(full, syscall.ENOSPC) {
				err = fmt.Errorf("not full: %w", full)
			}
		}
		if err := s.Agree(err); err != nil {
			return err
		}
		each.is(rank, s.Finalize())
		return nil
	})
	each.failed(t, 4, syscall.ENOSPC.Error())
	if e := c.index(); e[name(2)].Complete || !e[name(1)].Complete {
		t.Errorf("in the index: %+v", e)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	c.job(four, restarts(2)) // from the cache
	c.lose(four...)
	c.job(four, restarts(1))
	c.set("SCR_FLUSH=1")
	c.job(four, steps(3))
	c.lose(four...)
	c.job(four, restarts(3))
}

// The core of the library on file systems that know less of times, or are slow.
func TestFaults_Core(t *testing.T) {
	t.Parallel()
	if sample.Now() == sample.Quick {
		t.Skip("the longest of the tests on such a file system")
	}
	all := map[string]faultfs.Options{
		"plain": {}, "seconds": {Times: faultfs.Seconds}, "no times": {Times: faultfs.None},
		"slow": {Slow: 3 * time.Millisecond, Seed: 5}, "cached": {CloseToOpen: time.Hour},
	}
	ways := flushing
	if sample.Now() < sample.Campaign {
		all = map[string]faultfs.Options{"no times": all["no times"]}
		ways = []manner{flushing[0], flushing[4]}
	}
	for kind, opt := range all {
		t.Run(kind, func(t *testing.T) { core(t, faultfs.New(t, opt).Dir, ways) })
	}
}

// A call that gets stuck is waited for, and all is right when it continues.
func TestFaults_Stuck(t *testing.T) {
	t.Parallel()
	m := faultfs.New(t, faultfs.Options{})
	calls, ways := []faultfs.Call{faultfs.Sync, faultfs.Rename, faultfs.Write}, flushing[:3]
	if sample.Now() < sample.Campaign {
		calls, ways = calls[:1], sample.Of(t, flushing[:2], 1, 2)
	}
	for _, call := range calls {
		for _, way := range ways {
			t.Run(string(call)+" "+way.name, func(t *testing.T) {
				root, err := os.MkdirTemp(m.Dir, "stuck-")
				if err != nil {
					t.Fatal(err)
				}
				c := clusterAt(t, root, way.env...)
				c.job(four, steps(1))
				c.serving.Wait()
				m.Set(faultfs.Options{Faults: []faultfs.Fault{{Call: call, Path: filepath.Base(root) + "/prefix/", Skip: 3}}}) // two lock files and a probe, which are not synced
				done := make(chan struct{})
				var failed error
				go func() {
					defer close(done)
					failed = c.try(four, func(s *Session, rank int) error {
						if err := checkpoint(s, rank, 2); err != nil {
							return err
						}
						return s.Finalize()
					})
				}()
				if !m.AwaitStuck(done) {
					t.Error("nothing was stuck")
				}
				m.Release()
				<-done
				c.serving.Wait()
				if failed != nil || !c.index()[name(2)].Complete {
					t.Errorf("not complete: %v\n%s", failed, c.said())
				}
				c.lose(four...)
				c.job(four, restarts(2))
			})
		}
	}
}
