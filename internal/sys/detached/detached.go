// Package detached starts commands of goscr that outlive the process that starts them.
//
// Such a command must not stay a child of the program: the program may wait for its
// children, with or without a handler of SIGCHLD, and must not meet one that it did not
// start. So the process that the program starts (Launch) starts the command once more in
// a session of its own (Again), and ends. From then on, program and command share only
// standard input and output, if the program passed a connection.
package detached

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// detachTimeout is how long a command may take to detach itself.
const detachTimeout = 10 * time.Second

// Launch starts a command and waits until it has detached itself. connection becomes the
// command's standard input, output and error; the caller still has to close it. It may be
// nil.
func Launch(path string, argv []string, connection *os.File) error {
	cmd := exec.Command(path)
	cmd.Args = argv
	if connection != nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = connection, connection, connection
	}
	cmd.Dir = "/" // so that the command keeps no other file system from being unmounted
	if err := cmd.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(detachTimeout, func() { cmd.Process.Kill() })
	defer late.Stop()
	err := cmd.Wait()
	// A handler of the program may have waited for all children before us.
	if err == nil || errors.Is(err, unix.ECHILD) {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Find searches for a command in the directory of the library or program that contains this
// code, in the bin directory of the same installation, and in PATH. remedy is a setting with
// which the command is not needed; the error suggests it.
func Find(command, remedy string) (string, error) {
	var tried []string
	if code := fileOfCode(); code != "" {
		tried = places(code, command)
		for _, path := range tried {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(command)
	if err != nil {
		return "", fmt.Errorf("there is no command %s in PATH, nor %s; install goscr's commands, or set %s",
			command, strings.Join(tried, ", nor "), remedy)
	}
	return path, nil
}

// places returns where a command can be in the installation that has the file code.
func places(code, command string) []string {
	dir := filepath.Dir(code)
	list := []string{filepath.Join(dir, command), filepath.Join(dir, "..", "bin", command)}
	if above := filepath.Dir(dir); filepath.Base(above) == "goscr" { // lib/goscr/openmpi has the library for one MPI
		// lib may be lib/x86_64-linux-gnu.
		list = append(list, filepath.Join(above, "..", "..", "bin", command), filepath.Join(above, "..", "..", "..", "bin", command))
	}
	return list
}

// fileOfCode returns the path of the library or program that contains this function, "" if
// it is not known.
func fileOfCode() string {
	pc := uint64(reflect.ValueOf(fileOfCode).Pointer())
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line) // begin-end, permissions, offset, device, inode, path
		if len(f) < 6 {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		begin, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && begin <= pc && pc < end {
			_, path, _ := strings.Cut(line, "/")
			return "/" + strings.TrimSuffix(path, "\n")
		}
	}
	return ""
}

// Again starts the calling command once more, with other arguments, in a session of its
// own. Of the descriptors, the new process inherits only standard input, output and error.
// No signals are blocked in it, whatever the program's thread has blocked.
func Again(argv []string) error {
	if err := closeInherited(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Args = argv
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	runtime.LockOSThread() // the new process inherits the signal mask of this thread
	defer runtime.UnlockOSThread()
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil); err != nil {
		return fmt.Errorf("signal mask: %w", err)
	}
	return cmd.Start()
}

// closeInherited closes the files and connections that were inherited from the job, MPI's
// among them. Go sets FD_CLOEXEC on all it opens, so all without it are inherited.
func closeInherited() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd) // Linux closes it even if it returns an error
		}
	}
	return nil
}
