// Package remains finds what jobs have left on a node, says what of it is still needed, and
// removes it.
//
//	remains.go  the jobs of a node
//	needed.go   ... which of their datasets are nowhere else
//	remove.go   ... their directories are removed
//
// Everything is done with the rights of the caller, who has to be the owner of the
// directories: what users write into them must not lead root elsewhere.
package remains

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/lifecycle/mover"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/sys/lock"
)

// jobPrefix begins the name of each directory of a job.
const jobPrefix = "scr."

// locks are the lock files of a control directory. A process holds one of them while the
// job runs, or while its files are copied.
var locks = []string{cache.LockFile, mover.LockName, "copy.lock"}

// Job is what a job has on the node.
type Job struct {
	User       string    `json:"user"`
	ID         string    `json:"job"`
	Allocation string    `json:"allocation,omitempty"` // the resource manager's id, if it is another
	Alive      bool      `json:"alive"`                // a process holds one of its locks
	Holder     string    `json:"holder,omitempty"`     // that process, if Alive
	Bytes      int64     `json:"bytes"`                // that removing it sets free
	Changed    time.Time `json:"changed"`              // when anything was last changed
	Dirs       []string  `json:"directories"`          // that removing it removes; the control directory is the first
	Shared     []string  `json:"shared,omitempty"`     // directories on storage that nodes share, which stay
	Datasets   []Dataset `json:"datasets"`             // those that are complete
	Unclear    string    `json:"unclear,omitempty"`    // why it is not known what the job has, "" if it is

	controls []string // its control directories: more than one if SCR_CNTL_BASE was another in an earlier run
}

// Query says which jobs to list.
type Query struct {
	Bases []string // directories below which jobs have their directories
	User  string   // "": all whose directories belong to the caller
	Job   string   // id of the job or of its allocation; "": all
}

// Find lists the jobs that have anything on the node, sorted by user and id. It returns the
// errors of directories that cannot be read.
func Find(q Query) (jobs []Job, errs []error) {
	type key struct{ user, id string }
	dirs := map[key][]string{}
	var keys []key
	for _, base := range q.Bases {
		users, err := os.ReadDir(base)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, u := range users {
			if q.User != "" && u.Name() != q.User || !own(filepath.Join(base, u.Name())) {
				continue
			}
			entries, err := os.ReadDir(filepath.Join(base, u.Name()))
			if err != nil {
				errs = append(errs, err)
			}
			for _, e := range entries {
				id, ok := strings.CutPrefix(e.Name(), jobPrefix)
				dir := filepath.Join(base, u.Name(), e.Name())
				if !ok || id == "" || !own(dir) || !isControl(dir) && !isCache(dir) {
					continue
				}
				k := key{u.Name(), id}
				if dirs[k] == nil {
					keys = append(keys, k)
				}
				if !slices.Contains(dirs[k], dir) {
					dirs[k] = append(dirs[k], dir)
				}
			}
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.user+"\x00"+a.id, b.user+"\x00"+b.id) })
	known := indexes{}
	for _, k := range keys {
		j := Job{User: k.user, ID: k.id, Datasets: []Dataset{}}
		j.look(dirs[k], known)
		if q.Job == "" || q.Job == j.ID || q.Job == j.Allocation {
			jobs = append(jobs, j)
		}
	}
	return jobs, errs
}

// At describes the job of a control directory. more are further directories of the job, which
// need not exist.
func At(control string, more ...string) Job {
	user, name := filepath.Base(filepath.Dir(control)), filepath.Base(control)
	j := Job{User: user, ID: strings.TrimPrefix(name, jobPrefix), Datasets: []Dataset{}}
	dirs := []string{control}
	for _, dir := range more {
		if !slices.Contains(dirs, dir) && own(dir) {
			dirs = append(dirs, dir)
		}
	}
	j.look(dirs, indexes{})
	return j
}

// own reports whether a directory belongs to the caller, and is no symbolic link.
func own(dir string) bool {
	var st unix.Stat_t
	return unix.Lstat(dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Geteuid()
}

// look fills in what the directories of the job say.
func (j *Job) look(dirs []string, known indexes) {
	var others []string
	for _, dir := range dirs {
		if isControl(dir) {
			j.controls = append(j.controls, dir)
		} else {
			others = append(others, dir)
		}
	}
	j.Dirs = slices.Concat(j.controls, others)
	for _, control := range j.controls {
		for _, name := range locks {
			if path := filepath.Join(control, name); !j.Alive && lock.Held(path) {
				j.Alive, j.Holder = true, lock.Holder(path)
			}
		}
	}
	j.read(known)
	for _, dir := range j.Dirs {
		bytes, changed := size(dir)
		j.Bytes += bytes
		if changed.After(j.Changed) {
			j.Changed = changed
		}
	}
}

// isControl reports whether a directory has the files of a control directory.
func isControl(dir string) bool {
	entries, _ := os.ReadDir(dir)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		ok, _ := filepath.Match(filemap.Pattern, e.Name())
		return ok || slices.Contains(locks, e.Name()) || e.Name() == filemap.StoresFile
	})
}

// read fills in what the control directories say: what the job has, and which of it is needed.
func (j *Job) read(known indexes) {
	j.Unclear, j.Datasets, j.Shared = "", []Dataset{}, nil
	if len(j.controls) == 0 {
		j.Unclear = "its control directory is elsewhere, or lost"
	}
	for _, control := range j.controls {
		j.readControl(control, known)
	}
	slices.Sort(j.Shared)
	j.Shared = slices.Compact(j.Shared)
	j.Dirs = slices.DeleteFunc(j.Dirs, func(dir string) bool { return slices.Contains(j.Shared, dir) })
	slices.Sort(j.Dirs[len(j.controls):])
}

// isCache reports whether a directory has nothing but datasets.
func isCache(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !cache.IsDatasetDir(e.Name()) })
}

// readControl adds what one control directory says.
func (j *Job) readControl(control string, known indexes) {
	stores, err := filemap.ReadStores(control)
	if err != nil {
		j.Unclear = err.Error()
	}
	if stores.Allocation != j.ID {
		j.Allocation = stores.Allocation
	}
	maps, bad, err := filemap.ReadDir(control)
	if err == nil && len(bad) > 0 {
		err = bad[0]
	}
	if err != nil {
		j.Unclear = err.Error()
	}
	if maps == nil {
		return
	}
	below := filepath.Join(j.User, jobPrefix+j.ID)
	for _, id := range maps.Datasets() { // the list may be damaged
		for _, rank := range maps.Ranks(id) {
			if d := maps.Dataset(id, rank); d.Dir != "" && !stores.Dirs[d.Dir] {
				stores.Dirs[d.Dir] = d.World
			}
		}
	}
	for dir, shared := range stores.Dirs {
		switch {
		case slices.Contains(j.controls, dir): // its locks are those of all processes that use it
		case !cache.Trusted(dir, below):
		case shared:
			j.Shared = append(j.Shared, dir)
		case !slices.Contains(j.Dirs, dir):
			j.Dirs = append(j.Dirs, dir)
		}
	}
	j.Datasets = append(j.Datasets, datasets(maps, known)...)
}

// size returns the room that a directory takes, and when anything in it was last changed.
func size(dir string) (bytes int64, changed time.Time) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read is not counted
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && !d.IsDir() {
			bytes += st.Blocks * 512
		}
		if info.ModTime().After(changed) {
			changed = info.ModTime()
		}
		return nil
	})
	return bytes, changed
}

// Lost reports whether the job has no control directory that was found, so that it is not
// known whether it runs.
func (j *Job) Lost() bool { return len(j.controls) == 0 }

// Needed returns why the job must not be removed unless the caller insists, "" if nothing
// would be lost.
func (j *Job) Needed() string {
	if j.Unclear != "" {
		return "what it has is not clear: " + j.Unclear
	}
	var needed []string // what is needed of each prefix directory
	for _, dir := range j.Prefixes() {
		var only []string
		for _, d := range j.Datasets {
			if d.Prefix == dir && d.Safe == "" {
				only = append(only, fmt.Sprintf("%d (%s)", d.ID, d.Name))
			}
		}
		if len(only) == 0 {
			continue
		}
		what := "dataset "
		if len(only) > 1 {
			what = "datasets "
		}
		needed = append(needed, what+strings.Join(only, ", ")+": not in the prefix directory "+cmp.Or(dir, "(which is not known)"))
	}
	return strings.Join(needed, "; ")
}

// Prefixes returns the prefix directories of the datasets, "" among them if one is not known. There are several if
// programs with different prefix directories had the same job id, and so the same caches.
func (j *Job) Prefixes() (dirs []string) {
	for _, d := range j.Datasets {
		if !slices.Contains(dirs, d.Prefix) {
			dirs = append(dirs, d.Prefix)
		}
	}
	return dirs
}
