package scavenge_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/background"
	"github.com/goscr/goscr/internal/node/scavenge"
	"github.com/goscr/goscr/test/scavengetest"
)

// Protections in the background begin only when a job waits for them. So those that a job
// does not wait for have not begun when it is killed.
func init() { background.Delay = time.Hour }

// exposed is a job that is killed after it has completed the last of three datasets, and before goscr has
// protected that one.
func exposed(t *testing.T, kind string, env ...string) *cluster {
	c := newCluster(t, append(env, "SCR_COPY_TYPE="+kind, "SCR_ENCODE_ASYNC=1", "SCR_CACHE_SIZE=2")...)
	c.Write(scavengetest.Four, 1, 2, 3)
	return c
}

// The redundancy file of a dataset that is not protected yet contains the copies of an older one. These do
// not count as copies of the dataset.
func TestCopy_PartnerNotProtected(t *testing.T) {
	c := exposed(t, "PARTNER")
	c.Lose("b")
	for _, n := range []string{"a", "c", "d"} {
		done, _, _ := c.copy(n, 3, func(x *scavenge.Copy) { x.Partner, x.Down = true, []string{"b"} })
		if len(done.Partners) > 0 {
			t.Errorf("node %s says that it has copies of the ranks of %v", n, done.Partners)
		}
	}
	if _, _, err := c.build(3); err == nil {
		t.Error("built from three of four nodes without redundancy")
	}
	for _, n := range []string{"a", "c", "d"} { // the one before is protected
		_, _, err := c.copy(n, 2, func(x *scavenge.Copy) { x.Down = []string{"b"} })
		must(t, err)
	}
	c.builds(2)
	c.Restarts(4, 2)
}

// A redundancy file of another dataset than its entry says is not used.
func TestCopy_PartnerOfAnotherDataset(t *testing.T) {
	c := newCluster(t, "SCR_COPY_TYPE=PARTNER")
	c.Write(scavengetest.Four, 1, 2)
	c.Lose("b")
	must(t, os.Rename(c.redundancy("c", 1), c.redundancy("c", 2)))
	_, w, err := c.copy("c", 2, func(x *scavenge.Copy) { x.Down = []string{"b"} })
	if err == nil {
		t.Error("copied")
	}
	w.say(t, "another dataset: 1 (ckpt.1)")
	if left := strings.Join(c.lists(2), " "); strings.Contains(left, "/1.scrfilemap") {
		t.Errorf("the lost node's rank has a list: %s", left)
	}
}

// Files without checksums that a power failure may have damaged are not scavenged: goscr would compute checksums of damaged files.
func TestCopy_NodeHasStartedAgain(t *testing.T) {
	c := exposed(t, "SINGLE")
	again := func(x *scavenge.Copy) { x.Booted = time.Now().Add(time.Hour) }
	done, w, err := c.copy("a", 3, again)
	if err == nil || len(done.Ranks) > 0 || len(c.lists(3)) > 0 {
		t.Errorf("copied ranks %v, %v", done.Ranks, err)
	}
	w.say(t, "the node has started again since")
	c.copies(3, scavengetest.Four...)
	c.builds(3)

	c = newCluster(t, "SCR_COPY_TYPE=SINGLE", "SCR_CRC_ON_DELETE=1") // with checksums
	c.Write(scavengetest.Four, 1)
	for _, node := range scavengetest.Four {
		_, _, err := c.copy(node, 1, again)
		must(t, err)
	}
	c.builds(1)
	c.Restarts(4, 1)
}

// A dataset that was not protected yet is scavenged while all nodes are there, with any scheme.
func TestCopy_NotProtected(t *testing.T) {
	for _, kind := range []string{"XOR", "PARTNER", "RS", "SINGLE"} {
		t.Run(kind, func(t *testing.T) {
			c := exposed(t, kind)
			c.copies(3, scavengetest.Four...)
			c.builds(3)
			c.Restarts(4, 3)
		})
	}
	t.Run("node lost", func(t *testing.T) {
		c := exposed(t, "XOR")
		c.Lose("d")
		c.copies(3, "a", "b", "c")
		if _, _, err := c.build(3); err == nil {
			t.Error("built from three of four nodes without redundancy")
		}
		c.copies(2, "a", "b", "c")
		c.builds(2)
		c.Restarts(4, 2)
	})
	t.Run("node has started again", func(t *testing.T) {
		c := exposed(t, "XOR")
		done, w, err := c.copy("a", 3, func(x *scavenge.Copy) { x.Booted = time.Now().Add(time.Hour) })
		if err == nil || len(done.Ranks) > 0 {
			t.Errorf("copied ranks %v, %v", done.Ranks, err)
		}
		w.say(t, "the node has started again since")
	})
	t.Run("file lost", func(t *testing.T) {
		c := exposed(t, "XOR")
		must(t, os.Remove(c.Cached("b", 3, scavengetest.Contents(3, 1)[0].Name)))
		if done, _, err := c.copy("b", 3); err == nil || len(done.Ranks) > 0 {
			t.Errorf("copied ranks %v, %v", done.Ranks, err)
		}
	})
}

// Redundancy that is lost or damaged does not keep the files of the program from being copied; scr_copy reports it.
func TestCopy_RedundancyLost(t *testing.T) {
	c := newCluster(t, "SCR_COPY_TYPE=XOR")
	c.Write(scavengetest.Four, 1)
	must(t, os.Remove(c.redundancy("b", 1)))
	must(t, os.Truncate(c.redundancy("c", 1), 100))
	for _, node := range scavengetest.Four {
		if _, _, err := c.copy(node, 1); (err != nil) != (node == "b" || node == "c") {
			t.Errorf("node %s: %v", node, err)
		}
	}
	if b := c.builds(1); len(b.Rebuilt) != 0 {
		t.Errorf("%+v had to be rebuilt", b.Rebuilt)
	}
	c.Restarts(4, 1)
}
