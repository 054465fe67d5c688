package cache

import (
	"fmt"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Foreign is a dataset in the cache that a job of another size has written. Its
// sets cannot be made again, but it can be flushed as long as nothing is lost.
type Foreign struct {
	dataset.Dataset
	Ranks int // of the job that wrote it
}

// Foreign returns the datasets of jobs of another size, newest first. It is the
// same on all ranks.
func (k *Cache) Foreign() []Foreign { return k.foreign }

// Parts returns files of a dataset of a job of another size that the caller is to
// flush, by the ranks that wrote them. Wherever a rank's files are, there is one
// process to flush them. It is collective; the result is agreed.
func (k *Cache) Parts(f Foreign) (map[int][]redundancy.File, error) {
	id, n := f.ID(), k.World.Size()
	judge := func(rank int) string { return strconv.Itoa(rank * n / f.Ranks) }
	send := hash.New()
	var wrong error // with a part that no other process may have
	for _, rank := range k.maps.Ranks(id) {
		if rank >= f.Ranks || !k.maps.Dataset(id, rank).Complete() {
			continue // of a description that a neighbour has kept
		}
		if err := k.maps.Check(id, rank); err != nil {
			wrong = err
			continue
		}
		send.At(judge(rank), strconv.Itoa(rank))
	}
	offered, err := hash.Exchange(send, k.World)
	if err != nil {
		return nil, err
	}
	reply, chosen := hash.New(), map[string]bool{}
	for _, process := range offered.Ints() {
		for rank := range offered.Get(strconv.Itoa(process)).All() {
			if !chosen[rank] {
				chosen[rank] = true
				reply.At(strconv.Itoa(process), rank)
			}
		}
	}
	mine, err := hash.Exchange(reply, k.World)
	if err != nil {
		return nil, err
	}
	found := []int64{int64(len(chosen))}
	if err := k.World.Allreduce(found, mpi.Sum); err != nil {
		return nil, err
	}
	if int(found[0]) != f.Ranks {
		err = fmt.Errorf("dataset %d (%s): the files of %d of its %d ranks are on no node of this run; a run with %d ranks may rebuild them",
			id, f.Name(), f.Ranks-int(found[0]), f.Ranks, f.Ranks)
		if wrong != nil {
			err = fmt.Errorf("%w (%w)", err, wrong)
		}
		return nil, mpi.Agree(k.World, err)
	}
	parts := map[int][]redundancy.File{}
	for _, h := range mine.All() {
		for _, rank := range h.Ints() {
			parts[rank], _ = redundancy.Split(k.filesOf(id, rank))
		}
	}
	return parts, nil
}
