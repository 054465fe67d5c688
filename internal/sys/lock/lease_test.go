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

	"github.com/goscr/goscr/test/faultfs"
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

// Clocks decide nothing: a lease that looks old is watched, and one that was seen unchanged for long is dead however it looks.
func TestLease_Clocks(t *testing.T) {
	hurry(t, time.Minute)
	path := filepath.Join(refusing(t), "lock")
	l, err := Try(path, Exclusive)
	if l == nil || err != nil {
		t.Fatal(l, err)
	}
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		at := time.Now().Add(off)
		must(t, os.Chtimes(path+leaseSuffix, at, at))
		if again, err := Try(path, Exclusive); again != nil || err != nil {
			t.Errorf("%v: taken from a holder that lives: %v", off, err)
		}
	}
	l.Release()
	l.Release()
	o, got := start(t, "exclusive", path, nil)
	if got != "true <nil>" {
		t.Fatal(got)
	}
	o.end()
	for began := time.Now(); ; time.Sleep(renewal / 2) {
		now := time.Now()
		must(t, os.Chtimes(path+leaseSuffix, now, now)) // never old
		if l, err = Try(path, Exclusive); l != nil || err != nil {
			break
		}
		if time.Since(began) > 100*lifetime {
			t.Fatal("it is never dead")
		}
	}
	must(t, err)
	l.Release()
}

// A node that mounts the file system with locks respects the lease of one that mounts it without.
func TestLease_OtherMount(t *testing.T) {
	hurry(t, time.Minute)
	m := faultfs.New(t, faultfs.Options{})
	m.Set(faultfs.Options{Locks: unix.ENOLCK})
	path := filepath.Join(m.Dir, "lock")
	l, err := Try(path, Exclusive)
	if l == nil || err != nil {
		t.Fatal(l, err)
	}
	m.Set(faultfs.Options{})
	if again, err := Try(path, Exclusive); again != nil || err != nil || !Held(path) {
		t.Errorf("%v, %v, held %v", again, err, Held(path))
	}
	l.Release()
	l, err = Try(path, Exclusive)
	if l == nil || err != nil {
		t.Fatal(l, err)
	}
	l.Release()
}

// What is no lease is an error that names it, and says what to do.
func TestLease_Garbage(t *testing.T) {
	hurry(t, time.Minute)
	path := filepath.Join(refusing(t), "lock")
	for what, make := range map[string]func(held string) error{
		"directory": func(held string) error { return os.Mkdir(held, 0o700) },
		"text":      func(held string) error { return os.WriteFile(held, []byte("../../x"), 0o600) },
		"long":      func(held string) error { return os.WriteFile(held, []byte(strings.Repeat("A", 5000)), 0o600) },
	} {
		must(t, make(path+leaseSuffix))
		if l, err := Try(path, Exclusive); l != nil || err == nil || !strings.Contains(err.Error(), "remove it") || !strings.Contains(err.Error(), leaseSuffix) {
			t.Errorf("%s: %v, %v", what, l, err)
		}
		must(t, os.RemoveAll(path+leaseSuffix))
	}
}
