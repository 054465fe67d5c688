package descriptors

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Writing returns those of some files that this process has open for writing. What it cannot find out it does not return.
// It looks only at files with the name of an open one, because there may be very many: it does not find one that is open
// under another of its names.
func Writing(paths []string) (open []string) {
	if len(paths) == 0 {
		return nil
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
		mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil || mode&unix.O_ACCMODE == unix.O_RDONLY || mode&unix.O_PATH != 0 {
			continue
		}
		link, err := os.Readlink("/proc/self/fd/" + name)
		if err != nil || !filepath.IsAbs(link) { // it has been closed meanwhile, or is a socket, or a pipe
			continue
		}
		base := filepath.Base(link)
		for _, path := range paths {
			if filepath.Base(path) == base && !slices.Contains(open, path) && isFile(fd, path) {
				open = append(open, path)
			}
		}
	}
	return open
}

// isFile reports whether a descriptor is that of the regular file at a path.
func isFile(fd int, path string) bool {
	var opened, there unix.Stat_t
	return unix.Fstat(fd, &opened) == nil && unix.Lstat(path, &there) == nil && there.Mode&unix.S_IFMT == unix.S_IFREG &&
		opened.Dev == there.Dev && opened.Ino == there.Ino
}
