package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// index returns the entries of the index by name.
func (c *cluster) index() map[string]prefix.Entry {
	c.t.Helper()
	x, err := prefix.ReadIndex(c.prefix(""))
	if err != nil {
		c.t.Fatal(err)
	}
	entries := map[string]prefix.Entry{}
	for _, e := range x.Entries() {
		entries[e.Name] = e
	}
	return entries
}

// flushed returns the steps of which all files are in the prefix directory,
// with their contents, and fails the test if the index says otherwise.
func (c *cluster) flushed(ranks, most int) []int {
	c.t.Helper()
	entries := c.index()
	var list []int
	for step := 1; step <= most; step++ {
		var err error
		for rank := range ranks {
			for _, f := range contents(step, rank) {
				err = errors.Join(err, same(c.prefix(f.name), f))
			}
		}
		if err == nil {
			list = append(list, step)
		}
		if e := entries[name(step)]; e.Complete != (err == nil) {
			c.t.Errorf("the index has %s complete: %v; its files: %v", name(step), e.Complete, err)
		}
	}
	return list
}

func TestFlush_EveryNth(t *testing.T) {
	t.Parallel()
	for every, want := range map[int]string{0: "[]", 1: "[1 2 3 4 5]", 2: "[2 4]", 3: "[3]"} {
		c := newCluster(t, fmt.Sprintf("SCR_FLUSH=%d", every))
		c.job(four, steps(1, 2, 3, 4, 5))
		if got := fmt.Sprint(c.flushed(4, 5)); got != want {
			t.Errorf("SCR_FLUSH=%d: %s are flushed, want %s", every, got, want)
		}
	}
}

func TestFlush_GoesOnCountingAfterARestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=3")
	c.job(four, steps(1, 2))
	c.job(four, func(s *Session, rank int) error {
		if err := restartAt(s, rank, 2); err != nil {
			return err
		}
		return steps(3, 4)(s, rank)
	})
	if got := fmt.Sprint(c.flushed(4, 4)); got != "[3]" {
		t.Errorf("%s are flushed", got)
	}
}

func TestFlush_AtFinalize(t *testing.T) {
	t.Parallel()
	for every, want := range map[int]string{0: "[]", 2: "[2 3]"} {
		c := newCluster(t, fmt.Sprintf("SCR_FLUSH=%d", every))
		c.job(four, func(s *Session, rank int) error {
			if err := steps(1, 2, 3)(s, rank); err != nil {
				return err
			}
			return s.Finalize()
		})
		if got := fmt.Sprint(c.flushed(4, 3)); got != want {
			t.Errorf("SCR_FLUSH=%d: %s are flushed, want %s", every, got, want)
		}
		h, err := hash.ReadFile(halt.Path(c.prefix("")))
		if err != nil || h.Text("ExitReason") != halt.Finalized {
			t.Errorf("halt file: %v, %v", h, err)
		}
	}
}

func TestFlush_Output(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error {
		if err := output(s, rank, 1, Checkpoint); err != nil {
			return err
		}
		if err := output(s, rank, 2, Output); err != nil {
			return err
		}
		if err := output(s, rank, 3, Checkpoint|Output); err != nil {
			return err
		}
		return output(s, rank, 4, Output)
	})
	if got := fmt.Sprint(c.flushed(4, 4)); got != "[2 3 4]" {
		t.Errorf("%s are flushed", got)
	}
	if e := c.index()["ckpt.3"]; !e.Current {
		t.Errorf("the checkpoint is not the current one: %+v", e)
	}
	c.job(four, restarts(3)) // output is nothing to restart from
	c.lose(four...)
	c.job(four, restarts(3))
}

func TestDatasets_SayWhoseTheyAre(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_JOB_NAME=heat 2-d", "SCR_CLUSTER_NAME=atlas")
	c.job(four, steps(1))
	e := c.index()["ckpt.1"]
	o := e.Owner()
	got := []string{o.User, o.JobID, o.JobName, o.Cluster}
	if want := []string{"user", "job", "heat 2-d", "atlas"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A file that changed in the cache after it was protected is not what reaches
// the prefix directory.
func TestFlush_RepairsFirst(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=5")
	c.job(four, func(s *Session, rank int) error {
		if err := steps(1, 2)(s, rank); err != nil {
			return err
		}
		if rank == 1 {
			c.change(c.cached("b", 2, "ckpt.2/y/1/state"), flip)
		}
		return s.Finalize()
	})
	c.says("rebuilt from redundancy")
	if got := fmt.Sprint(c.flushed(4, 2)); got != "[2]" {
		t.Errorf("%s are flushed", got)
	}
	c.job(four, restarts(2))
}

func TestFlush_CannotBeDone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	if err := errors.Join(os.MkdirAll(c.prefix(""), 0o700), os.WriteFile(c.prefix("ckpt.2"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	c.job(four, steps(1, 2, 3)) // 2 finds a file where it needs a directory
	c.says("dataset ckpt.2 stays in the cache")
	if got := fmt.Sprint(c.flushed(4, 3)); got != "[1 3]" {
		t.Errorf("%s are flushed", got)
	}
	var each everyRank
	if err := os.WriteFile(c.prefix("ckpt.4"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.job(four, func(s *Session, rank int) error {
		each.is(rank, output(s, rank, 4, Output))
		return checkpoint(s, rank, 5)
	})
	each.failed(t, 4, "ckpt.4")
}

func TestFetch_AfterTheCacheIsLost(t *testing.T) {
	t.Parallel()
	for _, nodes := range [][]string{four, {"d", "b", "c", "a"}, on(2, "e", "f"), on(4, "g")} {
		c := newCluster(t, "SCR_FLUSH=1")
		c.job(four, steps(1, 2))
		c.lose(four...)
		c.job(nodes, restarts(2))
		c.says("fetched")
		if nodes[0] == "g" {
			continue
		}
		c.lose(nodes[0])
		c.set("SCR_FETCH=0")
		if len(nodes) == 4 && nodes[0] != nodes[1] { // protected as if it had just been written
			c.job(nodes, restarts(2))
		}
	}
}

func TestFetch_FallsBackToOlderCheckpoints(t *testing.T) {
	t.Parallel()
	data := func(c *cluster) string { return c.prefix("ckpt.3/rank_2") }
	meta := func(c *cluster, file string) string { return c.prefix(".scr/scr.dataset.3/" + file) }
	for _, kind := range sample.Of(t, []struct {
		name   string
		damage func(c *cluster)
	}{
		{"bit", func(c *cluster) { c.change(data(c), flip) }},
		{"end", func(c *cluster) { c.change(data(c), cut) }},
		{"more", func(c *cluster) { c.change(data(c), func(d []byte) []byte { return append(d, 1) }) }},
		{"gone", func(c *cluster) { os.Remove(data(c)) }},
		{"a directory", func(c *cluster) { os.Remove(data(c)); os.Mkdir(data(c), 0o700) }},
		{"a link", func(c *cluster) { os.Remove(data(c)); os.Symlink("rank_0", data(c)) }},
		{"summary gone", func(c *cluster) { os.Remove(meta(c, "summary.scr")) }},
		{"summary corrupt", func(c *cluster) { c.change(meta(c, "summary.scr"), flip) }},
		{"list gone", func(c *cluster) { os.Remove(meta(c, "rank2file")) }},
		{"leaf gone", func(c *cluster) { os.Remove(meta(c, "rank2file.0.0")) }},
		{"leaf corrupt", func(c *cluster) { c.change(meta(c, "rank2file.0.0"), flip) }},
		{"of another dataset", func(c *cluster) {
			c.change(meta(c, "summary.scr"), func([]byte) []byte {
				d, _ := os.ReadFile(c.prefix(".scr/scr.dataset.2/summary.scr"))
				return d
			})
		}},
		{"a rank is missing", func(c *cluster) {
			c.edit(meta(c, "rank2file.0.0"), func(h *hash.Hash) { h.UnsetKV("RANK", "2") })
		}},
	}, 4, 8) {
		t.Run(kind.name, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=1")
			c.job(four, steps(1, 2, 3))
			c.lose(four...)
			kind.damage(c)
			c.job(four, restarts(2))
			c.says("checkpoint ckpt.3 cannot be fetched")
			if e := c.index()["ckpt.3"]; !e.Failed {
				t.Errorf("not marked: %+v", e)
			}
			c.lose(four...)
			c.job(four, restarts(2))
			if strings.Contains(c.said(), "ckpt.3") {
				t.Errorf("tried again:\n%s", c.said())
			}
			c.job(four, restarts(2))
			c.says("as it was in the cache")
		})
	}
}

// edit changes a hash file.
func (c *cluster) edit(path string, f func(h *hash.Hash)) {
	c.t.Helper()
	h, err := hash.ReadFile(path)
	if err == nil {
		f(h)
		err = hash.WriteShared(path, h)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func TestFetch_TurnedOff(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1))
	c.lose(four...)
	c.set("SCR_FETCH=0")
	c.job(four, restarts(0))
}

func TestFetch_NamesThatLeadOutside(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"../outside", "ckpt.1/../../outside", "/tmp/outside", ".scr/index.scr", "ckpt.1/../.scr/index.scr", ""} {
		t.Run(bad, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=1")
			c.job(four, steps(1))
			c.lose(four...)
			if err := os.WriteFile(filepath.Join(c.root, "outside"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			c.edit(c.prefix(".scr/scr.dataset.1/rank2file.0.0"), func(h *hash.Hash) {
				files := h.Get("RANK", "2", "FILE")
				fields := files.Get("ckpt.1/rank_2")
				files.Unset("ckpt.1/rank_2")
				fields.Unset("CRC")
				files.Set(bad, fields)
			})
			c.job(four, restarts(0))
			c.says("cannot be fetched")
		})
	}
	t.Run("as a field", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1")
		c.job(four, steps(1))
		c.lose(four...)
		c.edit(c.prefix(".scr/scr.dataset.1/rank2file.0.0"), func(h *hash.Hash) {
			e := h.Get("RANK", "2", "FILE", "ckpt.1/rank_2")
			e.SetValue("FILE", "../../../outside")
			e.SetValue("TYPE", "XOR")
			e.SetValue("NAME", "x")
		})
		c.job(four, restarts(1)) // what we did not write there does not count
	})
	t.Run("a writer", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1")
		c.job(four, steps(1))
		c.lose(four...)
		c.edit(c.prefix(".scr/scr.dataset.1/rank2file"), func(h *hash.Hash) {
			h.Get("RANK", "0").SetValue("FILE", "/../../scr.dataset.1/rank2file.0.0")
		})
		c.job(four, restarts(0))
	})
	t.Run("index is a link", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1")
		c.job(four, steps(1))
		c.lose(four...)
		real := filepath.Join(c.root, "real")
		err := errors.Join(os.Rename(c.prefix(".scr/index.scr"), real), os.Symlink(real, c.prefix(".scr/index.scr")))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.try(four, restarts(1)); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("the index is a symbolic link: %v", err)
		}
	})
}

func TestCompleteRestart_Invalid(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=1")
	c.job(four, steps(1, 2, 3))
	refuse := func(s *Session, rank int, step int) error {
		got, err := offered(s)
		if err == nil && got != name(step) {
			err = fmt.Errorf("offered %q, want %q", got, name(step))
		}
		if err == nil {
			_, err = s.StartRestart()
		}
		if err != nil {
			return err
		}
		if err := s.CompleteRestart(rank != 2); err == nil || !strings.Contains(err.Error(), "could not restart from "+name(step)) {
			return fmt.Errorf("CompleteRestart: %v", err)
		}
		return nil
	}
	c.job(four, func(s *Session, rank int) error {
		for _, step := range []int{3, 2} {
			if err := refuse(s, rank, step); err != nil {
				return err
			}
		}
		return restartAt(s, rank, 1)
	})
	for _, name := range []string{"ckpt.2", "ckpt.3"} {
		if !c.index()[name].Failed {
			t.Errorf("%s is not marked", name)
		}
	}
	c.job(four, restarts(1))
	c.lose(four...)
	c.job(four, restarts(1))
	c.job(four, func(s *Session, rank int) error { // the last one
		if err := refuse(s, rank, 1); err != nil {
			return err
		}
		if err := restartAt(s, rank, 0); err != nil {
			return err
		}
		return checkpoint(s, rank, 7)
	})
	c.job(four, restarts(7))
}

func TestCurrent_DropAndDelete(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, func(s *Session, rank int) error {
		if err := steps(1, 2, 3)(s, rank); err != nil {
			return err
		}
		if err := s.Current("ckpt.1"); err != nil {
			return err
		}
		if err := s.Current("other"); err == nil {
			return errors.New("Current of a name that is not there")
		}
		return errors.Join(s.Drop("ckpt.2"), s.Delete("ckpt.3"), s.Delete("nothing"), s.Drop("nothing"))
	})
	if _, err := os.Stat(c.prefix("ckpt.3")); !os.IsNotExist(err) {
		t.Errorf("ckpt.3 is there: %v", err)
	}
	if _, err := os.Stat(c.prefix("ckpt.2/rank_2")); err != nil {
		t.Error(err)
	}
	c.lose(four...)
	c.job(four, restarts(1))
}

// The prefix directory that SCR 3.1 has left.
func TestFetch_WhatSCRWrote(t *testing.T) {
	t.Parallel()
	sample := filepath.Join("..", "..", "shared", "interop", "scr-3.1-prefix")
	if _, err := os.Stat(sample); err != nil {
		t.Skip("the prefix directory of SCR 3.1 that this reads is not part of the project")
	}
	c := newCluster(t, "SCR_FLUSH=2")
	if err := os.CopyFS(c.prefix(""), os.DirFS(sample)); err != nil {
		t.Fatal(err)
	}
	c.job(four, func(s *Session, rank int) error {
		got, err := offered(s)
		if err != nil || got != "ckpt.5" {
			return fmt.Errorf("offered %q, %v", got, err)
		}
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		rel := fmt.Sprintf("ckpt.5/rank_%d.ckpt", rank)
		path, err := s.Route(c.prefix(rel))
		if err != nil {
			return err
		}
		want, err := os.ReadFile(filepath.Join(sample, rel))
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || string(data) != string(want) || len(data) != 4104 {
			return fmt.Errorf("%s: %d bytes, %v", path, len(data), err)
		}
		if err := s.CompleteRestart(true); err != nil {
			return err
		}
		return steps(6, 7)(s, rank) // the 6th and 7th checkpoint
	})
	entries := c.index()
	if e := entries["ckpt.6"]; !e.Complete || e.ID != 6 || e.Checkpoint() != 6 || !e.Current {
		t.Errorf("%+v", e)
	}
	if len(entries) != 4 {
		t.Errorf("%d entries", len(entries))
	}
}

// An entry of the index whose numbers contradict each other is passed over.
func TestFetch_IndexContradictsItself(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "0", "9"} {
		t.Run("id "+id, func(t *testing.T) {
			c := newCluster(t, "SCR_FLUSH=1")
			c.job(four, steps(1, 2, 3))
			c.lose(four...)
			c.edit(c.prefix(".scr/index.scr"), func(h *hash.Hash) {
				h.Unset("CURRENT")
				d := h.Get("DSET", "3", "DSET")
				d.Unset("ID")
				if id != "" {
					d.SetValue("ID", id)
				}
			})
			c.job(four, restarts(2))
		})
	}
}

// That the cache cannot take a checkpoint says nothing about the checkpoint.
func TestFetch_CacheFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2, 3))
	c.lose(four...)
	// A file where the dataset's directory has to be.
	in := c.cached("b", 3, "")
	if err := errors.Join(os.MkdirAll(filepath.Dir(in), 0o700), os.WriteFile(in, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	c.job(four, restarts(2))
	if c.index()["ckpt.3"].Failed {
		t.Error("the checkpoint is marked as one that cannot be fetched")
	}
}

// breakRecords makes it impossible to write flush.scr and halt.scr, as when the
// prefix directory's file system is full.
func (c *cluster) breakRecords() {
	for _, name := range []string{".scr/flush.scr", ".scr/halt.scr"} {
		path := c.prefix(name)
		if err := errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// What is written in the prefix directory for the commands around the job can
// fail, and the job continues writing checkpoints to the cache.
func TestRecords_CannotBeWritten(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=0")
	c.job(four, func(s *Session, rank int) error {
		if rank == 0 {
			c.breakRecords()
		}
		s.world.Barrier()
		return steps(1, 2, 3, 4)(s, rank)
	})
	for _, name := range []string{".scr/flush.scr", ".scr/halt.scr"} {
		os.Remove(c.prefix(name))
	}
	c.job(four, restarts(4))
}

// A checkpoint that was refused is not offered again because that could not be
// recorded.
func TestCompleteRestart_RecordsCannotBeWritten(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	c.job(four, func(s *Session, rank int) error {
		if rank == 0 {
			c.breakRecords()
		}
		s.world.Barrier()
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		if err := s.CompleteRestart(false); err == nil {
			return errors.New("no error")
		}
		return restartAt(s, rank, 1)
	})
}

// A pipe in the place of a file would keep who opens it waiting for a reader.
func TestFlush_PipeInTheWay(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	if err := errors.Join(os.MkdirAll(c.prefix("ckpt.1"), 0o700), unix.Mkfifo(c.prefix("ckpt.1/rank_2"), 0o600)); err != nil {
		t.Fatal(err)
	}
	c.job(four, steps(1))
	c.lose(four...)
	c.job(four, restarts(1))
}

// Jobs may begin at the same time in one prefix directory.
func TestInit_ManyJobsAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var wg sync.WaitGroup
	for job := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			_, err := local.Run(2, c.opt, func(world mpi.Comm) error {
				opt := c.options(fmt.Sprintf("%c%d", 'a'+world.Rank(), job))
				opt.Settings = &Settings{}
				for range 10 {
					s, err := Init(world, opt)
					if err != nil {
						return err
					}
					if err := s.Finalize(); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
}
