package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/sys/descriptors"
)

// LinkError says that a symbolic link was found on the way to a file and was not followed.
type LinkError struct {
	Link  string // its path
	Owner int
	Out   bool // it leads out of Root
	Root  string
}

func (e *LinkError) Error() string {
	if e.Out {
		return fmt.Sprintf("%s is a symbolic link that leads out of %s, where goscr does not follow it: put a directory in its place", e.Link, e.Root)
	}
	return fmt.Sprintf("%s is a symbolic link of user %d, which goscr does not follow for user %d: remove it", e.Link, e.Owner, os.Geteuid())
}

// mostLinks is how many links are followed for one path, as by Linux.
const mostLinks = 40

// walker is on its way through the directories below a root.
type walker struct {
	root  Root
	base  int         // descriptor of the root
	dir   int         // ... of the directory in which the walker is
	names []string    // the directories between the two, none of which is a link
	mode  fs.FileMode // of directories to be made; 0: make none
	links int
}

func (w *walker) close() {
	w.enter(-1)
	_ = unix.Close(w.base)
}

// enter makes a directory, whose descriptor is fd, the walker's own.
func (w *walker) enter(fd int) {
	if w.dir != w.base && w.dir >= 0 {
		_ = unix.Close(w.dir)
	}
	w.dir = fd
}

// open opens a directory relative to another.
func open(at int, name string, flags int) (fd int, err error) {
	for {
		if fd, err = unix.Openat(at, name, unix.O_PATH|unix.O_CLOEXEC|flags, 0); err != unix.EINTR {
			return fd, err
		}
	}
}

// walk goes to the directory at a path relative to the root. If mode is not 0, it makes
// those that are missing.
func (r Root) walk(rel string, mode fs.FileMode) (*walker, error) {
	base, err := open(unix.AT_FDCWD, string(r), unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) && mode != 0 {
		if err = os.MkdirAll(string(r), mode); err == nil {
			base, err = open(unix.AT_FDCWD, string(r), unix.O_DIRECTORY)
		}
	}
	if err != nil {
		return nil, named("open", string(r), err)
	}
	w := &walker{root: r, base: base, dir: base, mode: mode}
	if rel == "." || w.jump(rel) {
		return w, nil
	}
	if _, err := w.steps(strings.Split(rel, "/")); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// Direct returns a path of a directory, relative to the root, without symbolic links. From the first directory on that
// is not there it stays as it is, and all of it if there is a link that does not count.
func (r Root) Direct(rel string) string {
	descriptors.Hold()
	defer descriptors.Release()
	base, err := open(unix.AT_FDCWD, string(r), unix.O_DIRECTORY)
	if err != nil {
		return rel
	}
	w := &walker{root: r, base: base, dir: base}
	defer w.close()
	if w.jump(rel) {
		return rel
	}
	left, err := w.steps(strings.Split(rel, "/"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return rel
	}
	if direct := filepath.Join(append(w.names, left...)...); filepath.IsLocal(direct) {
		return direct
	}
	return rel
}

// jump goes all the way at once, if the kernel can, all directories are there, and no link is among them.
func (w *walker) jump(rel string) bool {
	fd, err := unix.Openat2(w.base, rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err == nil {
		w.dir = fd
	}
	return err == nil
}

// steps goes from one directory to the next. After an error, left begins with the one that could not be entered.
func (w *walker) steps(rest []string) (left []string, err error) {
	for ; len(rest) > 0; rest = rest[1:] {
		name := rest[0]
		switch name {
		case "", ".":
			continue
		case "..":
			if err := w.back(); err != nil {
				return rest, err
			}
			continue
		}
		target, err := w.step(name)
		if err != nil {
			return rest, err
		}
		if target != "" {
			rest = append(strings.Split("./"+target, "/"), rest[1:]...)
		}
	}
	return nil, nil
}

// back goes to the directory above, for a link with ".." in it. The one from which it came may
// have been moved meanwhile, so it starts again at the root.
func (w *walker) back() error {
	if len(w.names) == 0 {
		return errOut
	}
	names := slices.Clone(w.names[:len(w.names)-1])
	w.enter(w.base)
	w.names = nil
	for _, name := range names {
		if target, err := w.step(name); err != nil || target != "" {
			return errors.Join(err, unix.ENOTDIR)
		}
	}
	return nil
}

var errOut = errors.New("a symbolic link leads out of the directory")

// step enters a directory, or returns the target of a link in its place.
func (w *walker) step(name string) (target string, err error) {
	fd, err := open(w.dir, name, unix.O_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) && w.mode != 0 {
		if err = unix.Mkdirat(w.dir, name, uint32(w.mode)); err == nil || errors.Is(err, fs.ErrExist) {
			fd, err = open(w.dir, name, unix.O_NOFOLLOW)
		}
	}
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return "", err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		w.enter(fd)
		w.names = append(w.names, name)
		return "", nil
	case unix.S_IFLNK:
		defer unix.Close(fd)
		return w.follow(fd, name, int(st.Uid))
	}
	_ = unix.Close(fd)
	return "", unix.ENOTDIR
}

// follow returns the target of a link, and goes back to the root if the target is a path from there.
func (w *walker) follow(fd int, name string, owner int) (string, error) {
	link := filepath.Join(slices.Concat([]string{string(w.root)}, w.names, []string{name})...)
	refused := &LinkError{Link: link, Owner: owner, Root: string(w.root)}
	if w.links++; w.links > mostLinks {
		return "", unix.ELOOP
	}
	if !w.counts(owner) {
		return "", refused
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	refused.Out = true
	target := string(buf[:n])
	if !filepath.IsAbs(target) {
		depth := len(w.names)
		for _, e := range strings.Split(target, "/") {
			switch e {
			case "", ".":
			case "..":
				depth--
			default:
				depth++
			}
			if depth < 0 {
				return "", refused
			}
		}
		return filepath.Clean(target), nil
	}
	roots := []Root{w.root}
	if real, err := filepath.EvalSymlinks(string(w.root)); err == nil {
		roots = append(roots, Root(real))
	}
	for _, r := range roots {
		if rel, err := r.below(target); err == nil {
			w.enter(w.base)
			w.names = nil
			return rel, nil
		}
	}
	return "", refused
}

// counts reports whether the links of a user are followed.
func (w *walker) counts(owner int) bool {
	self := os.Geteuid()
	if owner == self || owner == 0 {
		return true
	}
	var st unix.Stat_t
	return self == 0 && unix.Fstat(w.base, &st) == nil && int(st.Uid) == owner
}
