package compress

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Method{
		"": {}, "zstd": {Zstd, 3}, "ZSTD:1": {Zstd, 1}, " zstd:22 ": {Zstd, 22},
	} {
		if m, err := Parse(text); err != nil || m != want || m.On() != (text != "") {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
	for _, text := range []string{"gzip", "zstd:", "zstd:0", "zstd:23", "zstd:x", "zstd:-1", ":3", "zstd 3", "1", "zstd:3:4"} {
		if m, err := Parse(text); err == nil || !strings.Contains(err.Error(), "zstd:9") || m.On() {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
}

// text is data that can be compressed.
func text(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"temperature ", "pressure ", "velocity ", "0.000", "\n"}
	var b bytes.Buffer
	for b.Len() < size {
		b.WriteString(words[random.IntN(len(words))])
	}
	return b.Bytes()[:size]
}

func packed(t testing.TB, m Method, data []byte) []byte {
	t.Helper()
	w, err := m.NewWriter()
	must(t, err)
	var out bytes.Buffer
	for range 2 { // a writer can be used again, and does the same again
		out.Reset()
		w.Reset(&out)
		_, err = w.Write(data)
		must(t, err)
		must(t, w.Close())
	}
	return out.Bytes()
}

func unpacked(t testing.TB, data []byte) ([]byte, error) {
	t.Helper()
	r, err := NewReader(Zstd)
	must(t, err)
	must(t, r.Reset(bytes.NewReader(data)))
	return io.ReadAll(r)
}

func TestThereAndBack(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 2 << 20} {
		for _, level := range []int{1, 3, 22} {
			data := text(size)
			small := packed(t, Method{Zstd, level}, data)
			if size > 1 && len(small) > size/2 {
				t.Errorf("level %d: %d bytes become %d", level, size, len(small))
			}
			got, err := unpacked(t, small)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("level %d: %d bytes became %d, %v", level, size, len(got), err)
			}
		}
	}
}

// A single bit that differs, anywhere, is an error or makes no difference; and so
// is an end that is missing.
func TestDamage(t *testing.T) {
	data := text(300_000)
	small := packed(t, Method{Zstd, 3}, data)
	for at := 0; at < len(small); at += 1 + len(small)/200 {
		bad := bytes.Clone(small)
		bad[at] ^= 1 << (at % 8)
		if got, err := unpacked(t, bad); err == nil && !bytes.Equal(got, data) {
			t.Errorf("byte %d changed, and nobody noticed", at)
		}
		if _, err := unpacked(t, small[:at]); err == nil && at > 0 {
			t.Errorf("cut at %d, and nobody noticed", at)
		}
	}
	if _, err := NewReader("gzip"); err == nil || !strings.Contains(err.Error(), "gzip") {
		t.Error(err)
	}
}

// What claims to need a lot of memory is refused before it gets it.
func TestLargeWindow(t *testing.T) {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0x00, 0x00} // a window of 2 GiB
	if _, err := unpacked(t, frame); err == nil || !strings.Contains(err.Error(), "window") {
		t.Error(err)
	}
}

// The zstd command reads what we write, and we what it writes.
func TestCommand(t *testing.T) {
	command, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip(err)
	}
	data := text(1 << 20)
	run := func(in []byte, args ...string) []byte {
		t.Helper()
		c := exec.Command(command, args...)
		c.Stdin = bytes.NewReader(in)
		out, err := c.Output()
		must(t, err)
		return out
	}
	if got := run(packed(t, Method{Zstd, 3}, data), "-d", "-c"); !bytes.Equal(got, data) {
		t.Error("zstd -d gives something else")
	}
	if got, err := unpacked(t, run(data, "-c")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("what zstd writes: %v", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(packed(f, Method{Zstd, 1}, text(1000)))
	f.Add(packed(f, Method{Zstd, 1}, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := NewReader(Zstd)
		must(t, err)
		if r.Reset(bytes.NewReader(data)) == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(r, 64<<20)) // whatever it says, it ends
		}
	})
}
