package scavenge_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/test/scavengetest"
)

const other = 65533 // a user for whom root works

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can work in the directories of another user")
	}
}

// give gives everything below a directory to another user.
func give(t *testing.T, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, other, other))
	}))
}

// record changes what a filemap or a list of files records of every file, as a rank in a user
// namespace would record it.
func record(t *testing.T, path string) {
	t.Helper()
	h, err := hash.ReadFile(path)
	must(t, err)
	var change func(h *hash.Hash)
	change = func(h *hash.Hash) {
		for key, sub := range h.All() {
			if key == "META" {
				for key, value := range map[string]string{"UID": "0", "GID": "0", "MODE": "6755"} {
					sub.SetValue(key, value)
				}
				continue
			}
			change(sub)
		}
	}
	change(h)
	must(t, hash.WriteFile(path, h))
}

// What a user has recorded, with the number of root and set-id bits, gives root's rights to nobody.
func TestScavenge_RightsOfRoot(t *testing.T) {
	needRoot(t)
	for _, rebuilt := range []bool{false, true} {
		c := newCluster(t)
		c.Write(scavengetest.Four, 1)
		for _, node := range scavengetest.Four {
			maps, err := filepath.Glob(filepath.Join(c.Control(node), "filemap_*.scrinfo"))
			must(t, err)
			for _, path := range maps {
				record(t, path)
			}
			give(t, c.Node(node))
		}
		give(t, c.Prefix())
		nodes := scavengetest.Four
		if rebuilt {
			nodes = nodes[1:]
		}
		c.copies(1, nodes...)
		for _, path := range c.lists(1) {
			record(t, path)
		}
		c.builds(1)
		files := 0
		must(t, filepath.WalkDir(filepath.Join(c.Prefix(), "ckpt.1"), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			files++
			info, err := e.Info()
			if err == nil && (info.Mode()&^0o755 != 0 || trust.OwnerOf(info) != other) {
				t.Errorf("%s is %v of user %d", path, info.Mode(), trust.OwnerOf(info))
			}
			return err
		}))
		if files == 0 {
			t.Error("no files")
		}
	}
}

// A directory of the dataset that has become a link takes nothing to where it leads, and nothing from there.
func TestScavenge_LinkOnTheWay(t *testing.T) {
	for _, when := range []string{"before the copy", "before the build"} {
		for _, what := range []string{"ckpt.1", "ckpt.1/rank_0", ".scr/scr.dataset.1", ".scr"} {
			c := newCluster(t)
			c.Write(scavengetest.Four, 1)
			outside := filepath.Join(c.Root(), "outside")
			must(t, os.MkdirAll(filepath.Join(outside, "rank_0"), 0o755))
			place := func() {
				path := c.Path(what)
				must(t, os.MkdirAll(filepath.Dir(path), 0o755))
				if err := os.Rename(path, path+".real"); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				if strings.HasPrefix(what, ".scr") && when == "before the build" {
					must(t, errors.Join(os.Remove(outside+"/rank_0"), os.Remove(outside), os.Rename(path+".real", outside)))
				}
				must(t, os.Symlink(outside, path))
			}
			if when == "before the build" {
				c.copies(1, scavengetest.Four[1:]...)
			}
			place()
			before := names(t, outside)
			var failed error
			if when == "before the copy" {
				for _, node := range scavengetest.Four {
					_, _, err := c.copy(node, 1)
					failed = errors.Join(failed, err)
				}
			} else {
				_, _, failed = c.build(1)
			}
			if failed == nil && what+when != ".scr/scr.dataset.1before the copy" { // that link is removed
				t.Errorf("%s, %s: no error", what, when)
			}
			if after := names(t, outside); after != before {
				t.Errorf("%s, %s: %s, was %s", what, when, after, before)
			}
		}
	}
}

// names are the paths of everything below a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	}))
	return strings.Join(all, " ")
}

// A filemap of a user who names a file of root's own gets it copied nowhere.
func TestCopy_FileOfTheCaller(t *testing.T) {
	needRoot(t)
	c := newCluster(t)
	c.Write(scavengetest.Four, 1)
	secret := c.Cached("a", 1, "ckpt.1/rank_0/file 0")
	give(t, c.Node("a"))
	give(t, c.Prefix())
	must(t, os.Chown(secret, 0, 0))
	_, w, err := c.copy("a", 1)
	if err == nil {
		t.Error("no error")
	}
	w.say(t, "belongs to user root (0)")
	if _, err := os.Lstat(prefix.Aside(c.Path("ckpt.1/rank_0/file 0"), 1, prefix.ByCopy)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
