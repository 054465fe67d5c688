package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/sys/trust"
)

// mostSigned is the number of bytes that a lock file of any version may have.
const mostSigned = 300

// open opens a lock file, and creates it if there is none.
func open(path string) (*os.File, error) {
	const flags = os.O_RDWR | unix.O_NONBLOCK
	f, err := trust.Around(path).OpenFile(path, flags|os.O_CREATE, 0o600)
	if err != nil {
		if info, e := os.Lstat(path); e == nil && errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w: the lock file belongs to user %d, who alone can take the lock; remove it if no process of that user works here", err, owner(info).Uid)
		}
		return nil, err
	}
	if err := restrict(f, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func owner(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// restrict gives access to a lock file to those users only who can write to its directory.
// It is no error if the mode cannot be changed: then fewer users can take the lock, or the
// file system has no modes.
func restrict(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("lock %s: is not a regular file", path)
	}
	if owner(info).Nlink > 1 {
		return fmt.Errorf("lock %s: is a file with %d names, and may be any file of user %d, so nothing is written to it: remove it", path, owner(info).Nlink, owner(info).Uid)
	}
	if info.Size() > mostSigned {
		return fmt.Errorf("lock %s: has %d bytes, and is not a lock file: remove it", path, info.Size())
	}
	dir, err := os.Stat(filepath.Dir(path))
	self := os.Geteuid()
	if err != nil || self != 0 && int(owner(info).Uid) != self {
		return nil
	}
	group := owner(info).Gid
	if self == 0 && owner(info).Uid == 0 && owner(dir).Uid != 0 { // root works in a user's directory: the user must be able to lock, too
		if f.Chown(int(owner(dir).Uid), int(owner(dir).Gid)) == nil {
			group = owner(dir).Gid
		}
	}
	mode := os.FileMode(0o600)
	if dir.Mode()&0o020 != 0 && group == owner(dir).Gid {
		mode |= 0o060
	}
	if dir.Mode()&0o002 != 0 && dir.Mode()&os.ModeSticky == 0 {
		mode |= 0o006
	}
	if info.Mode().Perm() != mode {
		_ = f.Chmod(mode)
	}
	return nil
}
