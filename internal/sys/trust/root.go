// Package trust decides what goscr takes from other users. A prefix directory may be
// writable by a group or lie in /tmp, and root and support staff run commands in the
// directories of users.
//
//	root.go   files below a directory, without links that others have made
//	walk.go   the directories on the way to them
//	owner.go  files that may make a command run, and the owner that a new file gets
//
// All paths that were read from a file are opened by a Root.
package trust

import (
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

	"github.com/goscr/goscr/internal/sys/descriptors"
)

// Metadata is the directory, below a prefix directory, for goscr's own files.
const Metadata = ".scr"

// Root is a directory in which others may be able to write. Its methods take paths that
// begin with it, and work on the files below it. They follow no symbolic link in place of a
// file, and none in place of a directory unless it leads to a place below the root and
// belongs to the caller or to root; if the caller is root, it may belong to the owner
// of the directory, too.
//
// The methods of the empty Root take any path. They follow no link in place of the file. It
// is for directories that only the caller can change.
type Root string

// Around returns the root of one of goscr's own files: the directory that has the
// directory Metadata in which the file is. It is empty if the file is elsewhere.
func Around(path string) Root {
	const in = "/" + Metadata
	dir, found := strings.CutSuffix(path, in)
	for i := len(path); !found && i > 0; {
		if i = strings.LastIndex(path[:i], in); i > 0 && path[i+len(in)] == '/' {
			dir, found = path[:i], true
		}
	}
	if !found || !filepath.IsAbs(dir) {
		return ""
	}
	return Root(dir)
}

// Covers reports whether a path begins with the root.
func (r Root) Covers(path string) bool {
	_, err := r.below(path)
	return r != "" && err == nil
}

// Of returns the root itself if it covers a path, else the empty one.
func (r Root) Of(path string) Root {
	if r.Covers(path) {
		return r
	}
	return ""
}

// below returns a path relative to the root.
func (r Root) below(path string) (string, error) {
	root := filepath.Clean(string(r))
	path = filepath.Clean(path)
	if path == root {
		return ".", nil
	}
	rel, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/")+"/")
	if !ok || !filepath.IsLocal(rel) {
		return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("is not below " + root)}
	}
	return rel, nil
}

// at opens the directory of a path and calls do with it and with the last element of the path.
func (r Root) at(op, path string, do func(dir int, name string) error) error {
	descriptors.Hold()
	defer descriptors.Release()
	dir, name := unix.AT_FDCWD, path
	if r != "" {
		rel, err := r.below(path)
		if err != nil {
			return err
		}
		w, err := r.walk(filepath.Dir(rel), 0)
		if err != nil {
			return named(op, path, err)
		}
		defer w.close()
		dir, name = w.dir, filepath.Base(rel)
	}
	err := do(dir, name)
	for errors.Is(err, unix.EINTR) {
		err = do(dir, name)
	}
	return named(op, path, err)
}

// named adds the path to an error that has none.
func named(op, path string, err error) error {
	if errno := unix.Errno(0); errors.As(err, &errno) && err == error(errno) {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return err
}

// OpenFile is os.OpenFile, with a descriptor above 2. It does not follow a link in place of the file.
func (r Root) OpenFile(path string, flag int, perm fs.FileMode) (f *os.File, err error) {
	err = r.at("open", path, func(dir int, name string) error {
		fd, err := unix.Openat(dir, name, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(perm.Perm()))
		if err == unix.ESTALE { // a network file system remembers a file that is no more; it looks the name up again
			fd, err = unix.Openat(dir, name, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(perm.Perm()))
		}
		if err != nil {
			return err
		}
		f, err = descriptors.Above(os.NewFile(uintptr(fd), path), nil)
		return err
	})
	return f, err
}

// Append opens one of goscr's own files to append to it, and makes it if there is none. It
// follows no link, and a file with further names, which could be any file of the caller, is an error.
func Append(path string, perm fs.FileMode) (*os.File, error) {
	f, err := Around(path).OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NONBLOCK, perm)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = plain(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// CheckPlain checks one of goscr's own files in which another library is about to write: if it is
// there, it is what Append would open.
func CheckPlain(path string) error {
	info, err := Around(path).Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return plain(path, info)
}

func plain(path string, info fs.FileInfo) error {
	switch st := info.Sys().(*syscall.Stat_t); {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file, and nothing is written to it: remove it", path)
	case st.Nlink > 1:
		return fmt.Errorf("%s is a file with %d names, and may be any file of %s, so nothing is written to it: remove it", path, st.Nlink, Name(int(st.Uid)))
	}
	return nil
}

// Lstat is os.Lstat.
func (r Root) Lstat(path string) (info fs.FileInfo, err error) {
	if r == "" { // which needs no descriptor
		if info, err = os.Lstat(path); errors.Is(err, unix.ESTALE) { // as in OpenFile
			info, err = os.Lstat(path)
		}
		return info, err
	}
	f, err := r.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// Rename is os.Rename.
func (r Root) Rename(from, to string) error {
	return r.at("rename", from, func(a int, old string) error {
		return r.at("rename", to, func(b int, name string) error { return unix.Renameat(a, old, b, name) })
	})
}

// Link is os.Link.
func (r Root) Link(from, to string) error {
	return r.at("link", from, func(a int, old string) error {
		return r.at("link", to, func(b int, name string) error { return unix.Linkat(a, old, b, name, 0) })
	})
}

// Remove is os.Remove.
func (r Root) Remove(path string) error {
	return r.at("remove", path, func(dir int, name string) error {
		err := unix.Unlinkat(dir, name, 0)
		if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
			if e := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); !errors.Is(e, unix.ENOTDIR) {
				return e
			}
		}
		return err
	})
}

// Rmdir removes an empty directory.
func (r Root) Rmdir(path string) error {
	return r.at("rmdir", path, func(dir int, name string) error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
}

// RemoveAll is os.RemoveAll. Several processes may remove the same directory.
func (r Root) RemoveAll(path string) error {
	err := r.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	d, err := r.OpenFile(path, unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	err = errors.Join(empty(d), r.Rmdir(path))
	if _, gone := r.Lstat(path); errors.Is(gone, fs.ErrNotExist) {
		return nil
	}
	return err
}

// empty removes everything in a directory.
func empty(d *os.File) error {
	names, err := d.Readdirnames(-1)
	for _, name := range names {
		e := unix.Unlinkat(int(d.Fd()), name, 0)
		if errors.Is(e, unix.EISDIR) || errors.Is(e, unix.EPERM) {
			e = emptyBelow(d, name)
		}
		if e != nil && !errors.Is(e, unix.ENOENT) {
			err = errors.Join(err, named("remove", filepath.Join(d.Name(), name), e))
		}
	}
	return err
}

func emptyBelow(d *os.File, name string) error {
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	below := os.NewFile(uintptr(fd), filepath.Join(d.Name(), name))
	defer below.Close()
	if err := empty(below); err != nil {
		return err
	}
	return unix.Unlinkat(int(d.Fd()), name, unix.AT_REMOVEDIR)
}

// Mkdir is os.Mkdir.
func (r Root) Mkdir(path string, perm fs.FileMode) error {
	return r.at("mkdir", path, func(dir int, name string) error { return unix.Mkdirat(dir, name, uint32(perm.Perm())) })
}

// MkdirAll is os.MkdirAll.
func (r Root) MkdirAll(path string, perm fs.FileMode) error {
	if r == "" {
		return os.MkdirAll(path, perm)
	}
	descriptors.Hold()
	defer descriptors.Release()
	rel, err := r.below(path)
	if err != nil {
		return err
	}
	w, err := r.walk(rel, perm.Perm())
	if err != nil {
		return named("mkdir", path, err)
	}
	w.close()
	return nil
}

// IsDir returns an error unless there is a directory at a path, which may be a link that counts.
func (r Root) IsDir(path string) error {
	if r == "" {
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "stat", Path: path, Err: unix.ENOTDIR}
		}
		return err
	}
	descriptors.Hold()
	defer descriptors.Release()
	rel, err := r.below(path)
	if err != nil {
		return err
	}
	w, err := r.walk(rel, 0)
	if err != nil {
		return named("stat", path, err)
	}
	w.close()
	return nil
}

// openDir opens a directory below the root, which may be a link that counts.
func (r Root) openDir(path string) (*os.File, error) {
	if r == "" {
		return descriptors.Open(path)
	}
	descriptors.Hold()
	defer descriptors.Release()
	rel, err := r.below(path)
	if err != nil {
		return nil, err
	}
	w, err := r.walk(rel, 0)
	if err != nil {
		return nil, named("open", path, err)
	}
	defer w.close()
	fd, err := unix.Openat(w.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, named("open", path, err)
	}
	return descriptors.Above(os.NewFile(uintptr(fd), path), nil)
}

// ReadDir is os.ReadDir.
func (r Root) ReadDir(path string) ([]fs.DirEntry, error) {
	d, err := r.openDir(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	list, err := d.ReadDir(-1)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}

// SyncDir writes the names in a directory to their medium.
func (r Root) SyncDir(path string) error {
	d, err := r.openDir(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return Sync(d)
}

// Sync writes a file to its medium. It succeeds where the file system has no such operation, as some
// in user space: goscr cannot make data durable there.
func Sync(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// Chtimes is os.Chtimes, and sets the times of a link in place of the file, not of what it leads to.
func (r Root) Chtimes(path string, atime, mtime time.Time) error {
	times := []unix.Timespec{unix.NsecToTimespec(atime.UnixNano()), unix.NsecToTimespec(mtime.UnixNano())}
	return r.at("chtimes", path, func(dir int, name string) error {
		return unix.UtimesNanoAt(dir, name, times, unix.AT_SYMLINK_NOFOLLOW)
	})
}
