package reddesc

import (
	"github.com/goscr/goscr/mpi"
)

// place is where a rank stands among the sets of a descriptor.
type place struct {
	sets     int // number of sets
	set      int // the rank's set
	member   int // its place in it
	smallest int // number of members of the smaller sets
	larger   int // number of sets that have one member more
}

// divide distributes the ranks of world over sets, so that no two members of a
// set share a failure group, and every set has at least size members if there
// are enough groups for that. It is collective; each rank takes part in a few
// reductions and learns nothing but its own place.
//
// Ranks are numbered group by group, and rank i goes to set i mod S. A group
// whose ranks are numbered in a row cannot meet a set twice if S is at least
// the size of the largest group; and all sets have P/S members, rounded up or
// down. So S is P/size, or the size of the largest group if that is more. If
// one group has more than half of the ranks, some sets have one member only;
// but no other way to divide them would leave fewer ranks alone, as each set
// takes one of that group and needs another for company.
//
// Groups are numbered hop apart, so that neighbours in a set are: groups that
// are next to each other may share more than their number.
func divide(world, group mpi.Comm, size, hop int) (place, error) {
	leader := mpi.Undefined
	if group.Rank() == 0 {
		leader = 0
	}
	leaders, err := world.Split(leader, world.Rank())
	if err != nil {
		return place{}, err
	}
	first := []int64{int64(group.Size())}
	if leaders != nil {
		if hop > 1 {
			all := leaders
			if leaders, err = all.Split(0, all.Rank()%hop*all.Size()+all.Rank()/hop); err != nil {
				return place{}, err
			}
			if err := all.Free(); err != nil {
				return place{}, err
			}
		}
		if err := leaders.Exscan(first, mpi.Sum); err != nil {
			return place{}, err
		}
		if err := leaders.Free(); err != nil {
			return place{}, err
		}
	} else {
		first[0] = 0
	}
	// Only the leader knows; the others add nothing.
	if err := group.Allreduce(first, mpi.Max); err != nil {
		return place{}, err
	}
	largest := []int64{int64(group.Size())}
	if err := world.Allreduce(largest, mpi.Max); err != nil {
		return place{}, err
	}
	number := int(first[0]) + group.Rank()
	sets := max(world.Size()/size, int(largest[0]), 1)
	return place{
		sets:     sets,
		set:      number % sets,
		member:   number / sets,
		smallest: world.Size() / sets,
		larger:   world.Size() % sets,
	}, nil
}
