package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/sys/compress"
	"github.com/goscr/goscr/internal/sys/sparse"
	"github.com/goscr/goscr/test/faultfs"
)

func allocated(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	return st.Blocks * 512
}

// withoutStored describes a file as it is, with the checksum that md has.
func withoutStored(t *testing.T, md meta.Meta, path string) meta.Meta {
	t.Helper()
	as := meta.New("back", meta.Full, 1)
	must(t, as.Record(path))
	if crc, known := md.CRC(); known {
		as.SetCRC(crc)
	}
	return as
}

// Holes stay holes, on the way to the prefix directory and back, whatever is there before.
func TestSparse(t *testing.T) {
	const size, little = 64<<20 + 100, 2 << 20
	for _, blind := range []bool{false, true} {
		for _, method := range []string{"", compress.Zstd} {
			for _, before := range []string{"nothing", "a part", "another", "the same", "a longer one"} {
				t.Run(fmt.Sprintf("blind=%t,%s,%s", blind, method, before), func(t *testing.T) {
					dir, err := os.MkdirTemp("/dev/shm", "goscr-test-")
					if err != nil {
						t.Skip("no /dev/shm here")
					}
					t.Cleanup(func() { os.RemoveAll(dir) })
					src, dst, back := filepath.Join(dir, "src"), filepath.Join(dir, "dst"), filepath.Join(dir, "back")
					f, err := os.Create(src)
					must(t, err)
					for _, at := range []int64{0, size / 2, size - 30<<20} { // it ends in a hole
						_, err = f.WriteAt([]byte("data"), at)
						must(t, err)
					}
					must(t, errors.Join(f.Truncate(size), f.Close()))
					want, err := os.ReadFile(src)
					must(t, err)
					md := meta.New("src", meta.Full, 1)
					must(t, md.Record(src))
					switch before {
					case "a part":
						must(t, os.WriteFile(dst, want[:100_000], 0o600))
					case "another":
						must(t, os.WriteFile(dst, bytes.Repeat([]byte("else"), 100_000), 0o600))
					case "the same", "a longer one":
						must(t, NewCopier(1<<20).Copy(src, dst, md.Clone()))
						if before == "a longer one" {
							must(t, os.Truncate(dst, 2*size))
						}
					}
					if before != "nothing" {
						must(t, os.WriteFile(back, bytes.Repeat([]byte("else"), 100_000), 0o600))
					}
					steps := 0
					c := NewCopier(1 << 20)
					c.Blind, c.Compress = blind, compress.Method{Name: method, Level: 3}
					c.Step = func(n int) error { steps += n; return nil }
					must(t, c.Copy(src, dst, md))
					must(t, c.Fetch(dst, back, md))
					if steps != 2*size {
						t.Errorf("%d bytes were done of %d", steps, 2*size)
					}
					for _, path := range []string{src, dst, back} {
						if n := allocated(t, path); n > little {
							t.Errorf("%s takes %d bytes", path, n)
						}
					}
					for path, as := range map[string]meta.Meta{dst: md, back: withoutStored(t, md, back)} {
						if n, err := NewCopier(1<<20).Verify(path, as.Clone()); err != nil || n != size {
							t.Errorf("verified are %d bytes of %s: %v", n, path, err)
						}
					}
					got, err := os.ReadFile(back)
					must(t, err)
					if !bytes.Equal(got, want) {
						t.Errorf("%d bytes came back, and others", len(got))
					}
					if crc, known := md.CRC(); known == blind || known && crc != crc32.ChecksumIEEE(want) {
						t.Errorf("checksum 0x%08x, known: %t", crc, known)
					}
				})
			}
		}
	}
}

// A file that gets longer or shorter than it was is not copied as if it were the same.
func TestSparse_OtherSize(t *testing.T) {
	for _, size := range []int64{1 << 20, 9 << 20} {
		dir := t.TempDir()
		src := filepath.Join(dir, "src")
		must(t, os.WriteFile(src, []byte("data"), 0o600))
		must(t, os.Truncate(src, 5<<20))
		md := meta.New("src", meta.Full, 1)
		must(t, md.Record(src))
		must(t, os.Truncate(src, size))
		if err := NewCopier(1000).Copy(src, filepath.Join(dir, "dst"), md); err == nil {
			t.Errorf("%d bytes were copied", size)
		}
	}
}

// A file system whose answers about holes do not count: all of the file is read, and its copy has holes all the same.
func TestSparse_AnswersThatDoNotCount(t *testing.T) {
	const size, little = 16 << 20, 1 << 20
	m := faultfs.New(t, faultfs.Options{})
	src := filepath.Join(m.Dir, "src")
	f, err := os.Create(src)
	must(t, err)
	_, err = f.WriteAt([]byte("data"), size/2)
	must(t, errors.Join(err, f.Truncate(size)))
	var extents sparse.Extents
	extents.Find(f, 0)
	if n, hole := extents.Alike(0, size); hole || n != size || !extents.Doubtful() {
		t.Errorf("%d bytes, hole %t, doubtful %t", n, hole, extents.Doubtful())
	}
	must(t, f.Close())
	want, err := os.ReadFile(src)
	must(t, err)
	for _, blind := range []bool{false, true} {
		dir, err := os.MkdirTemp("/dev/shm", "goscr-test-")
		if err != nil {
			t.Skip("no /dev/shm here")
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		dst := filepath.Join(dir, "dst")
		c := NewCopier(1 << 20)
		c.Blind = blind
		must(t, c.Copy(src, dst, meta.New("src", meta.Full, 1)))
		if got, err := os.ReadFile(dst); err != nil || !bytes.Equal(got, want) {
			t.Errorf("blind=%t: other bytes, %v", blind, err)
		}
		if n := allocated(t, dst); n > little {
			t.Errorf("blind=%t: the copy takes %d bytes", blind, n)
		}
	}
}
