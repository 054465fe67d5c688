package cache

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/observe/report"
)

// Strays are temporary files in the control directory, and directories of datasets in the
// cache, that killed processes have left and that no filemap names. They are removed when
// nothing in them has changed for a day, since a process that still runs might use younger
// ones. Only files and directories with names that goscr gives are removed.
const strayAge = 24 * time.Hour

var (
	// temporaryName matches files of the control directory before they get their own
	// names.
	temporaryName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(filemap|filemap_[0-9]{1,9}|transfer)\.scrinfo(\.[0-9a-f]{16}\.new)?(\.tmp)?$`)
	})
	// datasetName matches the directories of datasets. A longer number is no id of goscr's.
	datasetName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^scr\.dataset\.([0-9]{1,9})$`) })
)

// removeTemporary removes the temporary files of earlier runs from a control directory
// whose lock is held. If something that is not a regular file has such a name, it is set
// aside at once: this run could not create its own temporary file.
func removeTemporary(control string, log *report.Logger) error {
	entries, err := os.ReadDir(control)
	for _, e := range entries {
		name := e.Name()
		if !temporaryName().MatchString(name) || !strings.HasSuffix(name, ".tmp") && !strings.HasSuffix(name, ".new") {
			continue
		}
		path := filepath.Join(control, name)
		switch info, e := os.Lstat(path); {
		case e != nil: // it is gone
		case !info.Mode().IsRegular():
			aside, e := setAside(path)
			if e != nil {
				return e
			}
			log.Warn("%s is not a file; it is now %s", path, aside)
		case time.Since(info.ModTime()) >= strayAge && os.Remove(path) == nil:
			log.Local("%s, which a process of an earlier run has left, is removed", path)
		}
	}
	return err
}

// stray is the directory of a dataset that no filemap of the node names.
type stray struct {
	id   int
	path string
}

// strays returns the strays in those places for which the caller is responsible. It leaves
// out storage that nodes share: filemaps of other nodes may name directories on it.
func (p *places) strays(all *filemap.Map) (list []stray) {
	known := all.Datasets()
	for _, x := range p.all {
		if !p.leads(x) || x.store == nil || x.store.Shared { // nodes may share a place that is no store of this run
			continue
		}
		entries, _ := os.ReadDir(x.dir) // if it cannot be read, a later run removes them
		for _, e := range entries {
			m := datasetName().FindStringSubmatch(e.Name())
			if m == nil {
				continue
			}
			if id, err := strconv.Atoi(m[1]); err == nil && !slices.Contains(known, id) {
				list = append(list, stray{id, filepath.Join(x.dir, e.Name())})
			}
		}
	}
	return list
}

// removeStrays removes the strays that are old enough. It is called when the run begins a
// checkpoint, and not in Init: a run that was started with wrong parameters by mistake
// should delete nothing. Datasets of the list are none.
func (d *directories) removeStrays(list *UsableList) {
	for _, s := range d.strays {
		if list.Find(s.id) != nil || time.Since(lastChange(s.path)) < strayAge {
			continue
		}
		if err := RemoveTree(s.path); err != nil {
			tellUndeleted(d.config.Log, err, s.path)
			continue
		}
		d.config.Log.Local("%s, which no filemap names, is removed", s.path)
	}
	d.strays = nil
}

// lastChange returns the time at which a directory or anything in it was last changed. If
// that cannot be determined it returns the present time.
func lastChange(dir string) (last time.Time) {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
		return err
	})
	if err != nil {
		return time.Now()
	}
	return last
}
