package reddesc

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

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
// gets the strings of all: ranks are split by a hash, and in the rare case that different
// strings have the same, once more by the first rank that has their string.
//
// It splits c only, never a part of it: all ranks take part in each split, so that a rank
// that has revoked c leaves none waiting (mpi/system).
func splitByString(c mpi.Comm, value string) (mpi.Comm, error) {
	h := fnv.New32a()
	h.Write([]byte(value))
	group, err := c.Split(int(h.Sum32()&0x7fffffff), c.Rank())
	if err != nil {
		return nil, err
	}
	first, err := firstWith(group, value, c.Rank())
	if err != nil {
		return nil, err
	}
	differ, err := mpi.Any(c, first.differ)
	if err != nil || !differ {
		return group, err
	}
	if err := group.Free(); err != nil {
		return nil, err
	}
	return c.Split(first.rank, c.Rank())
}

// found is the first rank with the caller's string.
type found struct {
	rank   int
	differ bool // some rank of the group has another string
}

// firstWith finds the first rank of a group that gives the same string. name is what the
// caller is to be called.
func firstWith(group mpi.Comm, value string, name int) (found, error) {
	var f found
	open := true // the rank has not been named yet
	for root := 0; root < group.Size(); {
		text, err := mpi.BcastBytes(group, fmt.Appendf(nil, "%d %s", name, value), root)
		if err != nil {
			return f, err
		}
		number, its, _ := strings.Cut(string(text), " ")
		if open && its == value {
			open = false
			if f.rank, err = strconv.Atoi(number); err != nil {
				return f, err
			}
		} else {
			f.differ = true
		}
		next := group.Size()
		if open {
			next = group.Rank()
		}
		if root, err = mpi.AllreduceOne(group, next, mpi.Min); err != nil {
			return f, err
		}
	}
	return f, nil
}
