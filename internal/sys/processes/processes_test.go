package processes

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "read x; exit 0", "a b", "")
	cmd.Dir, cmd.Env = dir, []string{"A=1", "B=two words", "A=3"}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	pid := cmd.Process.Pid
	p, err := Read(pid)
	for err == nil && len(p.Argv) == 0 { // execve has closed the descriptors, and not yet entered the arguments
		runtime.Gosched()
		p, err = Read(pid)
	}
	if err != nil || p.Parent != os.Getpid() || p.UID != os.Getuid() || !slices.Equal(p.Argv, cmd.Args) || p.Started == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	environ, err := Environ(pid)
	if a, ok := Variable(environ, "A"); err != nil || a != "3" || !ok {
		t.Error(environ, err)
	}
	if _, ok := Variable(environ, "C"); ok {
		t.Error(environ)
	}
	if got, err := Dir(pid); err != nil || got != dir {
		t.Error(got, err)
	}
	is := func(list []Process, pid int) bool {
		return slices.ContainsFunc(list, func(p Process) bool { return p.PID == pid })
	}
	if !is(Below(os.Getpid()), pid) || is(Below(pid), os.Getpid()) {
		t.Error("below")
	}
	if above := Above(pid); len(above) == 0 || above[0].PID != os.Getpid() {
		t.Error(above)
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil); err != nil {
		t.Fatal(err)
	}
	if p, err := Read(pid); err != nil || p.State != 'T' {
		t.Errorf("%+v, %v", p, err)
	}
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

func TestRead_None(t *testing.T) {
	const none = 1 << 30
	if _, err := Read(none); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Environ(none); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Dir(none); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if len(Above(none)) > 0 || len(Below(none)) > 0 {
		t.Error("a process without a process")
	}
}
