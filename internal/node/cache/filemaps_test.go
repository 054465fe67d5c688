package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// startNode has a run with so many ranks on the node, which are first, first+1 ...
// of the job, take the filemaps in dir up. It returns the ranks of which each has
// entries.
func startNode(dir string, ranks, first int, opt local.Options) (entries []string, err error) {
	entries = make([]string, ranks)
	_, err = local.Run(ranks, opt, func(node mpi.Comm) error {
		f := &filemaps{node: node, dir: dir, log: &report.Logger{}}
		for i := range ranks {
			f.here = append(f.here, first+i)
		}
		all, _, err := f.collect(nil, func(*filemap.Map) *found { return &found{} })
		if err == nil {
			err = mpi.Agree(node, f.deal(all, nil))
		}
		if err != nil {
			return err
		}
		entries[node.Rank()] = fmt.Sprint(f.own.AllRanks())
		return f.close()
	})
	return entries, err
}

// writeMaps writes filemaps of a run with ranks 0 to 5.
func writeMaps(t testing.TB, dir string) {
	for i := range 3 {
		s, err := filemap.OpenStore(filepath.Join(dir, fmt.Sprintf("filemap_%d.scrinfo", i)))
		must(t, err)
		for rank := 2 * i; rank < 2*i+2; rank++ {
			s.SetDataset(1, rank, described(1, 10, "/d"))
		}
		must(t, s.Fold())
	}
}

func TestFilemaps_AnyNumberOfRanks(t *testing.T) {
	for _, c := range []struct {
		ranks, first int
		want         string
	}{
		{1, 0, "[[0 1 2 3 4 5]]"},
		{2, 0, "[[0 2 4] [1 3 5]]"},
		{2, 4, "[[0 2 4] [1 3 5]]"},
		{3, 1, "[[0 1] [2 4] [3 5]]"},
		{8, 0, "[[0] [1] [2] [3] [4] [5] [] []]"},
	} {
		dir := t.TempDir()
		writeMaps(t, dir)
		for range 2 { // the second time nothing changes
			entries, err := startNode(dir, c.ranks, c.first, local.Options{})
			if got := fmt.Sprint(entries); err != nil || got != c.want {
				t.Errorf("%d ranks from %d on: %v, %v, want %s", c.ranks, c.first, got, err, c.want)
			}
			found, _ := match(dir, filemap.Pattern)
			list, err := hash.ReadFile(filepath.Join(dir, masterFile))
			must(t, err)
			if got := list.Get(keyFilemap).Keys(); !slices.Equal(got, found) || len(found) != c.ranks {
				t.Errorf("%d ranks: filemaps %v, listed are %v", c.ranks, found, got)
			}
		}
	}
}

// At any instant every entry is in some filemap.
func TestFilemaps_KilledAnywhere(t *testing.T) {
	for at := int64(1); ; at++ {
		dir := t.TempDir()
		writeMaps(t, dir)
		_, err := startNode(dir, 2, 3, local.Options{KillAt: at})
		all, bad, e := filemap.ReadDir(dir)
		must(t, e)
		if got := fmt.Sprint(all.AllRanks()); got != "[0 1 2 3 4 5]" || bad != nil {
			t.Errorf("killed at message %d: entries of %v, %v", at, got, bad)
		}
		if err == nil {
			return
		}
	}
}

// A filemap that is damaged costs its own entries.
func TestFilemaps_Corrupt(t *testing.T) {
	dir := t.TempDir()
	writeMaps(t, dir)
	path := filepath.Join(dir, "filemap_1.scrinfo")
	data, err := os.ReadFile(path)
	must(t, err)
	data[len(data)/2] ^= 1
	must(t, os.WriteFile(path, data, 0o600))
	entries, err := startNode(dir, 1, 0, local.Options{})
	if err != nil || fmt.Sprint(entries) != "[[0 1 4 5]]" {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestLosses(t *testing.T) {
	for _, c := range []struct {
		ranks int
		lost  func(rank int) bool
		want  string
	}{
		{4, func(int) bool { return false }, "0 of 4 ranks (; now on 0 of the nodes)"},
		{6, func(rank int) bool { return rank == 2 || rank == 3 || rank == 5 }, "3 of 6 ranks (2, 3, 5; now on 2 of the nodes)"},
		{20, func(rank int) bool { return rank%2 == 1 }, "10 of 20 ranks (1, 3, 5, 7, 9, 11, 13, 15, ...; now on 10 of the nodes)"},
	} {
		_, err := local.Run(c.ranks, local.Options{}, func(world mpi.Comm) error {
			node := world.Split(world.Rank()/2, 0)
			if got := losses(world, node, c.lost(world.Rank())); got != c.want {
				return fmt.Errorf("%s, want %s", got, c.want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
