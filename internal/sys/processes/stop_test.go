package processes

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

const stops = 100

// stopOften stops this process, and writes a byte whenever it continues, on another thread than its
// first one, which the caller keeps.
func stopOften() {
	runtime.LockOSThread()
	if os.Getpid() == unix.Gettid() {
		os.Exit(3)
	}
	for range stops {
		err := Stop()
		if _, failed := os.Stdout.WriteString("x"); err != nil || failed != nil {
			os.Exit(1)
		}
	}
	os.Exit(0)
}

func init() {
	if os.Getenv("GOSCR_TEST_STOPS") != "" {
		runtime.LockOSThread()
		go stopOften()
		select {}
	}
}

// A thread that is not the first of its process does nothing until the process is continued.
func TestStop_OtherThread(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "GOSCR_TEST_STOPS=1"), out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	early := 0
	for i := range stops {
		var status unix.WaitStatus
		if _, err := unix.Wait4(cmd.Process.Pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("stop %d: status %#x, %v", i+1, status, err)
		}
		info, err := out.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > int64(i) {
			early++
		}
		if err := unix.Kill(cmd.Process.Pid, unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if early > 0 {
		t.Errorf("the thread went on before it was continued, in %d of %d cases", early, stops)
	}
}
