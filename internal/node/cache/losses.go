package cache

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goscr/goscr/mpi"
)

// one returns 1 if holds is true, else 0.
func one(holds bool) int64 {
	if holds {
		return 1
	}
	return 0
}

// losses describes, for messages, the ranks for which lost is true: how many there are, on
// how many nodes they run, and the numbers of the first of them. It is collective.
func losses(world, node mpi.Comm, lost bool) string {
	onNode := mpi.Any(node, lost)
	counts := []int64{one(lost), one(onNode && node.Rank() == 0)} // ranks, nodes
	world.Allreduce(counts, mpi.Sum)
	const most = 8 // ranks that are named
	var which []string
	for range min(counts[0], most) {
		mine := world.Size()
		if lost {
			mine = world.Rank()
		}
		next := mpi.AllreduceOne(world, mine, mpi.Min)
		which = append(which, strconv.Itoa(next))
		lost = lost && world.Rank() != next
	}
	if counts[0] > most {
		which = append(which, "...")
	}
	return fmt.Sprintf("%d of %d ranks (%s; now on %d of the nodes)", counts[0], world.Size(), strings.Join(which, ", "), counts[1])
}
