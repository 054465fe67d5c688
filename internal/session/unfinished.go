package session

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/sys/descriptors"
)

// unfinished is the dataset that the program is writing, either in the cache or directly in
// the prefix directory.
type unfinished struct {
	*common
	dataset.Dataset
	cache   *cache.Cache
	cached  *cache.Cached // nil if it is written directly
	direct  *direct       // nil if it is written in the cache
	began   time.Time
	spent   spent        // of this rank
	wish    request.Wish // of the commands that have asked for it
	failed  error        // why it cannot be completed, nil if it can
	command string       // how the program restarts from it, "": as it was started
	silence *silence     // nil on ranks other than 0, and where ranks can share a file
	own     *directory   // where the rank writes files under names of its own, nil if it does not
}

// spent is where the time of a rank goes while the program writes a dataset.
type spent struct {
	opened time.Time     // when the program began to write
	routed time.Duration // in calls of Route
}

// files returns the number of files of all ranks, once the dataset is complete.
func (o *unfinished) files() int {
	if o.direct != nil {
		return o.direct.Files()
	}
	return o.cached.Files()
}

// route returns the path under which the program writes a file.
func (o *unfinished) route(name string) (string, error) {
	start := time.Now()
	defer func() { o.spent.routed += time.Since(start) }()
	if path, ok := o.inOwn(name); ok {
		return path, nil
	}
	file, err := o.paths.below(name)
	if err == nil && o.mayShare() {
		file, err = o.paths.direct(file)
	}
	if err != nil {
		return "", err
	}
	path, err := o.add(file, name)
	if err == nil {
		o.silence.route(path)
	}
	return path, err
}

// add enters a file that the program calls name, and returns its path.
func (o *unfinished) add(file, name string) (string, error) {
	md := meta.NewFull(file, o.world.Size(), name, filepath.Join(o.prefix.Dir, filepath.Dir(file)))
	if o.direct != nil {
		return o.direct.add(md)
	}
	return o.cache.Add(o.cached, md)
}

// mayShare reports whether several ranks can write parts of one file of a dataset.
func (o *unfinished) mayShare() bool {
	return o.direct != nil || o.cache.Common(o.ID()) != ""
}

// warnOfOpenFiles warns if this rank still has a file of a dataset open for writing: what the C library writes when the program
// closes it, comes after the dataset was protected. It is not collective.
func (o *unfinished) warnOfOpenFiles() {
	var paths []string
	if o.direct != nil {
		paths = slices.Collect(maps.Keys(o.direct.files))
	} else {
		for _, f := range o.cache.Files(o.ID()) {
			paths = append(paths, f.Path)
		}
	}
	if open := descriptors.Writing(paths); len(open) > 0 {
		o.log.WarnFirst("dataset %d (%s) is completed while %s is still open for writing: what is written to it later, as by fclose, is neither protected nor flushed, "+
			"and a restart refuses the file; close it before SCR_Complete_output", o.ID(), o.Name(), filepath.Base(slices.Min(open)))
	}
}

// directory is the directory in which a rank of the program writes files of a dataset under
// names of its own.
type directory struct {
	below string // relative to the prefix directory
	path  string
	real  string // ... without symbolic links
}

// rankDirectory is where files are that a rank has named by itself, relative to the prefix
// directory.
func rankDirectory(dataset string, rank int) string {
	return filepath.Join(dataset, fmt.Sprintf("rank_%d.files", rank))
}

// directory makes the rank's directory in a dataset. What an earlier run has left of a
// dataset with the same number is not part of it.
func (o *unfinished) directory() (path string, err error) {
	if o.own != nil {
		return o.own.path, nil
	}
	below := rankDirectory(o.Name(), o.world.Rank())
	if o.direct != nil {
		path = filepath.Join(o.prefix.Dir, below)
		if left, err := os.ReadDir(path); err == nil && len(left) > 0 {
			return "", fmt.Errorf("%s is not empty: an earlier dataset has the name of this one; remove it, or use another name", path)
		}
		err = os.MkdirAll(path, 0o777)
	} else {
		path, err = o.cache.MakeDirectory(o.cached, below)
	}
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	o.own = &directory{below, path, real}
	return path, nil
}

// inOwn returns whether a file is in the rank's directory of a dataset, by the name that the
// program gives it: then it has its path already.
func (o *unfinished) inOwn(name string) (path string, ok bool) {
	if o.own == nil {
		return "", false
	}
	if path = filepath.Clean(name); !filepath.IsAbs(path) {
		dir, err := unix.Getwd()
		if err != nil {
			return "", false
		}
		path = filepath.Join(dir, path)
	}
	for _, dir := range []string{o.own.path, o.own.real} {
		ok = ok || strings.HasPrefix(path, dir+"/")
	}
	return path, ok
}

// enterOwn enters the files that are in the rank's directory of a dataset.
func (o *unfinished) enterOwn() error {
	if o.own == nil {
		return nil
	}
	return filepath.WalkDir(o.own.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, o.own.path+"/")
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s, in the directory of rank %d, is no regular file (%v), and cannot be part of a checkpoint", name, o.world.Rank(), d.Type())
		}
		_, err = o.add(filepath.Join(o.own.below, name), name)
		return err
	})
}
