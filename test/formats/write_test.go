package formats

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
)

// current is the version of the formats that this version of goscr writes. It
// counts formats, not releases.
const current = "goscr-1"

var update = flag.Bool("update", false, "add to the corpus what it does not have of the current version")

// The files that this version writes are those that the corpus has.
func TestWriters(t *testing.T) {
	for _, sc := range scenes {
		t.Run(sc.kind, func(t *testing.T) {
			got := written(sc.play(t))
			version := newest(t, sc.kind)
			wrong := []string{"nothing of the kind is in the corpus"}
			if version != "" {
				wrong = differences(t, comparable(t, got), comparable(t, loadKind(t, version, sc.kind)))
			}
			if *update && version != current && len(wrong) > 0 {
				dir := filepath.Join(corpus, current, sc.kind)
				got.store(t, dir)
				must(t, os.WriteFile(filepath.Join(dir, saysFile), []byte(says(t, got)), 0o666))
				return
			}
			if len(wrong) > 0 {
				t.Errorf("this version of goscr writes other files than testdata/%s/%s has:\n  %s\n"+
					"If the format is not meant to change, this is a mistake. If it is, keep these files and add a version:\n"+
					"count up current in test/formats/write_test.go, run go test ./test/formats -update,\n"+
					"see that the tests of the older version still pass, and say in docs/formats.md what has changed.",
					version, sc.kind, strings.Join(wrong, "\n  "))
			}
		})
	}
}

// newest is the newest version of which the corpus has a kind, "" if there is none: of
// later ones it has the kinds that have changed.
func newest(t testing.TB, kind string) (version string) {
	t.Helper()
	for n := 1; ; n++ {
		v := fmt.Sprint("goscr-", n)
		if exists(t, filepath.Join(corpus, v, kind)) {
			version = v
		}
		if v == current {
			return version
		}
	}
}

// differences says in which files two trees differ.
func differences(t testing.TB, got, want tree) (list []string) {
	for _, name := range got.names() {
		if _, ok := want[name]; !ok {
			list = append(list, name+" is not in the corpus")
		}
	}
	for _, name := range want.names() {
		data, ok := got[name]
		switch {
		case !ok:
			list = append(list, name+" is in the corpus only")
		case !bytes.Equal(data, want[name]):
			list = append(list, name+" differs: "+firstDifference(tell(t, name, data), tell(t, name, want[name])))
		}
	}
	return list
}

// firstDifference is the first line in which two texts differ.
func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "line " + strings.TrimSpace(a[i]) + ", not " + strings.TrimSpace(b[i])
		}
	}
	if len(a) != len(b) {
		return "one is longer"
	}
	return "in bytes that do not show"
}

var journalNumber = regexp.MustCompile(`\.[0-9]+\.journal$`)

// comparable returns a tree without what depends on the versions of other modules:
// the bytes of compressed files, and those of a database, of which the contents
// stay; and without the numbers of journals, which count how often a filemap was written as a whole.
func comparable(t testing.TB, files tree) tree {
	t.Helper()
	out := files.rewrite(t, home, home, map[string]string{"STORED_SIZE": "0", "STORED_CRC": "0", "JOURNAL": "1"})
	for _, name := range out.names() {
		if x := journalNumber.ReplaceAllString(name, ".1.journal"); x != name {
			out[x] = out[name]
			delete(out, name)
		}
	}
	for name, data := range out {
		switch {
		case formatOf(name, data) == databaseFormat:
			out[name] = []byte(tell(t, name, data))
		case bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}):
			out[name] = []byte("compressed by zstd")
		}
	}
	return out
}

// Files of this version that are written again, by what has read them, are the
// same: nothing that a file says is lost on the way.
func TestWriters_WriteWhatTheyRead(t *testing.T) {
	for _, sc := range scenes {
		files := loadKind(t, newest(t, sc.kind), sc.kind)
		for name, data := range files {
			if formatOf(name, data) != hashFormat {
				continue
			}
			if h, err := hash.Decode(data); err != nil || !bytes.Equal(h.Encode(), data) {
				t.Errorf("%s: %s: %v", sc.kind, name, err)
			}
		}
	}
}

// The corpus stays small: every version is kept for good.
func TestCorpus_IsSmall(t *testing.T) {
	const most = 1 << 20
	total := 0
	for _, version := range versions(t) {
		for _, data := range load(t, filepath.Join(corpus, version)) {
			total += len(data)
		}
	}
	if total > most {
		t.Errorf("testdata has %d bytes, more than %d", total, most)
	}
	if !slices.Contains(versions(t), current) {
		t.Errorf("testdata has no files of this version, %s", current)
	}
}
