package session

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/test/sample"
)

func TestSession_RestartsFromTheCache(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error {
		if err := restartAt(s, rank, 0); err != nil {
			return err
		}
		if err := steps(1, 2)(s, rank); err != nil {
			return err
		}
		return s.Finalize()
	})
	for range 2 { // a restart takes nothing away
		c.job(four, restarts(2))
		c.says("as it was in the cache")
	}
	c.job(four, func(s *Session, rank int) error {
		if err := restartAt(s, rank, 2); err != nil {
			return err
		}
		return checkpoint(s, rank, 3)
	})
	c.job(four, restarts(3))
}

func TestSession_AnyNodeLost(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e"}
	for _, per := range sample.Of(t, []int{1, 2, 3}, 1, 3) {
		for n := 2; n <= 5; n += 3 - n%3 {
			t.Run(fmt.Sprintf("%d nodes with %d ranks", n, per), func(t *testing.T) {
				c := newCluster(t)
				nodes := on(per, names[:n]...)
				c.job(nodes, steps(1, 2))
				// One after the other: what was rebuilt must protect the rest.
				for _, lost := range names[:n] {
					c.lose(lost)
					c.job(nodes, restarts(2))
					c.says("rebuilt from redundancy")
				}
			})
		}
	}
}

func TestSession_SpareInPlaceOfANode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(on(2, "a", "b", "c", "d"), steps(1, 2))
	c.lose("b")
	c.job(on(2, "a", "spare", "c", "d"), restarts(2))
	c.says("rebuilt from redundancy")
	c.lose("c")
	c.job(on(2, "a", "spare", "other", "d"), restarts(2))
	c.says("rebuilt from redundancy")
}

func TestSession_RanksComeBackElsewhere(t *testing.T) {
	t.Parallel()
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 0))
	c := newCluster(t)
	nodes := []string{"a", "a", "b", "b", "c", "c", "d", "d"}
	c.job(nodes, steps(1, 2))
	for round := range 6 {
		random.Shuffle(len(nodes), func(i, k int) { nodes[i], nodes[k] = nodes[k], nodes[i] })
		if err := c.try(nodes, restarts(2)); err != nil {
			t.Fatalf("seed %d, round %d, ranks on %v: %v\n%s", seed, round, nodes, err, c.said())
		}
	}
	// The sets are still those of the first run, so two ranks of one may now
	// share a node; a checkpoint from here on is protected from its loss.
	c.job(nodes, func(s *Session, rank int) error {
		if err := restartAt(s, rank, 2); err != nil {
			return err
		}
		return checkpoint(s, rank, 3)
	})
	c.lose("a")
	c.job(nodes, restarts(3))
}

// PBS names the jobs of an array 1234[5].
func TestSession_JobIDWithBrackets(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_JOB_ID=1234[5].host")
	c.job(on(3, "a", "b"), steps(1, 2))
	c.job([]string{"b", "b", "b", "a", "a", "a"}, restarts(2))
	c.says("as it was in the cache")
}

func TestSession_RanksMoveAndANodeIsLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	c.lose("c")
	c.job([]string{"b", "spare", "d", "a"}, restarts(2))
	c.says("rebuilt from redundancy")
	c.lose("d")
	c.job([]string{"a", "b", "spare", "e"}, restarts(2))
	c.says("rebuilt from redundancy")
}

func TestSession_TwoNodesLost(t *testing.T) {
	t.Parallel()
	t.Run("an older one was flushed", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=2")
		c.job(four, steps(1, 2, 3))
		c.lose("a", "c")
		c.job(four, restarts(2))
		c.says("2 of the 4 members of set 0 have lost files, XOR tolerates the loss of 1")
		c.says("2 of 4 ranks (0, 2; now on 2 of the nodes) have lost files")
		c.says("continues from another checkpoint")
		c.says("fetched")
		c.job(four, restarts(2))
	})
	t.Run("nothing was flushed", func(t *testing.T) {
		c := newCluster(t)
		c.job(four, steps(1, 2))
		c.lose("b", "c")
		c.job(four, func(s *Session, rank int) error {
			if err := restartAt(s, rank, 0); err != nil {
				return err
			}
			return checkpoint(s, rank, 3)
		})
		c.says("2 of 4 ranks (1, 2; now on 2 of the nodes) have lost files, and the copies of the descriptions of 1 of them are lost, too; XOR tolerates the loss of 1 of the 4 members")
		for _, node := range []string{"a", "b", "c", "d"} {
			if got := c.datasets(node); !slices.Equal(got, []string{"scr.dataset.3"}) {
				t.Errorf("node %s has %v", node, got)
			}
		}
		c.job(four, restarts(3))
	})
	t.Run("of different sets", func(t *testing.T) {
		c := newCluster(t, "SCR_SET_SIZE=2")
		c.job(four, steps(1, 2)) // sets {a, c} and {b, d}
		c.lose("a", "b")
		c.job(four, restarts(2))
	})
}

func TestSession_OtherNumberOfRanks(t *testing.T) {
	t.Parallel()
	for _, flush := range []string{"0", "1"} {
		for _, nodes := range sample.Of(t, [][]string{{"a", "b", "c"}, {"a", "b", "c", "d", "e"}, {"a", "a", "b", "b", "c", "c", "d", "d"}, {"d"}}, 1, 2) {
			t.Run(fmt.Sprintf("%d ranks, SCR_FLUSH=%s", len(nodes), flush), func(t *testing.T) {
				c := newCluster(t, "SCR_FLUSH="+flush)
				c.job(four, steps(1, 2))
				c.job(nodes, func(s *Session, rank int) error {
					if err := restartAt(s, rank, 0); err != nil {
						return err
					}
					return s.Finalize()
				})
				c.says("ckpt.2 in the cache, and 1 dataset besides, was written by 4 ranks")
				c.says("end this run and start with 4 ranks to restart from it")
				c.job(four, restarts(2))
				if flush == "1" { // and so is that in the prefix directory
					c.lose("a", "b", "c", "d")
					c.job(four, restarts(2))
				}
			})
		}
	}
	t.Run("an output is flushed", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=0")
		unblock := c.block(name(2))
		c.job(four, func(s *Session, rank int) error {
			err := output(s, rank, 1, Checkpoint)
			if failed := output(s, rank, 2, Output); failed == nil {
				err = errors.Join(err, errors.New("the output was flushed"))
			}
			return err
		})
		unblock()
		c.job([]string{"a", "b", "c", "d", "a"}, steps(3))
		if e := c.index()[name(2)]; !e.Complete {
			t.Errorf("%+v\n%s", c.index(), c.said())
		}
		c.says("ckpt.1 in the cache, and 1 dataset besides, was written by 4 ranks, this run has 5")
	})
	t.Run("that writes", func(t *testing.T) {
		c := newCluster(t)
		c.job(four, steps(1, 2))
		c.job([]string{"a", "b", "c"}, steps(3))
		if got := c.datasets("a"); !slices.Equal(got, []string{"scr.dataset.3"}) {
			t.Errorf("node a has %v", got)
		}
		c.job([]string{"a", "b", "c"}, restarts(3))
	})
}

func TestSession_DamageInTheCacheIsRepaired(t *testing.T) {
	t.Parallel()
	data := func(c *cluster) string { return c.cached("a", 2, "ckpt.2/rank_0") }
	xor := func(c *cluster) string { return c.cached("a", 2, ".scr/1_of_4_in_0.xor") }
	for _, kind := range sample.Of(t, []struct {
		name   string
		damage func(c *cluster)
	}{
		{"bit of data", func(c *cluster) { c.change(data(c), flip) }},
		{"bit of redundancy", func(c *cluster) { c.change(xor(c), func(d []byte) []byte { d[len(d)-7] ^= 1; return d }) }},
		{"bit of its header", func(c *cluster) { c.change(xor(c), func(d []byte) []byte { d[60] ^= 1; return d }) }},
		{"end of data", func(c *cluster) { c.change(data(c), cut) }},
		{"end of redundancy", func(c *cluster) { c.change(xor(c), cut) }},
		{"more data", func(c *cluster) { c.change(data(c), func(d []byte) []byte { return append(d, 0) }) }},
		{"data is gone", func(c *cluster) { os.Remove(data(c)) }},
		{"an empty file is gone", func(c *cluster) { os.Remove(c.cached("a", 2, "ckpt.2/empty_0")) }},
		{"redundancy is gone", func(c *cluster) { os.Remove(xor(c)) }},
		{"dataset is gone", func(c *cluster) { os.RemoveAll(c.cached("a", 2, "")) }},
		{"cache is gone", func(c *cluster) { os.RemoveAll(filepath.Join(c.node("a"), "cache")) }},
		{"filemap is gone", func(c *cluster) { os.RemoveAll(filepath.Join(c.node("a"), "cntl")) }},
		{"filemap is corrupt", func(c *cluster) {
			c.change(filepath.Join(c.node("a"), "cntl/user/scr.job/filemap_0.scrinfo"), flip)
		}},
		{"filemap is empty", func(c *cluster) {
			c.change(filepath.Join(c.node("a"), "cntl/user/scr.job/filemap_0.scrinfo"), func([]byte) []byte { return nil })
		}},
		{"link in place of data", func(c *cluster) {
			victim := filepath.Join(c.root, "victim")
			os.WriteFile(victim, nil, 0o600)
			os.Truncate(victim, int64(len(contents(2, 0)[0].data)))
			os.Remove(data(c))
			os.Symlink(victim, data(c))
		}},
		{"directory in place of data", func(c *cluster) {
			os.Remove(data(c))
			os.Mkdir(data(c), 0o700)
		}},
	}, 4, sample.Every) {
		t.Run(kind.name, func(t *testing.T) {
			c := newCluster(t)
			c.job(four, steps(1, 2))
			kind.damage(c)
			c.job(four, restarts(2))
			if strings.Contains(kind.name, "redundancy") || strings.Contains(kind.name, "header") {
				c.says("redundancy was made again, 1 of 4 ranks had lost theirs")
			} else {
				c.says("rebuilt from redundancy, 1 of 4 ranks had lost files")
			}
			c.job(four, restarts(2))
			c.says("as it was in the cache")
			if info, err := os.Stat(filepath.Join(c.root, "victim")); err == nil && info.Size() != int64(len(contents(2, 0)[0].data)) {
				t.Error("the target of a link was written to")
			}
		})
	}
}

func TestSession_LostAndCorruptInOneSet(t *testing.T) {
	t.Parallel()
	t.Run("an older one in the cache", func(t *testing.T) {
		c := newCluster(t)
		c.job(four, steps(1, 2))
		os.Remove(c.cached("b", 2, "ckpt.2/x/1/state"))
		c.change(c.cached("a", 2, "ckpt.2/rank_0"), flip)
		c.job(four, restarts(1))
		c.says("dataset 2 (ckpt.2) in the cache is passed over")
	})
	t.Run("an older one in the prefix directory", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=1")
		c.job(four, steps(1))
		c.set("SCR_FLUSH=0", "SCR_CACHE_SIZE=1")
		c.job(four, steps(2))
		c.lose("b")
		c.change(c.cached("a", 2, "ckpt.2/rank_0"), flip)
		c.job(four, restarts(1))
		c.says("fetched")
	})
}

func TestSession_CacheSize(t *testing.T) {
	t.Parallel()
	for size := 1; size <= 3; size++ {
		c := newCluster(t, fmt.Sprintf("SCR_CACHE_SIZE=%d", size))
		c.job(four, steps(1, 2, 3, 4))
		if got := len(c.datasets("a")); got != size {
			t.Errorf("SCR_CACHE_SIZE=%d: %d datasets are cached", size, got)
		}
		if warned := strings.Contains(c.said(), "SCR_CACHE_SIZE=1"); warned != (size == 1) {
			t.Errorf("SCR_CACHE_SIZE=%d: %s", size, c.said())
		}
		for step := 4; step > 4-size; step-- { // each older one can be used in its turn
			c.job(four, restarts(step))
			for _, node := range four {
				os.RemoveAll(c.cached(node, step, ""))
			}
		}
		c.job(four, restarts(0))
	}
}

func TestSession_Single(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_COPY_TYPE=SINGLE")
	c.job(four, steps(1, 2))
	c.job([]string{"d", "c", "b", "a"}, restarts(2))
	c.change(c.cached("a", 2, "ckpt.2/rank_3 with a space"), flip)
	c.job([]string{"d", "c", "b", "a"}, restarts(1))
	c.lose("b")
	c.job([]string{"d", "c", "b", "a"}, restarts(0))
}

// The name of SINGLE in older versions of SCR, as a parameter and in a line.
func TestSession_LocalIsSingle(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{nil, {"CKPT=0 INTERVAL=1 TYPE=Local"}} {
		c := newCluster(t, "SCR_COPY_TYPE=local")
		if lines != nil {
			c.configure(lines...)
			c.set("SCR_COPY_TYPE=FILE")
		}
		c.job(four, steps(1, 2))
		c.job(four, restarts(2))
		c.lose("b")
		c.job(four, restarts(0))
	}
}

func TestSession_OneNodeFallsBackToSingle(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CRC_ON_DELETE=1")
	nodes := on(3, "a")
	c.job(nodes, steps(1, 2, 3))
	if n := strings.Count(c.said(), "all ranks run on one node: SINGLE replaces "); n != 1 {
		t.Errorf("said %d times that SINGLE is used:\n%s", n, c.said())
	}
	c.job(nodes, restarts(3))
	c.change(c.cached("a", 3, "ckpt.3/rank_2"), flip)
	c.job(nodes, restarts(2))
}

// A node that was away has files of a dataset whose number was given again.
func TestSession_NodeComesBackWithOldFiles(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	first := []string{"e", "f", "g", "h"}
	c.job(first, func(s *Session, rank int) error {
		for _, step := range []int{11, 12} { // as datasets 1 and 2
			if err := checkpoint(s, rank, step); err != nil {
				return err
			}
		}
		return nil
	})
	c.lose("h")
	c.job([]string{"e", "f", "g", "d"}, restarts(12))
	c.job([]string{"e", "f", "g", "d"}, restarts(12))
}

// What a dataset leaves behind to be used again may be gone, or something else.
func TestSession_RedundancyFileUsedAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *cluster, node string){
		"as it is": func(*cluster, string) {},
		"gone":     func(c *cluster, node string) { os.Remove(filepath.Join(c.cached(node, 0, ".."), "spare.0")) },
		"shorter": func(c *cluster, node string) {
			c.change(c.glob(filepath.Join(c.cached(node, 0, ".."), "spare.*")), cut)
		},
		"longer": func(c *cluster, node string) {
			c.change(c.glob(filepath.Join(c.cached(node, 0, ".."), "spare.*")), func(d []byte) []byte { return append(d, d...) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "SCR_JOB_ID=job")
			c.job(four, steps(1, 2))
			c.job(four, func(s *Session, rank int) error {
				if err := s.StartOutput("ckpt.3", Checkpoint); err != nil {
					return err
				}
				if rank == 0 {
					change(c, "a")
				}
				if err := write(s, contents(3, rank)); err != nil {
					return err
				}
				return s.CompleteOutput(true)
			})
			c.lose("b")
			c.job(four, restarts(3))
		})
	}
	t.Run("a link", func(t *testing.T) {
		c := newCluster(t)
		c.job(four, steps(1, 2))
		victim := filepath.Join(c.root, "victim")
		if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		c.job(four, func(s *Session, rank int) error {
			if path := c.cached("a", 1, ".scr/1_of_4_in_0.xor"); rank == 0 {
				if err := os.Remove(path); err != nil {
					return err
				}
				if err := os.Symlink(victim, path); err != nil {
					return err
				}
			}
			return checkpoint(s, rank, 3)
		})
		if data, err := os.ReadFile(victim); string(data) != "precious" {
			t.Errorf("%q, %v", data, err)
		}
	})
}

// A kill leaves such a file in nobody's filemap; the next run removes it.
func TestSession_NothingIsLeftOfAKilledRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_JOB_ID=1234[5].host")
	c.job(four, steps(1, 2))
	left := filepath.Join(c.node("a"), "cache/user/scr.1234[5].host/spare.0")
	if err := os.WriteFile(left, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.job(four, restarts(2))
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("%s: %v", left, err)
	}
}

// Survivors whose redundancy files do not fit together cannot rebuild anything,
// and all ranks come to the same conclusion.
func TestRebuild_LayoutsDiffer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	path, err := filepath.Glob(c.cached("c", 2, ".scr/*.xor"))
	if err != nil || len(path) != 1 {
		t.Fatal(path, err)
	}
	c.change(path[0], func(data []byte) []byte {
		h, start, err := hash.ReadFrom(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		h.SetInt("BLOCK", 1000) // was 1024
		return append(h.Encode(), data[start:]...)
	})
	c.lose("b")
	c.job(four, restarts(1))
}
