package tracer

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// become makes the process the command, which the kernel stops, for its tracer, at each
// call that may change a file. All that the command starts is stopped there too.
func become(argv []string) error {
	runtime.LockOSThread() // the filter is the thread's, and the command begins with it
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	// Without this only root may have a filter, since programs that change to another user
	// would not expect one.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	code := filter()
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return fmt.Errorf("%s: %w", path, unix.Exec(path, argv, os.Environ()))
}

// Where the kernel has what a filter reads: struct seccomp_data.
const (
	offsetNumber = 0
	offsetArgs   = 16
)

// filter is a program for the kernel: for each kind of call a comparison, and what it
// asks of an argument, and a return.
func filter() (code []unix.SockFilter) {
	load := func(offset int) {
		code = append(code, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(offset)})
	}
	jump := func(how uint16, k uint32, yes, no uint8) {
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, Jt: yes, Jf: no, K: k})
	}
	end := func(what uint32) {
		code = append(code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: what})
	}
	load(offsetNumber)
	for _, number := range slices.Sorted(maps.Keys(kinds)) {
		c := kinds[number].when
		switch {
		case c == nil:
			jump(unix.BPF_JEQ, uint32(number), 0, 1)
			end(unix.SECCOMP_RET_TRACE)
		case c.bits != 0:
			jump(unix.BPF_JEQ, uint32(number), 0, 4)
			load(offsetArgs + 8*c.index) // the lower half, on machines with little endians
			jump(unix.BPF_JSET, c.bits, 0, 1)
			end(unix.SECCOMP_RET_TRACE)
			end(unix.SECCOMP_RET_ALLOW)
		default:
			n := len(c.is)
			jump(unix.BPF_JEQ, uint32(number), 0, uint8(n+3))
			load(offsetArgs + 8*c.index)
			for i, value := range c.is {
				jump(unix.BPF_JEQ, value, uint8(n-i), 0)
			}
			end(unix.SECCOMP_RET_ALLOW)
			end(unix.SECCOMP_RET_TRACE)
		}
	}
	end(unix.SECCOMP_RET_ALLOW)
	return code
}
