package handover

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that is received where it is sent from, since nodes share the directory, stays whole at any
// instant; and what is there otherwise gives way.
func TestComparing(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 1000)
	for what, before := range map[string][]byte{
		"the file itself": want, "nothing": nil, "a part": want[:777], "more": append(bytes.Clone(want), 1, 2), "another": bytes.Repeat([]byte{1}, 20_000),
		"another end": append(bytes.Clone(want[:9000]), make([]byte, 1000)...),
	} {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, before, 0o400); err != nil {
			t.Fatal(err)
		}
		f, err := openEarlier(path)
		if err != nil {
			t.Fatal(err)
		}
		to := &comparing{f: f}
		for at := 0; at < len(want); at += 512 {
			if _, err := io.Copy(to, bytes.NewReader(want[at:min(at+512, len(want))])); err != nil {
				t.Fatal(err)
			}
			if got, _ := os.ReadFile(path); what == "the file itself" && !bytes.Equal(got, want) {
				t.Fatalf("after %d bytes it is not whole", at)
			}
		}
		if err := to.end(); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes", what, len(got))
		}
		f.Close()
	}
}

// Zeros that arrive take no room, wherever they are in the file.
func TestComparing_Zeros(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "goscr-test-")
	if err != nil {
		t.Skip("no /dev/shm here")
	}
	defer os.RemoveAll(dir)
	want := make([]byte, 64<<20)
	want[0], want[len(want)/2] = 1, 2
	for what, before := range map[string][]byte{"nothing": nil, "a part": want[:100_000], "another": bytes.Repeat([]byte{1}, 20_000)} {
		path := filepath.Join(dir, what)
		if err := os.WriteFile(path, before, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := openEarlier(path)
		if err != nil {
			t.Fatal(err)
		}
		to := &comparing{f: f}
		if _, err := io.Copy(to, struct{ io.Reader }{bytes.NewReader(want)}); err != nil {
			t.Fatal(err)
		}
		if err := to.end(); err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Blocks*512 > 1<<20 {
			t.Errorf("%s: %d bytes allocated (%v)", what, st.Blocks*512, err)
		}
		if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes", what, len(got))
		}
		f.Close()
	}
}
