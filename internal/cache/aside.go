package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goscr/goscr/internal/report"
)

// A dataset that cannot be deleted, since a file in it is immutable or in use as a
// mount point, must not stop the run: its directory gets another name in the same
// place, under which no run looks for a dataset, and every later run tries again to
// delete it.
const (
	asidePrefix  = "undeleted."
	asidePattern = asidePrefix + "*"
)

// setAside renames the directory of a dataset and returns its new path, "" if it cannot
// be renamed either.
func (x *place) setAside(id int, dir string) string {
	const most = 1000 // datasets of one number
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

// removeAside deletes what earlier runs could not delete, as far as that is possible
// now.
func (p *places) removeAside(log *report.Logger) {
	for _, x := range p.all {
		if !p.leads(x) {
			continue
		}
		left, _ := match(x.dir, asidePattern) // none can be removed if the directory cannot be read
		for _, path := range left {
			if err := removeTree(path); err != nil {
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

// removeTree deletes a directory with all that is in it, also where the program has
// taken the permission to do so from directories. There may be none.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // if it fails, so does the next line
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// clear deletes what is at a path in the cache, which should be a file, or nothing.
// A directory that the program has made there is deleted with all that is in it.
func (p *places) clear(path string) error {
	err := remove(path)
	if err == nil || !p.reallyInside(filepath.Dir(path)) {
		return err
	}
	if errors.Is(err, fs.ErrPermission) { // of the directory around it
		_ = os.Chmod(filepath.Dir(path), 0o700)
	}
	return removeTree(path)
}

// reallyInside reports whether a directory lies in the cache, or is a place, whatever
// symbolic links lead to it.
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
