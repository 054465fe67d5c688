package lock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/faultfs"
)

// refusing is a directory on a file system without locks.
func refusing(t *testing.T) string {
	m := faultfs.New(t, faultfs.Options{})
	m.Set(faultfs.Options{Locks: unix.EOPNOTSUPP})
	before := lifetime
	lifetime = 3 * time.Second
	t.Cleanup(func() { lifetime = before })
	return m.Dir
}

func TestLease(t *testing.T) {
	said := hurry(t, time.Minute)
	tellLease = sync.Once{}
	path := filepath.Join(refusing(t), "lock")
	l, err := Try(path, Exclusive)
	if l == nil || err != nil {
		t.Fatal(l, err)
	}
	l.Describe("a job")
	if again, err := Try(path, Exclusive); again != nil || err != nil {
		t.Errorf("taken twice: %v", err)
	}
	if _, got := start(t, "exclusive", path, nil); got != "false <nil>" {
		t.Errorf("another process: %s", got)
	}
	if !Held(path) || Description(path) != "a job" || !strings.HasPrefix(Holder(path), "process ") {
		t.Errorf("held %v, %q, %q", Held(path), Description(path), Holder(path))
	}
	time.Sleep(lifetime + renewal) // it is renewed meanwhile
	if !Held(path) {
		t.Error("it has expired")
	}
	l.Release()
	if Held(path) {
		t.Error("it is held after Release")
	}
	l, err = Try(path, Exclusive)
	if l == nil || err != nil {
		t.Fatal(l, err)
	}
	l.Release()
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
	if len(*said) != 1 || !strings.Contains((*said)[0], "has no locks of fcntl") {
		t.Errorf("%q", *said)
	}
	if _, err := Try(path, Shared); err == nil || !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("shared: %v", err)
	}
}

// The lease of a process that was killed expires.
func TestLease_Killed(t *testing.T) {
	hurry(t, time.Minute)
	path := filepath.Join(refusing(t), "lock")
	o, got := start(t, "exclusive", path, nil)
	if got != "true <nil>" {
		t.Fatal(got)
	}
	o.end()
	if !Held(path) {
		t.Error("not held just after the kill")
	}
	l, err := Wait(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
}

// Of many that wait for an expired lease, one at a time has it.
func TestLease_Many(t *testing.T) {
	if testing.Short() {
		t.Skip("waits")
	}
	hurry(t, time.Minute)
	path := filepath.Join(refusing(t), "lock")
	o, got := start(t, "exclusive", path, nil)
	if got != "true <nil>" {
		t.Fatal(got)
	}
	o.end()
	var inside, most atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 3 {
				l, err := Wait(path)
				if err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), inside.Add(1)))
				time.Sleep(5 * time.Millisecond)
				inside.Add(-1)
				l.Release()
			}
		}()
	}
	group.Wait()
	if most.Load() != 1 {
		t.Errorf("%d at a time", most.Load())
	}
}
