// Package storagetest makes storage fail under a test. What it does to a process
// cannot be undone, so the test runs once more in a process of its own:
//
//	if dir := storagetest.Dir(); dir != "" { // in the other process
//		must(t, storagetest.Refuse(unix.EDQUOT, 500))
//		…                                   // call what is tested, with the files in dir
//		return
//	}
//	dir := …                                // make the files
//	storagetest.Again(t, dir)
//	…                                       // check what is in dir
package storagetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const variable = "SCR_TEST_DIR"

// Base is where tests make the directories of a cluster: in memory, where syncing costs
// nothing, or in the directory that GOSCR_TEST_BASE names, on the file system that is to
// be tested.
func Base() string {
	base, ok := os.LookupEnv("GOSCR_TEST_BASE")
	if !ok {
		base = "/dev/shm"
	}
	if _, err := os.Stat(base); err != nil && !ok {
		return ""
	}
	return base
}

// nobody is a user without access to files of others.
const nobody = 65534

// Dir is, in the process that Again has started, the directory that Again was given; else
// it is "".
func Dir() string { return os.Getenv(variable) }

// Again runs the calling test in a process of its own.
func Again(t *testing.T, dir string) {
	t.Helper()
	finish(t, again(t, dir))
}

// AgainUnprivileged is Again as a user who is not root, and who becomes the owner of all
// that is in dir.
func AgainUnprivileged(t *testing.T, dir string) {
	t.Helper()
	cmd := again(t, dir)
	if os.Geteuid() == 0 {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, nobody, nobody)
		})
		if err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	finish(t, cmd)
}

// AgainMounted is Again in a mount namespace of its own, in which script has run before;
// it finds dir in $dir, and may mount. The test is skipped where that is not possible.
func AgainMounted(t *testing.T, dir, script string) {
	t.Helper()
	if os.Geteuid() != 0 || exec.Command("unshare", "--mount", "true").Run() != nil {
		t.Skip("needs root, to mount")
	}
	cmd := again(t, dir)
	inner := cmd.Args
	cmd.Args = append([]string{"unshare", "--mount", "--propagation", "private", "bash", "-ec", `dir=$1; shift; ` + script + `; exec "$@"`, "-", dir, os.Args[0]},
		inner[1:]...)
	path, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip(err)
	}
	cmd.Path = path
	finish(t, cmd)
}

// AgainInMemory is Again in a control group whose processes may use so many bytes of memory
// together. The test is skipped where no group can be made.
func AgainInMemory(t *testing.T, dir string, limit int64) {
	t.Helper()
	group := memoryGroup(t, limit)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := again(t, dir)
	cmd.Args = append([]string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group, program}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	finish(t, cmd)
}

// memoryGroup makes a control group below that of the test.
func memoryGroup(t *testing.T, limit int64) (dir string) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		at, file := "/sys/fs/cgroup", "memory.max"
		switch {
		case len(parts) != 3:
			continue
		case parts[1] == "memory":
			at, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case parts[1] != "":
			continue
		}
		dir, err := os.MkdirTemp(filepath.Join(at, parts[2]), "goscr-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
		f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
		if err != nil {
			continue // memory is not limited here
		}
		_, err = f.WriteString(strconv.FormatInt(limit, 10))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Skip("no control group that limits memory can be made here")
	return ""
}

func again(t *testing.T, dir string) *exec.Cmd {
	var names []string
	for _, name := range strings.Split(t.Name(), "/") {
		names = append(names, "^"+name+"$")
	}
	// Through /proc, as directories on the way to the program may be closed.
	cmd := exec.Command("/proc/self/exe", "-test.run", strings.Join(names, "/"), "-test.v", fmt.Sprintf("-test.short=%t", testing.Short()))
	cmd.Env = append(os.Environ(), variable+"="+dir)
	cmd.Dir = "/"
	return cmd
}

func finish(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("did not run:\n%s", out)
	}
}

// Refuse has the kernel refuse, from now on and in the whole process, to write at
// least so many bytes at a time to files, as it does when there is no room for them.
func Refuse(errno unix.Errno, atLeast int) error {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		more  = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
		least = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K

		number, descriptor, count = 0, 16, 32 // in what the filter sees

		allow, fail = 0x7fff0000, 0x00050000
	)
	filter := []unix.SockFilter{
		{Code: load, K: number},
		{Code: equal, K: unix.SYS_WRITE, Jt: 4},
		{Code: equal, K: unix.SYS_PWRITE64, Jt: 3},
		{Code: equal, K: unix.SYS_COPY_FILE_RANGE, Jt: 6},
		{Code: equal, K: unix.SYS_SENDFILE, Jt: 5},
		{Code: ret, K: allow},
		{Code: load, K: descriptor},
		{Code: more, K: 2, Jt: 0, Jf: 3}, // output of the test passes
		{Code: load, K: count},
		{Code: least, K: uint32(atLeast), Jt: 0, Jf: 1},
		{Code: ret, K: fail | uint32(errno)},
		{Code: ret, K: allow},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const setFilter, allThreads = 1, 1
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, setFilter, allThreads, uintptr(unsafe.Pointer(&program))); e != 0 {
		return fmt.Errorf("seccomp: %w", e)
	}
	runtime.KeepAlive(filter)
	return nil
}

// Fill writes to a file until the file system takes no more, and returns why.
func Fill(path string) (full error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			full, size = err, size/2
		}
	}
	return full
}
