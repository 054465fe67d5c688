package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/node/cache"
)

// left returns the directories of the job that are on the nodes, and on what they share.
func (c *cluster) left() (list []string) {
	c.t.Helper()
	for _, pattern := range []string{"node/*/*/user/scr.*", "shared/user/scr.*"} {
		found, err := filepath.Glob(filepath.Join(c.root, pattern))
		if err != nil {
			c.t.Fatal(err)
		}
		list = append(list, found...)
	}
	return list
}

func (c *cluster) controlDir(node string) string {
	return filepath.Dir(c.glob(filepath.Join(c.node(node), "cntl/user/scr.*/lock")))
}

// finalizes is a program that writes checkpoints and finalizes.
func finalizes(list ...int) func(s *Session, rank int) error {
	return func(s *Session, rank int) error { return errors.Join(steps(list...)(s, rank), s.Finalize()) }
}

func TestFinalize_SaysWhatStays(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=10", "SCR_DEBUG=0")
	c.job(four, finalizes(1, 2, 3))
	if cache.InMemory(c.root) {
		c.says("ckpt.3, ckpt.2 stay in the memory of the nodes (")
	}
	c.set("SCR_DEBUG=1")
	c.job(four, finalizes(4))
	c.says(", for the next run on them; scr_clean --jobid job on each node")
	lines := strings.Split(strings.TrimSpace(c.said()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "scr_clean") {
		t.Errorf("the last line is %s", last)
	}
	if len(c.left()) == 0 {
		t.Error("nothing stays")
	}
}

func TestFinalize_RemovesTheCaches(t *testing.T) {
	t.Parallel()
	for _, how := range [][]string{
		{"SCR_FLUSH=10"},
		{"SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=DAEMON"},
		{"SCR_FLUSH=10", "SCR_CACHE_BYPASS=1"},
	} {
		t.Run(strings.Join(how, " "), func(t *testing.T) {
			c := newCluster(t, append(how, "SCR_CACHE_KEEP=0")...)
			c.job(four, finalizes(1, 2))
			c.says("the caches of the nodes are removed")
			if left := c.left(); len(left) > 0 {
				t.Error(left)
			}
			c.job(four, restarts(2))
		})
	}
	t.Run("stores of its own", func(t *testing.T) {
		c := newCluster(t, "SCR_FLUSH=10", "SCR_CACHE_KEEP=0", "SCR_COPY_TYPE=FILE")
		c.configure("STORE=$SHARED GROUP=WORLD", "STORE=$SSD", "CKPT=0 INTERVAL=1 STORE=$SHARED", "CKPT=1 INTERVAL=2 STORE=$SSD TYPE=XOR")
		c.job(four, finalizes(1, 2))
		if left := c.left(); len(left) > 0 {
			t.Error(left)
		}
	})
}

// What is nowhere else stays, on all nodes.
func TestFinalize_KeepsWhatIsNotFlushed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=0", "SCR_CACHE_KEEP=0")
	c.job(four, finalizes(1))
	c.says("dataset 1 (ckpt.1): not in the prefix directory")
	c.job(four, restarts(1))
	if left := c.left(); len(left) != 2*len(four) {
		t.Error(left)
	}
	// A run that has failed is for the next.
	c = newCluster(t, "SCR_FLUSH=1", "SCR_CACHE_KEEP=0")
	c.job(four, steps(1))
	if _, err := os.Stat(c.cached("a", 1, "")); err != nil {
		t.Error(err)
	}
}

// scr_run's scr_transfer stays until the program has ended, so Finalize must not wait for it.
func TestFinalize_BesideATransferThatStays(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1", "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_TYPE=DAEMON", "SCR_CACHE_KEEP=0")
	c.job(four, steps(1))
	var staying sync.WaitGroup
	for _, node := range four {
		control := c.controlDir(node)
		server := mover.Server{Control: control, Stay: true, Poll: time.Millisecond, Alone: func() bool { return false }}
		staying.Add(1)
		go func() {
			defer staying.Done()
			if err := server.Run(); err != nil {
				t.Error(err)
			}
		}()
		for !mover.Stays(control) {
			time.Sleep(time.Millisecond)
		}
	}
	c.job(four, finalizes(2))
	c.says("scr_transfer, stays for the next run")
	for _, node := range four {
		if err := mover.Exit(c.controlDir(node)); err != nil {
			t.Error(err)
		}
	}
	staying.Wait()
	c.job(four, finalizes(3))
	if left := c.left(); len(left) > 0 {
		t.Error(left)
	}
}
