package prefix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
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
	return &Bring{Prefix: t.TempDir(), Copy: transfer.NewCopier(10).Copy,
		Aside: func(to string) string { return Aside(to, 1, ByFlush) }}, files
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
	b, files := brought(t, "a/one", "a/two", "three")
	must(t, os.MkdirAll(filepath.Join(b.Prefix, "a"), 0o700))
	must(t, os.WriteFile(filepath.Join(b.Prefix, "a/one"), []byte("older"), 0o600))
	asked := 0
	var copied []string
	b.Ready = func() error { asked++; return nil }
	b.There = func(f redundancy.File, aside string) (bool, error) { return f.Meta.File() == "a/two", nil }
	b.Copied = func(f redundancy.File) error { copied = append(copied, f.Meta.File()); return nil }
	list, err := b.Files(files)
	must(t, err)
	if got := fmt.Sprint(copied); got != "[a/one three]" || asked != 2 {
		t.Errorf("%s, asked %d times", got, asked)
	}
	for i, f := range files {
		to := filepath.Join(b.Prefix, f.Meta.File())
		if list[i].Path != Aside(to, 1, ByFlush) || !isAside(b.Prefix, list[i]) {
			t.Errorf("%s", list[i].Path)
		}
		if data, err := os.ReadFile(list[i].Path); i != 1 && (err != nil || string(data) != f.Meta.File()) {
			t.Errorf("%s: %q, %v", to, data, err)
		}
	}
	if data, _ := os.ReadFile(filepath.Join(b.Prefix, "a/one")); string(data) != "older" {
		t.Errorf("the older file has %q", data)
	}
	must(t, DiscardAsides(b.Prefix, list))
	if got := left(t, b.Prefix); got != "a/one" {
		t.Error(got)
	}
}

// What ends a copy leaves no file that is not whole.
func TestBring_Ends(t *testing.T) {
	stop := errors.New("stop")
	for what, end := range map[string]func(b *Bring){
		"not ready":   func(b *Bring) { b.Ready = func() error { return stop } },
		"cannot look": func(b *Bring) { b.There = func(redundancy.File, string) (bool, error) { return false, stop } },
		"cannot copy": func(b *Bring) {
			b.Copy = func(src, dst string, _ meta.Meta) error { return errors.Join(os.WriteFile(dst, nil, 0o600), stop) }
		},
		"interrupted": func(b *Bring) { b.Copied = func(redundancy.File) error { return stop } },
	} {
		b, files := brought(t, "one", "two")
		end(b)
		if _, err := b.Files(files); !errors.Is(err, stop) {
			t.Errorf("%s: %v", what, err)
		}
		if got := left(t, b.Prefix); got != "" {
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
		must(t, RecordNodes(dir, n, nil))
		if got, err := ReadNodes(path); got != n || err != nil {
			t.Error(got, err)
		}
	}
	must(t, RecordNodes(dir, 0, nil))
	if n, err := ReadNodes(path); err == nil {
		t.Error(n)
	}
}
