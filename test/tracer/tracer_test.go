package tracer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	Become()
	if len(os.Args) == 3 && os.Args[1] == "write-many" {
		writeMany(os.Args[2])
	}
	os.Exit(m.Run())
}

// writeMany is a program whose threads make a file each, of one byte.
func writeMany(dir string) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("x"), 0o600)
		}()
	}
	wg.Wait()
	os.Exit(0)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shell runs a script in a new directory, of which "in" counts, and returns the directory.
func shell(t *testing.T, script string, r Run) (string, Result, []string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Mkdir(filepath.Join(dir, "in"), 0o700))
	var said strings.Builder
	var calls []string
	r.Argv, r.Dir, r.Env, r.Output = []string{"sh", "-c", script}, dir, os.Environ(), &said
	r.Watched = []string{filepath.Join(dir, "in")}
	r.Calls = func(_ int, c Call) { calls = append(calls, c.Name+" "+strings.TrimPrefix(c.Path, dir+"/")) }
	result, err := Start(r)
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	return dir, result, calls
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// What is counted is what changes something in the directory: not reads, and no other files.
func TestCalls(t *testing.T) {
	_, result, calls := shell(t, `echo one >in/a; echo two >out; cat in/a >in/b; mv in/b in/c; rm in/a; mkdir in/d; ln -s x in/l; chmod 600 in/c; rmdir in/d`, Run{})
	var files []string
	for _, c := range calls {
		name, path, _ := strings.Cut(c, " ")
		name = strings.TrimSuffix(strings.TrimSuffix(name, "at2"), "at")
		files = append(files, name+" "+path)
	}
	want := []string{"open in/a", "write in/a", "open in/b", "write in/b", "rename in/c", "unlink in/a", "mkdir in/d", "symlink in/l", "fchmod in/c"}
	for _, w := range want {
		if !slices.Contains(files, w) && !(w == "write in/b" && slices.Contains(files, "copy_file_range in/b")) && !(w == "fchmod in/c" && slices.Contains(files, "chmod in/c")) {
			t.Errorf("no %s in %q", w, files)
		}
	}
	if result.Calls != len(calls) || result.Status != 0 || result.Killed || result.Hangs {
		t.Errorf("%+v, of calls %q", result, calls)
	}
	for _, c := range calls {
		if strings.Contains(c, "out") {
			t.Errorf("counts %s", c)
		}
	}
}

// A kill in place of each call: what was before it has happened, and nothing after it.
func TestKillAll(t *testing.T) {
	const script = `mkdir in/1; mkdir in/2; mkdir in/3; mkdir in/4`
	for at := 1; at <= 5; at++ {
		dir, result, _ := shell(t, script, Run{At: at})
		for i := 1; i <= 4; i++ {
			if got := exists(filepath.Join(dir, "in", fmt.Sprint(i))); got != (i < at) {
				t.Errorf("killed in place of call %d: directory %d is there: %v", at, i, got)
			}
		}
		if killed := at <= 4; result.Killed != killed || (result.Status != 0) != killed {
			t.Errorf("at %d: %+v", at, result)
		}
		if at <= 4 && !strings.HasSuffix(result.Call.Path, fmt.Sprintf("/in/%d", at)) {
			t.Errorf("at %d: %v", at, result.Call)
		}
	}
}

// Only the process that makes the call is killed: the shell that has started it continues.
func TestKillOne(t *testing.T) {
	dir, result, _ := shell(t, `(mkdir in/1; mkdir in/2) ; (exec mkdir in/3); mkdir in/4; true`, Run{At: 3, Victim: One})
	for i, want := range []bool{true, true, false, true} {
		if got := exists(filepath.Join(dir, "in", fmt.Sprint(i+1))); got != want {
			t.Errorf("directory %d is there: %v", i+1, got)
		}
	}
	if !result.Killed || result.Status != 0 || result.Call.Main {
		t.Errorf("%+v", result)
	}
}

// The calls of all threads count, and after the kill no thread makes one.
func TestThreads(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	for at := 0; at <= 16; at++ {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		must(t, err)
		result, err := Start(Run{Argv: []string{self, "write-many", dir}, Env: os.Environ(), Watched: []string{dir}, At: at})
		must(t, err)
		done := 0
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			info, err := e.Info()
			must(t, err)
			done += 1 + int(info.Size())
		}
		if want := (at + 16) % 17; at == 0 && (done != 16 || result.Calls != 16) || at > 0 && (done > want || !result.Killed) {
			t.Errorf("at %d: %d calls done, %+v", at, done, result)
		}
	}
}

// What the command leaves in the background is part of the run, and is killed with it.
func TestDetached(t *testing.T) {
	dir, result, _ := shell(t, `(setsid sh -c 'while ! [ -e in/go ]; do sleep 0.01; done; mkdir in/late; mkdir in/never' &) ; mkdir in/go`, Run{At: 3})
	if !result.Killed || !exists(filepath.Join(dir, "in/late")) || exists(filepath.Join(dir, "in/never")) || result.Status != 0 {
		t.Errorf("%+v", result)
	}
}

func TestStatus(t *testing.T) {
	if _, result, _ := shell(t, "exit 7", Run{}); result.Status != 7 {
		t.Errorf("%+v", result)
	}
	if _, result, _ := shell(t, "kill -TERM $$", Run{}); result.Status != 128+int(unix.SIGTERM) {
		t.Errorf("%+v", result)
	}
}

// A hang is that nothing happens, not that something takes long.
func TestProgress(t *testing.T) {
	var p progress
	steps := func(n int, u func(i int) use, calls func(i int) int64) string {
		p = progress{}
		for i := range n {
			if why := p.look(calls(i), u(i)); why != "" {
				return fmt.Sprintf("%s after %d", why, i)
			}
		}
		return ""
	}
	none := func(int) int64 { return 0 }
	each := func(i int) int64 { return int64(i) }
	asleep := func(int) use { return use{} }
	for name, c := range map[string]struct {
		got, want string
	}{
		"asleep":           {steps(1000, asleep, none), fmt.Sprintf("it sleeps after %d", mostIdle-1)},
		"asleep, but":      {steps(1000, asleep, each), ""},
		"waits for a core": {steps(1000, func(int) use { return use{running: true} }, none), ""},
		"computes":         {steps(1000, func(i int) use { return use{ticks: int64(i) * 100, running: true} }, none), fmt.Sprintf("it computes and changes nothing after %d", mostTicks/100)},
		"wakes up":         {steps(10000, func(i int) use { return use{ticks: int64(i / 50)} }, none), fmt.Sprintf("it changes nothing after %d", mostLooks-1)},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
}

// A command that sleeps for ever is killed with all that it has started.
func TestHangs(t *testing.T) {
	defer func(was time.Duration) { look = was }(look)
	look = 5 * time.Millisecond
	dir, result, _ := shell(t, "(setsid sh -c 'sleep 1000; mkdir in/late' &); mkdir in/early; sleep 1000", Run{})
	if !result.Hangs || result.Status != 128+int(unix.SIGKILL) || !exists(filepath.Join(dir, "in/early")) || exists(filepath.Join(dir, "in/late")) {
		t.Errorf("%+v", result)
	}
}

// A command that is not there is an error that names it.
func TestBecome(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	out, err := exec.Command(self, Setup, "/nonexistent/command").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "/nonexistent/command") {
		t.Errorf("%v, %s", err, out)
	}
}
