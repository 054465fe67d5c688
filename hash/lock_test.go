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

	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/test/faultfs"
	"github.com/goscr/goscr/test/sample"
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
		l, err := LockOpenRead(path)
		if err != nil {
			return err
		}
		defer l.Unlock()
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
	l.Hash.SetValue("a", "1")
	if err := l.WriteCloseUnlock(); err != nil {
		t.Fatal(err)
	}
	l, err = LockOpenRead(path)
	if err != nil || l.Hash.Text("a") != "1" {
		t.Fatal(err)
	}
	l.Hash.SetValue("a", "2")
	l.Unlock()
	if h, err := ReadFile(path); err != nil || h.Text("a") != "1" {
		t.Errorf("Unlock changed the file: %v", err)
	}
	failed := errors.New("failed")
	err = Update(path, func(h *Hash) error { h.SetValue("a", "3"); return failed })
	if !errors.Is(err, failed) {
		t.Errorf("Update: %v", err)
	}
	if h, err := ReadFile(path); err != nil || h.Text("a") != "1" {
		t.Errorf("an update that failed changed the file: %v", err)
	}
	if err := Update(path, func(h *Hash) error { h.SetValue("a", "3"); return nil }); err != nil {
		t.Errorf("the lock was not given up: %v", err)
	}
	if got := names(t, filepath.Dir(path)); len(got) != 2 { // the lock file, too
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
	// Readers never see a mixture.
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		spawn(&readers, func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				h, err := ReadFile(path)
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
	if got := names(t, filepath.Dir(path)); len(got) != 2 { // the lock file, too
		t.Errorf("files left: %q", got)
	}
}

// The first update of many at once: each finds that there is no file.
func TestUpdate_ManyMakeTheFile(t *testing.T) {
	for range sample.Of(t, make([]bool, 20), 3, 10) {
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
	if got := names(t, filepath.Dir(path)); len(got) != 2 { // the lock file, too
		t.Errorf("files left: %q", got)
	}
}

// Another process has the lock: nobody changes the file, everybody can read it, and the
// lock ends with its holder.
func TestLock_ExcludesOthersAndDiesWithItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.scr")
	if err := Update(path, addOne); err != nil {
		t.Fatal(err)
	}
	cmd, out := actor(t, "hold", path)
	if !out.Scan() {
		t.Fatal("the process does not hold the lock")
	}
	before := countedIn(t, path)
	changed := make(chan error, 1)
	freed := make(chan struct{})
	go func() {
		changed <- Update(path, func(h *Hash) error {
			select {
			case <-freed:
			default:
				t.Error("went ahead without the lock")
			}
			return addOne(h)
		})
	}()
	for range 100 {
		if n := countedIn(t, path); n != before {
			t.Fatalf("counted to %d while another process has the lock", n)
		}
	}
	close(freed)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	if err := <-changed; err != nil {
		t.Error(err)
	}
	if n := countedIn(t, path); n != before+1 {
		t.Errorf("counted to %d from %d", n, before)
	}
}

// A process that keeps the lock for good: whoever waits says so, and gives up.
func TestUpdate_NeverUnlocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.scr")
	cmd, out := actor(t, "hold", path)
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says that it was killed
	}()
	if !out.Scan() {
		t.Fatal("the process does not hold the lock")
	}
	var said []string
	lock.SetPatience(lock.Patience{Limit: 100 * time.Millisecond, Tell: func(line string) { said = append(said, line) }})
	defer lock.SetPatience(lock.Patience{Limit: time.Minute, Tell: func(line string) { t.Log(line) }})
	fill := func(h *Hash) error { return errors.New("changed all the same") }
	_, _, mending := Mend(path, path+".damaged", fill)
	for _, err := range []error{Update(path, fill), mending} {
		if !errors.Is(err, lock.ErrTimeout) || !strings.Contains(err.Error(), fmt.Sprintf("process %d on ", cmd.Process.Pid)) || !strings.Contains(err.Error(), path+LockSuffix) {
			t.Errorf("%v", err)
		}
	}
	if len(said) < 2 || !strings.Contains(said[0], fmt.Sprintf("process %d on ", cmd.Process.Pid)) {
		t.Errorf("said %q", said)
	}
}
