package hash

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/faultfs"
)

// The tests of locks need processes that can be killed: TestMain lets this
// program be one, which does what the variable says with a file.
const actVariable = "GOSCR_HASH_TEST_ACT"

func TestMain(m *testing.M) {
	faultfs.Main()
	act, path, ok := strings.Cut(os.Getenv(actVariable), " ")
	if !ok {
		os.Exit(m.Run())
	}
	if err := actors[act](path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var actors = map[string]func(path string) error{
	"add": func(path string) error { // adds 1 fifty times
		for range 50 {
			if err := Update(path, addOne); err != nil {
				return err
			}
		}
		return nil
	},
	"forever": func(path string) error { // adds 1 until it is killed, and says so
		for {
			if err := Update(path, addOne); err != nil {
				return err
			}
			fmt.Println("added")
		}
	},
	"hold": func(path string) error { // takes the lock and keeps it
		if _, err := LockOpenRead(path); err != nil {
			return err
		}
		fmt.Println("held")
		time.Sleep(time.Hour)
		return nil
	},
}

// width is how many values addOne keeps equal: enough for the file to be
// written in more than one step by whoever writes it in place.
const width = 500

// addOne counts to one more in every value of a hash. It fails if they
// are not equal.
func addOne(h *Hash) error {
	n, err := counted(h)
	if err != nil {
		return err
	}
	for i := range width {
		h.SetInt(strconv.Itoa(i), n+1)
	}
	return nil
}

// counted returns what addOne has counted to.
func counted(h *Hash) (int64, error) {
	if h.Size() == 0 {
		return 0, nil
	}
	first, ok := h.Int("0")
	for i := range width {
		if n, _ := h.Int(strconv.Itoa(i)); !ok || n != first || h.Size() != width {
			return 0, fmt.Errorf("a mixture: %d and %d in a hash of %d", first, n, h.Size())
		}
	}
	return first, nil
}

func countedIn(t *testing.T, path string) int64 {
	t.Helper()
	h, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n, err := counted(h)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// actor starts a process that acts on path, and returns it with what it prints.
func actor(t *testing.T, act, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), actVariable+"="+act+" "+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

func spawn(wg *sync.WaitGroup, f func()) {
	wg.Add(1)
	go func() {
		defer wg.Done()
		f()
	}()
}

func TestLockOpenRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.scr")
	l, err := LockOpenRead(path)
	if err != nil || l.Hash.Size() != 0 {
		t.Fatal(err)
	}
	if h, err := ReadFile(path); err != nil || h.Size() != 0 {
		t.Errorf("a new file: %v", err)
	}
	l.Hash.SetValue("a", "1")
	if err := l.WriteCloseUnlock(); err != nil {
		t.Fatal(err)
	}
	l, err = LockOpenRead(path)
	if err != nil || l.Hash.Text("a") != "1" {
		t.Fatal(err)
	}
	l.Hash.SetValue("a", "2")
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	if h, err := ReadWithLock(path); err != nil || h.Text("a") != "1" {
		t.Errorf("Unlock changed the file: %v", err)
	}
	failed := errors.New("failed")
	err = Update(path, func(h *Hash) error { h.SetValue("a", "3"); return failed })
	if !errors.Is(err, failed) {
		t.Errorf("Update: %v", err)
	}
	if h, err := ReadWithLock(path); err != nil || h.Text("a") != "1" {
		t.Errorf("an update that failed changed the file: %v", err)
	}
	if err := Update(path, func(h *Hash) error { h.SetValue("a", "3"); return nil }); err != nil {
		t.Errorf("the lock was not given up: %v", err)
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("files left: %q", got)
	}
}

// Nobody's update is lost, whether goroutines or processes race, from the
// first moment, when there is no file yet.
func TestUpdate_NoneIsLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.scr")
	const processes, goroutines, times = 3, 6, 25
	var wg sync.WaitGroup
	for range processes {
		cmd, _ := actor(t, "add", path)
		spawn(&wg, func() {
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	for range goroutines {
		spawn(&wg, func() {
			for range times {
				if err := Update(path, addOne); err != nil {
					t.Error(err)
				}
			}
		})
	}
	// Readers, with the lock and without, never see a mixture.
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for _, read := range []func(string) (*Hash, error){ReadFile, ReadWithLock} {
		spawn(&readers, func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				h, err := read(path)
				if os.IsNotExist(err) {
					continue // before the first update
				}
				if err == nil {
					_, err = counted(h)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	readers.Wait()
	if got, want := countedIn(t, path), int64(processes*50+goroutines*times); got != want {
		t.Errorf("counted to %d, want %d", got, want)
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("files left: %q", got)
	}
}

// The first update of many at once: each finds that there is no file.
func TestUpdate_ManyMakeTheFile(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "x.scr")
		var wg sync.WaitGroup
		for range 16 {
			spawn(&wg, func() {
				if err := Update(path, addOne); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := countedIn(t, path); got != 16 {
			t.Fatalf("counted to %d of 16", got)
		}
	}
}

// A process may be killed at any instant of an update: what others find is
// what it wrote before, or what it was writing, and the lock is free.
func TestUpdate_Killed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.scr")
	rounds := 30
	if testing.Short() {
		rounds = 5
	}
	var last int64
	for range rounds {
		cmd, out := actor(t, "forever", path)
		out.Scan()
		time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		said := int64(1)
		for out.Scan() {
			said++
		}
		_ = cmd.Wait() // says that it was killed
		got := countedIn(t, path)
		if got < last+said || got > last+said+1 {
			t.Fatalf("counted from %d to %d, the process said %d times that it had added 1", last, got, said)
		}
		if err := Update(path, addOne); err != nil {
			t.Fatal(err)
		}
		if last = countedIn(t, path); last != got+1 {
			t.Fatalf("counted to %d after %d", last, got)
		}
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("files left: %q", got)
	}
}

// A process that is killed between making the file and writing it leaves an
// empty hash; one that is killed before leaves a file that is in nobody's way.
func TestUpdate_KilledBeforeTheFirstWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.scr")
	for _, leftover := range []string{".0123456789abcdef.new", ".0123456789abcdef.new.tmp"} {
		if err := os.WriteFile(path+leftover, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := createEmpty(path); err != nil {
		t.Fatal(err)
	}
	if n := countedIn(t, path); n != 0 {
		t.Errorf("counted to %d", n)
	}
	if err := Update(path, addOne); err != nil {
		t.Fatal(err)
	}
	if err := createEmpty(path); err != nil { // of a process that came too late
		t.Fatal(err)
	}
	if n := countedIn(t, path); n != 1 {
		t.Errorf("counted to %d", n)
	}
}

func TestLock_ExcludesOthersAndDiesWithItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.scr")
	cmd, out := actor(t, "hold", path)
	if !out.Scan() {
		t.Fatal("the process does not hold the lock")
	}
	done := make(chan error, 2)
	go func() { done <- Update(path, addOne) }()
	go func() { _, err := ReadWithLock(path); done <- err }()
	select {
	case err := <-done:
		t.Errorf("went ahead without the lock: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if _, err := ReadFile(path); err != nil {
		t.Errorf("ReadFile needs no lock: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	for range 2 {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the lock outlived its holder")
		}
	}
}

// Readers share the lock.
func TestReadWithLock_Shared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.scr")
	if err := WriteFile(path, tree("a")); err != nil {
		t.Fatal(err)
	}
	f, err := lock(path, os.O_RDONLY, unix.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	done := make(chan error, 1)
	go func() { _, err := ReadWithLock(path); done <- err }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("one reader keeps another out")
	}
}
