package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/test/sample"
	"github.com/goscr/goscr/test/storagetest"
)

// A program makes a directory where it has routed a file, and files in it: the dataset
// is not valid, and nothing of it is in the way of the next run.
func TestUndeleted_DirectoryAtARoutedName(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.job(four, func(s *Session, rank int) error {
		if err := steps(1, 2)(s, rank); err != nil {
			return err
		}
		if err := s.StartOutput(name(3), Checkpoint); err != nil {
			return err
		}
		path, err := s.Route(s.prefix.Dir + "/" + contents(3, rank)[0].name)
		if err == nil {
			err = errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "more"), nil, 0o600))
		}
		if err != nil {
			return err
		}
		if err := s.CompleteOutput(true); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			return fmt.Errorf("complete with a directory: %v", err)
		}
		return checkpoint(s, rank, 4)
	})
	c.job(four, restarts(4))
	if got := c.in("a", "cache"); got != "2 4" {
		t.Errorf("in the cache are %s", got)
	}
}

// The program takes the permission to write from directories of its datasets.
func TestUndeleted_NoWritePermission(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	if dir := storagetest.Dir(); dir == "" {
		c.job(four, steps(1, 2))
		storagetest.AgainUnprivileged(t, c.root)
		return
	} else {
		c.at(dir)
	}
	spoil := func(id int) {
		for _, node := range four {
			for _, below := range []string{"ckpt." + fmt.Sprint(id), ""} {
				if err := os.Chmod(c.cached(node, id, below), 0o500); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	spoil(1)
	c.job(four, steps(3)) // in place of 1
	c.job(four, restarts(3))
	if got := c.in("a", "cache"); got != "2 3" {
		t.Errorf("in the cache are %s", got)
	}
	spoil(2)
	spoil(3)
	c.set("SCR_CACHE_PURGE=1")
	c.job(four, restarts(0))
	if got := c.in("a", "cache"); got != "" {
		t.Errorf("after a purge %s are in the cache", got)
	}
}

// A dataset in which something is mounted cannot be deleted, and one that is a mount point
// not even renamed: it is reported, and every call continues. Later runs delete it.
func TestUndeleted_SetAside(t *testing.T) {
	t.Parallel()
	for _, inside := range []bool{true, false} {
		t.Run(fmt.Sprintf("inside=%v", inside), func(t *testing.T) {
			dir := storagetest.Dir()
			c := newCluster(t, "SCR_FLUSH=0", "SCR_DEBUG=1")
			if dir == "" {
				storagetest.AgainMounted(t, c.root, "true")
				return
			}
			c.at(dir)
			var mounted []string // where they are after they were set aside
			busy := func(step int) (left func()) {
				t.Helper()
				at := c.glob(filepath.Join(c.cached("b", 0, ".."), "scr.dataset.*", name(step)))
				where := filepath.Join(c.cached("b", 0, ".."), "undeleted.*", name(step))
				if !inside {
					at = filepath.Dir(at)
					where = at
				}
				if out, err := exec.Command("mount", "-t", "tmpfs", "none", at).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return func() {
					t.Helper()
					path := c.glob(where)
					mounted = append(mounted, path)
					if inside {
						path = filepath.Dir(path)
					}
					c.says(path + " stays and takes room; remove it")
				}
			}
			c.job(four, steps(1, 2))
			left := busy(1)
			c.job(four, steps(3)) // Start evicts it
			left()
			c.job(four, restarts(3))
			left = busy(3)
			c.job(four, func(s *Session, rank int) error {
				if err := s.Delete(name(3)); err != nil {
					return fmt.Errorf("Delete: %w", err)
				}
				return restartAt(s, rank, 2)
			})
			left()
			c.job(four, func(s *Session, rank int) error { // is killed before it completes this
				if err := s.StartOutput(name(4), Checkpoint); err != nil {
					return err
				}
				return write(s, contents(4, rank))
			})
			left = busy(4)
			c.job(four, func(s *Session, rank int) error {
				if err := restartAt(s, rank, 2); err != nil {
					return err
				}
				return checkpoint(s, rank, 5)
			})
			left()
			left = busy(5)
			c.set("SCR_CACHE_PURGE=1")
			c.job(four, restarts(0))
			left()
			c.set("SCR_CACHE_PURGE=0")
			for _, path := range mounted {
				if out, err := exec.Command("umount", path).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			age(t, c.cached("b", 0, "..")) // of what no filemap names
			c.job(four, steps(6))
			if got := c.datasets("b"); len(got) != 1 {
				t.Errorf("%s are left", got)
			}
			c.job(four, restarts(6))
		})
	}
}

// age makes all that is in a directory more than a day old.
func age(t *testing.T, dir string) {
	t.Helper()
	old := time.Now().Add(-25 * time.Hour)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, old, old))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What killed processes have left goes when it is old enough and the run writes a
// checkpoint, and nothing else does.
func TestStrays(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "SCR_DEBUG=1")
	c.job(four, steps(1, 2))
	control, cached := filepath.Join(c.node("a"), "cntl/user/scr.job"), filepath.Join(c.node("a"), "cache/user/scr.job")
	old := time.Now().Add(-25 * time.Hour)
	type stray struct {
		path       string
		dir, young bool
		goes       bool // with the checkpoint; temporary files with Init
	}
	list := []stray{
		{path: control + "/filemap_0.scrinfo.tmp", goes: true},
		{path: control + "/transfer.scrinfo.0123456789abcdef.new", goes: true},
		{path: control + "/transfer.scrinfo.0123456789abcdef.new.tmp", goes: true},
		{path: control + "/transfer.scrinfo.fedcba9876543210.new", young: true},
		{path: control + "/mine.tmp"},
		{path: control + "/filemap_0.scrinfo.77.journal", goes: true},
		{path: control + "/filemap_9.scrinfo.1.journal", goes: true},
		{path: cached + "/scr.dataset.7/x", dir: true, goes: true},
		{path: cached + "/scr.dataset.8/x", dir: true, young: true},
		{path: cached + "/scr.dataset.1/mine", dir: true},
		{path: cached + "/scr.dataset.seven/x", dir: true},
		{path: cached + "/mine/x", dir: true},
	}
	for _, s := range list {
		make := func() error { return os.WriteFile(s.path, nil, 0o600) }
		if s.dir {
			make = func() error { return os.MkdirAll(s.path, 0o700) }
		}
		if err := make(); err != nil {
			t.Fatal(err)
		}
		for path := s.path; !s.young && path != control && path != cached; path = filepath.Dir(path) {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A file that is young keeps a directory that is old.
	if err := os.WriteFile(cached+"/scr.dataset.8/x/y", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(cached+"/scr.dataset.8", old, old); err != nil {
		t.Fatal(err)
	}
	check := func(when string, gone func(stray) bool) {
		t.Helper()
		for _, s := range list {
			if _, err := os.Lstat(s.path); os.IsNotExist(err) != gone(s) {
				t.Errorf("%s: %s: %v", when, s.path, err)
			}
		}
	}
	c.job(four, restarts(2))
	check("Init", func(s stray) bool { return s.goes && !s.dir })
	c.says("transfer.scrinfo.0123456789abcdef.new, which a process of an earlier run has left, is removed")
	c.job(four, func(s *Session, rank int) error {
		if err := checkpoint(s, rank, 3); err != nil {
			return err
		}
		if id := s.numbers.id; id != 9 {
			return fmt.Errorf("dataset %d, want one above those whose directories are there", id)
		}
		return nil
	})
	check("a checkpoint", func(s stray) bool { return s.goes || strings.Contains(s.path, "scr.dataset.1/") })
	c.says("scr.dataset.7, which no filemap names, is removed")
	c.job(four, restarts(3))
}

// Something else is where a node's filemap, a journal of it, the list of filemaps or a
// temporary file should be: it is set aside, and what is lost with it is rebuilt.
func TestFilemap_DirectoryInItsPlace(t *testing.T) {
	t.Parallel()
	for _, test := range sample.Of(t, []struct{ name, says string }{
		{"filemap_0.scrinfo", "rebuilt from redundancy, 1 of 4"},
		{"filemap_0.scrinfo.%d.journal", "as it was in the cache"},
		{"filemap_0.scrinfo.tmp", "as it was in the cache"},
		{"filemap.scrinfo", "as it was in the cache"},
	}, 2, sample.Every) {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, "SCR_DEBUG=1")
			c.job(four, steps(1, 2))
			path := filepath.Join(c.node("b"), "cntl/user/scr.job", test.name)
			if strings.Contains(path, "%d") {
				path = c.journal("b")
			}
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(path, "mine"), 0o700); err != nil {
				t.Fatal(err)
			}
			for range 2 { // also when there is one from before
				c.job(four, restarts(2))
				c.says(test.says)
				c.job(four, restarts(2))
				c.says("as it was in the cache")
				if _, err := os.Stat(filepath.Join(path+".damaged", "mine")); err != nil {
					t.Error(err)
				}
				test.says = "as it was in the cache"
			}
			c.lose("c")
			c.job(four, restarts(2))
		})
	}
}

// journal is the path at which the journal of a node's filemap would be.
func (c *cluster) journal(node string) (path string) {
	filemap := filepath.Join(c.node(node), "cntl/user/scr.job/filemap_0.scrinfo")
	c.edit(filemap, func(h *hash.Hash) {
		n, ok := h.Int("JOURNAL")
		if !ok {
			c.t.Fatal("no journal is named")
		}
		path = fmt.Sprintf("%s.%d.journal", filemap, n)
	})
	return path
}
