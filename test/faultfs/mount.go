package faultfs

import (
	"bufio"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Mount is a mount that another process serves, until the test ends.
type Mount struct {
	// Dir is where it is mounted.
	Dir string
	// Backing is the directory in which it stores everything.
	Backing string

	t      testing.TB
	client *rpc.Client
}

// New mounts a new directory.
func New(t testing.TB, opt Options) *Mount {
	t.Helper()
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "goscr-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	backing := filepath.Join(dir, "backing")
	if err := os.Mkdir(backing, 0o777); err != nil {
		t.Fatal(err)
	}
	return Of(t, backing, filepath.Join(dir, "mount"), opt)
}

// Of mounts a directory at dir, which it makes. Two mounts of one directory are what two
// nodes see of it. The test is skipped where nothing can be mounted by FUSE.
func Of(t testing.TB, backing, dir string, opt Options) *Mount {
	t.Helper()
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skipf("file systems of the tests need FUSE: %v", err)
	} else {
		f.Close()
	}
	if _, err := exec.LookPath("fusermount3"); err != nil && os.Geteuid() != 0 {
		t.Skipf("file systems of the tests need fusermount3: %v", err)
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), variable+"="+backing, variable+"_DIR="+dir, variable+"_CACHED="+opt.CloseToOpen.String())
	cmd.Dir = "/"
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // not ended by ^C before it has unmounted
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(said)
	first, _ := lines.ReadString('\n')
	client := rpc.NewClient(struct {
		io.Reader
		io.WriteCloser
	}{out, in})
	t.Cleanup(func() {
		client.Close()
		rest, _ := io.ReadAll(lines)
		if err := cmd.Wait(); err != nil && !t.Skipped() {
			t.Errorf("the file system of the test: %v\n%s", err, rest)
		}
	})
	if strings.TrimSpace(first) != "mounted" {
		t.Skipf("file systems of the tests need FUSE: %s", strings.TrimSpace(first))
	}
	m := &Mount{Dir: dir, Backing: backing, t: t, client: client}
	m.Set(opt)
	return m
}

func (m *Mount) call(name string, args, reply any) {
	m.t.Helper()
	if err := m.client.Call("FS."+name, args, reply); err != nil {
		m.t.Fatalf("the file system of the test: %s: %v", name, err)
	}
}

// Set changes what the mount does, except for CloseToOpen. With Record it starts from the beginning:
// all that is there is durable.
func (m *Mount) Set(opt Options) { m.t.Helper(); m.call("Options", opt, &Nothing{}) }

// Count is how many changes and syncs there were since the beginning.
func (m *Mount) Count() (n int) {
	m.t.Helper()
	m.call("Count", Nothing{}, &n)
	return n
}

// PowerOff ends the mount. Survivors then can put what a power failure leaves where it
// was mounted, so that all of it has the paths that it had.
func (m *Mount) PowerOff() { m.t.Helper(); m.call("Off", Nothing{}, &Nothing{}) }

// Survivors replaces a directory by one with what a power failure after so many changes leaves.
// The seed decides what is left to chance; seeds from 0 to Ways-1 are of different ways
// in which file systems lose what is not durable.
func (m *Mount) Survivors(at int, seed uint64, dir string) {
	m.t.Helper()
	m.call("Survivors", Surviving{at, seed, dir}, &Nothing{})
}

// Ways is the number of ways in which file systems lose what is not durable.
const Ways = howMany

// Stuck lists the calls that are stuck now, as "fsync a/b".
func (m *Mount) Stuck() (list []string) {
	m.t.Helper()
	m.call("Stuck", Nothing{}, &list)
	return list
}

// AwaitStuck returns when a call is stuck, or false when there is none before the test
// is stopped by done.
func (m *Mount) AwaitStuck(done <-chan struct{}) bool {
	m.t.Helper()
	for len(m.Stuck()) == 0 {
		select {
		case <-done:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// Hit lists the calls that have failed or were stuck since Set.
func (m *Mount) Hit() (list []string) {
	m.t.Helper()
	m.call("Hit", Nothing{}, &list)
	return list
}

// Release lets all calls continue that are stuck, and takes the faults away that would get
// more stuck.
func (m *Mount) Release() { m.t.Helper(); m.call("Release", Nothing{}, &Nothing{}) }
