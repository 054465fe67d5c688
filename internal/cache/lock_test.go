package cache

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/lock"
	"github.com/goscr/goscr/internal/report"
)

// holding is set in the process that stands for another job: what it locks until its
// standard input ends.
const holding = "GOSCR_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holding); path != "" {
		hold(path)
		return
	}
	os.Exit(m.Run())
}

func hold(path string) {
	if l, err := lock.Try(path, lock.ByProcess); l == nil {
		os.Stdout.WriteString(fmt.Sprint(err) + "\n")
		return
	}
	os.Stdout.WriteString("held\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// other has another process lock a directory, until end is called.
func other(t *testing.T, dir string) (end func()) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), holding+"="+filepath.Join(dir, lockFile))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if said, _ := bufio.NewReader(out).ReadString('\n'); said != "held\n" {
		t.Fatalf("the other process said %q", said)
	}
	end = func() {
		in.Close()
		_ = c.Wait()
	}
	t.Cleanup(end)
	return end
}

func TestLock_AnotherJob(t *testing.T) {
	dir := t.TempDir()
	other(t, dir)
	var said strings.Builder
	_, err := takeLock(filepath.Join(dir, lockFile), "job of u with job id 7", 100*time.Millisecond, &report.Logger{Out: &said})
	if err == nil || !strings.Contains(err.Error(), "another job of u with job id 7 is running on this node (process ") {
		t.Errorf("error %v", err)
	}
	if n := strings.Count(said.String(), "still running on this node"); n != 1 {
		t.Errorf("said %d times that it waits: %s", n, said.String())
	}
}

// What is left of an earlier run is waited for.
func TestLock_EarlierRunEnds(t *testing.T) {
	dir := t.TempDir()
	end := other(t, dir)
	log := &report.Logger{Out: writer(func(string) { end() })}
	l, err := takeLock(filepath.Join(dir, lockFile), "job of u with job id 7", 5*time.Second, log)
	if err != nil {
		t.Error(err)
	}
	l.Release()
}

type writer func(string)

func (w writer) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }
