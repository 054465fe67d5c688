package cache

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// The datasets of all ranks, in one order, however far their ids are apart.
func TestParts_Each(t *testing.T) {
	dir := t.TempDir()
	have := [][]int{{1, 2, 64, 65, 66, 1000}, {}, {2, 3, 129, 935, 936, 937}, {0, 5000, 4936, 4937}}
	want := []int{5000, 4937, 4936, 1000, 937, 936, 935, 129, 66, 65, 64, 3, 2, 1, 0}
	_, err := local.Run(len(have), local.Options{}, func(world mpi.Comm) error {
		s, err := filemap.OpenStore(filepath.Join(dir, fmt.Sprint(world.Rank())))
		if err != nil {
			return err
		}
		for _, id := range have[world.Rank()] {
			s.SetExpected(id, world.Rank(), 1, len(have))
		}
		var got []int
		(&parts{world: world, maps: s, newest: 5000}).each(func(id int) { got = append(got, id) })
		if !slices.Equal(got, want) {
			return fmt.Errorf("%v", got)
		}
		(&parts{world: world, maps: s, newest: -1}).each(func(int) { err = fmt.Errorf("called for an empty cache") })
		return err
	})
	must(t, err)
}
