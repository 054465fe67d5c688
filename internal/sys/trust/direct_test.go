package trust

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestDirect(t *testing.T) {
	root, outside := site(t) // with real/deep
	link := func(name, target string) string {
		path := filepath.Join(root, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)))
		return path
	}
	link("in", "real")
	link("real/up", "../real/deep")
	link("absolute", filepath.Join(root, "real"))
	link("dangling", "none/at")
	link("out", outside)
	link("over", "../root/real")
	link("loop", "loop")
	link("here", ".")
	for path, want := range map[string]string{
		"real": "real", "real/deep": "real/deep", "none": "none", "none/deep": "none/deep",
		"in": "real", "in/deep": "real/deep", "in/none/x": "real/none/x", "in/up": "real/deep", "here/in": "real", "here/here/none": "none",
		"absolute/deep": "real/deep", "dangling/x": "none/at/x",
		"out": "out", "out/x": "out/x", "over/deep": "over/deep", "loop/x": "loop/x", "real/f/x": "real/f/x",
	} {
		if got := Root(root).Direct(path); got != want {
			t.Errorf("%s is %s, not %s", path, got, want)
		}
	}
	if os.Geteuid() == 0 {
		must(t, os.Lchown(link("of another", "real"), other, other))
		if got := Root(root).Direct("of another/x"); got != "of another/x" {
			t.Errorf("the link of another user leads to %s", got)
		}
	}
}
