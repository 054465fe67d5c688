package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A Base is storage of a node that a parameter names.
type Base struct {
	Dir   string
	SetBy string // the parameter and where its value is from
}

// privateDir makes a directory below a base that only the user can enter. One that is
// there already must belong to the user and must not be a symbolic link: another user who
// made it could read and change checkpoints.
func privateDir(base Base, below ...string) error {
	if err := MakePrivate(base.Dir, below...); err != nil {
		return fmt.Errorf("%w: choose another directory with %s", err, base.SetBy)
	}
	return nil
}

// MakePrivate makes directories below base that only the user can enter.
func MakePrivate(base string, below ...string) error {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return err
	}
	dir := base
	for _, name := range below {
		dir = filepath.Join(dir, name)
		// scr_clean may remove a directory that is there, before this has looked at it.
		err := makePrivate(dir)
		for tries := 1; errors.Is(err, fs.ErrNotExist) && tries < 100; tries++ {
			err = makePrivate(dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func makePrivate(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is not a directory", dir)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d", dir, st.Uid)
	case st.Mode&0o077 != 0:
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// unexpected returns the topmost directory above a base that does not exist, "" if all do. A
// name that is mistyped would be made like any other. The user's own directory is left
// out: a node that the job has just been given may not have it.
func unexpected(base, user string) string {
	top := ""
	for dir := filepath.Dir(base); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return top
		}
		if filepath.Base(dir) != user {
			top = dir
		}
	}
}

// Trusted reports whether a directory that a filemap names was made by goscr for this user
// and job: its path ends in below, and no other user can write to it.
func Trusted(dir, below string) bool {
	ending := string(filepath.Separator) + below
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || len(dir) <= len(ending) || dir[len(dir)-len(ending):] != ending {
		return false
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		var st unix.Stat_t
		if unix.Lstat(d, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
			return false
		}
	}
	return true
}

// match returns the paths of the files in dir whose names match a pattern. filepath.Glob
// would take the brackets in dir, which ids of array jobs have, for part of the pattern.
func match(dir, pattern string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var found []string
	for _, e := range entries {
		if ok, _ := filepath.Match(pattern, e.Name()); ok {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found, err
}

// InMemory reports whether a directory is on a file system that a reboot empties.
func InMemory(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC)
}

// remove deletes a file. It is no error if there is none.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// noRoom reports whether an error says that a file system is full.
func noRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
