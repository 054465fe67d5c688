package cache

import (
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/mpi"
)

// Keys of what ranks tell each other about files on storage that they share.
const (
	keyDevice = "DEVICE" // see device
	keyPath   = "PATH"   // / path / description of the file
)

// adopt gives ranks the entries of their files on storage that they share with
// whoever has these, where files need not move for their owners to have them. It
// is collective; the result is agreed.
func (k *Cache) adopt(c *Cached) error {
	if !c.store.Shared {
		return nil
	}
	id := c.ID()
	send := hash.New()
	for _, rank := range k.maps.Ranks(id) {
		files, _ := k.maps.Expected(id, rank)
		if rank == k.me() || rank >= k.World.Size() || files < 0 || k.device(id) == "" {
			continue
		}
		of := send.At(strconv.Itoa(rank))
		of.SetValue(keyDevice, k.device(id))
		of.SetInt(keyFiles, int64(files))
		for _, f := range k.filesOf(id, rank) {
			if f.Meta.Check(f.Path) == nil {
				of.At(keyPath).Set(f.Path, f.Meta.Clone())
			}
		}
	}
	offered, err := hash.Exchange(send, k.World)
	if err != nil {
		return err
	}
	taken := hash.New()
	whole := k.maps.Whole(id, k.me())
	for rank, of := range offered.All() {
		if of.Text(keyDevice) != k.device(id) {
			continue
		}
		taken.At(rank)
		if !whole {
			k.take(id, of)
		}
	}
	if err := mpi.Agree(k.World, k.maps.Fold()); err != nil {
		return err
	}
	answers, err := hash.Exchange(taken, k.World)
	if err != nil {
		return err
	}
	for _, rank := range answers.Ints() {
		k.forget(c, rank)
	}
	return mpi.Agree(k.World, k.maps.Fold())
}

// take enters those of the offered files that are whole.
func (k *Cache) take(id int, offered *hash.Hash) {
	for path, md := range offered.Get(keyPath).All() {
		if m := (meta.Meta{Hash: md}); k.inside(path) && m.Check(path) == nil {
			k.maps.Map.AddFile(id, k.me(), path, m)
		}
	}
	files, _ := offered.Int(keyFiles)
	known, _ := k.maps.Expected(id, k.me())
	k.maps.SetExpected(id, k.me(), max(known, int(files)), k.World.Size())
}
