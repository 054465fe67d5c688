package reddesc

import (
	"github.com/goscr/goscr/mpi"
)

// place is the position of a rank among the sets of a descriptor.
type place struct {
	sets     int  // number of sets
	set      int  // the rank's set
	member   int  // its rank in the set
	smallest int  // number of members of the smaller sets
	larger   int  // number of sets that have one member more
	inOrder  bool // ranks are numbered as in the world, so that every rank knows the members of each set
}

// divide distributes the ranks of world over sets, so that no two members of a
// set share a failure group, and every set has at least size members if there
// are enough groups for that. It is collective; each rank takes part in a few
// reductions, or in none, and gets nothing but its own place.
//
// Ranks are numbered group by group, as they are in the world if the ranks of each group
// follow one another there, and rank i goes to set i mod S. A group
// whose ranks are numbered in a row cannot meet a set twice if S is at least
// the size of the largest group; and all sets have P/S members, rounded up or
// down. So S is P/size, or the size of the largest group if that is more. If
// one group has more than half of the ranks, some sets have one member only;
// but no other way to divide them would leave fewer ranks alone, as each set
// takes one of that group and needs another for company.
//
// Groups are numbered hop apart, so that neighbours in a set are: groups that
// are next to each other may share more than their number.
func divide(world mpi.Comm, own *group, size, hop int) place {
	number := world.Rank()
	inOrder := own.inRows && hop <= 1
	if !inOrder {
		before := membersBefore(world, own, hop)
		// Only the first rank of the group has it; the others add 0.
		first := mpi.AllreduceOne(own, before, mpi.Max)
		number = int(first) + own.Rank()
	}
	sets := max(world.Size()/size, own.largest, 1)
	return place{
		sets:     sets,
		set:      number % sets,
		member:   number / sets,
		smallest: world.Size() / sets,
		larger:   world.Size() % sets,
		inOrder:  inOrder,
	}
}

// membersBefore returns, to the first rank of a group, how many ranks the groups before
// its own have, and 0 to others. It is collective over world.
func membersBefore(world, group mpi.Comm, hop int) int64 {
	leads := group.Rank() == 0
	count := make([]int64, 1)
	if leads {
		count[0] = int64(group.Size())
	}
	if hop <= 1 { // the leaders are in the order of the ranks
		world.Exscan(count, mpi.Sum)
		if !leads {
			count[0] = 0
		}
		return count[0]
	}
	// The leaders by their order, hop apart.
	one := 0
	if leads {
		one = 1
	}
	leaders := mpi.AllreduceOne(world, one, mpi.Sum)
	i := mpi.ExscanOne(world, one, mpi.Sum)
	color, key := mpi.Undefined, 0
	if leads {
		color, key = 0, i%hop*leaders+i/hop
	}
	ordered := world.Split(color, key)
	if !leads {
		return 0
	}
	ordered.Exscan(count, mpi.Sum)
	ordered.Free()
	return count[0]
}
