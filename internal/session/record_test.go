package session

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/test/sample"
)

// unflushed reports whether the commands after the job would bring a dataset home.
func (c *cluster) unflushed(id int) bool {
	c.t.Helper()
	list, err := prefix.OnlyInCache(c.prefix(""))
	if err != nil {
		c.t.Fatal(err)
	}
	return slices.ContainsFunc(list, func(u prefix.Unflushed) bool { return u.ID == id })
}

// A number that was dropped from the index is used again: what is under it in the cache
// only has to be scavenged, wherever the one before was.
func TestRecord_NumberUsedAgain(t *testing.T) {
	t.Parallel()
	for _, async := range []string{"0", "1"} {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_ASYNC="+async)
		c.job(four, func(s *Session, rank int) error { return errors.Join(steps(1, 2, 3)(s, rank), s.Finalize()) })
		if err := prefix.UpdateIndex(c.prefix(""), func(x *prefix.Index) error { x.Remove(name(3)); return nil }); err != nil {
			t.Fatal(err)
		}
		c.lose(four...)
		c.set("SCR_FLUSH=0")
		c.job(four, func(s *Session, rank int) error { return errors.Join(restarts(2)(s, rank), checkpoint(s, rank, 3)) })
		if !c.unflushed(3) {
			t.Errorf("SCR_FLUSH_ASYNC=%s: dataset 3 is in the cache only, and would not be scavenged: %s", async, c.places(3))
		}
	}
}

// While somebody has the lock of the index - another job, a command, a slow file system -
// a checkpoint that is whole in the caches is recorded as there.
func TestRecord_BeforeTheIndex(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1")
	release, done := make(chan bool), make(chan error, 1)
	go func() {
		done <- c.try(four, func(s *Session, rank int) error {
			var err error
			if rank == 0 {
				held := make(chan error, 2)
				go func() {
					held <- prefix.UpdateIndex(c.prefix(""), func(*prefix.Index) error { held <- nil; <-release; return nil })
				}()
				err = <-held
			}
			if err := s.Agree(err); err != nil {
				return err
			}
			return checkpoint(s, rank, 1)
		})
	}()
	var err error
	for ended := false; !c.unflushed(1) && !ended; time.Sleep(time.Millisecond) {
		select {
		case err = <-done:
			ended = true
			t.Errorf("flush.scr does not know of the checkpoint: %v\n%s", err, c.said())
			done <- err
		default:
		}
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A flush that could not begin is not under way.
func TestRecord_CouldNotBegin(t *testing.T) {
	t.Parallel()
	for _, async := range []string{"0", "1"} {
		c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_ASYNC="+async)
		dir := c.prefix(".scr/scr.dataset.1") // of an earlier dataset, and nobody can remove it
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("chattr", "+i", dir).CombinedOutput(); err != nil {
			t.Skipf("chattr +i: %v: %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("chattr", "-i", dir).Run() })
		c.job(four, steps(1))
		if p, err := prefix.ReadProgress(c.prefix("")); err != nil || p.Flushing || !c.unflushed(1) {
			t.Errorf("SCR_FLUSH_ASYNC=%s: %v, %+v; flush.scr says %s\n%s", async, err, p, c.places(1), c.said())
		}
	}
}

// Without its index a prefix directory is not taken for an empty one.
func TestRecord_IndexGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	c.lose(four...)
	if err := os.Remove(c.prefix(".scr/index.scr")); err != nil {
		t.Fatal(err)
	}
	if err := c.try(four, restarts(2)); err == nil || !strings.Contains(err.Error(), "scr_index --repair") {
		t.Errorf("error %v", err)
	}
	if _, err := prefix.RepairIndex(c.prefix("")); err != nil {
		t.Fatal(err)
	}
	c.job(four, restarts(2))
}

// What a copy in the background that was cut short has left is removed by the flush that
// follows.
func TestRecord_NothingLeftAside(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=0")
	c.job(four, steps(1))
	c.set("SCR_FLUSH=1")
	aside := func() (list []string) {
		_ = filepath.WalkDir(c.prefix(""), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".flush") {
				list = append(list, path)
			}
			return err
		})
		return list
	}
	c.job(four, func(s *Session, rank int) error {
		own, _ := redundancy.Split(s.cache.Files(1))
		if len(own) == 0 {
			return errors.New("no files")
		}
		to := prefix.Aside(c.prefix(own[0].Meta.File()), 1, prefix.ByFlush)
		err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, []byte("half"), 0o600))
		if err := errors.Join(s.Agree(err), s.prefix.GiveUpFlush(s.cache.List()[0].Dataset)); err != nil {
			return err
		}
		if len(aside()) == 0 {
			return errors.New("nothing is there to be removed")
		}
		return s.Finalize()
	})
	c.whole(1, 4)
	if left := aside(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A restart does not continue from what is newer than the current checkpoint, and says so.
func TestFetch_NewerThanCurrent(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2, 3))
	c.lose(four...)
	if err := prefix.UpdateIndex(c.prefix(""), func(x *prefix.Index) error { return x.SetCurrent(name(2)) }); err != nil {
		t.Fatal(err)
	}
	c.change(c.prefix("ckpt.2/rank_0"), flip)
	c.job(four, restarts(1))
	c.says("newer than ckpt.2, which was made the current checkpoint, and not tried: ckpt.3; to restart from one, scr_index --current NAME")
}

// A checkpoint that is deleted, or leaves by SCR_PREFIX_SIZE, is nowhere any more.
func TestRecord_Deleted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_SIZE=1", "SCR_PREFIX_SIZE=2")
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(steps(1, 2, 3)(s, rank), s.Delete(name(3)), s.Finalize())
	})
	if got := c.places(1) + c.places(2) + c.places(3); got != "[][PFS][]" {
		t.Error(got)
	}
}

// A file about the job that is damaged is set aside: neither Init nor Finalize fails.
func TestRecord_Damaged(t *testing.T) {
	t.Parallel()
	for _, name := range sample.Of(t, []string{"flush.scr", "halt.scr", "nodes.scr", "ranks.scr", "restart.scr", "runs.scr"}, 2, sample.Every) {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.job(four, steps(1, 2))
			c.job(four, restarts(2))
			if err := os.WriteFile(c.prefix(".scr/"+name), []byte("not a hash"), 0o600); err != nil {
				t.Fatal(err)
			}
			c.job(four, func(s *Session, rank int) error { return errors.Join(restartAt(s, rank, 2), s.Finalize()) })
			c.says(name + ".damaged, and a new one is begun")
		})
	}
}

// scr_run has to know where each rank runs before it can start some of them elsewhere.
func TestRecord_RanksOfNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	must(t, os.MkdirAll(c.prefix(".scr"), 0o700))
	held, err := lock.Try(request.LoopPath(c.prefix("")), lock.Exclusive) // as scr_run does
	must(t, err)
	for _, nodes := range [][]string{{"a", "b", "a", "c"}, {"c", "b"}} {
		c.job(nodes, steps(1))
		got, err := prefix.ReadRanks(c.prefix(".scr/ranks.scr"))
		if err != nil || !slices.Equal(got, nodes) {
			t.Errorf("%q, %v, want %q", got, err, nodes)
		}
	}
	held.Release()
	c.job([]string{"a", "b"}, steps(2))
	if got, err := prefix.ReadRanks(c.prefix(".scr/ranks.scr")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without scr_run: %q, %v", got, err)
	}
}
