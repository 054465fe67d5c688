package meta

import (
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/meta"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recorded returns the record of a file with these contents.
func recorded(t *testing.T, path, contents string, sum bool) File {
	t.Helper()
	must(t, os.WriteFile(path, []byte(contents), 0o600))
	m := meta.New("ckpt.1/file", Full, 4)
	must(t, m.Record(path))
	if sum {
		m.SetCRC(crc32.ChecksumIEEE([]byte(contents)))
	}
	m.SetComplete(true)
	return FromHash(m.Hash())
}

func TestFile(t *testing.T) {
	for _, test := range []struct {
		name          string
		change        func(path string) error
		sum           bool
		check, verify string
	}{
		{"as written", func(string) error { return nil }, true, "", ""},
		{"removed", os.Remove, true, "no such file", "no such file"},
		{"shorter", func(path string) error { return os.Truncate(path, 3) }, true, "has 3 bytes, should have 8", "has 3 bytes, should have 8"},
		{"another byte", func(path string) error { return os.WriteFile(path, []byte("contentS"), 0o600) }, true, "", "recorded is"},
		{"another byte, without a checksum", func(path string) error { return os.WriteFile(path, []byte("contentS"), 0o600) }, false, "", ""},
		{"a link", func(path string) error {
			must(t, os.Rename(path, path+".moved"))
			return os.Symlink(path+".moved", path)
		}, true, "symbolic links", "symbolic links"},
		{"a pipe", func(path string) error {
			must(t, os.Remove(path))
			return unix.Mkfifo(path, 0o600)
		}, true, "not a regular file", "not a regular file"},
	} {
		path := filepath.Join(t.TempDir(), "file")
		f := recorded(t, path, "contents", test.sum)
		must(t, test.change(path))
		says(t, test.name+": Check", f.Check(path), test.check)
		says(t, test.name+": Verify", f.Verify(path), test.verify)
	}
}

func says(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

func TestFromHash(t *testing.T) {
	f := recorded(t, filepath.Join(t.TempDir(), "file"), "contents", true)
	if f.Name != "ckpt.1/file" || f.Type != Full || !f.Complete || f.Size != 8 || !f.HasCRC || f.Modified.IsZero() {
		t.Errorf("%+v", f)
	}
	if f := FromHash(nil); f.Complete || f.Size != -1 || f.HasCRC || f.Check("/dev/null") == nil {
		t.Errorf("no record: %+v", f)
	}
	outside := meta.New("../file", Full, 4)
	if f := FromHash(outside.Hash()); f.Name != "" {
		t.Errorf("the name %q leads out of the dataset", f.Name)
	}
}
