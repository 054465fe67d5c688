package hash

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// names lists a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestWriteAndRead(t *testing.T) {
	mask := fs.FileMode(unix.Umask(0o022))
	defer unix.Umask(int(mask))
	for _, test := range []struct {
		write func(string, *Hash) error
		mode  fs.FileMode
	}{
		{WriteFile, 0o600},
		{WriteShared, 0o644},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.scr")
		for _, h := range []*Hash{tree("a/1"), tree("b/2", "c"), nil} { // a new file, then another in its place
			if err := test.write(path, h); err != nil {
				t.Fatal(err)
			}
			got, err := ReadFile(path)
			if err != nil || !got.Equal(h) {
				t.Errorf("read %q, %v", paths(got), err)
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode() != test.mode {
				t.Errorf("mode %v, want %v", info.Mode(), test.mode)
			}
		}
		if got := names(t, dir); len(got) != 1 {
			t.Errorf("files left: %q", got)
		}
	}
}

func TestWriteFile_Errors(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(dir+"/none/x", tree("a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if err := os.Mkdir(dir+"/d", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(dir+"/d", tree("a")); err == nil || !strings.Contains(err.Error(), dir+"/d") {
		t.Errorf("a directory in its place: %v", err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("files left: %q", got)
	}
}

// What a killed writer left beside the file is neither read nor in the way,
// whatever its mode, and is gone after the next write.
func TestWriteFile_Leftovers(t *testing.T) {
	for name, leave := range map[string]func(tmp string) error{
		"half a file": func(tmp string) error { return os.WriteFile(tmp, []byte("\x95\x1f"), 0o644) },
		"other mode":  func(tmp string) error { return os.WriteFile(tmp, tree("old").Encode(), 0o400) },
		"link":        func(tmp string) error { return os.Symlink("elsewhere", tmp) },
		"pipe":        func(tmp string) error { return unix.Mkfifo(tmp, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "x.scr")
			if err := WriteFile(path, tree("a")); err != nil {
				t.Fatal(err)
			}
			if err := leave(path + ".tmp"); err != nil {
				t.Fatal(err)
			}
			elsewhere := filepath.Join(dir, "elsewhere")
			if err := os.WriteFile(elsewhere, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			if h, err := ReadFile(path); err != nil || !h.Equal(tree("a")) {
				t.Errorf("read: %v", err)
			}
			if err := WriteFile(path, tree("b")); err != nil {
				t.Fatal(err)
			}
			if h, err := ReadFile(path); err != nil || !h.Equal(tree("b")) {
				t.Errorf("read: %v", err)
			}
			if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			if got := names(t, dir); len(got) != 2 {
				t.Errorf("files left: %q", got)
			}
			if data, _ := os.ReadFile(elsewhere); string(data) != "mine" {
				t.Error("a link was followed")
			}
		})
	}
}

// Everything that reads a path must refuse what is not a hash file, say which
// file, and not wait for it.
func TestRead_Refuses(t *testing.T) {
	good := tree("a/x", "b").Encode()
	write := func(data []byte) func(string) error {
		return func(path string) error { return os.WriteFile(path, data, 0o600) }
	}
	is := func(target error) func(error) bool {
		return func(err error) bool { return errors.Is(err, target) }
	}
	says := func(text string) func(error) bool {
		return func(err error) bool { return strings.Contains(err.Error(), text) }
	}
	for name, test := range map[string]struct {
		put  func(path string) error
		want func(error) bool
	}{
		"empty":     {write(nil), is(ErrCorrupt)},
		"truncated": {write(good[:len(good)-1]), is(ErrCorrupt)},
		"longer":    {write(append(good[:len(good):len(good)], 0)), is(ErrCorrupt)},
		"text":      {write([]byte("SCR_FLUSH=1\n")), is(ErrCorrupt)},
		"larger than any": {func(path string) error {
			return errors.Join(os.WriteFile(path, good, 0o600), os.Truncate(path, maxFile+1))
		}, is(ErrCorrupt)},
		"link": {func(path string) error {
			return errors.Join(os.WriteFile(path+".real", good, 0o600), os.Symlink(path+".real", path))
		}, says("symbolic link")},
		"directory": {func(path string) error { return os.Mkdir(path, 0o700) }, says("directory")},
		"pipe":      {func(path string) error { return unix.Mkfifo(path, 0o600) }, says("not a regular file")},
	} {
		for call, read := range map[string]func(string) error{
			"ReadFile": func(path string) error { _, err := ReadFile(path); return err },
			"Update":   func(path string) error { return Update(path, func(*Hash) error { return nil }) },
		} {
			t.Run(name+"/"+call, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "x.scr")
				if err := test.put(path); err != nil {
					t.Fatal(err)
				}
				before, _ := os.Lstat(path)
				err := read(path) // does not hang
				if err == nil {
					t.Fatal("accepted")
				}
				if !strings.Contains(err.Error(), path) {
					t.Errorf("error %q does not name the file", err)
				}
				if !test.want(err) {
					t.Errorf("error %v", err)
				}
				after, err := os.Lstat(path)
				if err != nil || !os.SameFile(before, after) {
					t.Error("what was refused was changed")
				}
			})
		}
	}
}

func TestReadFile_NotThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.scr")
	if _, err := ReadFile(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("ReadFile: %v", err)
	}
}
