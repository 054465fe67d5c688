package lock

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if Held(path) {
		t.Error("a lock file that is not there is locked")
	}
	l, err := Try(path, Exclusive)
	must(t, err)
	if l == nil || !Held(path) {
		t.Fatal("it is not locked")
	}
	for _, how := range []How{Exclusive, Shared, ByProcess} {
		if other, err := Try(path, how); other != nil || err != nil {
			t.Errorf("%d: locked twice, %v", how, err)
		}
	}
	node, _ := os.Hostname()
	if got, want := Holder(path), fmt.Sprintf("process %d on %s", os.Getpid(), node); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	l.Release()
	if Held(path) {
		t.Error("it is still locked")
	}
	a, err := Try(path, Shared)
	must(t, err)
	b, err := Try(path, Shared)
	must(t, err)
	a.Release()
	if b == nil || !Held(path) {
		t.Error("it is not shared")
	}
	b.Release()
	if Held(path) {
		t.Error("it is still shared")
	}
	var none *Lock
	none.Release()
}

func TestTry_NotThere(t *testing.T) {
	dir := t.TempDir()
	if _, err := Try(filepath.Join(dir, "a/b"), Exclusive); !os.IsNotExist(err) {
		t.Error(err)
	}
	must(t, os.Symlink("x", filepath.Join(dir, "link")))
	if _, err := Try(filepath.Join(dir, "link"), Exclusive); err == nil {
		t.Error("a link is followed")
	}
}

func TestWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := Wait(path)
	must(t, err)
	got := make(chan error)
	go func() {
		l, err := Wait(path)
		l.Release()
		got <- err
	}()
	select {
	case <-got:
		t.Fatal("it was not waited for")
	case <-time.After(50 * time.Millisecond):
	}
	l.Release()
	must(t, <-got)
}

func TestHolder_Unknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for _, text := range []string{"", "nonsense", "process 1\nSCR: all is well"} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if got := Holder(path); got != "another process" {
			t.Errorf("%q", got)
		}
	}
}

// The kernel releases the lock of a process that is killed.
func TestTry_Killed(t *testing.T) {
	if path := os.Getenv("LOCK_TEST_FILE"); path != "" {
		how := Exclusive
		if os.Getenv("LOCK_TEST_BY_PROCESS") != "" {
			how = ByProcess
		}
		l, err := Try(path, how)
		fmt.Println(l != nil, err)
		time.Sleep(time.Minute)
		return
	}
	for _, by := range []string{"", "1"} {
		path := filepath.Join(t.TempDir(), "lock")
		cmd := exec.Command(os.Args[0], "-test.run=TestTry_Killed")
		cmd.Env = append(os.Environ(), "LOCK_TEST_FILE="+path, "LOCK_TEST_BY_PROCESS="+by)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "true <nil>\n" {
			t.Errorf("%q, %v", line, err)
		}
		if l, err := Try(path, ByProcess); l != nil || err != nil || !Held(path) {
			t.Errorf("it is not locked: %v", err)
		}
		want := fmt.Sprintf("process %d", cmd.Process.Pid)
		if by == "" {
			node, _ := os.Hostname()
			want += " on " + node
		}
		if got := Holder(path); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		l, err := Try(path, ByProcess)
		if l == nil || err != nil {
			t.Errorf("it is still locked: %v", err)
		}
		l.Release()
	}
}
