package storagetest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRefuse(t *testing.T) {
	if dir := Dir(); dir != "" {
		f, err := os.Create(filepath.Join(dir, "file"))
		if err != nil {
			t.Fatal(err)
		}
		if err := Refuse(unix.EDQUOT, 100); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(make([]byte, 99)); err != nil {
			t.Error(err)
		}
		if _, err := f.Write(make([]byte, 100)); !errors.Is(err, unix.EDQUOT) {
			t.Error(err)
		}
		if n, err := f.WriteAt(make([]byte, 100), 0); n > 0 || !errors.Is(err, unix.EDQUOT) {
			t.Error(n, err)
		}
		return
	}
	Again(t, t.TempDir())
}

func TestAgainUnprivileged(t *testing.T) {
	if dir := Dir(); dir != "" {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, "closed"), 0o500), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "closed/file"), nil, 0o600); !errors.Is(err, os.ErrPermission) {
			t.Errorf("permissions do not apply: %v", err)
		}
		return
	}
	base, err := os.MkdirTemp("/dev/shm", "goscr-test-") // others may go there
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	AgainUnprivileged(t, base)
}
