package reddesc

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/goscr/goscr/mpi"
)

// Names of the groups that every job has.
const (
	Node  = "NODE"  // ranks on the same node
	World = "WORLD" // all ranks of the job
)

// Groups are the failure groups of a job: ranks that one failure can end together.
// They also say which ranks share a store.
type Groups struct {
	World  mpi.Comm
	byName map[string]mpi.Comm
}

// NewGroups makes the groups NODE, of ranks with the same node name, and WORLD.
// It is collective over world.
func NewGroups(world mpi.Comm, node string) (*Groups, error) {
	g := &Groups{World: world, byName: map[string]mpi.Comm{World: world}}
	return g, g.Add(Node, node)
}

// Add makes a group of the ranks that give the same value. It is collective
// over the world.
func (g *Groups) Add(name, value string) error {
	c, err := splitByString(g.World, value)
	if err == nil {
		g.byName[name] = c
	}
	return err
}

// Comm returns the caller's group of a name.
func (g *Groups) Comm(name string) (mpi.Comm, error) {
	c, ok := g.byName[name]
	if !ok {
		return nil, fmt.Errorf("there is no group %q; groups are %s, %s and those that GROUPS= lines of a configuration file define",
			name, Node, World)
	}
	return c, nil
}

// Free frees the communicators. It is collective over the world.
func (g *Groups) Free() error {
	for _, name := range slices.Sorted(maps.Keys(g.byName)) {
		if name == World {
			continue
		}
		if err := g.byName[name].Free(); err != nil {
			return err
		}
	}
	return nil
}

// splitByString divides the ranks of c into communicators of equal strings. No rank
// gets the strings of all: ranks are split by a hash, and then by comparison with the
// string of the first rank with the same hash, until all are equal.
func splitByString(c mpi.Comm, value string) (mpi.Comm, error) {
	h := fnv.New32a()
	h.Write([]byte(value))
	group, err := c.Split(int(h.Sum32()&0x7fffffff), c.Rank())
	for err == nil {
		var first []byte
		if first, err = mpi.BcastBytes(group, []byte(value), 0); err != nil {
			break
		}
		color := 0
		if string(first) != value {
			color = 1
		}
		var differ bool
		if differ, err = mpi.Any(group, color == 1); err != nil {
			break
		}
		if !differ {
			return group, nil
		}
		var next mpi.Comm
		if next, err = group.Split(color, group.Rank()); err != nil {
			break
		}
		err = group.Free()
		group = next
	}
	return nil, err
}
