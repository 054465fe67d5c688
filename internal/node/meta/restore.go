package meta

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/sys/trust"
)

// Mode, owner and times are not data: a file system that refuses to set them, as those on
// object stores do, costs no file. The first refusal is told to a function that the process
// has named, and the others to nobody.
var refusals struct {
	mu   sync.Mutex
	tell func(error)
}

// OnRefusal has a function told of the first time that a file system refuses to set a mode, an owner or a time.
func OnRefusal(tell func(error)) {
	refusals.mu.Lock()
	defer refusals.mu.Unlock()
	refusals.tell = tell
}

func refused(path, what string, err error) {
	refusals.mu.Lock()
	tell := refusals.tell
	refusals.tell = nil
	refusals.mu.Unlock()
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	if tell != nil {
		tell(fmt.Errorf("the %s of %s cannot be set (%w); the file is complete without. No more lines are written about modes, owners and times", what, path, err))
	}
}

// Any is the source of a file whose original is not known.
const Any = -1

// Restore sets mode, group and times of a file below a directory as they are recorded. It
// returns an error only if the file cannot be opened. See RestoreMode.
func (m Meta) Restore(below trust.Root, path string) error {
	f, err := below.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) { // its mode may not let its owner read it
		f, err = below.OpenFile(path, unix.O_PATH, 0)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	m.RestoreMode(f, below, Any)
	m.RestoreTimes(below, path)
	return nil
}

// special are those bits of a mode that are never set. Whoever can write to a list of files
// could else make a program of another user out of bytes of his own.
const special = unix.S_ISUID | unix.S_ISGID

// RestoreMode sets the recorded mode of an open file below a directory, without set-id bits, and the
// recorded group, unless the file has its group from a directory with the set-group-id bit. Root
// gives the file to the owner of the directory instead, see trust.Root.Owner; source is the
// user which user has written the original, or Any.
func (m Meta) RestoreMode(f *os.File, below trust.Root, source int) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	st := info.Sys().(*syscall.Stat_t)
	if err := m.restoreOwner(f, st, below, source); err != nil {
		refused(f.Name(), "owner", err)
	}
	// After chown, which clears the set-id bits.
	if mode, err := strconv.ParseUint(m.h.Text(keyMode), 8, 12); err == nil {
		if mode &^= special; uint32(mode) != st.Mode&0o7777 {
			if err := chmod(f, uint32(mode)); err != nil {
				refused(f.Name(), "mode", err)
			}
		}
	}
}

// restoreOwner sets owner and group. It is no error if the caller is not in the group.
func (m Meta) restoreOwner(f *os.File, st *syscall.Stat_t, below trust.Root, source int) error {
	if uid, gid, give := below.Owner(source); give {
		if uid == int(st.Uid) && gid == int(st.Gid) {
			return nil
		}
		return chown(f, uid, gid)
	}
	gid, known := m.h.Int(keyGID)
	if !known || gid < 0 || gid == int64(st.Gid) || os.Geteuid() == 0 && below != "" && source != 0 {
		return nil
	}
	if dir, err := os.Stat(filepath.Dir(f.Name())); err != nil || dir.Mode()&fs.ModeSetgid != 0 {
		return nil
	}
	if err := chown(f, -1, int(gid)); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// chown and chmod also change a file that was opened by O_PATH.
func chown(f *os.File, uid, gid int) error {
	return unix.Fchownat(int(f.Fd()), "", uid, gid, unix.AT_EMPTY_PATH)
}

func chmod(f *os.File, mode uint32) error {
	err := unix.Fchmod(int(f.Fd()), mode)
	if errors.Is(err, unix.EBADF) {
		err = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), mode)
	}
	return err
}

// RecordTimes takes the times from a file below a directory.
func (m Meta) RecordTimes(below trust.Root, path string) error {
	info, err := below.Lstat(path)
	if err == nil {
		m.recordTimes(info)
	}
	return err
}

// RestoreTimes sets the recorded times of a file below a directory, and reports whether the file has them.
func (m Meta) RestoreTimes(below trust.Root, path string) bool {
	mtime, haveMtime := m.h.Int(keyMtime)
	atime, haveAtime := m.h.Int(keyAtime)
	if !haveMtime || !haveAtime {
		return true
	}
	err := below.Chtimes(path, time.Unix(0, atime), time.Unix(0, mtime))
	if err != nil {
		refused(path, "time", err)
	}
	return err == nil
}
