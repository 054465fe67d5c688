package formats

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
)

// corpus is where testdata is, seen from this package.
const corpus = "../../testdata"

// home is the directory that the files in the corpus take for the one they are in.
// Filemaps and descriptions of files have absolute paths.
const home = "/corpus"

// A tree is the files below a directory, by their paths relative to it. Names that
// end in linkSuffix are symbolic links, whose targets are the data.
type tree map[string][]byte

// Names in the corpus are such that a Go module may have them, and links are files.
const (
	linkSuffix = ".symlink"
	colon      = "%3A"
	emptyDir   = ".empty" // a file in a directory that has none
)

// load reads a tree. Lock files are left out, and what is empty: marks of what was said.
func load(t testing.TB, dir string) tree {
	t.Helper()
	files := tree{}
	must(t, filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, at) // at is below dir
		name := strings.ReplaceAll(rel, colon, ":")
		switch {
		case err != nil:
			return err
		case d.IsDir():
			entries, err := os.ReadDir(at)
			if err == nil && len(entries) == 0 {
				files[path.Join(name, emptyDir)] = []byte("\n")
			}
			return err
		case !d.Type().IsRegular() || strings.HasSuffix(at, hash.LockSuffix) || d.Name() == "lock":
			return nil
		}
		data, err := os.ReadFile(at)
		if err == nil && len(data) > 0 {
			files[name] = data
		}
		return err
	}))
	return files
}

// loadKind reads the files of a kind of the corpus, without the text that tells
// what they say. If a version of goscr does not have the kind, it is as in the one before.
func loadKind(t testing.TB, version, kind string) tree {
	t.Helper()
	var n int
	for !exists(t, filepath.Join(corpus, version, kind)) {
		if _, err := fmt.Sscanf(version, "goscr-%d", &n); err != nil || n < 2 {
			break
		}
		version = fmt.Sprint("goscr-", n-1)
	}
	files := load(t, filepath.Join(corpus, version, kind))
	delete(files, saysFile)
	return files
}

// names are the names of all files, sorted.
func (files tree) names() []string { return slices.Sorted(maps.Keys(files)) }

// store writes a tree to the corpus.
func (files tree) store(t testing.TB, dir string) {
	t.Helper()
	for name, data := range files {
		at := filepath.Join(dir, strings.ReplaceAll(name, ":", colon))
		must(t, os.MkdirAll(filepath.Dir(at), 0o777))
		must(t, os.WriteFile(at, data, 0o666))
	}
}

// move puts a tree of the corpus below the root of a site, as if it had always
// been there.
func (files tree) move(s *site) {
	s.t.Helper()
	for name, data := range files.rewrite(s.t, home, s.root, nil) {
		at := filepath.Join(s.root, name)
		must(s.t, os.MkdirAll(filepath.Dir(at), 0o700))
		link, isLink := strings.CutSuffix(at, linkSuffix)
		switch {
		case isLink:
			must(s.t, os.Symlink(string(data), link))
		case path.Base(name) != emptyDir:
			must(s.t, os.WriteFile(at, data, 0o640))
			must(s.t, os.Chtimes(at, epoch, epoch))
		}
	}
}

// rewrite returns a copy of a tree in which the directory from is called to, and
// the fields that fixed has, have the values it gives them. The descriptions of
// redundancy files, whose headers change, are made to fit.
func (files tree) rewrite(t testing.TB, from, to string, fixed map[string]string) tree {
	t.Helper()
	out := tree{}
	change := func(h *hash.Hash) *hash.Hash { return changed(h, from, to, fixed) }
	for name, data := range files {
		switch formatOf(name, data) {
		case hashFormat:
			h, err := hash.Decode(data)
			must(t, err)
			out[name] = change(h).Encode()
		case redundancyFormat:
			h, n, err := hash.ReadFrom(bytes.NewReader(data), int64(len(data)))
			must(t, err)
			out[name] = append(change(h).Encode(), data[n:]...)
		case journalFormat:
			out[name] = nil
			for _, record := range records(t, data) {
				out[name] = appendRecord(out[name], change(record))
			}
		case databaseFormat, dataFormat:
			out[name] = data
		default:
			out[name] = []byte(strings.ReplaceAll(string(data), from, to))
		}
	}
	for name, data := range out {
		if formatOf(name, data) == hashFormat {
			h, err := hash.Decode(data)
			must(t, err)
			out.refit(h, to)
			out[name] = h.Encode()
		}
	}
	return out
}

// changed returns a copy of a hash in which a directory has another name, and
// fields have other values.
func changed(h *hash.Hash, from, to string, fixed map[string]string) *hash.Hash {
	out := hash.New()
	for key, child := range h.All() {
		value, ok := fixed[key]
		switch {
		case ok && !isTree(child):
			out.SetValue(key, value)
		default:
			out.Set(strings.ReplaceAll(key, from, to), changed(child, from, to, fixed))
		}
	}
	return out
}

// isTree reports whether there is something below the values of a field.
func isTree(h *hash.Hash) bool {
	for _, child := range h.All() {
		if child.Size() > 0 {
			return true
		}
	}
	return false
}

// refit enters size and checksum of the redundancy files that a hash describes.
func (files tree) refit(h *hash.Hash, root string) {
	for key, child := range h.All() {
		name, ok := strings.CutPrefix(key, root+"/")
		if !ok {
			name = path.Join("prefix", key)
		}
		md := child.Get("META")
		if data, there := files[name]; there && md != nil && formatOf(name, data) == redundancyFormat {
			md.SetInt("SIZE", int64(len(data)))
			md.SetValue("CRC", fmt.Sprintf("0x%08x", crc32.ChecksumIEEE(data)))
		}
		files.refit(child, root)
	}
}

// The formats of files.
const (
	hashFormat       = "hash"
	redundancyFormat = "redundancy"
	journalFormat    = "journal"
	textFormat       = "text"
	databaseFormat   = "database"
	dataFormat       = "data" // of the program
)

var redundancyName = regexp.MustCompile(`(\.(xor|rs|partner)|/spare\.[0-9]+)$`)

// formatOf says what format a file has, by its name and how it begins.
func formatOf(name string, data []byte) string {
	isHash := bytes.HasPrefix(data, []byte{0x95, 0x1f, 0xc3, 0xf5})
	switch {
	case isHash && redundancyName.MatchString(name):
		return redundancyFormat
	case isHash:
		return hashFormat
	case strings.HasSuffix(name, ".journal"):
		return journalFormat
	case strings.HasSuffix(name, ".sqlite"):
		return databaseFormat
	case strings.HasSuffix(name, ".scr/log"), strings.HasSuffix(name, "/app.conf"), strings.HasSuffix(name, linkSuffix),
		path.Base(name) == emptyDir:
		return textFormat
	}
	return dataFormat
}

// records returns the records of a journal, which filemap/journal.go draws.
func records(t testing.TB, data []byte) (list []*hash.Hash) {
	t.Helper()
	for len(data) > 0 {
		length := binary.BigEndian.Uint32(data)
		packed := data[8 : 8+length]
		if crc32.ChecksumIEEE(packed) != binary.BigEndian.Uint32(data[4:]) {
			t.Fatal("a record of a journal has another checksum")
		}
		h, _, err := hash.Unpack(packed)
		must(t, err)
		list = append(list, h)
		data = data[8+length:]
	}
	return list
}

func appendRecord(journal []byte, h *hash.Hash) []byte {
	packed := h.Pack(nil)
	journal = binary.BigEndian.AppendUint32(journal, uint32(len(packed)))
	journal = binary.BigEndian.AppendUint32(journal, crc32.ChecksumIEEE(packed))
	return append(journal, packed...)
}

// always are the values of those fields that are others each time a job runs.
var always = map[string]string{
	"CREATED":  strconv.FormatInt(epoch.UnixMicro(), 10),
	"VERIFIED": strconv.FormatInt(epoch.UnixMicro(), 10),
	"MTIME":    strconv.FormatInt(epoch.UnixNano(), 10),
	"ATIME":    strconv.FormatInt(epoch.UnixNano(), 10),
	"FLUSHED":  epoch.Format("2006-01-02T15:04:05"),
	"FETCHED":  epoch.Format("2006-01-02T15:04:05"),
	"FAILED":   epoch.Format("2006-01-02T15:04:05"),
	"STARTED":  strconv.FormatInt(epoch.Unix(), 10),
	"SEEN":     strconv.FormatInt(epoch.Unix(), 10),
	"SECONDS":  "0",
	"UID":      "0",
	"GID":      "0",
}

// took are the times in a line of the log.
var took = regexp.MustCompile(`(?m)^[-0-9]+T[:.0-9]+Z?|start=[-0-9]+T[:.0-9]+Z?|secs=[0-9.]+`)

// written returns what a site has, in the form in which the corpus has it: at
// home, and of the same time always.
func written(s *site) tree {
	s.t.Helper()
	files := load(s.t, s.root).rewrite(s.t, s.root, home, always)
	for name, data := range files {
		if strings.HasSuffix(name, ".scr/log") {
			files[name] = took.ReplaceAllFunc(data, func(text []byte) []byte {
				when := always["FLUSHED"]
				if text[len(text)-1] == 'Z' { // a line of goscr
					when = epoch.UTC().Format("2006-01-02T15:04:05.000000Z")
				}
				key, _, ok := strings.Cut(string(text), "=")
				switch {
				case !ok:
					return []byte(when)
				case key == "start":
					return []byte("start=" + when)
				}
				return []byte("secs=0.000000")
			})
		}
	}
	return files
}

// exists reports whether a file is there.
func exists(t testing.TB, at string) bool {
	t.Helper()
	_, err := os.Lstat(at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}
