package transfer

import (
	"bytes"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/compress"
)

func packing() *Copier {
	c := NewCopier(10_000)
	c.Compress = compress.Method{Name: compress.Zstd, Level: 3}
	return c
}

// sourceOf makes a file of some bytes, with its description.
func sourceOf(t testing.TB, data []byte) (string, meta.Meta) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "src")
	must(t, os.WriteFile(path, data, 0o640))
	md := meta.New("src", meta.Full, 1)
	must(t, md.Record(path))
	md.SetCRC(crc32.ChecksumIEEE(data))
	return path, md
}

func noise(size int) []byte {
	random := rand.New(rand.NewPCG(5, 6))
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

func TestCompressed_ThereAndBack(t *testing.T) {
	for name, c := range map[string]struct {
		data   []byte
		packed bool
	}{
		"numbers":             {bytes.Repeat([]byte("0.25 0.50 0.75 "), 100_000), true},
		"zeros":               {make([]byte, 3<<20), true},
		"noise":               {noise(3 << 20), false},
		"nothing":             {nil, false},
		"a byte":              {[]byte("x"), false},
		"noise, then zeros":   {append(noise(probe), make([]byte, 3<<20)...), false},
		"zeros, then noise":   {append(make([]byte, probe), noise(3<<20)...), true},
		"noise, a little not": {append(make([]byte, probe/100), noise(probe)...), false},
	} {
		for _, blind := range []bool{false, true} {
			dir := t.TempDir()
			src, md := sourceOf(t, c.data)
			there := md.Clone()
			cp := packing()
			cp.Blind = blind
			must(t, cp.Copy(src, filepath.Join(dir, "there"), there))
			stored, err := os.ReadFile(filepath.Join(dir, "there"))
			must(t, err)
			s, other := there.Stored()
			switch {
			case other != c.packed:
				t.Errorf("%s: stored as %v, %d bytes", name, s, len(stored))
			case !other && !bytes.Equal(stored, c.data):
				t.Errorf("%s: not copied", name)
			case other && (s.Size != int64(len(stored)) || s.Size >= int64(len(c.data)) || s.NoCRC != blind || !blind && s.CRC != crc32.ChecksumIEEE(stored)):
				t.Errorf("%s: stored as %v, has %d bytes", name, s, len(stored))
			}
			if there.Size() != int64(len(c.data)) || !there.Hash().Get("CRC").Equal(md.Hash().Get("CRC")) {
				t.Errorf("%s: described as %v", name, there)
			}
			back := filepath.Join(dir, "back")
			must(t, NewCopier(777).Fetch(filepath.Join(dir, "there"), back, there))
			got, err := os.ReadFile(back)
			must(t, err)
			info, err := os.Stat(back)
			must(t, err)
			when, _ := md.Modified()
			if !bytes.Equal(got, c.data) || info.Mode() != 0o640 || !info.ModTime().Equal(when) {
				t.Errorf("%s: %d bytes came back, %v, %v", name, len(got), info.Mode(), info.ModTime())
			}
			if n, err := NewCopier(777).Verify(filepath.Join(dir, "there"), there); err != nil || n != int64(len(c.data)) {
				t.Errorf("%s: %d bytes, %v", name, n, err)
			}
		}
	}
}

// What has been damaged, or is not what the list says, is found on the way back and
// by Verify, without more being written than there should be.
func TestCompressed_Damaged(t *testing.T) {
	data := bytes.Repeat([]byte("0.25 0.50 0.75 "), 100_000)
	src, md := sourceOf(t, data)
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	must(t, packing().Copy(src, there, md))
	stored, err := os.ReadFile(there)
	must(t, err)
	bomb := filepath.Join(dir, "bomb")
	big, bigger := sourceOf(t, make([]byte, 64<<20))
	must(t, packing().Copy(big, bomb, bigger))
	exploding, err := os.ReadFile(bomb)
	must(t, err)
	for what, change := range map[string]func(d []byte, md meta.Meta) []byte{
		"a bit":        func(d []byte, _ meta.Meta) []byte { d[len(d)/2] ^= 1; return d },
		"the first":    func(d []byte, _ meta.Meta) []byte { d[0] ^= 1; return d },
		"the end":      func(d []byte, _ meta.Meta) []byte { return d[:len(d)-1] },
		"all":          func(d []byte, _ meta.Meta) []byte { return nil },
		"zeros":        func(d []byte, _ meta.Meta) []byte { clear(d); return d },
		"zeros behind": func(d []byte, _ meta.Meta) []byte { return append(d, make([]byte, 10)...) },
		"another file": func(d []byte, md meta.Meta) []byte {
			md.SetStored(meta.Stored{How: compress.Zstd, Size: int64(len(exploding)), CRC: crc32.ChecksumIEEE(exploding)})
			return exploding
		},
		"an unknown method": func(d []byte, md meta.Meta) []byte {
			md.SetStored(meta.Stored{How: "lz9", Size: int64(len(d)), NoCRC: true})
			return d
		},
		"no sizes":           func(d []byte, md meta.Meta) []byte { md.Hash().Unset("SIZE"); return d },
		"no stored size":     func(d []byte, md meta.Meta) []byte { md.Hash().Unset("STORED_SIZE"); return d },
		"a checksum of it":   func(d []byte, md meta.Meta) []byte { md.SetCRC(1); return d },
		"... as it's stored": func(d []byte, md meta.Meta) []byte { md.Hash().SetValue("STORED_CRC", "0x00000001"); return d },
	} {
		bad := md.Clone()
		path := filepath.Join(dir, "bad")
		must(t, os.WriteFile(path, change(bytes.Clone(stored), bad), 0o600))
		var corrupt *redundancy.CorruptError
		back := filepath.Join(dir, "back")
		if err := NewCopier(1000).Fetch(path, back, bad.Clone()); !errors.As(err, &corrupt) || corrupt.Path != path {
			t.Errorf("%s: %v", what, err)
		}
		if info, err := os.Stat(back); err == nil && info.Size() > int64(len(data)) {
			t.Errorf("%s: %d bytes were written", what, info.Size())
		}
		if _, err := NewCopier(1000).Verify(path, bad); !errors.As(err, &corrupt) || corrupt.Path != path {
			t.Errorf("%s, verified: %v", what, err)
		}
	}
	if err := packing().Copy(src, "/dev/full", md); err == nil || !strings.Contains(err.Error(), "/dev/full") {
		t.Errorf("no room: %v", err)
	}
	if err := NewCopier(1000).Fetch(there, "/dev/full", md); err == nil || errors.As(err, new(*redundancy.CorruptError)) {
		t.Errorf("no room on the way back: %v", err)
	}
}

// A file that is corrupt before it is compressed is found as without.
func TestCompressed_CorruptSource(t *testing.T) {
	src, md := sourceOf(t, make([]byte, 1<<20))
	must(t, os.WriteFile(src, append(make([]byte, 1<<20-1), 1), 0o600))
	var corrupt *redundancy.CorruptError
	if err := packing().Copy(src, filepath.Join(t.TempDir(), "dst"), md); !errors.As(err, &corrupt) || corrupt.Path != src {
		t.Errorf("%v", err)
	}
}

// What somebody else has brought as it was written stays so, and is taken for what
// it is by who expects it compressed.
func TestCompressed_ThereAsItWasWritten(t *testing.T) {
	data := make([]byte, 1<<20)
	src, md := sourceOf(t, data)
	dst := filepath.Join(t.TempDir(), "dst")
	must(t, NewCopier(1000).Copy(src, dst, md.Clone()))
	c := packing()
	must(t, c.Copy(src, dst, md))
	if _, other := md.Stored(); other || c.Kept != int64(len(data)) {
		t.Errorf("%v, kept %d", md, c.Kept)
	}
	md.SetStored(meta.Stored{How: compress.Zstd, Size: 100, CRC: 1})
	must(t, c.Fetch(dst, filepath.Join(t.TempDir(), "back"), md))
}

// A file that only begins as if it could be compressed is copied as it is.
func TestCompressed_GivenUpLate(t *testing.T) {
	c := packing()
	src, md := sourceOf(t, noise(1<<20))
	dst := filepath.Join(t.TempDir(), "dst")
	c.gain = -1 // what does not shrink passes
	must(t, c.Copy(src, dst, md))
	want, _ := os.ReadFile(src)
	if got, _ := os.ReadFile(dst); !bytes.Equal(got, want) {
		t.Error("not copied")
	}
	if s, other := md.Stored(); other {
		t.Errorf("%v", s)
	}
}
