package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goscr/goscr/internal/observe/report"
)

// A dataset that cannot be deleted, since a file in it is immutable or in use as a
// mount point, must not stop the run. Its directory is renamed, in the same place, to a
// name that is not one of a dataset, and every later run tries again to delete it.
const (
	asidePrefix  = "undeleted."
	asidePattern = asidePrefix + "*"
)

// setAside renames the directory of a dataset and returns its new path, "" if it cannot
// be renamed either.
func (x *place) setAside(id int, dir string) string {
	const most = 1000 // datasets with the same id
	for i := range most {
		aside := filepath.Join(x.dir, fmt.Sprintf("%s%d.%d", asidePrefix, id, i))
		if _, err := os.Lstat(aside); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if os.Rename(dir, aside) != nil {
			return ""
		}
		return aside
	}
	return ""
}

// removeAside tries again to delete the datasets that earlier runs could not delete.
func (p *places) removeAside(log *report.Logger) {
	for _, x := range p.all {
		if !p.leads(x) {
			continue
		}
		left, _ := match(x.dir, asidePattern) // if the directory cannot be read, a later run tries again
		for _, path := range left {
			if err := RemoveTree(path); err != nil {
				tellUndeleted(log, err, path)
				continue
			}
			log.Local("%s, which could not be deleted before, is deleted", path)
		}
	}
}

func tellUndeleted(log *report.Logger, why error, path string) {
	log.Warn("%v: %s stays and takes room; remove it (chmod -R u+rwx or chattr -R -i may be necessary first), else every run tries again", why, path)
}

// RemoveTree deletes a directory with its contents, even if the program has removed the
// write permission of directories in it. The directory need not exist.
func RemoveTree(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // if this fails, RemoveAll fails too
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// clear deletes the file at a path in the cache, if there is one. If the program has made a
// directory there, clear deletes that with its contents.
func (p *places) clear(path string) error {
	err := remove(path)
	if err == nil || !p.reallyInside(filepath.Dir(path)) {
		return err
	}
	if errors.Is(err, fs.ErrPermission) { // the directory that contains it is not writable
		_ = os.Chmod(filepath.Dir(path), 0o700)
	}
	return RemoveTree(path)
}

// reallyInside reports whether a directory is a place of the cache, or lies in one, after
// symbolic links are resolved.
func (p *places) reallyInside(dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for _, x := range p.all {
		base, err := filepath.EvalSymlinks(x.dir)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(base, real); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}
