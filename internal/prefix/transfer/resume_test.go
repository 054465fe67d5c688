package transfer

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/sys/compress"
)

// kinds are the ways in which a file is copied.
var kinds = map[string]func(*Copier){
	"as it is":   func(*Copier) {},
	"blind":      func(c *Copier) { c.Blind = true },
	"compressed": func(c *Copier) { c.Compress = compress.Method{Name: compress.Zstd, Level: 1} },
}

// Whatever stands where a copy goes, the copy is right; and of the beginning of
// the same copy nothing is written again.
func TestCopy_Continues(t *testing.T) {
	const size, buffer = 1 << 20, 10_000
	src, md, data := source(t, size)
	random := rand.New(rand.NewPCG(3, 4))
	for kind, set := range kinds {
		first := NewCopier(buffer)
		set(first)
		whole := filepath.Join(t.TempDir(), "whole")
		must(t, first.Copy(src, whole, md.Clone()))
		stored, err := os.ReadFile(whole)
		must(t, err)
		for what, change := range map[string]func(d []byte) (left []byte, kept int){
			"nothing":       func(d []byte) ([]byte, int) { return nil, 0 },
			"a part":        func(d []byte) ([]byte, int) { return d[:len(d)/2], len(d) / 2 },
			"all":           func(d []byte) ([]byte, int) { return d, len(d) },
			"more":          func(d []byte) ([]byte, int) { return append(d, 1, 2, 3), len(d) },
			"another file":  func(d []byte) ([]byte, int) { return bytes.Repeat([]byte{1}, len(d)), 0 },
			"a longer one":  func(d []byte) ([]byte, int) { return bytes.Repeat([]byte{1}, 2*len(d)), 0 },
			"zeros":         func(d []byte) ([]byte, int) { clear(d); return d, 0 },
			"a hole":        func(d []byte) ([]byte, int) { clear(d[len(d)/2:]); return d, -1 },
			"a bit flipped": func(d []byte) ([]byte, int) { d[random.IntN(len(d))] ^= 4; return d, -1 },
		} {
			left, kept := change(bytes.Clone(stored))
			dst := filepath.Join(t.TempDir(), "dst")
			must(t, os.WriteFile(dst, left, 0o600))
			c := NewCopier(buffer)
			set(c)
			must(t, c.Copy(src, dst, md.Clone()))
			if got, _ := os.ReadFile(dst); !bytes.Equal(got, stored) {
				t.Errorf("%s over %s: %d bytes that are wrong", kind, what, len(got))
			}
			if kept >= 0 && c.Kept != int64(kept) {
				t.Errorf("%s over %s: kept %d bytes of %d", kind, what, c.Kept, kept)
			}
		}
		if kind != "compressed" && !bytes.Equal(stored, data) {
			t.Errorf("%s: not copied", kind)
		}
	}
}

// A copy that is ended by its Step, as by a kill, can be continued from there.
func TestCopy_Ended(t *testing.T) {
	src, md, _ := source(t, 1<<20)
	dst := filepath.Join(t.TempDir(), "dst")
	enough := errors.New("enough")
	c, steps := NewCopier(1000), 0
	c.Step = func(n int) error {
		if steps += n; steps >= 500_000 {
			return enough
		}
		return nil
	}
	if err := c.Copy(src, dst, md); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	if info, err := os.Stat(dst); err != nil || info.Size() != 500_000 {
		t.Errorf("%v, %v", info, err)
	}
	c.Step = nil
	must(t, c.Copy(src, dst, md))
	if c.Kept != 500_000 {
		t.Errorf("kept %d bytes", c.Kept)
	}
}

// Steps add up to the bytes of the program's file, however they are copied.
func TestCopy_Steps(t *testing.T) {
	src, md, data := source(t, 1<<20)
	for kind, set := range kinds {
		c, sum := NewCopier(1000), 0
		set(c)
		c.Step = func(n int) error { sum += n; return nil }
		dst := filepath.Join(t.TempDir(), "dst")
		must(t, c.Copy(src, dst, md))
		if sum != len(data) {
			t.Errorf("%s: %d bytes", kind, sum)
		}
		sum = 0
		must(t, c.Fetch(dst, filepath.Join(t.TempDir(), "back"), md))
		if sum != len(data) {
			t.Errorf("%s, back: %d bytes", kind, sum)
		}
	}
}

// Both ways in which the kernel copies, and neither.
func TestThroughKernel(t *testing.T) {
	src, md, data := source(t, 20<<20)
	for name, by := range map[string]func(out, in *os.File, at int64, n int) (int, error){"copy_file_range": copyRange, "sendfile": sendFile} {
		in, err := os.Open(src)
		must(t, err)
		out, err := os.OpenFile(filepath.Join(t.TempDir(), "out"), os.O_RDWR|os.O_CREATE, 0o600)
		must(t, err)
		at := 0
		for {
			n, err := by(out, in, int64(at), 7_000_000)
			if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ENOSYS) {
				t.Logf("%s: %v", name, err)
				break
			}
			if must(t, err); n == 0 {
				got, _ := os.ReadFile(out.Name())
				if !bytes.Equal(got, data) {
					t.Errorf("%s copied something else", name)
				}
				break
			}
			at += n
		}
	}
	if _, err := os.Stat("/dev/shm"); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("/dev/shm", "goscr-transfer") // another file system
	must(t, err)
	defer os.RemoveAll(dir)
	c := NewCopier(1 << 20)
	c.Blind = true
	dst := filepath.Join(dir, "dst")
	for _, size := range []int64{20 << 20, 1, 0} {
		must(t, os.Truncate(src, size))
		must(t, md.Record(src))
		must(t, c.Copy(src, dst, md))
		if got, _ := os.ReadFile(dst); !bytes.Equal(got, data[:size]) {
			t.Errorf("%d bytes were not copied", size)
		}
	}
}

func TestCopy_InPlaceOfAPipe(t *testing.T) {
	src, md, data := source(t, 1000)
	dst := filepath.Join(t.TempDir(), "dst")
	must(t, unix.Mkfifo(dst, 0o600))
	must(t, NewCopier(100).Copy(src, dst, md))
	if got, err := os.ReadFile(dst); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%v", err)
	}
}
