package redundancy

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func random(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestCopyAround(t *testing.T) {
	src := random(1000)
	for from := range 70 {
		for _, n := range []int{0, 1, 63, 64, 65, 127, 128, 400} {
			got, want := random(700), random(700)
			copyNonTemporal(got[from:from+n], src[3:3+n])
			copy(want[from:], src[3:3+n])
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes to offset %d are wrong", n, from)
			}
		}
	}
}

// onRAM returns the path of a new file of n bytes on a RAM disk.
func onRAM(t *testing.T, n int) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "goscr-test-")
	if err != nil {
		t.Skip("no /dev/shm here")
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, random(n), 0o600); err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skip("/dev/shm is no RAM disk")
	}
	return path
}

func TestOverwriter(t *testing.T) {
	const size = 5 << 20
	path := onRAM(t, size)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if overwrites(f, size+1) != nil {
		t.Error("a file that has to grow would be written over")
	}
	o := overwrites(f, size)
	if o == nil {
		t.Fatal("a file with all its pages is not written over")
	}
	want := random(size)
	data := random(size - 1234)
	for at := 0; at < len(data); at += 300_001 { // by way of several windows
		end := min(at+300_001, len(data))
		if err := o.write(0, data[at:end], int64(1234+at)); err != nil {
			t.Fatal(err)
		}
	}
	copy(want[1234:], data)
	o.close()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read back something else (%v)", err)
	}
}

// A file that is cut short while it is written over is an error, and no fault:
// with a window of it mapped already, and within the page that a window begins with.
func TestOverwriter_FileIsCut(t *testing.T) {
	const size = 1 << 20
	for _, test := range []struct {
		name       string
		mapped     bool // something is written before the file is cut
		cut, write int64
	}{
		{"all of it", true, 0, size / 2},
		{"in a page", false, size/2 + 100, size/2 + 1000},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := os.OpenFile(onRAM(t, size), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			o := overwrites(f, size)
			if o == nil {
				t.Fatal("a file with all its pages is not written over")
			}
			defer o.close()
			if test.mapped {
				if err := o.write(0, []byte("x"), 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Truncate(test.cut); err != nil {
				t.Fatal(err)
			}
			if err := o.write(0, random(10), test.write); err == nil {
				t.Error("bytes were written behind the end of a file that was cut short")
			}
		})
	}
}

func TestOverwriter_Holes(t *testing.T) {
	path := onRAM(t, 0)
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if overwrites(f, 1<<20) != nil {
		t.Error("a file with holes would be written over: its pages may not be to be had")
	}
}
