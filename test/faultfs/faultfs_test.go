package faultfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

// It is a file system like any other.
func TestMount_PassesThrough(t *testing.T) {
	m := New(t, Options{})
	at := func(name string) string { return filepath.Join(m.Dir, name) }
	must(t, os.MkdirAll(at("a/b"), 0o750))
	must(t, os.WriteFile(at("a/b/file"), []byte("0123456789"), 0o640))
	when := time.Unix(1_000_000_000, 123_456_789)
	must(t, os.Chtimes(at("a/b/file"), when, when))
	must(t, os.Link(at("a/b/file"), at("linked")))
	must(t, os.Symlink("a/b/file", at("symlink")))
	must(t, os.Truncate(at("symlink"), 5))
	must(t, os.Rename(at("a/b/file"), at("a/moved")))
	must(t, os.Chmod(at("a/moved"), 0o755|os.ModeSetuid))
	must(t, os.Mkdir(at("gone"), 0o700))
	must(t, os.Remove(at("gone")))
	if _, err := os.Stat(at("symlink")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for _, dir := range []string{m.Dir, m.Backing} {
		if got := read(t, filepath.Join(dir, "linked")); got != "01234" {
			t.Errorf("%s: %q", dir, got)
		}
		info, err := os.Stat(filepath.Join(dir, "a/moved"))
		must(t, err)
		if info.Mode() != 0o755|os.ModeSetuid {
			t.Error(info.Mode())
		}
	}
	must(t, os.Chtimes(at("linked"), when, when))
	info, err := os.Stat(at("a/moved"))
	must(t, err)
	if !info.ModTime().Equal(when) {
		t.Error(info.ModTime())
	}
	entries, err := os.ReadDir(m.Dir)
	must(t, err)
	if len(entries) != 3 {
		t.Error(entries)
	}
	f, err := os.OpenFile(at("a/moved"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	data, err := unix.Mmap(int(f.Fd()), 0, 5, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	data[0] = '!'
	must(t, unix.Munmap(data))
	must(t, f.Sync())
	must(t, os.Remove(at("a/moved"))) // an open file without a name
	must(t, f.Truncate(2))
	if info, err := f.Stat(); err != nil || info.Size() != 2 {
		t.Error(info, err)
	}
	if got := read(t, at("linked")); got != "!1" {
		t.Errorf("%q", got)
	}
	g, err := os.Open(at("linked"))
	must(t, err)
	defer g.Close()
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	if err := unix.Flock(int(g.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Error(err)
	}
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_UN))
	must(t, unix.Flock(int(g.Fd()), unix.LOCK_SH))
}

func TestMount_Times(t *testing.T) {
	when := time.Unix(1_000_000_000, 123_456_789)
	for times, want := range map[Times]time.Time{Exact: when, Seconds: time.Unix(1_000_000_000, 0), None: time.Unix(0, 0)} {
		m := New(t, Options{Times: times})
		path := filepath.Join(m.Dir, "file")
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chtimes(path, when, when))
		info, err := os.Stat(path)
		must(t, err)
		if !info.ModTime().Equal(want) {
			t.Errorf("%d: %v", times, info.ModTime())
		}
	}
}

// What is written is accepted, and the error comes at the call that is to report it, once.
func TestMount_LateErrors(t *testing.T) {
	for _, call := range []Call{Write, Sync, Close} {
		m := New(t, Options{Faults: []Fault{{Call: call, Path: "file", Skip: 1, Errno: syscall.ENOSPC}}, Seed: 3})
		for i, want := range []Call{"", call, ""} {
			path := filepath.Join(m.Dir, fmt.Sprint("file", i))
			f, err := os.Create(path)
			must(t, err)
			var failed []Call
			for _, step := range []struct {
				call Call
				do   func() error
			}{
				{Write, func() error { _, err := f.Write(make([]byte, 5000)); return err }},
				{Sync, f.Sync}, {Close, f.Close},
			} {
				if err := step.do(); errors.Is(err, syscall.ENOSPC) {
					failed = append(failed, step.call)
				} else {
					must(t, err)
				}
			}
			if want == "" && len(failed) > 0 || want != "" && !slices.Equal(failed, []Call{want}) {
				t.Errorf("%s, file %d: fails at %v", call, i, failed)
			}
			if info, err := os.Stat(path); err != nil || (info.Size() == 5000) != (want == "") {
				t.Errorf("%s, file %d: %v, %v", call, i, info, err)
			}
		}
		if hit := m.Hit(); !slices.Equal(hit, []string{string(call) + " file1"}) {
			t.Error(hit)
		}
	}
	m := New(t, Options{Faults: []Fault{{Call: Rename, Skip: 1, Errno: syscall.EIO}}})
	must(t, os.WriteFile(filepath.Join(m.Dir, "a"), nil, 0o600))
	must(t, os.Rename(filepath.Join(m.Dir, "a"), filepath.Join(m.Dir, "b")))
	if err := os.Rename(filepath.Join(m.Dir, "b"), filepath.Join(m.Dir, "c")); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	must(t, os.Rename(filepath.Join(m.Dir, "b"), filepath.Join(m.Dir, "c")))
}

func TestMount_StuckUntilReleased(t *testing.T) {
	m := New(t, Options{Faults: []Fault{{Call: Sync, Path: "file"}}, Slow: time.Millisecond})
	f, err := os.Create(filepath.Join(m.Dir, "file"))
	must(t, err)
	defer f.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = f.Sync()
	}()
	if !m.AwaitStuck(done) || !slices.Equal(m.Stuck(), []string{"fsync file"}) {
		t.Error("not stuck:", m.Stuck())
	}
	must(t, os.WriteFile(filepath.Join(m.Dir, "other"), nil, 0o600))
	m.Release()
	<-done
	must(t, err)
	must(t, f.Sync())
}

// A mount sees what another has changed when it opens a file, and not before.
func TestMount_CloseToOpen(t *testing.T) {
	opt := Options{CloseToOpen: time.Hour}
	a := New(t, opt)
	b := Of(t, a.Backing, a.Dir+".b", opt)
	in := func(m *Mount, name string) string { return filepath.Join(m.Dir, name) }
	size := func(m *Mount, name string) int64 {
		info, err := os.Stat(in(m, name))
		if err != nil {
			return -1
		}
		return info.Size()
	}
	must(t, os.WriteFile(in(a, "file"), []byte("1"), 0o600))
	if got := size(b, "file"); got != 1 {
		t.Error(got)
	}
	must(t, os.WriteFile(in(a, "file"), []byte("22"), 0o600))
	if got := size(b, "file"); got != 1 {
		t.Error("nothing is cached:", got)
	}
	if got := read(t, in(b, "file")); got != "22" {
		t.Errorf("opened: %q", got)
	}
	if got := size(b, "file"); got != 2 {
		t.Error(got)
	}
	for i := range 5 { // a file that is replaced
		want := strings.Repeat("x", i)
		must(t, os.WriteFile(in(a, "file.tmp"), []byte(want), 0o600))
		must(t, os.Rename(in(a, "file.tmp"), in(a, "file")))
		if got := read(t, in(b, "file")); got != want {
			t.Errorf("replaced %d times: %q", i, got)
		}
	}
	f, err := os.OpenFile(in(a, "file"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	g, err := os.OpenFile(in(b, "file"), os.O_RDWR, 0)
	must(t, err)
	defer g.Close()
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	if err := unix.Flock(int(g.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Error("both have the lock:", err)
	}
}
