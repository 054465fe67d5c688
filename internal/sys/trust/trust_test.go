package trust

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const other = 65533 // another user

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
}

// site is a prefix directory, and beside it a directory that nobody may reach from it.
func site(t *testing.T) (root, outside string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	root, outside = filepath.Join(dir, "root"), filepath.Join(dir, "outside")
	must(t, errors.Join(os.MkdirAll(filepath.Join(root, "real/deep"), 0o755), os.Mkdir(outside, 0o755),
		os.WriteFile(filepath.Join(outside, "f"), []byte("secret"), 0o644), os.WriteFile(filepath.Join(root, "real/f"), []byte("data"), 0o644)))
	return root, outside
}

// operations are all that a Root does with a path.
var operations = map[string]func(r Root, path string) error{
	"open": func(r Root, path string) error {
		f, err := r.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		return errors.Join(err, f.Close())
	},
	"lstat":  func(r Root, path string) error { _, err := r.Lstat(path); return err },
	"rename": func(r Root, path string) error { return r.Rename(path, path+".new") },
	"rename to": func(r Root, path string) error {
		from := filepath.Join(string(r), "from")
		return errors.Join(os.WriteFile(from, nil, 0o600), r.Rename(from, path))
	},
	"remove":     func(r Root, path string) error { return r.Remove(path) },
	"remove all": func(r Root, path string) error { return r.RemoveAll(path) },
	"mkdir":      func(r Root, path string) error { return r.Mkdir(path+".d", 0o700) },
	"mkdir all":  func(r Root, path string) error { return r.MkdirAll(path+".d/e", 0o700) },
	"times":      func(r Root, path string) error { return r.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)) },
	"read dir":   func(r Root, path string) error { _, err := r.ReadDir(filepath.Dir(path)); return err },
	"sync":       func(r Root, path string) error { return r.SyncDir(filepath.Dir(path)) },
}

// tree is everything below a directory, for comparisons.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			b.WriteString(path + "\n")
			return err
		}
		info, err := e.Info()
		data, _ := os.ReadFile(path)
		b.WriteString(path + info.Mode().String() + info.ModTime().String() + string(data) + "\n")
		return err
	}))
	return b.String()
}

// A link in place of a directory leads nowhere if it leads out or is another user's.
func TestRoot_LinksOnTheWay(t *testing.T) {
	for name, link := range map[string]struct {
		target string
		owner  int
		counts bool
	}{
		"own, inside":              {"real", 0, true},
		"own, inside, absolute":    {"ROOT/real", 0, true},
		"own, over a directory":    {"real/deep/..", 0, true},
		"own, up and down":         {"../root/real", 0, false},
		"own, outside":             {"../outside", 0, false},
		"own, outside, absolute":   {"OUTSIDE", 0, false},
		"another's, inside":        {"real", other, false},
		"another's, outside":       {"OUTSIDE", other, false},
		"own, to itself":           {"link", 0, false},
		"own, to a name like root": {"ROOTx", 0, false},
	} {
		if link.owner != 0 && os.Geteuid() != 0 {
			continue
		}
		for what, do := range operations {
			root, outside := site(t)
			path := filepath.Join(root, "link")
			target := strings.NewReplacer("ROOT", root, "OUTSIDE", outside).Replace(link.target)
			must(t, os.Symlink(target, path))
			if link.owner != 0 {
				must(t, os.Lchown(path, link.owner, link.owner))
			}
			before := tree(t, outside) + tree(t, filepath.Join(root, "real"))
			err := do(Root(root), filepath.Join(path, "f"))
			if link.counts {
				if err != nil {
					t.Errorf("%s: %s: %v", name, what, err)
				}
				continue
			}
			if err == nil {
				t.Errorf("%s: %s: no error", name, what)
			}
			if after := tree(t, outside) + tree(t, filepath.Join(root, "real")); after != before {
				t.Errorf("%s: %s:\n%s\nwas\n%s", name, what, after, before)
			}
		}
	}
}

// In the directory of a user, root follows the user's links, too.
func TestRoot_LinksOfTheOwner(t *testing.T) {
	needRoot(t)
	root, _ := site(t)
	link := filepath.Join(root, "link")
	must(t, errors.Join(os.Symlink("real", link), os.Lchown(link, other, other)))
	_, err := Root(root).Lstat(link + "/f")
	refused := new(LinkError)
	if !errors.As(err, &refused) || refused.Link != link || refused.Owner != other {
		t.Errorf("%v", err)
	}
	must(t, os.Chown(root, other, other))
	if _, err := Root(root).Lstat(link + "/f"); err != nil {
		t.Error(err)
	}
}

// Without openat2, and over a directory that has to be made, the steps are the same.
func TestRoot_MkdirAll(t *testing.T) {
	root, outside := site(t)
	r := Root(root)
	must(t, os.Symlink("real", filepath.Join(root, "link")))
	must(t, r.MkdirAll(filepath.Join(root, "link/a/b/c"), 0o750))
	if info, err := os.Lstat(filepath.Join(root, "real/a/b/c")); err != nil || !info.IsDir() {
		t.Errorf("%v", err)
	}
	for _, path := range []string{outside, root + "x/y", filepath.Join(root, "..", "y"), "relative"} {
		if err := r.MkdirAll(path, 0o700); err == nil {
			t.Errorf("%s was made", path)
		}
	}
	if err := r.MkdirAll(filepath.Join(root, "real/f/g"), 0o700); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("%v", err)
	}
}

// RemoveAll follows no link, neither in its place nor below it.
func TestRoot_RemoveAll(t *testing.T) {
	root, outside := site(t)
	before := tree(t, outside)
	dir := filepath.Join(root, "real")
	must(t, errors.Join(os.Symlink(outside, filepath.Join(dir, "deep/link")), os.Symlink(outside, filepath.Join(root, "link"))))
	must(t, Root(root).RemoveAll(dir))
	must(t, Root(root).RemoveAll(filepath.Join(root, "link")))
	must(t, Root(root).RemoveAll(filepath.Join(root, "none")))
	left, err := os.ReadDir(root)
	if err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	if tree(t, outside) != before {
		t.Error("what a link led to was changed")
	}
}

func TestAround(t *testing.T) {
	for path, want := range map[string]Root{
		"/p/x/.scr/index.scr": "/p/x", "/p/x/.scr": "/p/x", "/p/x/.scr/a/b": "/p/x", "/p/.scrx/f": "", "/p/x.scr/f": "",
		"/p/.scr/d/.scr/f": "/p/.scr/d", "relative/.scr/f": "", "/.scr/f": "", "/p/f": "",
	} {
		if got := Around(path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// What may make a command run belongs to the caller, to root, or to a user who was named.
func TestUsers_Check(t *testing.T) {
	dir := t.TempDir()
	self := os.Geteuid()
	path := filepath.Join(dir, "f")
	must(t, os.WriteFile(path, nil, 0o600))
	check := func(u Users) error {
		t.Helper()
		info, err := os.Lstat(path)
		must(t, err)
		return u.Check(path, info)
	}
	for mode, ok := range map[fs.FileMode]bool{0o600: true, 0o644: true, 0o664: true, 0o666: false, 0o602: false} {
		must(t, os.Chmod(path, mode))
		if err := check(Users{}); (err == nil) != ok {
			t.Errorf("%v: %v", mode, err)
		}
	}
	must(t, os.Chmod(path, 0o666))
	if err := check(Users{self: true}); err != nil {
		t.Error(err)
	}
	needRoot(t)
	must(t, errors.Join(os.Chmod(path, 0o660), os.Chown(path, 0, other)))
	if err := check(Users{}); err == nil {
		t.Error("a group can write to it")
	}
	must(t, errors.Join(os.Chown(path, other, other), os.Chmod(path, 0o600)))
	err := check(Users{})
	foreign := new(ForeignError)
	if !errors.As(err, &foreign) || !strings.Contains(err.Error(), Parameter+"=") || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	named, err := ParseUsers("65533, root")
	must(t, err)
	must(t, check(named))
}

func TestParseUsers_Refuses(t *testing.T) {
	for _, text := range []string{"-1", "no such user", "1 x!"} {
		if _, err := ParseUsers(text); err == nil {
			t.Errorf("%q", text)
		}
	}
}

// Root gives a file to the owner of the directory, and to nobody else.
func TestRoot_Owner(t *testing.T) {
	dir := t.TempDir()
	if _, _, give := Root(dir).Owner(other); give {
		t.Error("in a directory of the caller's own")
	}
	needRoot(t)
	must(t, os.Chown(dir, other, 7))
	if uid, gid, give := Root(dir).Owner(other); !give || uid != other || gid != 7 {
		t.Errorf("%d %d %v", uid, gid, give)
	}
	if _, _, give := Root(dir).Owner(0); give {
		t.Error("a file of root's own")
	}
}
