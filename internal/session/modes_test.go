package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/mpi"
)

// sharedCheckpoint writes one file with all ranks, each its own 100 bytes, and
// one of its own, and in the first step one with its neighbour.
func sharedCheckpoint(s *Session, rank, step int) error {
	if err := s.StartOutput(name(step), Checkpoint); err != nil {
		return err
	}
	path, err := s.Route(filepath.Join(s.prefix.Dir, name(step), "all"))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(part(step, rank), int64(100*rank))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if path, err = s.Route(filepath.Join(s.prefix.Dir, name(step), fmt.Sprint("own/", rank))); err != nil {
		return err
	}
	if err := os.WriteFile(path, part(step, rank), 0o600); err != nil {
		return err
	}
	return s.CompleteOutput(true)
}

func part(step, rank int) []byte {
	return []byte(strings.Repeat(fmt.Sprint(step*7+rank)+" ", 100)[:100])
}

// sharedRestart reads all of the file that ranks of a job have written, whatever
// the size of this one, and files of any of them.
func sharedRestart(s *Session, rank, step, ranks int) error {
	if got, err := offered(s); err != nil || got != name(step) {
		return fmt.Errorf("offered %q, %v", got, err)
	}
	if _, err := s.StartRestart(); err != nil {
		return err
	}
	read := func(file string, want []byte) error {
		path, err := s.Route(filepath.Join(s.prefix.Dir, name(step), file))
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && !slices.Equal(data, want) {
			err = fmt.Errorf("%s is not what was written", path)
		}
		return err
	}
	var all []byte
	var err error
	for r := range ranks {
		all = append(all, part(step, r)...)
		err = errors.Join(err, read(fmt.Sprint("own/", r), part(step, r)))
	}
	err = errors.Join(err, read("all", all))
	if _, e := s.Route(filepath.Join(s.prefix.Dir, name(step), "never")); e == nil {
		err = errors.Join(err, errors.New("a file that is not there has a path"))
	}
	return errors.Join(mpi.Agree(s.world, err), s.CompleteRestart(err == nil))
}

func TestBypass_SeveralRanksWriteOneFile(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"SCR_CACHE_BYPASS=1", "SCR_CACHE_SIZE=0"} {
		c := newCluster(t, how)
		c.job(four, func(s *Session, rank int) error {
			for step := 1; step <= 2; step++ {
				if err := sharedCheckpoint(s, rank, step); err != nil {
					return err
				}
			}
			return s.Finalize()
		})
		if got := c.in("a", "cache"); got != "" {
			t.Errorf("%s: the cache has %s", how, got)
		}
		e := c.index()["ckpt.2"]
		if !e.Complete || !e.Current || e.Files() != 5 || e.Size() != 800 {
			t.Errorf("%s: %+v: %d files, %d bytes", how, e, e.Files(), e.Size())
		}
		for _, ranks := range []int{4, 1, 3, 7} { // any number of ranks, anywhere
			nodes := slices.Repeat([]string{"x", "y", "x"}, 3)[:ranks]
			c.job(nodes, func(s *Session, rank int) error { return sharedRestart(s, rank, 2, 4) })
			c.says("read where they are")
		}
		c.job(four, func(s *Session, rank int) error {
			if err := sharedRestart(s, rank, 2, 4); err != nil {
				return err
			}
			return sharedCheckpoint(s, rank, 3)
		})
		if e := c.index()["ckpt.3"]; !e.Complete || e.ID != 3 || e.Checkpoint() != 3 {
			t.Errorf("%s: %+v", how, e)
		}
		// Written by a run with bypass, used by one without.
		c.set("SCR_CACHE_BYPASS=0", "SCR_CACHE_SIZE=2")
		c.job(four, func(s *Session, rank int) error { return sharedRestart(s, rank, 3, 4) })
	}
}

// Each run says in one line what bypass gives up, and which settings cause it.
func TestBypass_SaysWhatItGivesUp(t *testing.T) {
	t.Parallel()
	const givesUp = "the program writes to the prefix directory, at the speed of that file system, without redundancy and without checksums"
	for _, kind := range []struct{ settings, lines, by string }{
		{settings: "SCR_CACHE_BYPASS=1", by: "SCR_CACHE_BYPASS=1"},
		{settings: "SCR_CACHE_SIZE=0", by: "SCR_CACHE_SIZE=0"},
		{lines: "CKPT=0 INTERVAL=1\nCKPT=3 INTERVAL=4 BYPASS=1\nCKPT=2 INTERVAL=2 BYPASS=1", by: "CKPT=2 BYPASS=1, CKPT=3 BYPASS=1"},
		{lines: "STORE=/nowhere COUNT=0\nCKPT=0 INTERVAL=1 STORE=/nowhere", by: "STORE=/nowhere COUNT=0"},
		{settings: "SCR_CACHE_BYPASS=0"},
	} {
		c := newCluster(t, "SCR_DEBUG=0")
		if kind.settings != "" {
			c.set(kind.settings)
		}
		c.configure(kind.lines)
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(checkpoint(s, rank, 1), checkpoint(s, rank, 2), s.Finalize())
		})
		want := 0
		if kind.by != "" {
			want = 1
			c.says(kind.by + ": " + givesUp)
		}
		if got := strings.Count(c.said(), givesUp); got != want {
			t.Errorf("%+v: said %d times, not %d:\n%s", kind, got, want, c.said())
		}
	}
}

// Which files a rank has written is known to a job of the same size.
func TestBypass_FilesOfARank(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_BYPASS=1")
	c.job(four, steps(1, 2))
	c.job(four, func(s *Session, rank int) error {
		if _, err := offered(s); err != nil {
			return err
		}
		if rank == 2 { // by the first interface, before a restart is begun
			if path, err := s.Route("rank_2"); err != nil || path != c.prefix("ckpt.2/rank_2") {
				return fmt.Errorf("%s, %v", path, err)
			}
		}
		return read(s, rank, 2)
	})
}

func TestBypass_NotComplete(t *testing.T) {
	t.Parallel()
	for kind, end := range map[string]func(s *Session, rank int) error{
		"killed":    func(*Session, int) error { return nil },
		"not valid": func(s *Session, rank int) error { return s.CompleteOutput(rank != 3) },
		"never written": func(s *Session, rank int) error {
			s.Route(filepath.Join(s.prefix.Dir, "never"))
			return s.CompleteOutput(true)
		},
	} {
		t.Run(kind, func(t *testing.T) {
			c := newCluster(t, "SCR_CACHE_BYPASS=1")
			var each everyRank
			c.job(four, func(s *Session, rank int) error {
				if err := checkpoint(s, rank, 1); err != nil {
					return err
				}
				if err := errors.Join(s.StartOutput("ckpt.2", Checkpoint), write(s, contents(2, rank))); err != nil {
					return err
				}
				each.is(rank, end(s, rank))
				return nil
			})
			if kind != "killed" {
				each.failed(t, 4, "")
			}
			if e, ok := c.index()["ckpt.2"]; !ok || e.Complete {
				t.Errorf("%+v", e)
			}
			c.job(four, func(s *Session, rank int) error {
				if err := restartAt(s, rank, 1); err != nil {
					return err
				}
				return errors.Join(checkpoint(s, rank, 3), s.Delete("ckpt.2"))
			})
			if _, ok := c.index()["ckpt.2"]; ok {
				t.Error("it cannot be deleted")
			}
			c.job(four, restarts(3))
		})
	}
}

// Nobody has a checksum of what the program wrote itself, but what is written over
// later is not taken for it.
func TestBypass_ChangedAfterwards(t *testing.T) {
	t.Parallel()
	for kind, change := range map[string]func(path string) error{
		"again":   func(path string) error { return os.WriteFile(path, contents(2, 2)[0].data, 0o600) },
		"shorter": func(path string) error { return os.Truncate(path, 0) },
		"gone":    os.Remove,
	} {
		c := newCluster(t, "SCR_CACHE_BYPASS=1")
		c.job(four, steps(1, 2))
		os.Chmod(c.prefix("ckpt.2/rank_2"), 0o600)
		if err := change(c.prefix("ckpt.2/rank_2")); err != nil {
			t.Fatal(err)
		}
		c.job(four, restarts(1))
		if e := c.index()["ckpt.2"]; !e.Failed {
			t.Errorf("%s: %+v", kind, e)
		}
	}
}

func TestBypass_ARestartThatFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_BYPASS=1")
	c.job(four, steps(1, 2))
	c.job(four, func(s *Session, rank int) error {
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		if err := s.CompleteRestart(rank != 2); err == nil {
			return errors.New("no error")
		}
		return restartAt(s, rank, 1)
	})
	c.job(four, restarts(1))
}

// What is deleted is not offered any more, wherever it was.
func TestBypass_DeletedBeforeARestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_BYPASS=1")
	c.job(four, steps(1, 2))
	c.job(four, func(s *Session, rank int) error {
		if err := s.Delete("ckpt.2"); err != nil {
			return err
		}
		return restartAt(s, rank, 1)
	})
	if _, err := os.Stat(c.prefix("ckpt.2")); !os.IsNotExist(err) {
		t.Errorf("its directory: %v", err)
	}
}

func TestFetchBypass(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	c.lose(four...)
	c.set("SCR_FETCH_BYPASS=1")
	c.job(four, restarts(2))
	c.says("read where they are")
	if got := c.in("a", "cache"); got != "" {
		t.Errorf("the cache has %s", got)
	}
	for _, nodes := range [][]string{{"a"}, on(2, "a", "b", "c", "d")} {
		c.job(nodes, func(s *Session, rank int) error {
			if got, err := offered(s); err != nil || got != "ckpt.2" {
				return fmt.Errorf("offered %q, %v", got, err)
			}
			if _, err := s.StartRestart(); err != nil {
				return err
			}
			var err error
			for r := range four {
				for _, f := range contents(2, r) {
					path, e := s.Route(filepath.Join(s.prefix.Dir, f.name))
					if e == nil {
						e = same(path, f)
					}
					err = errors.Join(err, e)
				}
			}
			if err := errors.Join(mpi.Agree(s.world, err), s.CompleteRestart(true)); err != nil {
				return err
			}
			return checkpoint(s, rank, 3) // continues with what it now is
		})
		c.job(nodes, restarts(3))
		c.job(four, func(s *Session, rank int) error { return s.Current("ckpt.2") })
		c.lose(four...)
	}
}

// Any number of ranks begins where another has ended, with what only the cache
// had.
func TestGlobalRestart(t *testing.T) {
	t.Parallel()
	for _, nodes := range [][]string{four, {"a", "b"}, on(1, "a", "b", "c", "d", "e"), {"d", "c", "b", "a", "a", "b", "c", "d"}} {
		for _, how := range []string{"SCR_GLOBAL_RESTART=1", "SCR_FLUSH_ON_RESTART=1"} {
			t.Run(fmt.Sprintf("%d ranks, %s", len(nodes), how), func(t *testing.T) {
				c := newCluster(t)
				before := four
				if len(nodes) == 2 { // which have all files
					before = on(2, "a", "b")
				}
				c.job(before, steps(1, 2))
				c.set(how)
				all := how == "SCR_GLOBAL_RESTART=1"
				c.job(nodes, func(s *Session, rank int) error {
					switch {
					case all:
						if _, err := s.StartRestart(); err == nil {
							return errors.New("not before HaveRestart")
						}
						if got, err := offered(s); err != nil || got != "ckpt.2" {
							return fmt.Errorf("offered %q, %v", got, err)
						}
						_, err := s.StartRestart()
						for r := range four {
							for _, f := range contents(2, r) {
								path, e := s.Route(filepath.Join(s.prefix.Dir, f.name))
								if e == nil && path != c.prefix(f.name) {
									e = fmt.Errorf("%s is at %s", f.name, path)
								}
								err = errors.Join(err, e)
							}
						}
						return errors.Join(mpi.Agree(s.world, err), s.CompleteRestart(true))
					case len(nodes) == 4:
						return restartAt(s, rank, 2)
					default: // the program reads by itself
						return restartAt(s, rank, 0)
					}
				})
				if got := fmt.Sprint(c.flushed(4, 2)); got != "[1 2]" {
					t.Errorf("%s are flushed\n%s", got, c.said())
				}
				if !c.index()["ckpt.2"].Current {
					t.Error("the newest is not the current one")
				}
			})
		}
	}
}

func TestGlobalRestart_WhatIsLostStaysLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	c.lose("b")
	c.set("SCR_GLOBAL_RESTART=1")
	c.job([]string{"a", "b", "c", "d", "e"}, restarts(0))
	c.says("the files of 1 of its 4 ranks are on no node of this run; a run with 4 ranks may rebuild them")
	if strings.Contains(c.said(), "SCR_GLOBAL_RESTART=1") {
		t.Errorf("it is advised to do what is done:\n%s", c.said())
	}
	c.job(four, func(s *Session, rank int) error { // and it does
		if got, err := offered(s); err != nil || got != "ckpt.2" {
			return fmt.Errorf("offered %q, %v", got, err)
		}
		return nil
	})
	c.says("rebuilt from redundancy")
}

func TestFlushOnRestart_CannotBeDone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	if err := os.WriteFile(c.prefix("ckpt.2"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.set("SCR_FLUSH_ON_RESTART=1")
	if err := c.try(four, restarts(2)); err == nil || !strings.Contains(err.Error(), "SCR_FLUSH_ON_RESTART") {
		t.Errorf("%v", err)
	}
	os.Remove(c.prefix("ckpt.2"))
	c.job(four, restarts(2))
}

// Files stay where they are, and are used by the next run that may.
func TestDistribute_Off(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=3")
	moved := []string{"d", "c", "b", "a"}
	c.job(four, steps(1, 2))
	c.set("SCR_DISTRIBUTE=0")
	for _, nodes := range [][]string{moved, four} {
		c.job(nodes, restarts(0))
		c.says("SCR_DISTRIBUTE=0")
	}
	c.set("SCR_DISTRIBUTE=1")
	c.job(moved, restarts(2))
	c.says("as it was in the cache")
	c.set("SCR_DISTRIBUTE=0")
	c.job(four, steps(3))
	if got := c.in("a", "cache"); got != "3" {
		t.Errorf("the cache has %s", got)
	}
}

func TestPurge(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	c.set("SCR_CACHE_PURGE=1")
	c.job(four, func(s *Session, rank int) error {
		if got := c.in("a", "cache"); rank == 0 && got != "" {
			return fmt.Errorf("the cache has %s", got)
		}
		return restartAt(s, rank, 2) // fetched
	})
	c.says("fetched")
	c.set("SCR_CACHE_PURGE=0", "SCR_PREFIX_PURGE=1")
	if err := os.WriteFile(c.prefix("mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.job([]string{"x", "y"}, restarts(0)) // by a job of another size
	if got := c.index(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	left, err := filepath.Glob(c.prefix("[^.]*"))
	if err != nil || len(left) != 1 || left[0] != c.prefix("mine") {
		t.Errorf("left: %v, %v", left, err)
	}
	c.set("SCR_CACHE_PURGE=1")
	c.job(four, restarts(0))
	c.set("SCR_CACHE_PURGE=0", "SCR_PREFIX_PURGE=0", "SCR_FLUSH=1")
	c.job(four, steps(3))
	if got := c.index()["ckpt.3"]; !got.Complete {
		t.Errorf("%+v", got)
	}
}

// One of which the list of files is gone leaves the index all the same.
func TestPurge_WithoutAList(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	if err := os.Remove(c.prefix(".scr/scr.dataset.1/rank2file")); err != nil {
		t.Fatal(err)
	}
	c.set("SCR_PREFIX_PURGE=1", "SCR_CACHE_PURGE=1")
	c.job(four, restarts(0))
	c.says("dataset 1 (ckpt.1) cannot be deleted")
	if got := c.index(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if _, err := os.Stat(c.prefix("ckpt.1/rank_0")); err != nil {
		t.Error(err)
	}
}

func TestPrefixSize(t *testing.T) {
	t.Parallel()
	for _, bypass := range []string{"0", "1"} {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_PREFIX_SIZE=2", "SCR_CACHE_BYPASS="+bypass)
		c.job(four, func(s *Session, rank int) error {
			for step, flags := range []Flags{1: Checkpoint, 2: Output, 3: Checkpoint | Output, 4: Checkpoint, 5: Checkpoint, 6: Checkpoint} {
				if step > 0 {
					if err := output(s, rank, step, flags); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if got := fmt.Sprint(c.flushed(4, 6)); got != "[2 3 5 6]" {
			t.Errorf("bypass %s: %s are in the prefix directory", bypass, got)
		}
		if _, err := os.Stat(c.prefix("ckpt.1")); !os.IsNotExist(err) {
			t.Errorf("bypass %s: a directory is left: %v", bypass, err)
		}
		want := map[string]int{"0": 1, "1": 0}[bypass] // without the cache there is nothing to flush
		if every, known := prefix.Every(c.prefix("")); !known || every != want {
			t.Errorf("bypass %s: flush.scr says that every %d-th checkpoint is flushed (%v)", bypass, every, known)
		}
		c.job(four, restarts(6))
	}
}

// Those that a restart has failed from are none of the checkpoints that are kept,
// and files that a newer dataset has too are not deleted.
func TestPrefixSize_KeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_PREFIX_SIZE=2")
	c.job(four, steps(1, 2, 3))
	err := prefix.UpdateIndex(c.prefix(""), func(x *prefix.Index) error { x.MarkFailed(3, "a test", time.Now()); return nil })
	if err != nil {
		t.Fatal(err)
	}
	c.job(four, steps(4))
	if got := fmt.Sprint(c.flushed(4, 4)); got != "[2 3 4]" {
		t.Errorf("%s are in the prefix directory", got)
	}

	again := newCluster(t, "SCR_FLUSH=1", "SCR_PREFIX_SIZE=1")
	again.job(four, func(s *Session, rank int) error {
		for step := 1; step <= 3; step++ { // each in the same file
			if err := s.StartOutput(name(step), Checkpoint); err != nil {
				return err
			}
			path, err := s.Route(filepath.Join(s.prefix.Dir, fmt.Sprint("same/", rank)))
			if err == nil {
				err = os.WriteFile(path, part(step, rank), 0o600)
			}
			if err := errors.Join(err, s.CompleteOutput(true)); err != nil {
				return err
			}
		}
		return nil
	})
	for rank := range four {
		if data, err := os.ReadFile(again.prefix(fmt.Sprint("same/", rank))); string(data) != string(part(3, rank)) {
			t.Errorf("%q, %v", data, err)
		}
	}
}

func TestCurrent_OfTheEnvironment(t *testing.T) {
	t.Parallel()
	t.Run("in the cache", func(t *testing.T) {
		c := newCluster(t, "SCR_CACHE_SIZE=3")
		c.job(four, steps(1, 2, 3))
		c.set("SCR_CURRENT=ckpt.2")
		c.job(four, restarts(2))
		if got := c.in("a", "cache"); got != "1 2" {
			t.Errorf("the cache has %s", got)
		}
	})
	t.Run("in the prefix directory", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1")
		c.job(four, steps(1, 2, 3, 4))
		c.set("SCR_CURRENT=ckpt.1")
		c.job(four, restarts(1))
		if got := c.in("a", "cache"); got != "1" {
			t.Errorf("the cache has %s", got)
		}
		if !c.index()["ckpt.1"].Current || len(c.index()) != 4 {
			t.Errorf("%v", c.index())
		}
		c.set("SCR_CURRENT=ckpt.2", "SCR_DROP_AFTER_CURRENT=1")
		c.job(four, restarts(2))
		if got := c.index(); len(got) != 2 || !got["ckpt.2"].Current {
			t.Errorf("%v", got)
		}
		if _, err := os.Stat(c.prefix("ckpt.3/rank_0")); err != nil {
			t.Error(err)
		}
	})
	t.Run("nowhere", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_CURRENT=ckpt.9")
		c.job(four, steps(1, 2))
		c.job(four, restarts(2))
		c.says("SCR_CURRENT names ckpt.9")
	})
	t.Run("not usable", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1")
		c.job(four, steps(1, 2, 3))
		os.Remove(c.prefix("ckpt.1/rank_0"))
		c.set("SCR_CURRENT=ckpt.1")
		c.job(four, restarts(3)) // and nothing has been dropped for it
		c.says("SCR_CURRENT names ckpt.1")
	})
}

func TestDropAfterCurrent_OfTheCall(t *testing.T) {
	t.Parallel()
	for drop, want := range map[string]int{"0": 3, "1": 1} {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_DROP_AFTER_CURRENT="+drop)
		c.job(four, func(s *Session, rank int) error {
			if err := steps(1, 2, 3)(s, rank); err != nil {
				return err
			}
			return s.Current("ckpt.1")
		})
		if got := c.index(); len(got) != want || !got["ckpt.1"].Current {
			t.Errorf("SCR_DROP_AFTER_CURRENT=%s: %v", drop, got)
		}
	}
}

func TestCopyMetadata_Off(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_COPY_METADATA=0")
	c.job(four, steps(1))
	want, path := contents(1, 2)[0], c.prefix("ckpt.1/rank_2")
	data, err := os.ReadFile(path)
	info, err2 := os.Stat(path)
	if err := errors.Join(err, err2); err != nil || !slices.Equal(data, want.data) {
		t.Fatal(err)
	}
	if info.ModTime().Equal(want.time) || info.Mode() != 0o644 && info.Mode() != 0o666&^umask() {
		t.Errorf("%v, %v", info.ModTime(), info.Mode())
	}
	c.lose(four...)
	c.job(four, func(s *Session, rank int) error {
		if got, err := offered(s); err != nil || got != "ckpt.1" {
			return fmt.Errorf("offered %q, %v", got, err)
		}
		return nil
	})
	// Restored by a run that copies it: as the files in the prefix directory are.
	c.set("SCR_COPY_METADATA=1")
	c.lose(four...)
	c.job(four, func(s *Session, rank int) error {
		if _, err := offered(s); err != nil || rank != 2 {
			return err
		}
		at, err := os.Stat(c.cached("c", 1, "ckpt.1/rank_2"))
		if err == nil && (at.Mode() != info.Mode() || !at.ModTime().Equal(info.ModTime())) {
			err = fmt.Errorf("%v %v, is %v %v", at.Mode(), at.ModTime(), info.Mode(), info.ModTime())
		}
		return err
	})
}

// umask is what the system takes from the mode of files that are made.
func umask() os.FileMode {
	f, err := os.CreateTemp("", "umask")
	if err != nil {
		return 0
	}
	os.Remove(f.Name())
	f.Close()
	g, err := os.OpenFile(f.Name(), os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer g.Close()
	info, _ := g.Stat()
	return 0o666 &^ info.Mode()
}

// An output is in the cache for no longer than it takes to reach the prefix
// directory; it does not take the place of a checkpoint.
func TestOutput_LeavesTheCache(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error {
		for step, flags := range []Flags{1: Checkpoint, 2: Output, 3: Checkpoint, 4: Output, 5: None, 6: None} {
			if step > 0 {
				if err := output(s, rank, step, flags); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if got := c.in("a", "cache"); got != "3 6" {
		t.Errorf("the cache has %s", got)
	}
	if got := fmt.Sprint(c.flushed(4, 6)); got != "[2 4]" {
		t.Errorf("%s are flushed", got)
	}
	// What is of no use goes before a checkpoint does.
	c.job(four, steps(7))
	if got := c.in("a", "cache"); got != "3 7" {
		t.Errorf("the cache has %s", got)
	}
}

// One that could not be flushed is, at the end of the run, or in the next.
func TestOutput_FlushedLater(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"Finalize", "Init"} {
		c := newCluster(t)
		blocked := c.prefix("ckpt.2")
		if err := errors.Join(os.MkdirAll(c.prefix(""), 0o700), os.WriteFile(blocked, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		c.job(four, func(s *Session, rank int) error {
			if err := checkpoint(s, rank, 1); err != nil {
				return err
			}
			if err := output(s, rank, 2, Output); err == nil {
				return errors.New("no error")
			}
			if when == "Init" {
				return nil
			}
			if rank == 0 {
				os.Remove(blocked)
			}
			return errors.Join(meet(s.world), s.Finalize())
		})
		os.Remove(blocked)
		if when == "Init" {
			c.job(four, restarts(1))
		}
		if got := fmt.Sprint(c.flushed(4, 2)); got != "[2]" {
			t.Errorf("in %s: %s are flushed\n%s", when, got, c.said())
		}
	}
}

func TestWidth(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_WIDTH=1", "SCR_FETCH_WIDTH=2")
	c.job(four, steps(1))
	c.lose(four...)
	c.job(four, restarts(1))
}

func TestCRC_OnFlush(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		crc  string
		want int // the checkpoint that a run finds in the prefix directory
	}{{"1", 1}, {"0", 2}} {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_CRC_ON_FLUSH="+kind.crc)
		c.job(four, steps(1, 2))
		c.change(c.prefix("ckpt.2/y/1/state"), func(data []byte) []byte { data[17] ^= 4; return data })
		c.lose(four...)
		c.job(four, func(s *Session, rank int) error {
			if got, err := offered(s); err != nil || got != name(kind.want) {
				return fmt.Errorf("SCR_CRC_ON_FLUSH=%s: offered %q, %v", kind.crc, got, err)
			}
			return nil
		})
	}
}

func TestCRC_OnDelete(t *testing.T) {
	t.Parallel()
	for crc, want := range map[string]bool{"0": false, "1": true} {
		c := newCluster(t, "SCR_FLUSH=0", "SCR_CRC_ON_DELETE="+crc)
		c.job(four, func(s *Session, rank int) error {
			if err := steps(1, 2)(s, rank); err != nil {
				return err
			}
			if rank == 1 {
				c.change(c.cached("b", 1, "ckpt.1/y/1/state"), func(data []byte) []byte { data[17] ^= 4; return data })
			}
			return steps(3)(s, rank)
		})
		if got := strings.Contains(c.said(), "which leaves the cache: "); got != want {
			t.Errorf("SCR_CRC_ON_DELETE=%s: said\n%s", crc, c.said())
		}
	}
}

func TestCRC_OnCopy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CRC_ON_COPY=0")
	c.job(four, steps(1))
	c.says("SCR_CRC_ON_COPY=0 has no effect")
}
