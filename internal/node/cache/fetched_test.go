package cache

import (
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// The checksums of fetched files are compared with those of the bytes that are encoded.
func TestFetched_ComparesChecksums(t *testing.T) {
	for _, wrong := range []int{-1, 0, 2} { // the rank of which the file is not what was written
		errChanged := errors.New("a test says that it has changed")
		_, err := local.Run(ranksBehind, local.Options{}, func(world mpi.Comm) error {
			k, err := openCache(world, t.TempDir())
			if err != nil {
				return err
			}
			defer k.Close()
			set := redundancy.NewSet(world, world.Rank())
			c, err := create(k, set, 1)
			if err != nil {
				return err
			}
			want := crc32.ChecksumIEEE(contents(1, world.Rank()))
			if world.Rank() == wrong {
				want++
			}
			for _, f := range k.Files(1) {
				f.Meta.SetCRC(want)
			}
			asked := 0
			err = k.Fetched(c, nil, func(f redundancy.File) error {
				asked++
				if crc, _ := f.Meta.CRC(); crc != want {
					return fmt.Errorf("asked about checksum 0x%08x, want 0x%08x", crc, want)
				}
				return errChanged
			})
			if wrong < 0 {
				return errors.Join(err, map[bool]error{true: errors.New("asked, or not usable")}[asked > 0 || k.Find(1) != c])
			}
			if (asked > 0) != (world.Rank() == wrong) || !errors.As(err, new(*mpi.AgreedError)) || k.Find(1) != nil {
				return fmt.Errorf("asked %d times, usable %t: %w", asked, k.Find(1) != nil, err)
			}
			if world.Rank() == wrong && !errors.Is(err, errChanged) {
				return err
			}
			return nil
		})
		if err != nil {
			t.Errorf("wrong on rank %d: %v", wrong, err)
		}
	}
}
