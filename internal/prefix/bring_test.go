package prefix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/transfer"
)

// brought makes files in a cache, and returns them with a Bring to a new prefix
// directory.
func brought(t *testing.T, names ...string) (*Bring, []redundancy.File) {
	t.Helper()
	cache := t.TempDir()
	var files []redundancy.File
	for i, name := range names {
		path := filepath.Join(cache, fmt.Sprint(i))
		must(t, os.WriteFile(path, []byte(name), 0o600))
		md := meta.New(name, meta.Full, 1)
		must(t, md.Record(path))
		files = append(files, redundancy.File{Path: path, Meta: md})
	}
	return &Bring{Prefix: t.TempDir(), Copy: transfer.NewCopier(10).Copy}, files
}

// left are the files below a directory.
func left(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}))
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestBring(t *testing.T) {
	for _, aside := range []bool{false, true} {
		b, files := brought(t, "a/one", "a/two", "three")
		var placed []string
		asked := 0
		if aside {
			b.Aside = func(to string, i int) string { return Aside(to, 1, 0, i) }
			b.Ready = func() error { asked++; return nil }
		}
		b.There = func(i int, _ redundancy.File, to string) (bool, error) { return i == 1, nil }
		b.Placed = func(i int, f redundancy.File, to string) error {
			if f.Path != files[i].Path || to != filepath.Join(b.Prefix, f.Meta.File()) {
				t.Errorf("%d: %s, %s", i, f.Path, to)
			}
			placed = append(placed, f.Meta.File())
			return nil
		}
		list, err := b.Files(files)
		must(t, err)
		if got := fmt.Sprint(placed); got != "[a/one three]" || aside && asked != 2 {
			t.Errorf("%s, asked %d times", got, asked)
		}
		if got := left(t, b.Prefix); got != "a/one three" {
			t.Error(got)
		}
		if len(list) != 3 || list[1].Path != filepath.Join(b.Prefix, "a/two") || list[2].Meta.Size() != 5 {
			t.Errorf("%v", list)
		}
	}
}

// What ends a copy leaves no temporary file, and no file that is not whole.
func TestBring_Ends(t *testing.T) {
	stop := errors.New("stop")
	for what, end := range map[string]func(b *Bring){
		"not ready":   func(b *Bring) { b.Ready = func() error { return stop } },
		"cannot look": func(b *Bring) { b.There = func(int, redundancy.File, string) (bool, error) { return false, stop } },
		"cannot copy": func(b *Bring) {
			b.Copy = func(src, dst string, _ meta.Meta) error { return errors.Join(os.WriteFile(dst, nil, 0o600), stop) }
		},
		"interrupted":  func(b *Bring) { b.Placed = func(int, redundancy.File, string) error { return stop } },
		"cannot place": func(b *Bring) { must(t, os.MkdirAll(filepath.Join(b.Prefix, "one/x"), 0o700)) },
	} {
		b, files := brought(t, "one", "two")
		b.Aside = func(to string, i int) string { return Aside(to, 1, 0, i) }
		end(b)
		_, err := b.Files(files)
		if err == nil || !errors.Is(err, stop) && what != "cannot place" {
			t.Errorf("%s: %v", what, err)
		}
		if got, want := left(t, b.Prefix), map[bool]string{true: "one"}[what == "interrupted"]; got != want {
			t.Errorf("%s: %q is left", what, got)
		}
	}
}

func TestBring_NamesOutside(t *testing.T) {
	for _, name := range []string{"../x", "/x", "", ".scr/index.scr"} {
		b, files := brought(t, name)
		if _, err := b.Files(files); err == nil || left(t, b.Prefix) != "" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestNodes(t *testing.T) {
	dir := t.TempDir()
	path := metadataPath(dir, nodesFile)
	if _, err := ReadNodes(path); !os.IsNotExist(err) {
		t.Error(err)
	}
	for _, n := range []int{4, 17} {
		must(t, RecordNodes(dir, n))
		if got, err := ReadNodes(path); got != n || err != nil {
			t.Error(got, err)
		}
	}
	must(t, RecordNodes(dir, 0))
	if n, err := ReadNodes(path); err == nil {
		t.Error(n)
	}
}
