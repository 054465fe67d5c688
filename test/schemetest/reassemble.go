package schemetest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/offline"
	"github.com/goscr/goscr/test/sample"
)

// gather copies the files of all members into one directory, as scavenging
// does, and makes them the cluster's files.
func (c *cluster) gather() (dir string) {
	c.t.Helper()
	dir = tempDir(c.t)
	for m := range c.files {
		for i, f := range c.files[m] {
			to := filepath.Join(dir, f.Meta.File())
			must(c.t, os.MkdirAll(filepath.Dir(to), 0o700))
			data, err := os.ReadFile(f.Path)
			must(c.t, err)
			must(c.t, os.WriteFile(to, data, 0o600))
			must(c.t, f.Meta.Restore("", to))
			c.files[m][i].Path = to
		}
	}
	return dir
}

// reassemble rebuilds the files of those that have not all of theirs. It returns
// what was said about corrupt files.
func (c *cluster) reassemble(dir string) (warnings []error, err error) {
	set, made := c.offline(dir, func(err error) { warnings = append(warnings, err) })
	_, err = set.Rebuild(made)
	return warnings, err
}

// offline returns what is left of the set, and its redundancy files.
func (c *cluster) offline(dir string, warn func(error)) (set offline.Set, made []string) {
	for m := range c.files {
		_, redundant := redundancy.Split(c.files[m])
		if len(redundant) > 0 && redundant[0].Meta.Check(redundant[0].Path) == nil {
			made = append(made, redundant[0].Path)
		}
	}
	return offline.Set{
		Dir: dir, Dataset: theDataset(), Piece: piece,
		Scheme: func(int) redundancy.Scheme { return c.scheme },
		Whole: func(rank int) bool {
			own, _ := redundancy.Split(c.files[rank/10])
			return !slices.ContainsFunc(own, func(f redundancy.File) bool { return f.Meta.Check(f.Path) != nil })
		},
		Register: func(int, redundancy.File) error { return nil },
		Warn:     warn,
	}, made
}

// Reassemble tests that a scheme rebuilds files in one process, from what is
// left in one directory: whatever it tolerates the loss of comes back byte for byte,
// and what is corrupt is noticed.
func Reassemble(t *testing.T, scheme redundancy.Scheme, smallest, largest int) {
	damages := []string{"all", "data", "redundancy", "one file"}
	losses := losses(t, scheme, smallest, largest, damages, damages, 10, 8)
	inSets(t, losses, func(t *testing.T, losses []loss) {
		c := newCluster(t, scheme, losses[0].n, sizes[losses[0].sizes], 4)
		c.encode()
		dir := c.gather()
		want := c.state()
		for _, l := range losses {
			c.reassembled(dir, l, want)
		}
	})
	t.Run("corrupt", func(t *testing.T) { reassembleCorrupt(t, scheme) })
	t.Run("not to be made", func(t *testing.T) { reassembleNot(t, scheme) })
}

// reassembleNot has a file refused before it is made, as one with a bad name is:
// then none of its member's files is made.
func reassembleNot(t *testing.T, scheme redundancy.Scheme) {
	c := newCluster(t, scheme, 4, sizes["primes"], 5)
	c.encode()
	dir := c.gather()
	own, _ := redundancy.Split(c.files[1])
	for _, f := range own {
		must(t, os.Remove(f.Path))
	}
	refused := errors.New("refused")
	set, made := c.offline(dir, nil)
	set.Register = func(rank int, f redundancy.File) error {
		if rank != 10 || f.Path != own[len(own)-1].Path {
			return nil
		}
		return refused
	}
	if _, err := set.Rebuild(made); !errors.Is(err, refused) {
		t.Error(err)
	}
	for _, f := range own {
		if _, err := os.Lstat(f.Path); err == nil {
			t.Errorf("%s was made", f.Path)
		}
	}
}

// reassembled loses members, rebuilds them, and puts everything back.
func (c *cluster) reassembled(dir string, l loss, want map[string]string) {
	c.t.Helper()
	damage := damages[l.damage]
	damaged := false // of what the program wrote
	for _, m := range l.lost {
		for i, f := range c.files[m] {
			if slices.ContainsFunc(damage.of(c.files[m]), func(x redundancy.File) bool { return x.Path == f.Path }) {
				must(c.t, damage.how(f.Path))
				damaged = damaged || c.files[m][i].Meta.Type() == meta.Full
			}
		}
	}
	var err error
	if damaged {
		_, err = c.reassemble(dir)
	}
	switch bears := c.scheme.Tolerates(len(c.dirs), l.lost); {
	case err != nil && bears:
		c.t.Errorf("members %v lost %s: %v", l.lost, l.damage, err)
	case err == nil:
		c.sameOwn(want)
		c.noRedundancy(l.lost, damage)
	case !errors.Is(err, redundancy.ErrUnrecoverable) && l.damage != "all":
		c.t.Errorf("members %v lost %s, more than the scheme bears: %v", l.lost, l.damage, err)
	}
	must(c.t, c.restore(want))
}

// noRedundancy checks that no redundancy was made for members that have lost theirs.
func (c *cluster) noRedundancy(lost []int, damage damage) {
	c.t.Helper()
	for _, m := range lost {
		for _, f := range made(damage.of(c.files[m])) {
			if _, err := os.Lstat(f.Path); err == nil {
				c.t.Errorf("%s was made", f.Path)
			}
		}
	}
}

// sameOwn compares what the program wrote.
func (c *cluster) sameOwn(want map[string]string) {
	c.t.Helper()
	for _, files := range c.files {
		own, _ := redundancy.Split(files)
		for _, f := range own {
			data, err := os.ReadFile(f.Path)
			must(c.t, err)
			info, err := os.Stat(f.Path)
			must(c.t, err)
			if got := string(data) + fmt.Sprint(" ", info.Mode(), info.ModTime().UnixNano()); got != want[f.Path] {
				c.t.Errorf("%s differs after it was rebuilt", f.Path)
			}
		}
	}
}

// reassembleCorrupt flips a bit in what is left: never may wrong bytes come out
// as if they were right.
func reassembleCorrupt(t *testing.T, scheme redundancy.Scheme) {
	const n = 4
	c := newCluster(t, scheme, n, sizes["primes"], 5)
	c.encode()
	dir := c.gather()
	want := c.state()
	type flip struct {
		file redundancy.File
		at   int64
		lost int // a member other than the file's
	}
	var flips []flip
	for m := range n {
		for _, f := range c.files[m] {
			size := f.Meta.Size()
			for at := int64(0); at < size; at += max(1, size/23) {
				for lost := range n {
					if lost != m {
						flips = append(flips, flip{f, at, lost})
					}
				}
			}
		}
	}
	noticed := 0
	for _, f := range sample.Of(t, flips, 60, 150) {
		must(t, flipBit(f.file.Path, f.at))
		own, _ := redundancy.Split(c.files[f.lost])
		for _, f := range own {
			must(t, os.Remove(f.Path))
		}
		warnings, err := c.reassemble(dir)
		if len(warnings) > 0 {
			noticed++
		}
		for _, made := range own {
			if err != nil {
				_ = os.Remove(made.Path) // wherever it has come to
			} else if data, err := os.ReadFile(made.Path); err != nil || string(data) != want[made.Path][:len(data)] {
				t.Errorf("a bit flipped at byte %d of %s went unnoticed into %s", f.at, f.file.Path, made.Path)
			}
		}
		must(t, c.restore(want))
	}
	if noticed == 0 {
		t.Error("no flipped bit was noticed")
	}
}

func flipBit(path string, at int64) error {
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil && err != io.EOF {
		return err
	}
	b[0] ^= 0x20
	_, err = f.WriteAt(b, at)
	return err
}
