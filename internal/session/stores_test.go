package session

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
	"github.com/goscr/goscr/test/sample"
)

// redundancy returns the names of the redundancy files of a dataset on a node.
func (c *cluster) redundancy(node, store string, id int) string {
	c.t.Helper()
	found, err := filepath.Glob(filepath.Join(c.node(node), store, "user/scr.job", fmt.Sprintf("scr.dataset.%d/.scr/*", id)))
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, path := range found {
		names = append(names, filepath.Base(path))
	}
	return strings.Join(names, " ")
}

var severalLines = []string{
	"STORE=$SSD GROUP=NODE COUNT=9",
	"CKPT=5 INTERVAL=1 TYPE=XOR SET_SIZE=2",
	"CKPT=0 INTERVAL=2 TYPE=PARTNER",
	"CKPT=1 INTERVAL=3 TYPE=RS SET_FAILURES=2 STORE=$SSD SET_SIZE=4",
	"CKPT=2 INTERVAL=6 TYPE=SINGLE",
	"CKPT=3 INTERVAL=4 TYPE=SINGLE ENABLED=0",
}

// Each checkpoint is protected as the line says whose INTERVAL is the largest that
// divides its number, whether the lines are in a file or set by the program.
func TestDescriptors_LargestInterval(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"file", "program"} {
		t.Run(where, func(t *testing.T) {
			c := newCluster(t, "SCR_CACHE_SIZE=9")
			if where == "file" {
				c.configure(severalLines...)
				c.job(four, steps(1, 2, 3, 4, 5, 6))
			} else {
				_, err := local.Run(4, c.opt, func(world mpi.Comm) error {
					opt := c.options(four[world.Rank()])
					opt.Settings = &Settings{}
					for _, line := range severalLines {
						if _, _, err := opt.Settings.Config(line); err != nil {
							return err
						}
					}
					s, err := Init(world, opt)
					if err != nil {
						return err
					}
					defer s.cache.Close()
					return steps(1, 2, 3, 4, 5, 6)(s, world.Rank())
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for id, want := range map[int]string{1: "1_of_2_in_0.xor", 2: "1_of_4_in_0.partner", 4: "1_of_4_in_0.partner", 5: "1_of_2_in_0.xor", 6: ""} {
				if got := c.redundancy("a", "cache", id); got != want {
					t.Errorf("checkpoint %d has %q, want %q", id, got, want)
				}
			}
			if got := c.redundancy("a", "ssd", 3); got != "1_of_4_in_0.rs" {
				t.Errorf("checkpoint 3 has %q", got)
			}
		})
	}
}

// A later run makes each dataset usable again as it was protected, in the store
// where it is, whatever that run's lines say.
func TestDescriptors_RestartFromAnyOfThem(t *testing.T) {
	t.Parallel()
	for step, lost := range map[int][]string{5: {"b"}, 4: {"c"}, 3: {"a", "b"}, 2: {"d"}, 1: {"b"}} {
		t.Run(fmt.Sprint("checkpoint ", step), func(t *testing.T) {
			c := newCluster(t, "SCR_CACHE_SIZE=9")
			c.configure(severalLines...)
			c.job(four, steps(1, 2, 3, 4, 5, 6)) // without protection, the 6th is lost with any node
			for id := step + 1; id < 6; id++ {
				for _, node := range four {
					for _, store := range []string{"cache", "ssd"} {
						os.RemoveAll(filepath.Join(c.node(node), store, "user/scr.job", fmt.Sprint("scr.dataset.", id)))
					}
				}
			}
			c.lose(lost...)
			nodes := []string{"b", "a", "d", "c"}
			c.job(nodes, restarts(step))
			c.says("rebuilt from redundancy")
			c.configure("CKPT=0 TYPE=PARTNER") // without the store
			c.job(nodes, restarts(step))
			c.says("as it was in the cache")
		})
	}
}

func TestStores_CountOfEach(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=2")
	c.configure("STORE=$SSD COUNT=3 FLUSH=SYNC FETCH=SYNC", "CKPT=0 INTERVAL=1", "CKPT=1 INTERVAL=2 STORE=$SSD")
	c.job(four, steps(1, 2, 3, 4, 5, 6, 7, 8))
	if cache, ssd := c.in("a", "cache"), c.in("a", "ssd"); cache != "5 7" || ssd != "4 6 8" {
		t.Errorf("the cache has %s, the other store %s", cache, ssd)
	}
	c.job(four, func(s *Session, rank int) error { // counted as before after a restart
		if err := restartAt(s, rank, 8); err != nil {
			return err
		}
		return steps(9, 10)(s, rank)
	})
	if cache, ssd := c.in("a", "cache"), c.in("a", "ssd"); cache != "7 9" || ssd != "10 6 8" {
		t.Errorf("the cache has %s, the other store %s", cache, ssd)
	}
}

func TestDescriptors_ForOutput(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_CACHE_SIZE=9")
	c.configure("CKPT=0 OUTPUT=1 TYPE=PARTNER", "CKPT=1 TYPE=XOR")
	c.job(four, func(s *Session, rank int) error {
		for step, flags := range []Flags{1: Checkpoint, 2: Checkpoint | Output, 3: Checkpoint} {
			if step > 0 {
				if err := output(s, rank, step, flags); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for id, want := range map[int]string{1: "1_of_4_in_0.xor", 2: "1_of_4_in_0.partner", 3: "1_of_4_in_0.xor"} {
		if got := c.redundancy("a", "cache", id); got != want {
			t.Errorf("dataset %d has %q, want %q", id, got, want)
		}
	}
}

// A checkpoint that went straight to the prefix directory is as good as one in the
// cache: the newest of both is the one to restart from.
func TestDescriptors_Bypass(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.configure("CKPT=0 INTERVAL=1", "CKPT=1 INTERVAL=2 BYPASS=1")
	c.job(four, steps(1, 2))
	if cache := c.in("a", "cache"); cache != "1" {
		t.Errorf("the cache has %s", cache)
	}
	c.job(four, restarts(2))
	c.says("read where they are")
	c.job(four, func(s *Session, rank int) error {
		if err := restartAt(s, rank, 2); err != nil {
			return err
		}
		return checkpoint(s, rank, 3)
	})
	c.job(four, restarts(3))
	c.says("as it was in the cache")
	c.lose("a", "b")
	c.job(four, restarts(2))
	if got := c.index(); len(got) != 1 || !got["ckpt.2"].Current {
		t.Errorf("%v", got)
	}
}

func TestDescriptors_Refused(t *testing.T) {
	t.Parallel()
	for text, lines := range map[string][]string{
		"has INTERVAL=1":      {"CKPT=0 INTERVAL=2"},
		"that is enabled":     {"CKPT=0 ENABLED=0"},
		"with a store that":   {"STORE=$SSD ENABLED=0", "CKPT=0 STORE=$SSD"},
		"no group":            {"CKPT=0 GROUP=RACK"},
		"is not made with":    {"STORE=$SSD/x MKDIR=0", "CKPT=0 STORE=$SSD/x"},
		"VIEW=GLOBAL and":     {"STORE=$SSD VIEW=GLOBAL GROUP=NODE", "CKPT=0 STORE=$SSD"},
		"no group \"SWITCH\"": {"STORE=$SSD GROUP=SWITCH", "CKPT=0 STORE=$SSD"},
		"CKPT= line":          nil,
	} {
		c := newCluster(t)
		if lines == nil {
			c.set("SCR_COPY_TYPE=FILE")
		} else {
			c.configure(lines...)
		}
		var each everyRank
		_, err := local.Run(4, c.opt, func(world mpi.Comm) error {
			_, err := Init(world, c.options(four[world.Rank()]))
			each.is(world.Rank(), err)
			world.Barrier()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		each.failed(t, 4, text)
	}
}

// SCR_COPY_TYPE chooses between one scheme and the CKPT= lines.
func TestDescriptors_CopyType(t *testing.T) {
	t.Parallel()
	for scheme, lines := range map[string]bool{"": true, "FILE": true, "SINGLE": false, "XOR": false} {
		c := newCluster(t, "SCR_COPY_TYPE="+scheme)
		c.configure("CKPT=0 INTERVAL=1 TYPE=PARTNER")
		c.job(four, func(s *Session, rank int) error {
			if got := s.protection.descs[0].Scheme.Name() == "PARTNER"; got != lines {
				return fmt.Errorf("SCR_COPY_TYPE=%s: the line applies: %v", scheme, got)
			}
			return nil
		})
		if got := strings.Contains(c.said(), "the CKPT= lines have no effect: SCR_COPY_TYPE="+scheme+" (environment) is not FILE"); got == lines {
			t.Errorf("SCR_COPY_TYPE=%s: %s", scheme, c.said())
		}
	}
}

// A STORE= line that no CKPT= line in force uses is neither checked nor made.
func TestStores_Unused(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.configure("STORE=/proc/none", "STORE=$SSD GROUP=SWITCH", "STORE=$SHARED VIEW=GLOBAL GROUP=NODE MKDIR=0",
		"CKPT=0 INTERVAL=1", "CKPT=1 INTERVAL=2 STORE=/proc/none ENABLED=0")
	c.job(four, steps(1, 2))
	c.job(four, restarts(2))
}

// Storage that all nodes share keeps files of ranks that move, and of nodes that
// are lost with what they knew.
func TestStores_SharedByAllNodes(t *testing.T) {
	t.Parallel()
	for _, line := range sample.Of(t, []string{"STORE=$SHARED VIEW=GLOBAL", "STORE=$SHARED GROUP=WORLD"}, 1, 2) {
		c := newCluster(t)
		c.configure(line, "CKPT=0 STORE=$SHARED")
		nodes := on(2, "a", "b", "c", "d")
		c.job(nodes, steps(1, 2))
		if shared, cache := c.in("a", "shared"), c.in("a", "cache"); shared != "1 2" || cache != "" {
			t.Errorf("%q, and %q in the cache", shared, cache)
		}
		moved := on(2, "d", "c", "a", "b")
		for range 2 {
			c.job(moved, restarts(2))
			c.says("as it was in the cache")
		}
		c.job(nodes, restarts(2))
		c.says("as it was in the cache")
		c.lose("b", "d") // with the filemaps of their ranks, of which there are copies
		c.job(moved, restarts(2))
		c.says("as it was in the cache")
		c.job(moved, steps(3))
		if shared := c.in("a", "shared"); shared != "2 3" {
			t.Errorf("%q", shared)
		}
		c.job(nodes, restarts(3))
	}
}

// What an earlier run has in another directory is used where it is, and is gone
// when its time has come.
func TestStores_AnotherCacheBase(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	nodes := on(2, "a", "b", "c", "d")
	c.job(nodes, steps(1, 2))
	c.base = "other"
	c.lose("b")
	c.job(nodes, restarts(2))
	c.says("rebuilt from redundancy")
	if old, now := c.in("a", "cache"), c.in("a", "other"); old != "1 2" || now != "" {
		t.Errorf("%q, %q", old, now)
	}
	if got := c.in("b", "other"); got != "2" { // the older one is as it was
		t.Errorf("the node that was lost has %q", got)
	}
	moved := on(2, "d", "a", "b", "c")
	c.job(moved, func(s *Session, rank int) error {
		if err := restartAt(s, rank, 2); err != nil {
			return err
		}
		return steps(3, 4)(s, rank)
	})
	for _, node := range four {
		if _, err := os.Stat(filepath.Join(c.node(node), "cache/user")); !os.IsNotExist(err) {
			t.Errorf("node %s: the old directory: %v", node, err)
		}
		if got := c.in(node, "other"); got != "3 4" {
			t.Errorf("node %s has %q", node, got)
		}
	}
	c.job(nodes, restarts(4))
}

// A filemap cannot have files deleted, or written, where goscr has made nothing.
func TestStores_FilemapNamesAnotherDirectory(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, steps(1, 2))
	// The place where it is belongs, for all one can see, to somebody else.
	if err := os.Chmod(filepath.Join(c.node("a"), "cache/user"), 0o777); err != nil {
		t.Fatal(err)
	}
	c.base = "other"
	c.job(four, restarts(2))
	c.says("rebuilt from redundancy")
	if got := c.in("a", "cache"); got != "1 2" {
		t.Errorf("left: %q", got)
	}
}

// Groups of a configuration file protect from what takes several nodes away.
func TestDescriptors_GroupsOfAFile(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.configure("GROUPS=a SWITCH=0", "GROUPS=b SWITCH=0", "GROUPS=c SWITCH=1", "GROUPS=d SWITCH=1", "CKPT=0 GROUP=SWITCH SET_SIZE=2")
	c.job(four, steps(1, 2))
	c.lose("a", "b")
	c.job(four, restarts(2))
	c.says("rebuilt from redundancy")
}

// A directory that all nodes share, and of which the configuration says that pairs of them do.
func TestStores_GroupsHaveOneDirectory(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.configure("STORE=$SHARED GROUP=PAIR", "CKPT=0 STORE=$SHARED TYPE=SINGLE",
		"GROUPS=a PAIR=0", "GROUPS=b PAIR=0", "GROUPS=c PAIR=1", "GROUPS=d PAIR=1")
	c.job(four, steps(1))
	for range sample.Of(t, make([]bool, 20), 5, 10) { // each Init looks whether the nodes of a pair see the same
		c.job(four, restarts(1))
	}
}
