package meta

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRecordAndRestore(t *testing.T) {
	dir := t.TempDir()
	for _, mode := range []os.FileMode{0o600, 0o644, 0o400, 0o755, 0o000, 0o777, 0o755 | os.ModeSetuid, 0o1777&0o777 | os.ModeSticky} {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		os.Remove(a)
		os.Remove(b)
		must(t, os.WriteFile(a, []byte("hello"), 0o600))
		must(t, os.WriteFile(b, []byte("hello"), 0o600))
		when := time.Unix(1_000_000_007, 123456789)
		must(t, os.Chtimes(a, when.Add(time.Hour), when))
		must(t, os.Chmod(a, mode))
		m := New("x/a", Full, 3)
		must(t, m.Record(a))
		// Through a file and back.
		h, err := hash.Decode(m.Hash().Encode())
		must(t, err)
		must(t, Meta{h}.Restore("", b))
		want, err := os.Stat(a)
		must(t, err)
		got, err := os.Stat(b)
		must(t, err)
		if got.Mode() != want.Mode()&^os.ModeSetuid || !got.ModTime().Equal(when) {
			t.Errorf("%v %v, want %v %v", got.Mode(), got.ModTime(), mode, when)
		}
		if m.Size() != 5 {
			t.Errorf("%d bytes", m.Size())
		}
	}
}

func TestRecord_OnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	must(t, os.Symlink("file", link))
	for _, path := range []string{dir, link, filepath.Join(dir, "none")} {
		if err := New("x", Full, 1).Record(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestRestore_LeavesWhatIsNotRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, nil, 0o640))
	must(t, os.Chmod(path, 0o640))
	when := time.Unix(1e9, 0)
	must(t, os.Chtimes(path, when, when))
	m := New("f", Full, 1)
	must(t, m.Restore("", path))
	m.Hash().SetValue("MODE", "rwx") // makes no sense
	m.Hash().SetValue("MTIME", "noon")
	must(t, m.Restore("", path))
	m.Hash().SetValue("MODE", "777777")
	must(t, m.Restore("", path))
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode() != 0o640 || !info.ModTime().Equal(when) {
		t.Errorf("%v %v", info.Mode(), info.ModTime())
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	must(t, os.WriteFile(path, []byte("12345"), 0o600))
	m := New("f", Full, 1)
	fails := func(path, text string) {
		t.Helper()
		if err := m.Check(path); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	must(t, m.Record(path))
	fails(path, "was not completed")
	m.SetComplete(true)
	must(t, m.Check(path))
	must(t, os.Truncate(path, 6))
	fails(path, "has 6 bytes, should have 5: it was written to after its dataset was completed")
	fails(filepath.Join(dir, "none"), "no such file")
	fails(dir, "not a regular file")
	must(t, os.Symlink("f", filepath.Join(dir, "link")))
	fails(filepath.Join(dir, "link"), "not a regular file")
}

func TestFields(t *testing.T) {
	m := NewFull("a/b", 7, "orig/b", "/prefix/a")
	if m.File() != "a/b" || m.Type() != Full || m.Complete() || m.Size() != -1 {
		t.Errorf("%v", m)
	}
	if _, known := m.CRC(); known {
		t.Error("a checksum from nowhere")
	}
	lengths := map[int]bool{}
	for _, crc := range []uint32{0, 1, 0xffffffff, 0x00c0ffee} {
		m.SetCRC(crc)
		if got, known := m.CRC(); !known || got != crc {
			t.Errorf("%x, %v", got, known)
		}
		lengths[len(m.Hash().Encode())] = true
	}
	if len(lengths) != 1 {
		t.Error("the length depends on the checksum")
	}
	for _, bad := range []string{"../x", "/x", "a/../../b", ""} {
		m.Hash().SetValue("FILE", bad)
		if m.File() != "" {
			t.Errorf("%q leads to %q", bad, m.File())
		}
	}
	for _, bad := range []string{"-1", "x", "99999999999999999999", ""} {
		m.Hash().SetValue("SIZE", bad)
		if m.Size() != -1 {
			t.Errorf("%q is %d", bad, m.Size())
		}
		m.Hash().SetValue("CRC", bad)
		if _, known := m.CRC(); known {
			t.Errorf("%q is a checksum", bad)
		}
	}
}
