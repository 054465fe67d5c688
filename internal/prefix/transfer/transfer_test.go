package transfer

import (
	"bytes"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/test/storagetest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// source makes a file with its description.
func source(t *testing.T, size int) (string, meta.Meta, []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "src")
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7)
	}
	when := time.Unix(1e9, 77)
	must(t, os.WriteFile(path, data, 0o600))
	must(t, os.Chmod(path, 0o640))
	must(t, os.Chtimes(path, when, when))
	md := meta.New("src", meta.Full, 1)
	must(t, md.Record(path))
	return path, md, data
}

func TestCopy(t *testing.T) {
	for _, size := range []int{0, 1, 99, 100, 101, 1000} {
		for _, buffer := range []int{1, 100, 1 << 20} {
			src, md, data := source(t, size)
			dst := filepath.Join(t.TempDir(), "a/b/dst")
			c := NewCopier(buffer)
			for range 2 { // the second time over the first
				must(t, c.Copy(src, dst, md))
				got, err := os.ReadFile(dst)
				must(t, err)
				info, err := os.Stat(dst)
				must(t, err)
				if !bytes.Equal(got, data) || info.Mode() != 0o640 || !storagetest.SameTime(dst, info, time.Unix(1e9, 77)) {
					t.Errorf("%d bytes, buffer of %d: %d bytes, %v, %v", size, buffer, len(got), info.Mode(), info.ModTime())
				}
				if crc, known := md.CRC(); !known || crc != crc32.ChecksumIEEE(data) {
					t.Errorf("checksum %x, %v", crc, known)
				}
			}
		}
	}
}

func TestCopy_CorruptSource(t *testing.T) {
	for name, change := range map[string]func(data []byte) []byte{
		"bit":  func(d []byte) []byte { d[500] ^= 1; return d },
		"end":  func(d []byte) []byte { return d[:999] },
		"more": func(d []byte) []byte { return append(d, 0) },
		"all":  func([]byte) []byte { return nil },
	} {
		src, md, data := source(t, 1000)
		c := NewCopier(64)
		must(t, c.Copy(src, filepath.Join(t.TempDir(), "dst"), md)) // takes the checksum
		must(t, os.WriteFile(src, change(data), 0o600))
		var corrupt *redundancy.CorruptError
		if err := c.Copy(src, filepath.Join(t.TempDir(), "dst"), md); !errors.As(err, &corrupt) || corrupt.Path != src {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCopy_InPlaceOfOtherThings(t *testing.T) {
	src, md, data := source(t, 100)
	dir := t.TempDir()
	dst, victim := filepath.Join(dir, "dst"), filepath.Join(dir, "victim")
	must(t, os.WriteFile(victim, []byte("precious"), 0o600))
	must(t, os.Symlink(victim, dst))
	must(t, NewCopier(64).Copy(src, dst, md))
	if got, _ := os.ReadFile(victim); string(got) != "precious" {
		t.Error("a link was followed")
	}
	if got, _ := os.ReadFile(dst); !bytes.Equal(got, data) {
		t.Error("not copied")
	}
	must(t, os.WriteFile(filepath.Join(dir, "longer"), bytes.Repeat([]byte{1}, 1000), 0o444))
	must(t, NewCopier(64).Copy(src, filepath.Join(dir, "longer"), md))
	if got, _ := os.ReadFile(filepath.Join(dir, "longer")); !bytes.Equal(got, data) {
		t.Error("the end of an older file is left")
	}
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	if err := NewCopier(64).Copy(src, filepath.Join(dir, "sub"), md); err == nil || !strings.Contains(err.Error(), "sub") {
		t.Errorf("over a directory: %v", err)
	}
	if err := NewCopier(64).Copy(src, filepath.Join(victim, "x"), md); err == nil || !strings.Contains(err.Error(), "victim") {
		t.Errorf("below a file: %v", err)
	}
	if err := NewCopier(64).Copy(filepath.Join(dir, "none"), dst, md); !errors.Is(err, redundancy.ErrCorrupt) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("from nothing: %v", err)
	}
	must(t, os.Symlink(src, filepath.Join(dir, "link")))
	if err := NewCopier(64).Copy(filepath.Join(dir, "link"), dst, md); !errors.Is(err, redundancy.ErrCorrupt) || !strings.Contains(err.Error(), unix.ELOOP.Error()) {
		t.Errorf("from a link: %v", err)
	}
}

func TestCopy_NoSpace(t *testing.T) {
	const full = "/dev/full"
	f, err := os.OpenFile(full, os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	f.Close()
	src, md, _ := source(t, 1000)
	if err := NewCopier(64).Copy(src, full, md); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), full) {
		t.Errorf("%v", err)
	}
}

// A bare copy has what any new file has; what is there already stays as it is.
func TestCopy_Bare(t *testing.T) {
	dir := t.TempDir()
	src, dst, fresh := filepath.Join(dir, "src"), filepath.Join(dir, "dst"), filepath.Join(dir, "fresh")
	must(t, os.WriteFile(src, []byte("contents"), 0o600))
	must(t, os.Chtimes(src, time.Unix(1e9, 0), time.Unix(1e9, 0)))
	must(t, os.Chmod(src, 0o400))
	must(t, os.WriteFile(fresh, nil, 0o666))
	want, err := os.Stat(fresh)
	must(t, err)
	md := meta.New("src", meta.Full, 1)
	must(t, md.Record(src))
	c := NewCopier(3)
	c.Bare = true
	for range 2 {
		must(t, c.Copy(src, dst, md))
		info, err := os.Stat(dst)
		must(t, err)
		if info.Mode() != want.Mode() || info.ModTime().Unix() == 1e9 || info.Size() != 8 {
			t.Errorf("%v, %v, %d bytes", info.Mode(), info.ModTime(), info.Size())
		}
	}
}

// What another user may have put where a copy goes, or on the way there, is not written to.
func TestCopy_BelowADirectoryOfOthers(t *testing.T) {
	src, md, data := source(t, 100)
	for what, put := range map[string]func(dst, victim string) error{
		"a hard link": func(dst, victim string) error { return os.Link(victim, dst) },
		"a link":      func(dst, victim string) error { return os.Symlink(victim, dst) },
		"a directory that is a link": func(dst, victim string) error {
			dir := filepath.Dir(dst)
			return errors.Join(os.Remove(dir), os.Symlink(filepath.Dir(victim), dir))
		},
		"a file of another user": func(dst, _ string) error {
			return errors.Join(os.WriteFile(dst, data[:50], 0o666), os.Chown(dst, 65533, 65533))
		},
	} {
		dir := t.TempDir()
		root, victim := filepath.Join(dir, "root"), filepath.Join(dir, "out/dst")
		dst := filepath.Join(root, "a/dst")
		must(t, errors.Join(os.MkdirAll(filepath.Dir(dst), 0o700), os.Mkdir(filepath.Dir(victim), 0o700), os.WriteFile(victim, []byte("precious"), 0o600)))
		if err := put(dst, victim); err != nil && os.Geteuid() != 0 {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		c := NewCopier(64)
		c.Below = trust.Root(root)
		err := c.Copy(src, dst, md)
		if what == "a directory that is a link" {
			if !errors.As(err, new(*trust.LinkError)) {
				t.Errorf("%s: %v", what, err)
			}
		} else {
			must(t, err)
			got, err := os.ReadFile(dst)
			info, e := os.Lstat(dst)
			if err != nil || e != nil || !bytes.Equal(got, data) || !info.Mode().IsRegular() || trust.OwnerOf(info) != os.Geteuid() {
				t.Errorf("%s: %v %v", what, err, info)
			}
		}
		if got, _ := os.ReadFile(victim); string(got) != "precious" {
			t.Errorf("%s: a file elsewhere was written", what)
		}
		if left, err := os.ReadDir(filepath.Dir(victim)); err != nil || len(left) != 1 {
			t.Errorf("%s: %v", what, left)
		}
		for _, read := range []func() error{
			func() error { return c.Fetch(filepath.Join(root, "a/dst"), filepath.Join(dir, "back"), md) },
			func() error { _, err := c.Verify(filepath.Join(root, "a/dst"), md); return err },
		} {
			if err := read(); (err != nil) != (what == "a directory that is a link") {
				t.Errorf("%s: read: %v", what, err)
			}
		}
	}
}

// A copy onto itself changes nothing, by whatever path.
func TestCopy_OntoItself(t *testing.T) {
	src, md, data := source(t, 100)
	dir := filepath.Dir(src)
	must(t, os.Symlink(dir, filepath.Join(dir, "alias")))
	for _, dst := range []string{src, filepath.Join(dir, "alias", "src")} {
		for _, below := range []trust.Root{"", trust.Root(dir)} {
			c := NewCopier(64)
			c.Below = below
			for what, copy := range map[string]func(src, dst string, md meta.Meta) error{"copy": c.Copy, "fetch": c.Fetch} {
				if err := copy(src, dst, md.Clone()); !errors.Is(err, ErrSame) || !strings.Contains(err.Error(), dst) {
					t.Errorf("%s to %s: %v", what, dst, err)
				}
				if got, err := os.ReadFile(src); err != nil || !bytes.Equal(got, data) {
					t.Fatalf("%s to %s: %d bytes are left, %v", what, dst, len(got), err)
				}
			}
		}
	}
}

func TestCopy_Admit(t *testing.T) {
	src, md, _ := source(t, 100)
	c := NewCopier(64)
	no := errors.New("is not his")
	c.Admit = func(os.FileInfo) error { return no }
	dst := filepath.Join(t.TempDir(), "dst")
	if err := c.Copy(src, dst, md); !errors.Is(err, redundancy.ErrCorrupt) || !strings.Contains(err.Error(), no.Error()) {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(dst); err == nil {
		t.Error("it was copied")
	}
}
