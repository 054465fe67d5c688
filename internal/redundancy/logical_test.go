package redundancy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/meta"
)

// leave leaves the process so many descriptors until the end of the test.
func leave(t *testing.T, more int) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: 40, Max: before.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	var taken []*os.File
	t.Cleanup(func() {
		for _, f := range taken {
			f.Close()
		}
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	})
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		taken = append(taken, f)
	}
	for _, f := range taken[:more] {
		f.Close()
	}
	taken = taken[more:]
}

func someFiles(t *testing.T, n int) []File {
	t.Helper()
	dir := t.TempDir()
	var files []File
	for i := range n {
		name := fmt.Sprintf("file.%d", i)
		f := File{Path: filepath.Join(dir, name), Meta: meta.New(name, meta.Full, 1)}
		if err := errors.Join(os.WriteFile(f.Path, []byte(name), 0o600), f.Meta.Record(f.Path)); err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// A process that has few descriptors left makes do with them.
func TestLogical_FewDescriptors(t *testing.T) {
	files := someFiles(t, maxOpen+10)
	leave(t, 3)
	crcs, err := (&Job{Piece: 1024}).checksums(files)
	if err != nil {
		t.Fatal(err)
	}
	for i, crc := range crcs {
		files[i].Meta.SetCRC(crc)
	}
	l := CreateLogical(files)
	for i := range files {
		l.Write([]byte(files[i].Meta.File()), l.starts[i], 0)
	}
	if err := errors.Join(l.Close(), l.Matches(), Verify(files, 1024)); err != nil {
		t.Error(err)
	}
}

// That a file cannot be opened for want of descriptors does not make it corrupt,
// which would get it deleted.
func TestVerify_NoDescriptors(t *testing.T) {
	files := someFiles(t, 2)
	leave(t, 0)
	err := Verify(files, 1024)
	var corrupt *CorruptError
	if !errors.Is(err, unix.EMFILE) || errors.As(err, &corrupt) {
		t.Errorf("%v", err)
	}
}
