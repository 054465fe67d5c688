package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/scavenge"
	"github.com/goscr/goscr/internal/prefix"
)

// A site has the directories of a job, all below one: node/NAME of each node, and prefix.
type site struct {
	root   string
	memory bool // it is on a file system in memory
}

func newSite() (*site, error) {
	base := "/dev/shm" // where syncing takes no time
	if info, err := os.Stat(base); err != nil || !info.IsDir() {
		base = ""
	}
	root, err := os.MkdirTemp(base, "goscr-soak-")
	if err != nil {
		return nil, err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return nil, err
	}
	return &site{root, st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC}, os.Mkdir(filepath.Join(root, "prefix"), 0o700)
}

func (s *site) close()                  { os.RemoveAll(s.root) }
func (s *site) prefix() string          { return filepath.Join(s.root, "prefix") }
func (s *site) node(name string) string { return filepath.Join(s.root, "node", name) }

func (s *site) lose(node string) error { return os.RemoveAll(s.node(node)) }

// damages are what can happen to a file.
var damages = []string{"one bit of it is changed", "it loses its last byte", "it becomes empty", "it is removed"}

// damage damages a file that keep does not except, below a directory, and returns which
// and how; "" if there is none. quiet is whether its time stays as it was.
func (s *site) damage(random *rand.Rand, dir string, except func(path string) bool, quiet bool) (path, how string, err error) {
	var list []string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() || except(path) {
			return err
		}
		list = append(list, path)
		return nil
	})
	if err != nil || len(list) == 0 {
		return "", "", err
	}
	path = list[random.IntN(len(list))]
	how = damages[random.IntN(len(damages))]
	data, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", "", err
	}
	if len(data) == 0 {
		how = damages[3]
	}
	switch how {
	case damages[0]:
		data[random.IntN(len(data))] ^= 1 << random.IntN(8)
	case damages[1]:
		data = data[:len(data)-1]
	case damages[2]:
		data = nil
	default:
		return path, how, os.Remove(path)
	}
	when := info.ModTime()
	if !quiet {
		when = when.Add(time.Second)
	}
	return path, how, errors.Join(os.WriteFile(path, data, 0o600), os.Chmod(path, info.Mode()), os.Chtimes(path, when, when))
}

// scavenge copies a dataset from nodes to the prefix directory, as scr_postrun does with
// scr_copy and scr_index --build, and returns why it is not whole there.
func (s *site) scavenge(random *rand.Rand, id int, up, down []string) (warnings []string, err error) {
	warn := func(err error) { warnings = append(warnings, err.Error()) }
	up = append([]string(nil), up...)
	random.Shuffle(len(up), func(i, k int) { up[i], up[k] = up[k], up[i] })
	failed := append([]string(nil), down...)
	for _, partner := range []bool{false, true} {
		if partner && len(failed) == 0 {
			break
		}
		lost := failed
		for _, node := range up {
			control := filepath.Join(s.node(node), "cntl/user/scr.job")
			c := scavenge.Copy{Control: control, Prefix: s.prefix(), ID: id, Buffer: 4096, Reread: true, Partner: partner, Down: lost, Warn: warn}
			if _, err := c.Run(); err != nil {
				warn(fmt.Errorf("scr_copy on node %s: %w", node, err))
				if !partner {
					failed = append(failed, node)
				}
			}
		}
	}
	_, err = scavenge.Build(s.prefix(), id, warn, nil)
	return warnings, err
}

// metadata is where the prefix directory has what belongs to a dataset.
func (s *site) metadata(id int) string {
	return prefix.Dir(s.prefix(), id) + string(filepath.Separator)
}

// relative is a path as it stands in a story.
func (s *site) relative(path string) string { return strings.TrimPrefix(path, s.root+"/") }
