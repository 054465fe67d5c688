package meta

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goscr/goscr/hash"
)

// Whatever a description says, its file is below the directory of the dataset, its
// numbers are possible, and what it records can be given to a file or is refused.
func FuzzMeta(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		f.Fatal(err)
	}
	m := NewFull("dir/file", 4, "file", "dir")
	m.SetCRC(0x12345678)
	m.Find(4)
	if err := m.Record(path); err != nil {
		f.Fatal(err)
	}
	f.Add(m.Hash().Pack(nil))
	m.SetStored(Stored{})
	m.SetShared(3)
	f.Add(m.Hash().Pack(nil))
	f.Add(New("../file", "x", -1).Hash().Pack(nil))
	f.Fuzz(func(t *testing.T, packed []byte) {
		h, _, err := hash.Unpack(packed)
		if err != nil {
			return
		}
		m := FromHash(h)
		if file := m.File(); file != "" && !filepath.IsLocal(file) {
			t.Fatalf("file %q", file)
		}
		if m.Size() < -1 || m.StoredSize() < -1 {
			t.Fatalf("size %d, stored %d", m.Size(), m.StoredSize())
		}
		to := New("a", Full, 1)
		m.CopyContent(to)
		m.CopyRecord(to)
		if to.Size() != m.Size() || to.File() != "a" {
			t.Fatalf("the copy has size %d and name %q, was %d", to.Size(), to.File(), m.Size())
		}
		_, _ = m.Stored()
		_, _ = m.Modified()
		_ = m.Check(path) // an error is as good as none
		_ = m.CheckStored("", path)
		_ = m.Restore("", path)
		if data, err := os.ReadFile(path); err == nil && string(data) != "data" {
			t.Fatalf("the file has %q", data)
		}
		_ = os.Chmod(path, 0o600)
	})
}
