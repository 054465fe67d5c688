package descriptors

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Writing returns those of some files that this process has open for writing. What it cannot find out it does not return.
func Writing(paths []string) (open []string) {
	if len(paths) == 0 {
		return nil
	}
	type inode struct{ dev, ino uint64 }
	named := map[inode]string{}
	for _, path := range paths {
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			named[inode{st.Dev, st.Ino}] = path
		}
	}
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil { // it has been closed meanwhile
			continue
		}
		id := inode{st.Dev, st.Ino}
		path, ok := named[id]
		if !ok {
			continue
		}
		if mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil && mode&unix.O_ACCMODE != unix.O_RDONLY && mode&unix.O_PATH == 0 {
			open = append(open, path)
			delete(named, id)
		}
	}
	return open
}
