package handover

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
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
