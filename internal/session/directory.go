package session

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/meta"
)

// directory is the directory in which a rank of the program writes files of a dataset under
// names of its own.
type directory struct {
	below string // relative to the prefix directory
	path  string
	real  string // ... without symbolic links
}

// Directory returns a directory of the calling rank in the dataset that is being written. All
// files that are in it and below it when the dataset is completed belong to the dataset, also
// those for which Route was not called; the names need not be different from those of other
// ranks. Anything but regular files and directories is an error there, and an empty directory is
// not kept. In a restart, Directory returns a directory that has these files again. It is not
// collective.
func (s *Session) Directory() (dir string, err error) {
	err = s.local("Directory", func() error {
		dir, err = s.directory()
		return err
	})
	if err != nil {
		return "", s.Spoil(err)
	}
	return dir, nil
}

func (s *Session) directory() (string, error) {
	switch {
	case s.output != nil:
		return s.beginDirectory(s.output)
	case s.state == restarting:
		return s.restart.Directory(rankDirectory(s.restart.Offered().Name(), s.world.Rank()))
	}
	return "", s.state.misplaced("Directory", states[idle].advice)
}

// rankDirectory is where files are that a rank has named by itself, relative to the prefix
// directory.
func rankDirectory(dataset string, rank int) string {
	return filepath.Join(dataset, fmt.Sprintf("rank_%d.files", rank))
}

// beginDirectory makes the rank's directory in a dataset. What an earlier run has left of a
// dataset with the same number is not part of it.
func (s *Session) beginDirectory(o *unfinished) (path string, err error) {
	if o.own != nil {
		return o.own.path, nil
	}
	below := rankDirectory(o.Name(), s.world.Rank())
	if o.direct != nil {
		path = filepath.Join(s.prefix.Dir, below)
		if left, err := os.ReadDir(path); err == nil && len(left) > 0 {
			return "", fmt.Errorf("%s is not empty: an earlier dataset has the name of this one; remove it, or use another name", path)
		}
		err = os.MkdirAll(path, 0o777)
	} else {
		path, err = s.cache.MakeDirectory(o.cached, below)
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
func (s *Session) enterOwn(o *unfinished) error {
	if o.own == nil {
		return nil
	}
	return filepath.WalkDir(o.own.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, o.own.path+"/")
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s, in the directory of rank %d, is no regular file (%v), and cannot be part of a checkpoint", name, s.world.Rank(), d.Type())
		}
		file := filepath.Join(o.own.below, name)
		md := meta.New(file, meta.Full, s.world.Size())
		md.SetOrigin(name, filepath.Join(s.prefix.Dir, filepath.Dir(file)))
		if o.direct != nil {
			_, err = o.direct.add(md)
		} else {
			_, err = s.cache.Add(o.cached, md)
		}
		return err
	})
}

// Reference returns what scr_restart is given to restart from the dataset that the program has
// begun last: the prefix directory and the number of the dataset, 0 if it has begun none. It is
// not collective.
func (s *Session) Reference() (prefix string, dataset int) {
	if s.started {
		dataset = s.numbers.id
	}
	return s.prefix.Dir, dataset
}
