package cache

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Foreign is a dataset in the cache that a job of another size has written. Its redundancy
// sets cannot be made again, so lost files cannot be rebuilt; but if no file is lost, the
// dataset can be flushed.
type Foreign struct {
	dataset.Dataset
	Ranks int // of the job that wrote it
}

// Foreign returns the datasets of jobs of another size, newest first. It is the
// same on all ranks.
func (l *UnusedList) Foreign() []Foreign { return l.foreign }

// Parts returns those files of a dataset of a job of another size that the caller has to
// flush, by the ranks that wrote them. Several processes may have the files of a rank; the
// first of them flushes these. For each rank one process, which is computed from the number
// of the rank, makes this selection. Parts is collective; the result is agreed.
func (l *UnusedList) Parts(f Foreign) (map[int][]redundancy.File, error) {
	id := f.ID()
	have := map[int][]int{} // ranks whose files the caller has, by the process that selects
	var wrong error         // an error of a rank's files here, in case no other process has them
	for _, rank := range l.parts.maps.Ranks(id) {
		if rank >= f.Ranks || !l.parts.maps.Dataset(id, rank).Complete() {
			continue // a description that the caller keeps for a neighbour
		}
		if err := l.parts.maps.CheckData(id, rank, -1); err != nil {
			wrong = err
			continue
		}
		selector := rank * l.parts.world.Size() / f.Ranks
		have[selector] = append(have[selector], rank)
	}
	offered, err := exchangeRanks(l.parts.world, have)
	if err != nil {
		return nil, err
	}
	chosen, taken := map[int][]int{}, map[int]bool{}
	for _, process := range slices.Sorted(maps.Keys(offered)) {
		for _, rank := range offered[process] {
			if !taken[rank] {
				taken[rank] = true
				chosen[process] = append(chosen[process], rank)
			}
		}
	}
	mine, err := exchangeRanks(l.parts.world, chosen)
	if err != nil {
		return nil, err
	}
	found := mpi.AllreduceOne(l.parts.world, len(taken), mpi.Sum)
	if found != f.Ranks {
		err = fmt.Errorf("dataset %d (%s): the files of %d of its %d ranks are on no node of this run; a run with %d ranks may rebuild them",
			id, f.Name(), f.Ranks-found, f.Ranks, f.Ranks)
		if wrong != nil {
			err = fmt.Errorf("%w (%w)", err, wrong)
		}
		return nil, mpi.Agree(l.parts.world, err)
	}
	parts := map[int][]redundancy.File{}
	for _, ranks := range mine {
		for _, rank := range ranks {
			parts[rank], _ = redundancy.Split(l.parts.files(id, rank))
		}
	}
	return parts, nil
}

// exchangeRanks sends each process a list of ranks, and returns the lists that the caller
// was sent, by their senders. It is collective.
func exchangeRanks(c mpi.Comm, send map[int][]int) (map[int][]int, error) {
	h := hash.New()
	for process, ranks := range send {
		for _, rank := range ranks {
			h.At(strconv.Itoa(process), strconv.Itoa(rank))
		}
	}
	h, err := hash.Exchange(h, c)
	if err != nil {
		return nil, err
	}
	received := map[int][]int{}
	for _, process := range h.Ints() {
		received[process] = h.Get(strconv.Itoa(process)).Ints()
	}
	return received, nil
}
