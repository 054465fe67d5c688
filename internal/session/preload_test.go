package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/node/preload"
)

// preload copies the files of ranks to the cache of a node.
func (c *cluster) preload(node string, id int, ranks ...int) (preload.Done, error) {
	n := preload.Node{Prefix: c.prefix(""), Control: filepath.Join(c.node(node), "cntl/user/scr.job"),
		Cache: filepath.Join(c.node(node), "cache/user/scr.job"), Base: filepath.Join(c.node(node), "cache"), Piece: 1 << 10}
	n.Prefix = filepath.Clean(n.Prefix)
	return n.Load(id, ranks, 4)
}

// files returns the paths of the files of a dataset in the prefix directory.
func (c *cluster) files(id int) (paths []string) {
	c.t.Helper()
	for rank := range 4 {
		for _, f := range contents(id, rank) {
			paths = append(paths, c.prefix(f.name))
		}
	}
	if len(paths) == 0 {
		c.t.Fatal("the ranks have no files")
	}
	return paths
}

// What was copied before the start is what the job restarts from, wherever its ranks run. It
// reads nothing in the prefix directory.
func TestPreload(t *testing.T) {
	t.Parallel()
	for what, nodes := range map[string][]string{
		"where its files are": {"a", "a", "b", "b"},
		"elsewhere":           {"b", "a", "c", "a"},
	} {
		for _, env := range []string{"SCR_COPY_TYPE=XOR", "SCR_FLUSH_COMPRESS=zstd"} {
			t.Run(what+" "+env, func(t *testing.T) {
				c := newCluster(t, "SCR_FLUSH=1", env)
				const id = regular
				c.job(four, steps(1, id))
				c.lose(four...)
				c.set("SCR_FLUSH=0")
				var bytes int64
				for node, ranks := range map[string][]int{"a": {0, 1}, "b": {2, 3}} {
					for again := range 2 {
						done, err := c.preload(node, 2, ranks...)
						if err != nil || fmt.Sprint(done.Ranks) != fmt.Sprint(ranks) || again == 1 && done.Bytes != 0 {
							t.Fatalf("%+v, %v", done, err)
						}
						bytes += done.Bytes
					}
				}
				if bytes == 0 {
					t.Error("nothing was copied")
				}
				for _, path := range c.files(id) {
					if info, err := os.Stat(path); err == nil && info.Size() > 0 {
						c.change(path, flip)
					}
				}
				c.job(nodes, restarts(id))
				c.says("dataset 2 (")
				if strings.Contains(c.said(), "fetched") {
					t.Error(c.said())
				}
			})
		}
	}
}

// A node that has copied nothing: the job fetches the checkpoint.
func TestPreload_OneNodeFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	c.lose(four...)
	for rank, node := range four[:3] {
		if _, err := c.preload(node, 2, rank); err != nil {
			t.Fatal(err)
		}
	}
	c.job(four, restarts(2))
	c.says("fetched")
}

// What is damaged in the prefix directory is not copied, and nothing is left of the rest.
func TestPreload_Damaged(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	c.lose(four...)
	changed := false
	for _, f := range contents(2, 1) {
		if len(f.data) > 0 && !changed {
			c.change(c.prefix(f.name), flip)
			changed = true
		}
	}
	if !changed {
		t.Fatal("rank 1 has no bytes")
	}
	if done, err := c.preload("a", 2, 0, 1); err == nil || done.Bytes != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	maps, bad, err := filemap.ReadDir(filepath.Join(c.node("a"), "cntl/user/scr.job"))
	if err != nil || len(bad) > 0 || len(maps.Datasets()) > 0 {
		t.Errorf("%v, %v, %v", maps.Datasets(), bad, err)
	}
	_ = filepath.Walk(filepath.Join(c.node("a"), "cache"), func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			t.Errorf("%s is left", path)
		}
		return err
	})
	c.job(four, restarts(1))
}

func TestPreload_Bad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=2")
	c.job(four, steps(1, 2))
	bypass := newCluster(t, "SCR_CACHE_BYPASS=1")
	bypass.job(four, steps(1))
	for text, f := range map[string]func() error{
		"checkpoint 1 () is not complete": func() error { _, err := c.preload("e", 1, 0); return err },
		"which reads it there":            func() error { _, err := bypass.preload("e", 1, 0); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
	// An earlier attempt was killed.
	c.lose(four...)
	control := filepath.Join(c.node("a"), "cntl/user/scr.job")
	if err := os.MkdirAll(control, 0o700); err != nil {
		t.Fatal(err)
	}
	maps, err := filemap.OpenStore(filepath.Join(control, "filemap_loaded_0.scrinfo"))
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(maps.AddFile(2, 0, c.cached("a", 2, "x"), meta.New("x", meta.Full, 4)), maps.Fold(), maps.Close())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.preload("a", 2, 0); err == nil || !strings.Contains(err.Error(), "another dataset 2, or not all of it") {
		t.Error(err)
	}
	c.job(four, restarts(2))
	c.says("fetched")
}

// While a job runs on a node, nothing is copied to its cache: the job has read its filemaps,
// and may fetch the same files at the time.
func TestPreload_JobRuns(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	c.lose(four...)
	c.set("SCR_FETCH=0")
	c.job(four, func(s *Session, rank int) error {
		if rank > 0 {
			s.world.Barrier()
			return nil
		}
		if done, err := c.preload("a", 2, 0); err == nil || !strings.Contains(err.Error(), " uses the cache of this job (") {
			c.t.Errorf("%+v, %v", done, err)
		}
		for _, name := range []string{"cntl/user/scr.job/filemap_loaded*", "cache/user/scr.job/scr.dataset*"} {
			if list, err := filepath.Glob(filepath.Join(c.node("a"), name)); err != nil || len(list) > 0 {
				c.t.Errorf("%v, %v", list, err)
			}
		}
		s.world.Barrier()
		return nil
	})
	// Once it has ended, the files are copied.
	if done, err := c.preload("a", 2, 0); err != nil || done.Bytes == 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

// What the cache has is not known if a filemap is damaged: nothing is copied, and the job
// sets the filemap aside and fetches the checkpoint.
func TestPreload_DamagedFilemap(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_FLUSH=1")
	c.job(four, steps(1, 2))
	c.lose(four...)
	path := filepath.Join(c.node("a"), "cntl/user/scr.job/filemap_0.scrinfo")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("this is no filemap"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if done, err := c.preload("a", 2, 0); err == nil || !strings.Contains(err.Error(), "filemap_0.scrinfo") {
		t.Errorf("%+v, %v", done, err)
	}
	c.job(four, restarts(2))
	c.says("fetched")
}
