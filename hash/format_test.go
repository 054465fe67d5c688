package hash

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// packed is a packed hash written by hand: a number is a count, a string a key.
func packed(parts ...any) []byte {
	var buf []byte
	for _, part := range parts {
		switch part := part.(type) {
		case int:
			buf = binary.BigEndian.AppendUint32(buf, uint32(part))
		case string:
			buf = append(append(buf, part...), 0)
		}
	}
	return buf
}

// file is a hash file around a packed hash, with the size and the checksum
// that belong there.
func file(data []byte) []byte {
	buf := binary.BigEndian.AppendUint32(nil, 0x951fc3f5)
	buf = append(buf, 0, 1, 0, 1)
	buf = binary.BigEndian.AppendUint64(buf, uint64(20+len(data)+4))
	buf = append(buf, 0, 0, 0, 1)
	buf = append(buf, data...)
	return binary.BigEndian.AppendUint32(buf, crc32.ChecksumIEEE(buf))
}

// withoutCRC is a hash file that has no checksum.
func withoutCRC(data []byte) []byte {
	buf := file(data)
	buf = buf[:len(buf)-4]
	binary.BigEndian.PutUint64(buf[8:], uint64(len(buf)))
	buf[19] = 0
	return buf
}

func TestPackedBytes(t *testing.T) {
	h := tree("b", "a/x", "a/")
	want := packed(2, "a", 2, "", 0, "x", 0, "b", 0)
	if got := h.Pack(nil); !bytes.Equal(got, want) {
		t.Errorf("packed\n%x, want\n%x", got, want)
	}
	if got := h.Pack([]byte("before")); string(got[:6]) != "before" || !bytes.Equal(got[6:], want) {
		t.Error("Pack does not append")
	}
	if got := h.PackSize(); got != len(want) {
		t.Errorf("size %d, want %d", got, len(want))
	}
	if got := h.Encode(); !bytes.Equal(got, file(want)) {
		t.Errorf("file\n%x, want\n%x", got, file(want))
	}
	got, n, err := Unpack(append(want, "after"...))
	if err != nil || n != len(want) || !got.Equal(h) {
		t.Errorf("unpacked %q, %d, %v", paths(got), n, err)
	}
}

func TestPackUnpack(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		h := random(rnd, 40, 1+rnd.IntN(2))
		buf := h.Pack(nil)
		if len(buf) != h.PackSize() {
			t.Fatalf("%d bytes, PackSize %d", len(buf), h.PackSize())
		}
		rest, children := h.Clone(), map[string][]byte{}
		for key, child := range h.All() {
			if rnd.IntN(2) == 0 {
				children[key] = child.Pack(nil)
				rest.Unset(key)
			}
		}
		if !bytes.Equal(rest.EncodeWith(children), h.Encode()) || !bytes.Equal(rest.Pack(nil), rest.Clone().Pack(nil)) {
			t.Fatalf("with %d children packed before, the bytes are others", len(children))
		}
		got, n, err := Unpack(buf)
		if err != nil || n != len(buf) || !got.Equal(h) {
			t.Fatalf("%v: %d of %d bytes", err, n, len(buf))
		}
		if got, err = Decode(h.Encode()); err != nil || !got.Equal(h) {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Encode(), h.Encode()) {
			t.Fatal("equal hashes are not equal bytes")
		}
	}
}

func TestDecode_WithoutCRC(t *testing.T) {
	h := tree("a/x", "b")
	if got, err := Decode(withoutCRC(h.Pack(nil))); err != nil || !got.Equal(h) {
		t.Errorf("%v", err)
	}
	// Element order is not significant, and flags we do not know are not ours.
	if got, err := Decode(file(packed(2, "b", 0, "a", 1, "x", 0))); err != nil || !got.Equal(h) {
		t.Errorf("%v", err)
	}
}

// deep is a packed hash nested n levels below the first.
func deep(n int) []byte {
	var parts []any
	for range n {
		parts = append(parts, 1, "k")
	}
	return packed(append(parts, 0)...)
}

func TestUnpack_Bad(t *testing.T) {
	if _, _, err := Unpack(deep(maxDepth)); err != nil {
		t.Errorf("%d levels: %v", maxDepth, err)
	}
	for name, data := range map[string][]byte{
		"nothing":            nil,
		"half a count":       {0, 0},
		"count, no elements": packed(1),
		"count of 2, 1 left": packed(2, "a", 0),
		"largest count":      append([]byte{0xff, 0xff, 0xff, 0xff}, make([]byte, 100)...),
		"count too large":    append([]byte{0, 0, 1, 0}, make([]byte, 100)...),
		"inner count":        packed(1, "a", 0x7fffffff),
		"no end of a key":    append(packed(1), "key without an end"...),
		"key, no hash":       packed(1, "long enough"),
		"duplicate key":      packed(2, "a", 0, "a", 0),
		"duplicate, inner":   packed(1, "a", 2, "", 0, "", 0),
		"too deep":           deep(maxDepth + 1),
		"far too deep":       deep(1 << 20),
	} {
		h, _, err := Unpack(data)
		if !errors.Is(err, ErrCorrupt) || h != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, data := range [][]byte{file(data), withoutCRC(data)} {
			if _, err := Decode(data); !errors.Is(err, ErrCorrupt) {
				t.Errorf("file, %s: %v", name, err)
			}
		}
	}
}

// A hash that claims much must not be given memory for it.
func TestUnpack_HugeCountsCostNothing(t *testing.T) {
	data := append([]byte{0x7f, 0xff, 0xff, 0xff}, make([]byte, 1000)...)
	cost := testing.AllocsPerRun(100, func() { _, _, _ = Unpack(data) })
	if cost > 20 {
		t.Errorf("%v allocations", cost)
	}
}

func TestDecode_Header(t *testing.T) {
	good := tree("a/x", "b").Encode()
	change := func(offset int, b ...byte) []byte {
		bad := bytes.Clone(good)
		copy(bad[offset:], b)
		// With a checksum that is right: the fields alone must be enough.
		binary.BigEndian.PutUint32(bad[len(bad)-4:], crc32.ChecksumIEEE(bad[:len(bad)-4]))
		return bad
	}
	n := byte(len(good))
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"magic":                 {change(0, 0), "magic 0x001fc3f5"},
		"file type":             {change(4, 0, 2), "file type 2"},
		"version":               {change(6, 0, 2), "version 2"},
		"size of one more":      {change(15, n+1), "file size"},
		"size of one less":      {change(15, n-1), "file size"},
		"size of none":          {change(8, 0, 0, 0, 0, 0, 0, 0, 0), "file size 0"},
		"largest size":          {change(8, 255, 255, 255, 255, 255, 255, 255, 255), "file size"},
		"checksum not declared": {change(19, 0), "4 bytes after the hash"},
		"a byte more":           {append(bytes.Clone(good), 0), "file size"},
		"bytes after the hash":  {file(append(tree("a").Pack(nil), 1, 2)), "2 bytes after the hash"},
		"no room for checksum":  {[]byte("\x95\x1f\xc3\xf5\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x16\x00\x00\x00\x01ab"), "too short"},
		"text":                  {[]byte("RANK\n  0\n    FILES\n      2\n"), "magic"},
	} {
		_, err := Decode(test.data)
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecode_TruncatedAnywhere(t *testing.T) {
	for _, good := range [][]byte{
		tree("RANK/0/FILES/2", "RANK/1", "x").Encode(),
		withoutCRC(tree("RANK/0/FILES/2", "RANK/1", "x").Pack(nil)),
	} {
		for n := range good {
			if _, err := Decode(good[:n]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%d of %d bytes: %v", n, len(good), err)
			}
			_, _, err := ReadFrom(bytes.NewReader(good[:n]), int64(len(good)))
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("ReadFrom %d of %d bytes: %v", n, len(good), err)
			}
		}
	}
	packed := tree("RANK/0/FILES/2", "x").Pack(nil)
	for n := range packed {
		if _, _, err := Unpack(packed[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("Unpack of %d of %d bytes: %v", n, len(packed), err)
		}
	}
}

func TestDecode_AnyBitFlipped(t *testing.T) {
	good := tree("RANK/0/FILES/2", "RANK/1/FILES/3", "x").Encode()
	for bit := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := Decode(bad); !errors.Is(err, ErrCorrupt) {
			// The flags that have no meaning are covered by the checksum too.
			t.Errorf("bit %d of byte %d: %v", bit%8, bit/8, err)
		}
	}
}

func TestReadFrom(t *testing.T) {
	h := tree("SET/0/x", "b")
	data := h.Encode()
	r := bytes.NewReader(append(bytes.Clone(data), "chunk"...))
	got, n, err := ReadFrom(iotest.OneByteReader(r), int64(r.Len()))
	if err != nil || n != int64(len(data)) || !got.Equal(h) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if rest, _ := io.ReadAll(r); string(rest) != "chunk" {
		t.Errorf("what is left is %q", rest)
	}
	for _, limit := range []int64{-1, 0, 19, 20, int64(len(data)) - 1} {
		if _, _, err := ReadFrom(bytes.NewReader(data), limit); !errors.Is(err, ErrCorrupt) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	huge := bytes.Clone(data)
	binary.BigEndian.PutUint64(huge[8:], 1<<62)
	if _, _, err := ReadFrom(bytes.NewReader(huge), 1<<20); !errors.Is(err, ErrCorrupt) {
		t.Errorf("size 1<<62: %v", err)
	}
	// A disk that fails is not a hash that is corrupt.
	broken := errors.New("broken disk")
	for _, good := range []int{0, 5, 20, 25} {
		r := io.MultiReader(bytes.NewReader(data[:good]), iotest.ErrReader(broken))
		if _, _, err := ReadFrom(r, 1<<20); !errors.Is(err, broken) || errors.Is(err, ErrCorrupt) {
			t.Errorf("disk that fails after %d bytes: %v", good, err)
		}
	}
}

// samples are hash files that SCR 3.1 wrote.
func samples(t testing.TB) map[string][]byte {
	root := "../testdata/scr-3.1/job/prefix/.scr"
	found := map[string][]byte{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if len(data) >= 4 && binary.BigEndian.Uint32(data) == fileMagic {
			found[path] = data
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestSamplesOfSCR(t *testing.T) {
	files := samples(t)
	if len(files) < 13 {
		t.Errorf("only %d samples", len(files))
	}
	for path, data := range files {
		h, err := Decode(data)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		again, err := Decode(h.Encode())
		if err != nil || !again.Equal(h) || h.Size() == 0 {
			t.Errorf("%s is not the same when written again: %v", path, err)
		}
		// Sorted or not, it is the same elements.
		if got := len(h.Pack(nil)) + headerSize + crcSize; got != len(data) {
			t.Errorf("%s: %d bytes written again, %d before", path, got, len(data))
		}
		if fromFile, err := ReadFile(path); err != nil || !fromFile.Equal(h) {
			t.Errorf("%s: %v", path, err)
		}
	}
	index := files["../testdata/scr-3.1/job/prefix/.scr/index.scr"]
	h, err := Decode(index)
	if err != nil || h.Text("VERSION") != "2" || !h.Has("NAME", "ckpt.5", "DSET") {
		t.Errorf("index: %v, %s", err, hex.Dump(index))
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(packed(0))
	f.Add(packed(2, "a", 1, "x", 0, "b", 0))
	f.Add(packed(2, "a", 0, "a", 0))
	f.Add(packed(1, "a", 0x7fffffff))
	f.Add(deep(maxDepth + 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, n, err := Unpack(data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again := h.Pack(nil)
		if len(again) != n {
			t.Fatalf("%d bytes were read, %d written", n, len(again))
		}
		if back, _, err := Unpack(again); err != nil || !back.Equal(h) {
			t.Fatalf("another tree when read again: %v", err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(tree("a/x", "b").Encode())
	f.Add(withoutCRC(packed(1, "a", 0)))
	f.Add(file(packed(2, "a", 0, "a", 0)))
	f.Add(New().Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		decodeAndCompare(t, data)
		if len(data) >= headerSize+crcSize {
			// Nobody guesses a checksum: give it the right one, and the size.
			data = bytes.Clone(data)
			binary.BigEndian.PutUint64(data[8:], uint64(len(data)))
			end := len(data) - crcSize
			binary.BigEndian.PutUint32(data[end:], crc32.ChecksumIEEE(data[:end]))
			decodeAndCompare(t, data)
		}
	})
}

func decodeAndCompare(t *testing.T, data []byte) {
	h, err := Decode(data)
	streamed, n, streamErr := ReadFrom(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		return
	}
	if streamErr != nil || n != int64(len(data)) || !streamed.Equal(h) {
		t.Fatalf("as a stream: %d bytes, %v", n, streamErr)
	}
	if back, err := Decode(h.Encode()); err != nil || !back.Equal(h) {
		t.Fatalf("another tree when read again: %v", err)
	}
}
