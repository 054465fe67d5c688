package tracer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is a system call that changes a file.
type Call struct {
	Name string
	Path string // what it changes; of a call with two paths, the second
	Main bool   // made by the process that was started first
}

func (c Call) String() string { return c.Name + " " + c.Path }

// kind is a system call that changes files, by its number, and where its arguments say which.
type kind struct {
	name  string
	file  int   // index of the argument with a descriptor of the file, -1 if it has paths
	paths []arg // arguments with paths
	when  *condition
}

// arg is an argument with a path. dir is the index of the descriptor that the path is
// relative to, -1 if that is the working directory.
type arg struct{ dir, path int }

// condition is what an argument must have, else the call changes nothing.
type condition struct {
	index int
	bits  uint32   // some of these bits, if not 0
	is    []uint32 // else one of these values
}

const (
	ficlone      = 0x40049409
	ficloneRange = 0x4020940d
)

// creates are the flags of open that change a file.
func creates(index int) *condition {
	return &condition{index: index, bits: unix.O_CREAT | unix.O_TRUNC}
}

// kinds are all calls that change files, on all architectures. Stores to a file that is
// mapped are no calls; msync stands for them.
var kinds = map[int]kind{
	unix.SYS_OPENAT:          {"openat", -1, []arg{{0, 1}}, creates(2)},
	unix.SYS_WRITE:           {"write", 0, nil, nil},
	unix.SYS_PWRITE64:        {"pwrite", 0, nil, nil},
	unix.SYS_WRITEV:          {"writev", 0, nil, nil},
	unix.SYS_PWRITEV:         {"pwritev", 0, nil, nil},
	unix.SYS_PWRITEV2:        {"pwritev2", 0, nil, nil},
	unix.SYS_SENDFILE:        {"sendfile", 0, nil, nil},
	unix.SYS_SPLICE:          {"splice", 2, nil, nil},
	unix.SYS_COPY_FILE_RANGE: {"copy_file_range", 2, nil, nil},
	unix.SYS_IOCTL:           {"ioctl(FICLONE)", 0, nil, &condition{index: 1, is: []uint32{ficlone, ficloneRange}}},
	unix.SYS_FTRUNCATE:       {"ftruncate", 0, nil, nil},
	unix.SYS_TRUNCATE:        {"truncate", -1, []arg{{-1, 0}}, nil},
	unix.SYS_FALLOCATE:       {"fallocate", 0, nil, nil},
	unix.SYS_FSYNC:           {"fsync", 0, nil, nil},
	unix.SYS_FDATASYNC:       {"fdatasync", 0, nil, nil},
	unix.SYS_SYNC_FILE_RANGE: {"sync_file_range", 0, nil, nil},
	unix.SYS_SYNCFS:          {"syncfs", 0, nil, nil},
	unix.SYS_RENAMEAT2:       {"renameat2", -1, []arg{{0, 1}, {2, 3}}, nil},
	unix.SYS_UNLINKAT:        {"unlinkat", -1, []arg{{0, 1}}, nil},
	unix.SYS_MKDIRAT:         {"mkdirat", -1, []arg{{0, 1}}, nil},
	unix.SYS_MKNODAT:         {"mknodat", -1, []arg{{0, 1}}, nil},
	unix.SYS_LINKAT:          {"linkat", -1, []arg{{0, 1}, {2, 3}}, nil},
	unix.SYS_SYMLINKAT:       {"symlinkat", -1, []arg{{1, 2}}, nil},
	unix.SYS_FCHMOD:          {"fchmod", 0, nil, nil},
	unix.SYS_FCHMODAT:        {"fchmodat", -1, []arg{{0, 1}}, nil},
	unix.SYS_FCHMODAT2:       {"fchmodat2", -1, []arg{{0, 1}}, nil},
	unix.SYS_FCHOWN:          {"fchown", 0, nil, nil},
	unix.SYS_FCHOWNAT:        {"fchownat", -1, []arg{{0, 1}}, nil},
	unix.SYS_UTIMENSAT:       {"utimensat", -1, []arg{{0, 1}}, nil},
	unix.SYS_SETXATTR:        {"setxattr", -1, []arg{{-1, 0}}, nil},
	unix.SYS_LSETXATTR:       {"lsetxattr", -1, []arg{{-1, 0}}, nil},
	unix.SYS_FSETXATTR:       {"fsetxattr", 0, nil, nil},
	unix.SYS_REMOVEXATTR:     {"removexattr", -1, []arg{{-1, 0}}, nil},
	unix.SYS_FREMOVEXATTR:    {"fremovexattr", 0, nil, nil},
	unix.SYS_MSYNC:           {"msync", -1, nil, nil},
}

// syscallInfo is struct ptrace_syscall_info of the kernel, at a stop by seccomp.
type syscallInfo struct {
	op      uint8
	_       [3]uint8
	arch    uint32
	ip, sp  uint64
	number  uint64
	args    [6]uint64
	retData uint32
	_       uint32
}

const (
	getSyscallInfo = 0x420e // PTRACE_GET_SYSCALL_INFO
	atSeccomp      = 3      // PTRACE_SYSCALL_INFO_SECCOMP
)

// readCall returns the call that a stopped thread is about to make, if it changes
// something below one of some directories.
func readCall(tid int, watched []string) (Call, bool) {
	var info syscallInfo
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 || info.op != atSeccomp {
		return Call{}, false
	}
	k, ok := kinds[int(info.number)]
	if !ok {
		return Call{}, false
	}
	call := Call{Name: k.name}
	found := false
	for _, path := range k.changes(tid, &info) {
		path = strings.TrimSuffix(path, " (deleted)")
		for _, dir := range watched {
			if path == dir || strings.HasPrefix(path, dir+"/") {
				call.Path, found = path, true
			}
		}
	}
	return call, found
}

// changes returns the files that a call is about.
func (k kind) changes(tid int, info *syscallInfo) (paths []string) {
	switch {
	case k.name == "msync":
		return mapped(tid, info.args[0])
	case k.file >= 0:
		return []string{opened(tid, int32(info.args[k.file]))}
	}
	for _, a := range k.paths {
		path, ok := text(tid, info.args[a.path])
		if !ok || filepath.IsAbs(path) {
			paths = append(paths, filepath.Clean(path))
			continue
		}
		dir := int32(unix.AT_FDCWD)
		if a.dir >= 0 {
			dir = int32(info.args[a.dir])
		}
		paths = append(paths, filepath.Join(opened(tid, dir), path)) // "": the descriptor itself
	}
	return paths
}

// opened returns the path of a descriptor of a thread, or of its working directory.
func opened(tid int, descriptor int32) string {
	link := fmt.Sprintf("/proc/%d/fd/%d", tid, descriptor)
	if descriptor == unix.AT_FDCWD {
		link = fmt.Sprintf("/proc/%d/cwd", tid)
	}
	path, _ := os.Readlink(link) // else the call will fail
	return path
}

// mapped returns the file that a thread has mapped at an address.
func mapped(tid int, at uint64) []string {
	maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", tid))
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err == nil && from <= at && at < to {
			if f := strings.Fields(line); len(f) >= 6 {
				return []string{strings.Join(f[5:], " ")}
			}
		}
	}
	return nil
}

// text reads a string from the memory of a thread, page by page.
func text(tid int, at uint64) (string, bool) {
	var all []byte
	buffer := make([]byte, os.Getpagesize())
	for len(all) < 2*unix.PathMax {
		piece := buffer[:len(buffer)-int(at)%len(buffer)]
		remote := []unix.RemoteIovec{{Base: uintptr(at), Len: len(piece)}}
		n, err := unix.ProcessVMReadv(tid, []unix.Iovec{{Base: &piece[0], Len: uint64(len(piece))}}, remote, 0)
		if err != nil || n == 0 {
			return "", false
		}
		if end := bytes.IndexByte(piece[:n], 0); end >= 0 {
			return string(append(all, piece[:end]...)), true
		}
		all = append(all, piece[:n]...)
		at += uint64(n)
	}
	return "", false
}
