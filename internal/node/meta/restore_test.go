package meta

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/goscr/goscr/internal/sys/trust"
)

// In a list of files anybody may have written any owner and mode.
func TestRestore_NoMoreRights(t *testing.T) {
	const other = 65533
	for _, kind := range []string{"own", "in another's directory", "in another's directory, of root's own"} {
		if kind != "own" && os.Geteuid() != 0 {
			continue
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		must(t, os.WriteFile(path, nil, 0o600))
		if kind != "own" {
			must(t, os.Chown(dir, other, other))
		}
		for _, uid := range []string{"0", "1", "65533", "65534"} {
			m := New("f", Full, 1)
			for key, value := range map[string]string{"MODE": "6755", "UID": uid, "GID": "0"} {
				m.Hash().SetValue(key, value)
			}
			source := Any
			if strings.HasSuffix(kind, "own") {
				source = os.Geteuid()
			}
			f, err := os.Open(path)
			must(t, err)
			m.RestoreMode(f, trust.Root(dir), source)
			must(t, f.Close())
			info, err := os.Lstat(path)
			must(t, err)
			want := os.Geteuid()
			if kind == "in another's directory" {
				want = other
			}
			if got := trust.OwnerOf(info); info.Mode() != 0o755 || got != want {
				t.Errorf("%s, recorded owner %s: %v of user %d", kind, uid, info.Mode(), got)
			}
		}
	}
}

// A link in place of the file, or of its directory, is not followed.
func TestRestore_Links(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "outside/f")
	root := trust.Root(filepath.Join(dir, "root"))
	must(t, errors.Join(os.MkdirAll(string(root), 0o755), os.Mkdir(filepath.Dir(victim), 0o755), os.WriteFile(victim, nil, 0o600),
		os.Symlink(victim, filepath.Join(string(root), "link")), os.Symlink(filepath.Dir(victim), filepath.Join(string(root), "dir"))))
	before, err := os.Lstat(victim)
	must(t, err)
	m := New("f", Full, 1)
	for key, value := range map[string]string{"MODE": "755", "UID": "1", "GID": "1", "MTIME": "0", "ATIME": "0"} {
		m.Hash().SetValue(key, value)
	}
	for _, name := range []string{"link", "dir/f"} {
		for _, below := range []trust.Root{root, ""} {
			if below == "" && name == "dir/f" {
				continue // only the caller can change directories of the cache
			}
			if err := m.Restore(below, filepath.Join(string(root), name)); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	}
	after, err := os.Lstat(victim)
	must(t, err)
	if after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) || trust.OwnerOf(after) != trust.OwnerOf(before) {
		t.Errorf("%v %v", after.Mode(), after.ModTime())
	}
}

// In a directory with the set-group-id bit the group is that of the directory, as of any file.
func TestRestore_GroupOfTheDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to any group")
	}
	dir := t.TempDir()
	must(t, os.Chown(dir, 0, 7))
	for mode, want := range map[os.FileMode]uint32{0o770: 5, 0o770 | os.ModeSetgid: 7} {
		must(t, os.Chmod(dir, mode))
		path := filepath.Join(dir, "f")
		must(t, errors.Join(os.WriteFile(path, nil, 0o600)))
		m := New("f", Full, 1)
		m.Hash().SetValue("GID", "5")
		must(t, m.Restore("", path))
		info, err := os.Lstat(path)
		must(t, err)
		if got := info.Sys().(*syscall.Stat_t).Gid; got != want {
			t.Errorf("directory %v: group %d", mode, got)
		}
		must(t, os.Remove(path))
	}
}

// A file that its owner cannot read gets its mode and times nevertheless.
func TestRestore_Unreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, nil, 0o200))
	m := New("f", Full, 1)
	m.Hash().SetValue("MODE", "100")
	f, err := trust.Root("").OpenFile(path, syscall.O_RDONLY|0o10000000, 0) // O_PATH
	must(t, err)
	defer f.Close()
	m.RestoreMode(f, "", Any)
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o100 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A file system that refuses to set what is not data costs one line, and no file.
func TestRestore_Refused(t *testing.T) {
	var said []string
	OnRefusal(func(err error) { said = append(said, err.Error()) })
	defer OnRefusal(nil)
	m := New("f", Full, 1)
	for key, value := range map[string]string{"MODE": "644", "MTIME": "0", "ATIME": "0"} {
		m.Hash().SetValue(key, value)
	}
	for _, path := range []string{"/proc/self/stat", "/proc/self/status"} { // a regular file of a file system that refuses
		must(t, m.Restore("", path))
	}
	if len(said) != 1 || !strings.Contains(said[0], "/proc/self/stat cannot be set") {
		t.Errorf("%q", said)
	}
}
