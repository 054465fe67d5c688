package formats

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/failures"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
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
		if data = bytes.Clone(data); len(data) >= 24 && formatOf(name, data) == hashFormat && binary.BigEndian.Uint64(data[8:]) != 0 {
			// Nobody guesses a checksum: it gets the right one, if it says that it has one, and
			// the size.
			binary.BigEndian.PutUint64(data[8:], uint64(len(data)))
			end := len(data) - 4
			binary.BigEndian.PutUint32(data[end:], crc32.ChecksumIEEE(data[:end]))
		}
		if h, n, err := hash.ReadFrom(bytes.NewReader(data), int64(len(data))); err == nil {
			again, m, err := hash.ReadFrom(bytes.NewReader(h.Encode()), int64(h.EncodedSize()))
			if err != nil || !again.Equal(h) || n > int64(len(data)) || m != int64(h.EncodedSize()) {
				t.Errorf("%d of %d bytes are a hash of %d bytes, of which %d are read (%v)", n, len(data), h.EncodedSize(), m, err)
			}
		}
		readers := map[string]func(at string) error{
			"index.scr":   func(string) error { _, err := prefix.ReadIndex(dir); return err },
			"flush.scr":   func(at string) error { _, err := prefix.ReadFlushFile(at); return err },
			"halt.scr":    func(at string) error { _, err := halt.Settings(at); return err },
			"nodes.scr":   func(at string) error { _, err := prefix.ReadNodes(at); return err },
			"ranks.scr":   func(at string) error { _, err := prefix.ReadRanks(at); return err },
			"runs.scr":    func(string) error { _, err := failures.MTBF(dir); return err },
			"restart.scr": func(string) error { _, err := prefix.Condemned(dir); return err },
		}
		read := readers[name]
		if filepath.Ext(name) == ".scrfilemap" {
			name = "1.scrfilemap"
			read = func(string) error { _, err := prefix.ReadPart(dir, 1, 1); return err }
		}
		if name == "summary.scr" {
			name = "scr.dataset.1/" + name
			read = func(string) error { _, err := prefix.Summary(dir, 1); return err }
		}
		if strings.HasPrefix(name, "rank2file") {
			name = "scr.dataset.1/rank2file"
			read = func(at string) error {
				_, err := local.Run(1, local.Options{}, func(c mpi.Comm) error {
					_, err := rank2file.Read(c, filepath.Dir(at), func(int, []rank2file.Item) error { return nil })
					return err
				})
				return err
			}
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
