package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// A file of which ranks see different sizes is still being written, or is not one file:
// every rank is told.
func TestShare_OneSizeOfAFile(t *testing.T) {
	for _, larger := range []int{-1, 0, 1, 2} {
		dir := t.TempDir()
		var mu sync.Mutex
		shared, errs := map[int]bool{}, map[int]error{}
		_, err := local.Run(3, local.Options{}, func(world mpi.Comm) error {
			rank := world.Rank()
			path := filepath.Join(dir, fmt.Sprint(rank))
			data := "text"
			if rank == larger {
				data += "s"
			}
			if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
				return err
			}
			f := redundancy.File{Path: path, Meta: meta.New("all", meta.Full, 3)}
			_, err := (&validation{world: world, files: []redundancy.File{f}}).run(true)
			mu.Lock()
			defer mu.Unlock()
			shared[rank], errs[rank] = f.Meta.Shared(), err
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for rank := range 3 {
			if shared[rank] != (rank > 0) {
				t.Errorf("rank %d: shared %v", rank, shared[rank])
			}
			if err := errs[rank]; (err != nil) != (larger >= 0) || err != nil && !strings.Contains(err.Error(), "another size on other ranks") {
				t.Errorf("rank %d, %d is larger: %v", rank, larger, err)
			}
		}
	}
}
