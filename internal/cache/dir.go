package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// PrivateDir makes a directory below base that only the user can enter. One that is
// there already must belong to the user and must not be a symbolic link: another user who
// made it could read and change checkpoints.
func PrivateDir(base string, below ...string) error {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return fmt.Errorf("storage of the node: %w (SCR_CACHE_BASE, SCR_CNTL_BASE and STORE= lines say where it is)", err)
	}
	dir := base
	for _, name := range below {
		dir = filepath.Join(dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return &fs.PathError{Op: "stat", Path: dir, Err: err}
		}
		switch {
		case st.Mode&unix.S_IFMT != unix.S_IFDIR:
			return fmt.Errorf("%s is not a directory: remove it, or choose another SCR_CACHE_BASE and SCR_CNTL_BASE", dir)
		case int(st.Uid) != os.Geteuid():
			return fmt.Errorf("%s belongs to user %d: choose another SCR_CACHE_BASE and SCR_CNTL_BASE", dir, st.Uid)
		}
		if st.Mode&0o077 != 0 {
			if err := os.Chmod(dir, 0o700); err != nil {
				return err
			}
		}
	}
	return nil
}

// trusted reports whether a directory that a filemap names was made by goscr for this user
// and job: its path ends in below, and no other user can write to it.
func trusted(dir, below string) bool {
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

// remove deletes a file. It is no error if there is none.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
