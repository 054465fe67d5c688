package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// worldLines make checkpoints stay in storage that all nodes share.
var worldLines = []string{"STORE=$SHARED GROUP=WORLD", "CKPT=0 STORE=$SHARED"}

// sharedSteps is a program that writes checkpoints of which all ranks write one file
// (sharedCheckpoint).
func sharedSteps(list ...int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error {
		for _, step := range list {
			if err := sharedCheckpoint(s, rank, step); err != nil {
				return err
			}
		}
		return nil
	}
}

func (c *cluster) sharedRestarts(step, ranks int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error { return sharedRestart(s, rank, step, ranks) }
}

// listed returns the entries for a file of a dataset in the list of files, by rank.
func (c *cluster) listed(id int, name string) map[int]meta.Meta {
	c.t.Helper()
	found := map[int]meta.Meta{}
	x, err := prefix.ReadIndex(c.prefix(""))
	if err == nil {
		err = prefix.Walk(c.prefix(""), x.ByID(id), func(rank int, files []redundancy.File) error {
			for _, f := range files {
				if f.Meta.File() == name {
					found[rank] = f.Meta
				}
			}
			return nil
		})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return found
}

// A file that all ranks write in storage that all nodes share is one file: nothing moves
// when ranks move, a lost node takes nothing away, one flush has it once and whole, with
// its checksum, and a fetch brings it once.
func TestWorld_SeveralRanksWriteOneFile(t *testing.T) {
	t.Parallel()
	for _, how := range sample.Of(t, [][]string{
		{"SCR_FLUSH=1"},
		{"SCR_FLUSH=1", "SCR_FLUSH_COMPRESS=zstd"},
		{"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1"},
		{"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=DAEMON", "SCR_FLUSH_COMPRESS=zstd"},
		{"SCR_FLUSH=1", "SCR_COPY_METADATA=0"},
	}, 2, 3) {
		t.Run(strings.Join(how, " "), func(t *testing.T) {
			c := newCluster(t, how...)
			c.configure(worldLines...)
			nodes := on(2, "a", "b", "c", "d")
			c.job(nodes, func(s *Session, rank int) error {
				return errors.Join(sharedSteps(1, 2)(s, rank), s.Finalize())
			})
			c.serving.Wait()
			c.says("they are kept with SINGLE")
			if shared, cache := c.in("a", "shared"), c.in("a", "cache"); shared != "1 2" || cache != "" {
				t.Errorf("%q, and %q in the cache", shared, cache)
			}
			if e := c.index()["ckpt.2"]; !e.Complete || e.Files() != 9 || e.Size() != 1600 {
				t.Errorf("%+v: %d files, %d bytes", e, e.Files(), e.Size())
			}
			c.wholeInPrefix()
			for rank, md := range c.listed(2, "ckpt.2/all") {
				if _, known := md.CRC(); known != (rank == 0) || md.Shared() != (rank > 0) {
					t.Errorf("rank %d: checksum %v, shared %v", rank, known, md.Shared())
				}
			}
			if n := len(c.listed(2, "ckpt.2/all")); n != 8 {
				t.Errorf("%d ranks list the file", n)
			}

			moved := on(2, "d", "c", "a", "b")
			for _, nodes := range [][]string{nodes, moved} {
				c.job(nodes, c.sharedRestarts(2, 8))
				c.says("as it was in the cache")
			}
			c.lose("b", "c")
			c.job(moved, c.sharedRestarts(2, 8))
			c.says("as it was in the cache")
			c.job(nodes, func(s *Session, rank int) error { // which evicts the first
				return errors.Join(sharedRestart(s, rank, 2, 8), sharedCheckpoint(s, rank, 3))
			})
			if shared := c.in("a", "shared"); shared != "2 3" {
				t.Errorf("%q", shared)
			}
			c.job(nodes, func(s *Session, rank int) error { return s.Delete("ckpt.3") })
			if shared := c.in("a", "shared"); shared != "2" {
				t.Errorf("after a deletion: %q", shared)
			}
			if _, err := os.Stat(c.prefix("ckpt.3")); err == nil {
				t.Error("the prefix directory has what was deleted")
			}

			if err := os.RemoveAll(filepath.Join(c.root, "shared")); err != nil {
				t.Fatal(err)
			}
			c.job(moved, c.sharedRestarts(2, 8))
			c.says("checkpoint ckpt.2: fetched 1.6 KiB")
			c.job(nodes, c.sharedRestarts(2, 8))
			c.says("as it was in the cache")

			// The storage of a node cannot have such a file.
			c.configure("CKPT=0 TYPE=XOR")
			if err := os.RemoveAll(filepath.Join(c.root, "shared")); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(fmt.Sprint(how), "COMPRESS") {
				c.job(nodes, restarts(0))
				c.says("since several ranks have one file")
				return
			}
			c.job(nodes, c.sharedRestarts(2, 8))
			c.says("read where they are")
		})
	}
}

// A file of some ranks only, not of the lowest, and beside it datasets without any.
func TestWorld_SomeRanksShare(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.configure(worldLines...)
	write := func(s *Session, rank int) error {
		if err := s.StartOutput(name(2), Checkpoint); err != nil {
			return err
		}
		if rank > 0 {
			path, err := s.Route(c.prefix(fmt.Sprintf("ckpt.2/pair_%d", rank/2)))
			if err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(part(2, rank), int64(100*(rank%2)))
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
		}
		return s.CompleteOutput(true)
	}
	c.job(four, func(s *Session, rank int) error {
		return errors.Join(steps(1)(s, rank), write(s, rank), steps(3)(s, rank))
	})
	if e := c.index()["ckpt.2"]; e.Files() != 2 || e.Size() != 400 {
		t.Errorf("%d files, %d bytes", e.Files(), e.Size())
	}
	c.wholeInPrefix()
	c.job(four, restarts(3))
	c.job(four, func(s *Session, rank int) error { return s.Delete("ckpt.3") })
	c.lose(four...) // with all that is known of the store
	c.job([]string{"d", "c", "b", "a"}, func(s *Session, rank int) error {
		if got, err := offered(s); err != nil || got != "ckpt.2" {
			return fmt.Errorf("offered %q, %v", got, err)
		}
		if _, err := s.StartRestart(); err != nil {
			return err
		}
		var err error
		if rank > 0 {
			var path string
			if path, err = s.Route(c.prefix(fmt.Sprintf("ckpt.2/pair_%d", rank/2))); err == nil {
				data, e := os.ReadFile(path)
				at := 100 * (rank % 2)
				if err = e; err == nil && !slices.Equal(data[at:at+100], part(2, rank)) {
					err = fmt.Errorf("%s is not what was written", path)
				}
			}
		}
		return errors.Join(mpi.Agree(s.world, err), s.CompleteRestart(true))
	})
	c.says("checkpoint ckpt.2: fetched")
}

// Ranks name one file by different paths: with dots, by a link to the prefix directory, and
// by a link below it.
func TestWorld_OneFileOfManyNames(t *testing.T) {
	t.Parallel()
	for _, bypass := range []bool{false, true} {
		c := newCluster(t, "SCR_FLUSH=1")
		c.configure(worldLines...)
		if bypass {
			c.configure()
			c.set("SCR_CACHE_BYPASS=1")
		}
		err := errors.Join(os.Symlink(c.prefix(""), filepath.Join(c.root, "link")), os.Mkdir(c.prefix("real"), 0o700), os.Symlink("real", c.prefix("alias")))
		if err != nil {
			t.Fatal(err)
		}
		names := []string{c.prefix("real/file"), c.prefix("./x/..//real/file"), filepath.Join(c.root, "link/real/file"), c.prefix("alias/file")}
		c.job(four, func(s *Session, rank int) error {
			if err := s.StartOutput(name(1), Checkpoint); err != nil {
				return err
			}
			path, err := s.Route(names[rank])
			if err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(part(1, rank), int64(100*rank))
			return errors.Join(err, f.Close(), s.CompleteOutput(true))
		})
		if e := c.index()["ckpt.1"]; e.Files() != 1 || e.Size() != 400 {
			t.Errorf("bypass %v: %d files, %d bytes", bypass, e.Files(), e.Size())
		}
		if n := len(c.listed(1, "real/file")); n != 4 {
			t.Errorf("bypass %v: %d ranks list the file", bypass, n)
		}
		c.job([]string{"d", "c", "b", "a"}, func(s *Session, rank int) error {
			if got, err := offered(s); err != nil || got != name(1) {
				return fmt.Errorf("offered %q, %v", got, err)
			}
			if _, err := s.StartRestart(); err != nil {
				return err
			}
			path, err := s.Route(names[rank])
			if err == nil {
				var data []byte
				if data, err = os.ReadFile(path); err == nil && !slices.Equal(data[100*rank:100*rank+100], part(1, rank)) {
					err = fmt.Errorf("%s is not what was written", path)
				}
			}
			return errors.Join(mpi.Agree(s.world, err), s.CompleteRestart(true))
		})
	}
}

// A link below the prefix directory does not lead to goscr's own files.
func TestWorld_LinkToMetadata(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.configure(worldLines...)
	if err := os.Symlink(".scr", c.prefix("alias")); err != nil {
		t.Fatal(err)
	}
	var each everyRank
	c.job(four, func(s *Session, rank int) error {
		if err := s.StartOutput("bad", Checkpoint); err != nil {
			return err
		}
		_, err := s.Route(c.prefix("alias/index.scr"))
		each.is(rank, err)
		if s.CompleteOutput(true) == nil {
			return errors.New("no error")
		}
		return nil
	})
	each.failed(t, 4, "reserved for goscr's own files")
}

// Ranks that disagree about a dataset leave nothing of it, and the next is none the worse.
func TestWorld_RanksDisagree(t *testing.T) {
	t.Parallel()
	for what, of := range map[string]func(s *Session, path string) (valid bool){
		"are not valid": func(*Session, string) bool { return false },
		"was routed to": func(s *Session, _ string) bool {
			_, err := s.Route(filepath.Join(s.prefix.Dir, "never"))
			return err == nil
		},
		"is not a regular file":                   func(_ *Session, path string) bool { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) == nil },
		"write every file that is routed, or say": func(_ *Session, path string) bool { return os.Remove(path) == nil },
	} {
		c := newCluster(t, "SCR_FLUSH=1")
		c.configure(worldLines...)
		var each everyRank
		c.job(four, func(s *Session, rank int) error {
			if err := sharedCheckpoint(s, rank, 1); err != nil {
				return err
			}
			if err := s.StartOutput("bad", Checkpoint); err != nil {
				return err
			}
			path, err := s.Route(c.prefix("bad/all"))
			if err != nil {
				return err
			}
			if err := errors.Join(os.WriteFile(path, []byte("text"), 0o600), meet(s.world)); err != nil {
				return err
			}
			each.is(rank, s.CompleteOutput(rank != 2 || of(s, path)))
			return sharedCheckpoint(s, rank, 3)
		})
		each.failed(t, 4, what)
		if shared := c.in("a", "shared"); shared != "1 3" {
			t.Errorf("%s: %q", what, shared)
		}
		c.wholeInPrefix()
		c.job([]string{"d", "a", "c", "b"}, c.sharedRestarts(3, 4))
	}
}

// Storage of nodes is not storage of all, whatever a line says.
func TestWorld_StorageThatNodesDoNotShare(t *testing.T) {
	t.Parallel()
	lines := []string{"STORE=$SSD GROUP=WORLD", "STORE=$SSD VIEW=GLOBAL", "STORE=$SSD GROUP=RACK"}
	for _, line := range sample.Of(t, lines, 1, len(lines)) {
		c := newCluster(t)
		c.configure(line, "CKPT=0 STORE=$SSD", "GROUPS=a RACK=0", "GROUPS=b RACK=0", "GROUPS=c RACK=1", "GROUPS=d RACK=1")
		var each everyRank
		_, err := local.Run(8, c.opt, func(world mpi.Comm) error {
			_, err := Init(world, c.options(on(2, four...)[world.Rank()]))
			each.is(world.Rank(), err)
			world.Barrier()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		each.failed(t, 8, "does not see what rank")
		if left, _ := filepath.Glob(filepath.Join(c.node("*"), "ssd/user/scr.job/*")); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}

// What is in such a store is used when the line about it is gone, wherever the ranks are.
func TestWorld_LineIsGone(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{{"CKPT=0 TYPE=XOR"}, {"STORE=$SHARED", "CKPT=0 STORE=$SHARED"}} {
		c := newCluster(t)
		c.configure(worldLines...)
		c.job(four, sharedSteps(1, 2))
		c.lose("b")
		c.configure(lines...)
		moved := []string{"d", "e", "c", "a"}
		c.job(moved, c.sharedRestarts(2, 4))
		c.says("as it was in the cache")
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(sharedRestart(s, rank, 2, 4), steps(3, 4, 5)(s, rank))
		})
		if left, _ := filepath.Glob(filepath.Join(c.root, "shared/user/scr.job/scr.dataset.[12]")); len(left) > 0 {
			t.Errorf("%q: left: %q", lines, left)
		}
		c.job(four, restarts(5))
	}
}

// A file of several ranks that has changed is found by the rank that owns it.
func TestWorld_Corrupt(t *testing.T) {
	t.Parallel()
	for flush, step := range map[string]int{"SCR_FLUSH=0": 1, "SCR_FLUSH=1": 2} {
		c := newCluster(t, flush)
		c.configure(worldLines...)
		c.job(four, sharedSteps(1, 2))
		c.change(filepath.Join(c.root, "shared/user/scr.job/scr.dataset.2/ckpt.2/all"), flip)
		c.job(four, c.sharedRestarts(step, 4)) // the older one, or what was flushed
		c.says("is corrupt")
	}
}

// SCR 3.1 lists a file with each rank that has it, and does not say that there are others.
// A checkpoint that it has left is used wherever the next goes.
func TestWorld_ListOfSCR31(t *testing.T) {
	t.Parallel()
	for _, world := range []bool{false, true} {
		c := newCluster(t, "SCR_FLUSH=1")
		c.configure(worldLines...)
		c.job(four, sharedSteps(1))
		c.asOfSCR31(1, 8, 4*100+4*400)
		if err := os.RemoveAll(filepath.Join(c.root, "shared")); err != nil {
			t.Fatal(err)
		}
		c.lose(four...)
		says := "ckpt.1: fetched"
		if !world {
			c.configure("CKPT=0 TYPE=XOR")
			says = "read where they are"
		}
		c.job(four, c.sharedRestarts(1, 4))
		c.says(says)
	}
}

// asOfSCR31 leaves in the metadata of a dataset what SCR 3.1 writes, which counts a file of
// several ranks with each.
func (c *cluster) asOfSCR31(id, files, bytes int) {
	c.t.Helper()
	describe := func(h *hash.Hash) {
		h.SetInt("FILES", int64(files))
		h.SetInt("SIZE", int64(bytes))
	}
	c.edit(c.prefix(".scr/index.scr"), func(h *hash.Hash) {
		describe(h.GetKVInt("DSET", id).Get("DSET"))
		h.GetKVInt("DSET", id).Unset("OWNS")
	})
	dir := c.prefix(fmt.Sprintf(".scr/scr.dataset.%d/", id))
	c.edit(filepath.Join(dir, "summary.scr"), func(h *hash.Hash) {
		describe(h.Get("DSET"))
		h.Unset("OWNS")
	})
	leaves, err := filepath.Glob(filepath.Join(dir, "rank2file.*"))
	if err != nil || len(leaves) == 0 {
		c.t.Fatalf("%v, %v", leaves, err)
	}
	for _, path := range leaves {
		c.edit(path, func(h *hash.Hash) {
			for _, rank := range h.Get("RANK").All() {
				for _, fields := range rank.Get("FILE").All() {
					for _, key := range fields.Keys() {
						fields.Unset(key)
					}
				}
			}
		})
	}
}

func TestKilled_WhileRanksWriteOneFile(t *testing.T) {
	t.Parallel()
	for _, moves := range []bool{false, true} {
		c := newCluster(t, "SCR_FLUSH=1")
		c.configure(worldLines...)
		c.job(four, sharedSteps(1))
		nodes := four
		if moves {
			nodes = []string{"c", "d", "a", "b"}
		}
		kills(t, c, nodes, func(s *Session, rank int) error {
			return errors.Join(sharedRestart(s, rank, 1, 4), sharedCheckpoint(s, rank, 2))
		}, func(at int64) {
			if at%2 == 0 {
				c.lose("b")
			}
			nodes := [][]string{four, {"d", "c", "b", "a"}}[at/2%2]
			step := 1
			c.job(nodes, func(s *Session, rank int) error {
				got, err := offered(s)
				if err != nil {
					return err
				}
				if got == name(2) {
					return sharedRestart(s, rank, 2, 4)
				}
				return sharedRestart(s, rank, step, 4)
			})
			c.wholeInPrefix()
		})
	}
}

// wholeInPrefix fails the test if a dataset that is complete is not as it was written.
func (c *cluster) wholeInPrefix() {
	c.t.Helper()
	for _, e := range c.index() {
		if !e.Complete {
			continue
		}
		if v, err := prefix.Verify(c.prefix(""), e, nil); err != nil || len(v.Problems) > 0 || v.Unknown > 0 {
			c.t.Errorf("%s: %v, %+v", e.Name, err, v)
		}
	}
}

// A job of another size flushes what it finds in the store, and reads it there.
func TestWorld_AnotherNumberOfRanks(t *testing.T) {
	t.Parallel()
	for _, ranks := range []int{1, 3, 6} {
		c := newCluster(t)
		c.configure(worldLines...)
		c.job(four, sharedSteps(1, 2))
		c.lose("c", "b")
		c.set("SCR_GLOBAL_RESTART=1")
		c.job(on(2, "d", "c", "b", "a")[:ranks], c.sharedRestarts(2, 4))
		c.says("read where they are")
		if e := c.index()["ckpt.2"]; e.Files() != 5 || e.Size() != 800 {
			t.Errorf("%d files, %d bytes", e.Files(), e.Size())
		}
		c.wholeInPrefix()
		c.set("SCR_GLOBAL_RESTART=0")
		c.job(four, c.sharedRestarts(2, 4))
		c.says("as it was in the cache")
	}
}

// The same names in every checkpoint, which the flush of each takes over from the one before.
func TestWorld_SameNameInEveryCheckpoint(t *testing.T) {
	t.Parallel()
	for _, async := range []string{"SCR_FLUSH_ASYNC=0", "SCR_FLUSH_ASYNC=1"} {
		c := newCluster(t, "SCR_FLUSH=1", async)
		c.configure(worldLines...)
		write := func(s *Session, rank, step int) error {
			if err := s.StartOutput(name(step), Checkpoint|Output); err != nil {
				return err
			}
			path, err := s.Route(c.prefix("restart/all"))
			if err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(part(step, rank), int64(100*rank))
			return errors.Join(err, f.Close(), s.CompleteOutput(true))
		}
		c.job(four, func(s *Session, rank int) error {
			return errors.Join(write(s, rank, 1), write(s, rank, 2), write(s, rank, 3), s.Finalize())
		})
		want := slices.Concat(part(3, 0), part(3, 1), part(3, 2), part(3, 3))
		if data, err := os.ReadFile(c.prefix("restart/all")); err != nil || !slices.Equal(data, want) {
			t.Errorf("%s: %v, %d bytes", async, err, len(data))
		}
		whole := 0
		for _, e := range c.index() {
			if e.Complete {
				whole++
			}
		}
		if whole != 1 || !c.index()["ckpt.3"].Complete {
			t.Errorf("%s: %d datasets are complete", async, whole)
		}
		c.wholeInPrefix()
		c.job(four, func(s *Session, rank int) error { return s.Delete("ckpt.3") })
		if _, err := os.Stat(c.prefix("restart/all")); err == nil {
			t.Errorf("%s: the file stays", async)
		}
	}
}
