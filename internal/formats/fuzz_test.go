package formats

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/filemap"
	"github.com/goscr/goscr/internal/halt"
	"github.com/goscr/goscr/internal/prefix"
)

// Whatever is in the place of a file of the corpus, its reader returns: it says what
// is in it, or what is wrong. The seeds are all files of the corpus.
func FuzzReaders(f *testing.F) {
	for _, version := range versions(f) {
		for _, kind := range kinds(f, version) {
			for name, data := range loadKind(f, version, kind) {
				switch formatOf(name, data) {
				case hashFormat, redundancyFormat, journalFormat:
					f.Add(filepath.Base(name), data)
				}
			}
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if h, n, err := hash.ReadFrom(bytes.NewReader(data), int64(len(data))); err == nil {
			again, m, err := hash.ReadFrom(bytes.NewReader(h.Encode()), int64(h.EncodedSize()))
			if err != nil || !again.Equal(h) || n > int64(len(data)) || m != int64(h.EncodedSize()) {
				t.Errorf("%d of %d bytes are a hash of %d bytes, of which %d are read (%v)", n, len(data), h.EncodedSize(), m, err)
			}
		}
		readers := map[string]func(at string) error{
			"index.scr": func(string) error { _, err := prefix.ReadIndex(dir); return err },
			"flush.scr": func(at string) error { _, err := prefix.ReadFlushFile(at); return err },
			"halt.scr":  func(at string) error { _, err := halt.Settings(at); return err },
		}
		read := readers[name]
		if filepath.Ext(name) == ".scrfilemap" {
			name = "1.scrfilemap"
			read = func(string) error { _, err := prefix.ReadPart(dir, 1, 1); return err }
		}
		if ok, _ := filepath.Match(filemap.Pattern, name); ok {
			name = "filemap_0.scrinfo"
			read = func(at string) error {
				s, err := filemap.OpenStore(at)
				if err == nil {
					err = s.Close()
				}
				return err
			}
		}
		if read == nil {
			return
		}
		at := filepath.Join(dir, ".scr", name)
		if filepath.Ext(name) == ".scrfilemap" {
			at = filepath.Join(dir, ".scr/scr.dataset.1", name)
		}
		must(t, os.MkdirAll(filepath.Dir(at), 0o700))
		must(t, os.WriteFile(at, data, 0o600))
		_ = read(at) // an error is as good as an answer
		must(t, os.Remove(at))
	})
}
