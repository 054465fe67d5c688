package descriptors

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// without closes descriptor 0 until the test ends.
func without(t *testing.T) {
	t.Helper()
	kept, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 100)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(0)
	t.Cleanup(func() {
		if err := unix.Dup2(kept, 0); err != nil {
			t.Error(err)
		}
		unix.Close(kept)
	})
}

func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

func TestOpenFile(t *testing.T) {
	without(t)
	path := filepath.Join(t.TempDir(), "file")
	f, err := OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if number(f) < lowest || isOpen(0) {
		t.Errorf("the file has descriptor %d, and 0 is open: %t", number(f), isOpen(0))
	}
}

// The program closes a descriptor while another thread of ours opens a file.
func TestHold_ClosedAfterAnotherHold(t *testing.T) {
	Hold()
	defer Release()
	without(t)
	Hold()
	if _, err := unix.Write(0, []byte("text")); err != unix.EBADF || !isOpen(0) {
		t.Errorf("descriptor 0 is not held: %v", err)
	}
	Release()
	if !isOpen(0) {
		t.Error("descriptor 0 is given back while a file may be opened")
	}
}

// ... and after this one has called Hold.
func TestOpenFile_ClosedAfterHold(t *testing.T) {
	without(t)
	path := filepath.Join(t.TempDir(), "file")
	f, err := Above(os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if number(f) < lowest || isOpen(0) {
		t.Errorf("the file has descriptor %d, and 0 is open: %t", number(f), isOpen(0))
	}
	if _, err := f.WriteString("text"); err != nil {
		t.Error(err)
	}
}

// The C library reads the number of processors while this thread calls Hold.
func TestHold_WaitsForTheCLibrary(t *testing.T) {
	for _, path := range []string{"/sys/devices/system/cpu/online", "/proc/stat"} {
		t.Run(path, func(t *testing.T) {
			without(t)
			Hold() // finds that the program has closed it
			Release()
			f, err := os.Open(path) // with descriptor 0
			if err != nil {
				t.Skip(err)
			}
			if number(f) != 0 {
				t.Fatalf("the file has descriptor %d", number(f))
			}
			time.AfterFunc(20*time.Millisecond, func() { f.Close() })
			Hold()
			defer Release()
			if flags, err := unix.FcntlInt(0, unix.F_GETFL, 0); err != nil || flags&unix.O_PATH == 0 {
				t.Errorf("descriptor 0 is not held: %#x, %v", flags, err)
			}
		})
	}
}
