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
	"github.com/goscr/goscr/internal/redundancy"
)

// linked is a site whose prefix directory has a directory store, and links to it.
func linked(t *testing.T) *site {
	s := newSite(t)
	must(t, errors.Join(os.MkdirAll(filepath.Join(s.dir, "store/deep"), 0o700),
		os.Symlink("store", filepath.Join(s.dir, "cur")), os.Symlink("../store", filepath.Join(s.dir, "store/up"))))
	return s
}

// Steps that name one file in different ways own it in turn, also where they are flushed in another order.
func TestOwners_Links(t *testing.T) {
	ways := []string{"store/%d", "cur/%d", "store/up/%d", "cur/up/%d"}
	for _, ranks := range []int{1, 3} {
		for i := range ways {
			for j := range ways {
				for _, late := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d ranks,%d then %d,late=%t", ranks, i, j, late), func(t *testing.T) {
						s := linked(t)
						of := func(step, rank int) []string {
							way, own := ways[i], fmt.Sprintf("own/%d.%d", step, rank)
							if step == 2 {
								way, rank = ways[j], (rank+1)%ranks // another rank writes it
							}
							return []string{fmt.Sprintf(way, rank), own}
						}
						steps := []int{1, 2}
						if late {
							steps = []int{2, 1}
						}
						for _, step := range steps {
							must(t, s.flush(step, ranks, of))
						}
						if got := s.complete(ranks, of); !slices.Equal(got, []int{2}) {
							t.Errorf("complete are %v", got)
						}
						must(t, s.run(ranks, func(p *Prefix) error { return p.Delete(called(s.name(1))) }))
						must(t, s.wrong(2, ranks, of))
						for rank := range ranks {
							if _, err := os.Lstat(filepath.Join(s.dir, of(1, rank)[1])); err == nil {
								t.Errorf("%s is still there", of(1, rank)[1])
							}
						}
					})
				}
			}
		}
	}
}

// A dataset that names a file twice is refused before anything of it is copied, and the directories of
// the user stay.
func TestFlush_TwoNames(t *testing.T) {
	for what, test := range map[string]struct {
		of   code
		want []string
	}{
		"of two ranks": {func(_, rank int) []string { return []string{[]string{"cur/x", "a/b", "store/x"}[rank]} }, []string{"cur/x", "store/x"}},
		"of one rank": {func(_, rank int) []string {
			return []string{[]string{"a/0", "a/1", "store/x"}[rank], fmt.Sprintf("cur/%d", rank), "store/1"}[:2+rank%2]
		}, []string{"cur/1", "store/1"}},
		"by a link whose directory is missing": {func(_, rank int) []string { return []string{[]string{"new/d/x", "dangling/d/x", "alone"}[rank]} },
			[]string{"dangling/d/x", "new/d/x"}},
	} {
		t.Run(what, func(t *testing.T) {
			s := linked(t)
			must(t, errors.Join(os.Symlink("new", filepath.Join(s.dir, "dangling")), os.Mkdir(filepath.Join(s.dir, "a"), 0o700)))
			if what == "by a link whose directory is missing" {
				must(t, os.Remove(filepath.Join(s.dir, "a")))
			}
			before, err := filepath.Glob(filepath.Join(s.dir, "*/*"))
			must(t, err)
			err = s.flush(1, 3, test.of)
			for _, name := range append(test.want, "one file") {
				if err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("%v does not name %s", err, name)
				}
			}
			if after, _ := filepath.Glob(filepath.Join(s.dir, "*/*")); !slices.Equal(before, after) {
				t.Errorf("%q instead of %q", after, before)
			}
		})
	}
}

// Names by links that are of different files are flushed.
func TestFlush_Links(t *testing.T) {
	s := linked(t)
	of := func(_, rank int) []string {
		return []string{fmt.Sprintf("cur/%d", rank), fmt.Sprintf("store/deep/%d", rank)}
	}
	must(t, s.flush(1, 3, of))
	must(t, s.wrong(1, 3, of))
}

// A directory that was there, and in which there was nothing of the dataset, stays when its files are removed.
func TestRemoveEmpty_DirectoriesOfTheUser(t *testing.T) {
	s := newSite(t)
	must(t, os.MkdirAll(filepath.Join(s.dir, "a/b"), 0o700))
	name := "a/b/c/d/f"
	src := filepath.Join(filepath.Dir(s.dir), "src")
	must(t, os.WriteFile(src, []byte("data"), 0o600))
	f := redundancy.File{Path: src, Meta: meta.New(name, meta.Full, 1)}
	b := &Bring{Prefix: s.dir, Aside: func(to string) string { return Aside(to, 1, ByFlush) },
		Copy: func(_, dst string, _ meta.Meta) error {
			return errors.Join(os.MkdirAll(filepath.Dir(dst), 0o700), os.WriteFile(dst, nil, 0o600), errors.New("no"))
		}}
	if _, err := b.Files([]redundancy.File{f}); err == nil {
		t.Fatal("was copied")
	}
	if _, err := os.Lstat(filepath.Join(s.dir, "a/b/c")); err == nil {
		t.Error("what the copy has made is left")
	}
	if err := os.Mkdir(filepath.Join(s.dir, "a/b/c"), 0o700); err != nil {
		t.Error("the user's directory is gone")
	}
	must(t, DiscardAsides(s.dir, []redundancy.File{{Path: Aside(filepath.Join(s.dir, "a/b/c/f"), 1, ByFlush), Meta: meta.New("a/b/c/f", meta.Full, 1)}}))
	if _, err := os.Lstat(filepath.Join(s.dir, "a/b/c")); err != nil {
		t.Error(err)
	}
}
