package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/test/sample"
	"github.com/goscr/goscr/test/storagetest"
)

// fill fills the file system of a directory to its last block, and then makes so many
// bytes of room.
func (c *cluster) fill(dir string, room int64) (empty func()) {
	c.t.Helper()
	path := filepath.Join(dir, "filler")
	if err := storagetest.Fill(path); !errors.Is(err, unix.ENOSPC) {
		c.t.Fatal(err)
	}
	if room > 0 {
		info, err := os.Stat(path)
		c.must(err)
		c.must(os.Truncate(path, info.Size()-room))
	} else if free := c.free(dir); free != 0 {
		c.t.Fatalf("%d bytes are free", free)
	}
	return func() { c.must(os.Remove(path)) }
}

// free is how many bytes of room there are.
func (c *cluster) free(dir string) int64 {
	c.t.Helper()
	var st unix.Statfs_t
	c.must(unix.Statfs(dir, &st))
	return int64(st.Bfree) * st.Bsize
}

// mounted makes a small file system for a directory of a cluster. It returns nil in the
// process that only starts the test again.
func mounted(t *testing.T, dir string, env ...string) *cluster {
	c := newCluster(t, env...)
	if root := storagetest.Dir(); root != "" {
		c.at(root)
		return c
	}
	if err := os.Mkdir(filepath.Join(c.root, dir), 0o700); err != nil {
		t.Fatal(err)
	}
	storagetest.AgainMounted(t, c.root, `mount -t tmpfs -o size=1m none "$dir/`+dir+`"`)
	return nil
}

// A prefix directory that is full to its last block: a failed flush leaves nothing in it,
// later runs restart from the cache, or from what is in it, and once there is room the
// next flush succeeds.
func TestFull_Prefix(t *testing.T) {
	t.Parallel()
	for _, async := range []string{"0", "1"} {
		for _, room := range []int64{0, 8 << 10, 20 << 10} {
			t.Run(fmt.Sprintf("async=%s,room=%d", async, room), func(t *testing.T) {
				c := mounted(t, "prefix", "SCR_FLUSH=1", "SCR_HALT_SECONDS=1", "SCR_FLUSH_ASYNC="+async, "SCR_FLUSH_TYPE=PTHREAD")
				if c == nil {
					return
				}
				c.job(four, func(s *Session, rank int) error {
					return errors.Join(checkpoint(s, rank, 1), s.Finalize())
				})
				empty := c.fill(c.prefix(""), room)
				before := c.free(c.prefix(""))
				c.job(four, func(s *Session, rank int) error {
					if err := checkpoint(s, rank, 2); err != nil {
						return err
					}
					s.flusher.Background.Drain()
					if err := s.Agree(nil); err != nil { // a copy of another rank
						return err
					}
					return s.flusher.Poll()
				})
				c.says(unix.ENOSPC.Error())
				if _, err := os.Lstat(c.prefix(name(2))); !os.IsNotExist(err) {
					t.Errorf("something is left of the failed flush: %v", err)
				}
				if after := c.free(c.prefix("")); after < before-4096 { // a new entry in a file of goscr's
					t.Errorf("%d bytes are free, before it were %d", after, before)
				}
				for range 2 {
					c.job(four, restarts(2))
				}
				c.set("SCR_CURRENT=ckpt.1", "SCR_JOB_ID=job")
				c.job(four, func(s *Session, rank int) error { return restartAt(s, rank, 1) })
				c.set("SCR_CURRENT=")
				c.lose(four...)
				c.job(four, restarts(1))
				c.job(four, func(s *Session, rank int) error {
					if err := restartAt(s, rank, 1); err != nil {
						return err
					}
					return checkpoint(s, rank, 3)
				})
				c.job(four, restarts(3))
				empty()
				c.job(four, func(s *Session, rank int) error {
					if err := restartAt(s, rank, 3); err != nil {
						return err
					}
					return errors.Join(checkpoint(s, rank, 4), s.Finalize())
				})
				c.lose(four...)
				c.job(four, restarts(4))
			})
		}
	}
}

// Storage of the nodes that is full to its last block, also since the run before has died
// of it in the middle of a checkpoint: what is whole in it is used, and once there is room
// the next checkpoint succeeds.
func TestFull_Store(t *testing.T) {
	t.Parallel()
	for _, nodes := range [][]string{four, on(2, "a", "b")} {
		for _, writing := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,writing=%v", strings.Join(nodes, ""), writing), func(t *testing.T) {
				c := mounted(t, "node")
				if c == nil {
					return
				}
				c.job(nodes, steps(1, 2))
				node := filepath.Join(c.root, "node")
				if writing {
					c.job(nodes, func(s *Session, rank int) error {
						if err := s.StartOutput(name(3), Checkpoint); err != nil {
							return err
						}
						if err := s.Agree(nil); err != nil {
							return err
						}
						if rank == 0 {
							c.fill(node, 0)
						}
						if err := s.Agree(nil); err != nil {
							return err
						}
						_ = write(s, contents(3, rank)) // fails on some or all ranks
						return nil
					})
					c.must(os.Rename(filepath.Join(node, "filler"), filepath.Join(node, "filler.1")))
				}
				empty := c.fill(node, 0)
				for range 2 {
					c.job(nodes, restarts(2))
				}
				empty()
				_ = os.Remove(filepath.Join(node, "filler.1"))
				c.job(nodes, func(s *Session, rank int) error {
					return errors.Join(restartAt(s, rank, 2), checkpoint(s, rank, 4))
				})
				c.job(nodes, restarts(4))
			})
		}
	}
}

// Redundancy that a run could not make is made by a repair in the same run, and flush.scr says so.
func TestFull_RedundancyAfterRepair(t *testing.T) {
	t.Parallel()
	c := mounted(t, "node")
	if c == nil {
		return
	}
	c.job(four, steps(1, 2))
	for _, node := range four {
		c.must(os.Remove(c.redundant(node, 2)))
	}
	exposed := func() bool {
		list, err := prefix.Locations(c.prefix(""))
		return err != nil || slices.ContainsFunc(list, func(l prefix.Located) bool { return l.ID == 2 && l.Is(prefix.Exposed) })
	}
	empty := c.fill(filepath.Join(c.root, "node"), 0)
	c.job(four, func(s *Session, rank int) error {
		if err := restartAt(s, rank, 2); err != nil {
			return err
		}
		if before := exposed(); !before || !s.cache.Find(2).Exposed() {
			return fmt.Errorf("exposed: %v, in flush.scr: %v", s.cache.Find(2).Exposed(), before)
		}
		s.world.Barrier()
		if rank == 0 {
			empty()
		}
		s.world.Barrier()
		err := s.flusher.Remake()
		s.world.Barrier() // rank 0 has written flush.scr
		if after := exposed(); err != nil || after || s.cache.Find(2).Exposed() {
			return fmt.Errorf("after the repair: exposed: %v, in flush.scr: %v, %w", s.cache.Find(2).Exposed(), after, err)
		}
		return nil
	})
}

// Redundancy that is lost, and cannot be made again for lack of room: the checkpoint is used
// without it, and protected by the next run that has the room.
func TestFull_NoRoomForRedundancy(t *testing.T) {
	t.Parallel()
	c := mounted(t, "node", "SCR_DEBUG=1")
	if c == nil {
		return
	}
	c.job(four, steps(1, 2))
	for _, node := range four {
		c.must(os.Remove(c.redundant(node, 2)))
	}
	empty := c.fill(filepath.Join(c.root, "node"), 0)
	c.job(four, restarts(2))
	c.says("its redundancy is lost and cannot be made again")
	exposed := func() bool {
		list, err := prefix.Locations(c.prefix(""))
		c.must(err)
		return slices.ContainsFunc(list, func(l prefix.Located) bool { return l.ID == 2 && l.Is(prefix.Exposed) })
	}
	if !exposed() {
		t.Error("flush.scr has it as protected")
	}
	empty()
	c.job(four, restarts(2))
	if exposed() {
		t.Error("flush.scr has it as not protected")
	}
	c.says("redundancy was made again, 4 of 4 ranks had lost theirs")
	c.lose("c")
	c.job(four, restarts(2))
}

// A store that is full is told as such, with the bytes: the program whose write has failed
// only knows that its file is not valid. The next Init warns that there is too little room.
func TestFull_IsToldAsSuch(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("size known=%v", known), func(t *testing.T) {
			c := mounted(t, "node")
			if c == nil {
				return
			}
			if known {
				c.job(four, steps(1))
			}
			empty := func() {}
			var each everyRank
			c.job(four, func(s *Session, rank int) error {
				if err := s.StartOutput(name(2), Checkpoint); err != nil {
					return err
				}
				if rank == 0 {
					empty = c.fill(filepath.Join(c.root, "node"), 0)
				}
				if err := s.Agree(nil); err != nil {
					return err
				}
				err := write(s, contents(2, rank))
				if rank > 0 { // what it wrote has just fitted
					err = nil
				}
				each.is(rank, s.CompleteOutput(err == nil))
				return nil
			})
			each.failed(t, len(four), "is full: 0 B free")
			each.failed(t, len(four), "choose another directory with SCR_CACHE_BASE")
			if known {
				each.failed(t, len(four), "a dataset takes ")
			}
			empty()
			c.job(four, steps(3))
			if known {
				if strings.Contains(c.said(), "has room for") {
					t.Error(c.said())
				}
				empty = c.fill(filepath.Join(c.root, "node"), 4096)
				c.set("SCR_CACHE_SIZE=9")
				c.job(four, func(s *Session, rank int) error { return nil })
				c.says("has room for ")
				c.says("SCR_CACHE_SIZE=9")
				empty()
			}
		})
	}
}

// A store that is merely tight is not to blame if the program itself says that files which it
// has written are not valid, or if a checkpoint is damaged in the prefix directory.
func TestFull_TightIsNotFull(t *testing.T) {
	t.Parallel()
	c := mounted(t, "node", "SCR_FLUSH=1", "SCR_CACHE_SIZE=3", "SCR_DEBUG=1")
	if c == nil {
		return
	}
	c.job(four, steps(1, 2))
	node := filepath.Join(c.root, "node")
	var each everyRank
	empty := func() {}
	c.job(four, func(s *Session, rank int) error {
		if err := errors.Join(restartAt(s, rank, 2), s.StartOutput(name(3), Checkpoint), write(s, contents(3, rank))); err != nil {
			return err
		}
		if err := s.Agree(nil); err != nil {
			return err
		}
		if rank == 0 {
			empty = c.fill(node, 4096)
		}
		if err := s.Agree(nil); err != nil {
			return err
		}
		each.is(rank, s.CompleteOutput(rank != 2))
		return nil
	})
	each.failed(t, len(four), "are not valid")
	for _, err := range each.errs {
		if err == nil || strings.Contains(err.Error(), "is full") {
			t.Error(err)
		}
	}
	empty()
	for _, f := range contents(1, 1) {
		if len(f.data) > 0 {
			c.change(c.prefix(f.name), flip)
		}
	}
	c.lose("a", "b") // no dataset in the caches is whole then, and ckpt.1 is fetched
	for _, name := range four {
		c.must(os.MkdirAll(c.node(name), 0o700))
	}
	c.set("SCR_CURRENT=ckpt.1")
	empty = c.fill(node, 80<<10)
	c.job(four, func(s *Session, rank int) error { return nil })
	empty()
	c.says("ckpt.1")
	if said := c.said(); strings.Contains(said, "is full") || !strings.Contains(said, "is corrupt") {
		t.Error(said)
	}
}

// Files with holes that are larger than the storage of the nodes: they are protected, kept, flushed, rebuilt and
// fetched, and no message says that there is too little room.
func TestFull_SparseFilesFit(t *testing.T) {
	t.Parallel()
	ways := [][]string{{"SCR_COPY_TYPE=XOR"}, {"SCR_COPY_TYPE=PARTNER"}, {"SCR_COPY_TYPE=XOR", "SCR_ENCODE_ASYNC=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=PTHREAD"}}
	for _, env := range sample.Of(t, ways, 1, 1) {
		t.Run(strings.Join(env, ","), func(t *testing.T) {
			const size = 8 << 20
			c := mounted(t, "node", append(env, "SCR_FLUSH=1")...)
			if c == nil {
				return
			}
			at := func(step, rank int) int64 { return int64(step*100_000 + rank) }
			writes := func(s *Session, rank, step int) error {
				if err := s.StartOutput(name(step), Checkpoint); err != nil {
					return err
				}
				path, err := s.Route(fmt.Sprintf("%s/%d", c.prefix(name(step)), rank))
				if err != nil {
					return err
				}
				f, err := os.Create(path)
				if err != nil {
					return err
				}
				_, err = f.WriteAt([]byte("data"), at(step, rank))
				return errors.Join(err, f.Truncate(size), f.Close(), s.CompleteOutput(true))
			}
			reads := func(s *Session, rank int) error {
				if got, err := offered(s); err != nil || got != name(3) {
					return fmt.Errorf("offered %q (%w)", got, err)
				}
				if _, err := s.StartRestart(); err != nil {
					return err
				}
				path, err := s.Route(fmt.Sprintf("%s/%d", c.prefix(name(3)), rank))
				if err != nil {
					return err
				}
				data, err := os.ReadFile(path)
				if err != nil || len(data) != size || string(data[at(3, rank):][:4]) != "data" {
					return fmt.Errorf("%d bytes (%w)", len(data), err)
				}
				return errors.Join(s.CompleteRestart(true), s.Finalize())
			}
			quiet := func() {
				t.Helper()
				for _, text := range []string{"has room for", "is full", "corrupt", "cannot"} {
					if strings.Contains(c.said(), text) {
						t.Errorf("%s", c.said())
						return
					}
				}
			}
			c.job(four, func(s *Session, rank int) error {
				return errors.Join(writes(s, rank, 1), writes(s, rank, 2), writes(s, rank, 3), s.Finalize())
			})
			quiet()
			c.job(four, reads)
			quiet()
			c.lose("b")
			c.job(four, reads)
			quiet()
			c.lose(four...)
			c.job(four, reads)
			quiet()
		})
	}
}

// A fetch for which the storage of the nodes has no room is an error, not a beginning, and marks nothing as failed: with room the
// run restarts.
func TestFull_Fetch(t *testing.T) {
	t.Parallel()
	c := mounted(t, "node", "SCR_FLUSH=1")
	if c == nil {
		return
	}
	c.job(four, steps(1, 2))
	c.lose(four...)
	empty := c.fill(c.node(""), 64<<10) // for what Init makes
	for range 2 {
		err := c.try(four, restarts(2))
		for _, text := range []string{"checkpoint ckpt.2 cannot be fetched: ", "no space left on device", "it is not marked as failed"} {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%q is missing: %v\n%s", text, err, c.said())
			}
		}
	}
	empty()
	c.job(four, restarts(2))
}

// SCR_CURRENT names a checkpoint for which there is no room: Init fails, and what is in the cache stays.
func TestFull_FetchOfTheCurrent(t *testing.T) {
	t.Parallel()
	c := mounted(t, "node", "SCR_CACHE_SIZE=3")
	if c == nil {
		return
	}
	c.set("SCR_FLUSH=1")
	c.job(four, steps(1))
	c.lose(four...)
	c.set("SCR_FLUSH=0", "SCR_FETCH=0")
	c.job(four, steps(2, 3)) // in the cache only
	c.set("SCR_FETCH=1", "SCR_CURRENT=ckpt.1")
	empty := c.fill(c.node(""), 0)
	if err := c.try(four, restarts(1)); err == nil || !strings.Contains(err.Error(), "checkpoint ckpt.1 cannot be fetched") {
		t.Errorf("%v\n%s", err, c.said())
	}
	empty()
	c.set("SCR_CURRENT=")
	c.job(four, restarts(3))
}

// The memory of a job ends before its RAM disk does. The first checkpoint that is protected
// tells how much all need, in the foreground and in the background, and so does the next run.
func TestFull_Memory(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"SCR_ENCODE_ASYNC=0", "SCR_ENCODE_ASYNC=1"} {
		t.Run(env, func(t *testing.T) {
			c := newCluster(t, env)
			if !inMemory(t, c.root) {
				t.Skip("the caches are not in memory")
			}
			dir := storagetest.Dir()
			if dir == "" {
				storagetest.AgainInMemory(t, c.root, 512<<20)
				return
			}
			c.at(dir)
			large := func(s *Session, rank int) error {
				if err := s.StartOutput(name(1), Checkpoint); err != nil {
					return err
				}
				path, err := s.Route(fmt.Sprintf("%s/%d", c.prefix(name(1)), rank))
				if err == nil {
					data := make([]byte, 4<<20)
					rand.NewChaCha8([32]byte{byte(rank)}).Read(data) // the redundancy of zeros has holes
					err = os.WriteFile(path, data, 0o600)
				}
				return errors.Join(err, s.CompleteOutput(true), s.Finalize())
			}
			warns := func() bool { return strings.Contains(c.said(), "is memory, of which the job may use 512.0 MiB") }
			c.job(four, large)
			if warns() {
				t.Errorf("3 of 6 MiB on each node are too many: %s", c.said())
			}
			c.set("SCR_CACHE_SIZE=99")
			c.job(four, func(s *Session, rank int) error { return nil })
			if !warns() {
				t.Errorf("the second run says nothing: %s", c.said())
			}
			c.lose(four...)
			c.job(four, large)
			if !warns() {
				t.Errorf("the first run says nothing: %s", c.said())
			}
			c.says("SCR_CACHE_SIZE=99 keeps 99 datasets")
			c.says("--mem")
		})
	}
}
