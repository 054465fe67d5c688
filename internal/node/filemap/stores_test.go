package filemap

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/goscr/goscr/hash"
)

func TestStores(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, StoresFile)
	read := func() Stores {
		t.Helper()
		s, err := ReadStores(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write := func(s Stores) {
		t.Helper()
		if err := s.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	write(read()) // a list of nothing needs no file
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Error(err)
	}
	want := Stores{Allocation: "17", Dirs: map[string]bool{"/l/ssd/user/scr.job": false, "/p/shared/user/scr.job": true}}
	write(want)
	if got := read(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(want) // a run that changes nothing writes nothing
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("it was written again: %v", err)
	}
	// A path that goscr would not write names no directory.
	h := hash.New()
	for _, bad := range []string{"relative", "/a/../b", "/a//b", ""} {
		h.SetKV(keyStore, bad)
	}
	if err := hash.WriteFile(path, h); err != nil {
		t.Fatal(err)
	}
	if got := read(); len(got.Dirs) > 0 {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadStores(dir); err == nil {
		t.Error("a damaged list is read")
	}
}
