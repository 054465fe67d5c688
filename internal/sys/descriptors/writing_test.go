package descriptors

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestWriting(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for _, name := range []string{"closed", "read", "written", "appended", "twice", "removed"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	open := func(name string, flags int) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name), flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
	}
	if got := Writing(paths); len(got) > 0 {
		t.Errorf("nothing is open, but %v", got)
	}
	open("read", os.O_RDONLY)
	open("written", os.O_RDWR)
	open("appended", os.O_WRONLY|os.O_APPEND)
	open("twice", os.O_WRONLY)
	open("twice", os.O_WRONLY)
	open("removed", os.O_WRONLY)
	if err := os.Remove(filepath.Join(dir, "removed")); err != nil {
		t.Fatal(err)
	}
	paths = append(paths, "/dev/null", filepath.Join(dir, "none"))
	got := Writing(paths)
	slices.Sort(got)
	if want := []string{paths[3], paths[4], paths[2]}; !slices.Equal(got, want) {
		t.Errorf("%v, should be %v", got, want)
	}
	if got := Writing(nil); got != nil {
		t.Error(got)
	}
}

func BenchmarkWriting(b *testing.B) {
	path := filepath.Join(b.TempDir(), "f")
	for range 40 {
		f, err := os.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { f.Close() })
	}
	for b.Loop() {
		Writing([]string{path})
	}
}
