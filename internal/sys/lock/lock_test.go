package lock

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/test/faultfs"
)

// actVariable has this program be another process: what it does with the file.
const actVariable = "GOSCR_LOCK_TEST_ACT"

func TestMain(m *testing.M) {
	act, path, ok := strings.Cut(os.Getenv(actVariable), " ")
	if !ok {
		faultfs.Main()
		os.Exit(m.Run())
	}
	fmt.Println(acts[act](path))
	_, _ = os.Stdin.Read(make([]byte, 1))
}

var acts = map[string]func(path string) string{
	"exclusive": func(path string) string { return try(path, Exclusive) },
	"shared":    func(path string) string { return try(path, Shared) },
	"process":   func(path string) string { return try(path, ByProcess) },
	"rank":      func(path string) string { return try(path, SharedByProcess) },
	"alive": func(path string) string {
		SetPatience(Patience{Limit: 200 * time.Millisecond})
		l, err := Try(path, Exclusive)
		l.KeepAlive()
		return fmt.Sprint(l != nil, err)
	},
	// As flock and fcntl lock a file that they have opened to read.
	"read": func(path string) string {
		f, err := os.Open(path)
		if err != nil {
			return "false denied"
		}
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); err == nil {
			err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK})
		}
		return fmt.Sprint(true, err)
	},
}

func try(path string, how How) string {
	l, err := Try(path, how)
	return fmt.Sprint(l != nil, err)
}

// other is another process.
type other struct {
	*exec.Cmd
	in io.Closer
}

// start has another process act, and returns it with what it says.
func start(t *testing.T, act, path string, by *syscall.Credential) (*other, string) {
	t.Helper()
	o := &other{Cmd: exec.Command(os.Args[0])}
	o.Env = append(os.Environ(), actVariable+"="+act+" "+path)
	o.Dir = "/"
	if by != nil {
		o.SysProcAttr = &syscall.SysProcAttr{Credential: by}
		o.Path = "/proc/self/exe" // the directory of the program may be closed to others
	}
	var err error
	o.in, err = o.StdinPipe()
	must(t, err)
	out, err := o.StdoutPipe()
	must(t, err)
	must(t, o.Start())
	t.Cleanup(o.end)
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return o, strings.TrimSpace(line)
}

// end has the other process end.
func (o *other) end() {
	_ = o.Process.Kill()
	_ = o.Wait() // it was killed
}

func (o *other) String() string {
	node, _ := os.Hostname()
	return fmt.Sprintf("process %d on %s", o.Process.Pid, node)
}

// hurry has waits of a test end soon, and returns the lines that they write.
func hurry(t *testing.T, limit time.Duration) *[]string {
	t.Helper()
	var said []string
	SetPatience(Patience{Limit: limit, Tell: func(line string) { said = append(said, line) }})
	t.Cleanup(func() { patience.Store(nil) })
	return &said
}

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
	for _, how := range []How{Exclusive, Shared, ByProcess, SharedByProcess} {
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
	none.KeepAlive()
	none.Release()
}

func TestTry_NotThere(t *testing.T) {
	dir := t.TempDir()
	if _, err := Try(filepath.Join(dir, "a/b"), Exclusive); !os.IsNotExist(err) {
		t.Error(err)
	}
	must(t, os.Symlink("x", filepath.Join(dir, "link")))
	must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "directory"), 0o700))
	for _, name := range []string{"link", "pipe", "directory"} {
		if l, err := Try(filepath.Join(dir, name), Exclusive); err == nil {
			t.Errorf("a %s is locked", name)
			l.Release()
		}
	}
}

// A lock file that was removed while its lock was waited for locks nothing.
func TestWait_Removed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	old, err := Try(path, Exclusive)
	must(t, err)
	got := make(chan *Lock)
	go func() {
		l, err := Wait(path)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	must(t, os.Remove(path))
	l := <-got
	if !Held(path) {
		t.Error("it has locked the file that was removed")
	}
	l.Release()
	old.Release()
}

// One process has the lock at a time, in whatever order they get it.
func TestWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	const waiting = 8
	var inside atomic.Int32
	ended := make(chan error)
	for range waiting {
		go func() {
			l, err := Wait(path)
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d have the lock", n)
			}
			inside.Add(-1)
			l.Release()
			ended <- err
		}()
	}
	for range waiting {
		must(t, <-ended)
	}
}

// No wait is silent, and none for a process that does nothing is for ever.
func TestWait_Never(t *testing.T) {
	for _, act := range []string{"exclusive", "shared", "process", "rank"} {
		path := filepath.Join(t.TempDir(), "lock")
		o, said := start(t, act, path, nil)
		if said != "true <nil>" {
			t.Fatal(said)
		}
		lines := hurry(t, 120*time.Millisecond)
		l, err := Wait(path)
		if l != nil || !errors.Is(err, ErrTimeout) {
			t.Fatalf("%s: %v", act, err)
		}
		if act == "shared" { // of several holders, none is named
			continue
		}
		want := o.String() + " to release its lock (" + path + ")"
		if len(*lines) == 0 || !strings.Contains((*lines)[0], "waiting for "+want) {
			t.Errorf("%s: said %q", act, *lines)
		}
		if !strings.Contains(err.Error(), "waited for "+want) {
			t.Errorf("%s: %v", act, err)
		}
	}
}

// A process that shows that it works is waited for as long as it takes, one that is
// stopped is not.
func TestWait_SignsOfLife(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	o, said := start(t, "alive", path, nil)
	if said != "true <nil>" {
		t.Fatal(said)
	}
	const limit = 10 * time.Second
	w := Waiting{Path: path, To: "end"}
	lines := hurry(t, limit)
	// It is waited for until it has been heard of ten times since.
	heard := 0
	for life := ""; heard < 10; {
		must(t, w.Pause())
		if w.life != life {
			life, heard = w.life, heard+1
		}
	}
	must(t, o.Process.Signal(unix.SIGSTOP))
	var status unix.WaitStatus
	_, err := unix.Wait4(o.Process.Pid, &status, unix.WUNTRACED, nil)
	must(t, err)
	hurry(t, 100*time.Millisecond)
	for err == nil {
		err = w.Pause()
	}
	if want := fmt.Sprintf("%v, which is stopped (kill -CONT %d lets it continue), to end", o, o.Process.Pid); !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q (said %q)", err, want, *lines)
	}
}

// Time in which this process did not run is no wait.
func TestWait_OwnStopIsNoWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	hurry(t, 10*time.Second)
	w := Waiting{Path: path, To: "end"}
	for range 3 {
		must(t, w.Pause())
		w.last = w.last.Add(-time.Hour) // as if it had been stopped since
	}
	if w.total > 4*time.Second {
		t.Errorf("has waited for %v", w.total)
	}
}

func TestHolder_Unknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for _, text := range []string{"", "nonsense", "process 1\nSCR: all is well", "process 1 on a\x1b[0m\n", "process -1 on a\n"} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if got := Holder(path); got != "another process" {
			t.Errorf("%q", got)
		}
	}
}

// The kernel releases the lock of a process that is killed.
func TestTry_Killed(t *testing.T) {
	for _, act := range []string{"exclusive", "process", "rank"} {
		path := filepath.Join(t.TempDir(), "lock")
		o, said := start(t, act, path, nil)
		if said != "true <nil>" {
			t.Fatal(said)
		}
		if l, err := Try(path, ByProcess); l != nil || err != nil || !Held(path) {
			t.Errorf("it is not locked: %v", err)
		}
		if got := Holder(path); got != o.String() {
			t.Errorf("%q, want %q", got, o)
		}
		o.end()
		l, err := Try(path, ByProcess)
		if l == nil || err != nil {
			t.Errorf("it is still locked: %v", err)
		}
		l.Release()
	}
}

// A child that fork has made has the descriptors of its parent: these are of one open file.
func TestRelease_Forked(t *testing.T) {
	for name, how := range map[string]How{"exclusive": Exclusive, "process": ByProcess} {
		path := filepath.Join(t.TempDir(), "lock")
		l, err := Try(path, how)
		must(t, err)
		child, err := unix.Dup(int(l.f.Fd()))
		must(t, err)
		l.Release()
		if _, said := start(t, "exclusive", path, nil); said != "true <nil>" {
			t.Errorf("%s: a child that has the descriptor holds the lock: %s", name, said)
		}
		must(t, unix.Close(child))
	}
}

// The first of several processes shares its lock with the others, and each of them alone
// keeps strangers away.
func TestShare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Try(path, ByProcess)
	must(t, err)
	if _, said := start(t, "rank", path, nil); said != "false <nil>" {
		t.Error("shared before Share: " + said)
	}
	must(t, first.Share())
	if _, said := start(t, "process", path, nil); said != "false <nil>" {
		t.Error("a stranger gets it: " + said)
	}
	rank, said := start(t, "rank", path, nil)
	if said != "true <nil>" {
		t.Fatal("not shared: " + said)
	}
	first.Release()
	if l, err := Try(path, ByProcess); l != nil || err != nil {
		t.Errorf("a stranger gets it while a rank lives: %v", err)
	}
	if got := Holder(path); got != rank.String() {
		t.Errorf("%q, want %q", got, rank)
	}
}

// The users of a test. It needs root for them.
func users(t *testing.T) (owner, another, member *syscall.Credential) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run processes of other users")
	}
	return &syscall.Credential{Uid: 4711, Gid: 4711}, &syscall.Credential{Uid: 4712, Gid: 4712}, &syscall.Credential{Uid: 4713, Gid: 4711}
}

// Who can read a directory but not write to it can take no lock in it, with whatever
// mode an earlier version has made the lock file; who can write to it can.
func TestTry_OtherUsers(t *testing.T) {
	owner, another, member := users(t)
	for _, test := range []struct {
		name string
		mode os.FileMode
		who  *syscall.Credential
		may  bool
	}{
		{"a reader", 0o755, another, false},
		{"a reader of the group", 0o755, member, false},
		{"a writer of the group", 0o775, member, true},
		{"a reader of a directory of the group", 0o775, another, false},
		{"everybody", 0o777, another, true},
		{"everybody, but not to delete", 0o777 | os.ModeSticky, another, false},
	} {
		for _, made := range []string{"", "by an earlier version"} {
			t.Run(test.name+made, func(t *testing.T) {
				dir, err := os.MkdirTemp("/tmp", "goscr-lock")
				must(t, err)
				t.Cleanup(func() { os.RemoveAll(dir) })
				path := filepath.Join(dir, "lock")
				must(t, os.Chown(dir, int(owner.Uid), int(owner.Gid)))
				must(t, os.Chmod(dir, test.mode))
				if made != "" {
					must(t, os.WriteFile(path, nil, 0o666))
					must(t, os.Chown(path, int(owner.Uid), int(owner.Gid)))
					must(t, os.Chmod(path, 0o644))
				}
				mine, said := start(t, "exclusive", path, owner)
				if said != "true <nil>" {
					t.Fatal(said)
				}
				mine.end()
				theirs, said := start(t, "exclusive", path, test.who)
				if test.may != (said == "true <nil>") {
					t.Errorf("another user: %s", said)
				}
				if !test.may && !strings.Contains(said, "belongs to user 4711") {
					t.Errorf("the other user does not learn why: %s", said)
				}
				theirs.end()
				_, said = start(t, "read", path, test.who)
				if test.may != (said == "true <nil>") {
					t.Errorf("another user reads: %s", said)
				}
				// Whatever others have tried, the owner does not wait.
				if _, said = start(t, "exclusive", path, owner); !test.may && said != "true <nil>" {
					t.Errorf("the owner: %s", said)
				}
			})
		}
	}
}

// A lock file that root makes in a user's directory is the user's.
func TestTry_RootHelps(t *testing.T) {
	owner, _, _ := users(t)
	dir, err := os.MkdirTemp("/tmp", "goscr-lock")
	must(t, err)
	defer os.RemoveAll(dir)
	must(t, os.Chown(dir, int(owner.Uid), int(owner.Gid)))
	path := filepath.Join(dir, "lock")
	l, err := Try(path, Exclusive)
	must(t, err)
	l.Release()
	if _, said := start(t, "exclusive", path, owner); said != "true <nil>" {
		t.Error(said)
	}
}

// What another user has put in place of a lock file, to have the caller write to a file of his own or give it away,
// stays as it is.
func TestTry_FileOfTheCaller(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o777))
	must(t, os.Chmod(filepath.Join(dir, "d"), 0o777))
	if os.Geteuid() == 0 {
		must(t, os.Chown(filepath.Join(dir, "d"), 65533, 65533))
	}
	for what, c := range map[string]struct {
		data string
		put  func(old, new string) error
	}{"a hard link": {"", os.Link}, "a long file": {strings.Repeat("precious ", 100), os.Rename}} {
		must(t, os.WriteFile(victim, []byte(c.data), 0o600))
		path := filepath.Join(dir, "d/lock")
		must(t, c.put(victim, path))
		before, err := os.Lstat(path)
		must(t, err)
		if l, err := Try(path, Exclusive); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
			l.Release()
		}
		data, err := os.ReadFile(path)
		must(t, err)
		after, err := os.Lstat(path)
		must(t, err)
		if string(data) != c.data || after.Mode() != before.Mode() || owner(after).Uid != owner(before).Uid {
			t.Errorf("%s: %q, %v of %d", what, data, after.Mode(), owner(after).Uid)
		}
		must(t, os.Remove(path))
		os.Remove(victim)
	}
}
