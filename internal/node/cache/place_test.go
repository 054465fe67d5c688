package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// described describes a dataset that is in a directory.
func described(id int, created int64, dir string) filemap.Description {
	d := dataset.New(id, "ckpt", dataset.Checkpoint, 1, dataset.Owner{}, time.Unix(created, 0))
	return filemap.Description{Dataset: d, Dir: dir}
}

// Datasets are found where they are, also in a directory of an earlier run, but
// only in one that goscr may have made.
func TestPlaces_Find(t *testing.T) {
	base := t.TempDir()
	old, open := filepath.Join(base, "old"), filepath.Join(base, "open")
	must(t, privateDir(Base{Dir: old}, "u", "scr.1"))
	must(t, privateDir(Base{Dir: open}, "u", "scr.1"))
	must(t, os.Chmod(filepath.Join(open, "u", "scr.1"), 0o777))
	below := func(dir string) string { return filepath.Join(dir, "u", "scr.1") }
	all := &filemap.Map{}
	all.SetDataset(1, 0, described(1, 10, below(old)))
	all.SetDataset(2, 0, described(2, 10, below(old)))
	all.SetDataset(2, 1, described(2, 20, below(filepath.Join(base, "b")))) // newer
	all.SetDataset(3, 0, described(3, 10, below(open)))
	all.SetDataset(4, 0, described(4, 10, "/etc"))
	all.SetDataset(5, 0, described(5, 10, ""))
	_, err := local.Run(2, local.Options{}, func(node mpi.Comm) error {
		stores := []*reddesc.Store{
			{Name: "a", Base: filepath.Join(base, "a"), Comm: node},
			{Name: "b", Base: filepath.Join(base, "b"), Comm: node, Shared: true, Leader: 3},
		}
		p := newPlaces(node, stores, "u", "scr.1")
		if node.Rank() == 0 {
			if err := p.makeDirs("u", "scr.1"); err != nil {
				return err
			}
		}
		message := hash.New() // from the first rank
		if node.Rank() == 0 {
			message = hash.Marshal(p.search(all))
		}
		message = hash.Bcast(message, 0, node)
		f := hash.As[found](message)
		p.enter(&f)
		for id, dir := range map[int]string{1: "old", 2: "b", 3: "a", 4: "a", 5: "a", 6: "a"} {
			if got, want := p.dir(id), filepath.Join(base, dir, "u", "scr.1", fmt.Sprintf("scr.dataset.%d", id)); got != want {
				return fmt.Errorf("dataset %d is in %s, want %s", id, got, want)
			}
		}
		if got, want := p.device(2), "3 "+below(filepath.Join(base, "b")); got != want || p.device(1) != "" || p.device(3) != "" {
			return fmt.Errorf("device %q, want %q", got, want)
		}
		for path, want := range map[string]bool{
			p.dir(1) + "/file": true, below(old): false, below(open) + "/file": false, "/etc/passwd": false, p.dir(1) + "/../../../x": false, "": false,
		} {
			if p.inside(path) != want {
				return fmt.Errorf("%s is inside: %v", path, !want)
			}
		}
		if !p.leads(p.place(1)) != (node.Rank() > 0) {
			return fmt.Errorf("leads")
		}
		if err := mpi.Agree(node, nil); err != nil {
			return err
		}
		_, err := p.remove(1)
		if p.place(1) != p.all[0] {
			return fmt.Errorf("a dataset that is removed is in %s", p.dir(1))
		}
		return mpi.Agree(node, err)
	})
	must(t, err)
	if _, err := os.Lstat(below(old)); !os.IsNotExist(err) {
		t.Errorf("the directory of an earlier run, which is empty, stays: %v", err)
	}
}

func TestPlace_Spare(t *testing.T) {
	dir := t.TempDir()
	_, err := local.Run(1, local.Options{}, func(node mpi.Comm) error {
		p := newPlaces(node, []*reddesc.Store{{Base: dir, Comm: node}}, "u", "scr.1")
		if err := p.makeDirs("u", "scr.1"); err != nil {
			return err
		}
		x := p.all[0]
		f := redundancy.File{Path: filepath.Join(x.dir, "made"), Meta: meta.New("made", meta.XOR, 1)}
		for _, use := range []func() error{
			func() error { return x.recycle(0)(filepath.Join(x.dir, "next")) },
			func() error { return p.dropSpares(0) },
			func() error { p.removeOldSpares(&report.Logger{}); return nil },
		} {
			must(t, os.WriteFile(f.Path, []byte("12345"), 0o600))
			must(t, f.Meta.Record(f.Path))
			f.Meta.SetComplete(true)
			x.keep(0, f)
			if spares, _ := match(x.dir, sparePattern); len(spares) != 1 {
				return fmt.Errorf("spares %v", spares)
			}
			if err := use(); err != nil {
				return err
			}
			if left, _ := match(x.dir, "*e*"); len(left) != 0 && !slices.Equal(left, []string{filepath.Join(x.dir, "next")}) {
				return fmt.Errorf("left %v", left)
			}
		}
		return nil
	})
	must(t, err)
}

// What is not a directory of the user's is refused.
func TestPrivateDir(t *testing.T) {
	base := t.TempDir()
	must(t, os.Symlink("/tmp", filepath.Join(base, "link")))
	must(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(base, "open"), 0o777))
	for _, name := range []string{"link", "file"} {
		if privateDir(Base{Dir: base}, name) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	must(t, privateDir(Base{Dir: base}, "open", "new"))
	for _, name := range []string{"open", "open/new"} {
		if info, err := os.Stat(filepath.Join(base, name)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}
