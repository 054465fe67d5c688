package reddesc

import (
	"crypto/sha256"
	"encoding/binary"
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
	byName map[string]*group
	node   []int
}

// group is the caller's group of a name. Its ranks are ordered as in the world.
type group struct {
	mpi.Comm
	first   int  // its lowest rank in the world
	largest int  // size of the largest group of this name
	inRows  bool // the ranks of each group of this name follow one another in the world
}

// NewGroups makes the groups NODE, of ranks with the same node name, and WORLD.
// It is collective over world.
func NewGroups(world mpi.Comm, node string) *Groups {
	g, _ := CheckedGroups(world, node, func(bool) error { return nil })
	return g
}

// CheckedGroups is NewGroups, and agrees on the error of check by a message that the ranks exchange anyway. check may be
// called twice. first says whether the caller is the first rank on its node. The groups have to be freed also after an error.
func CheckedGroups(world mpi.Comm, node string, check func(first bool) error) (g *Groups, err error) {
	g = &Groups{World: world, byName: map[string]*group{World: {Comm: world, largest: world.Size(), inRows: true}}}
	g.byName[Node], g.node, err = divideByString(world, node, true, check)
	return g, err
}

// Add makes a group of the ranks that give the same value. It is collective
// over the world.
func (g *Groups) Add(name, value string) {
	g.byName[name], _, _ = divideByString(g.World, value, false, func(bool) error { return nil })
}

// Comm returns the caller's group of a name.
func (g *Groups) Comm(name string) (mpi.Comm, error) {
	own, err := g.group(name)
	if err != nil {
		return nil, err
	}
	return own.Comm, nil
}

// NodeRanks returns the ranks in the world of the ranks on the caller's node, by their ranks
// in the group NODE.
func (g *Groups) NodeRanks() []int { return g.node }

func (g *Groups) group(name string) (*group, error) {
	own, ok := g.byName[name]
	if !ok {
		return nil, fmt.Errorf("there is no group %q; groups are %s, %s and those that GROUPS= lines of a configuration file define",
			name, Node, World)
	}
	return own, nil
}

// Free frees the communicators. It is collective over the world.
func (g *Groups) Free() {
	for _, name := range slices.Sorted(maps.Keys(g.byName)) {
		if name != World {
			g.byName[name].Free()
		}
	}
}

// divideByString divides the ranks of c into groups of equal strings. No rank gets the
// strings of all: ranks are split by a short digest, and in the rare case that different
// strings have the same, once more by the first rank that has their string. If listed is
// set, it also returns the ranks of the caller's group. The error is that of check, agreed.
//
// It splits c only, never a part of it: all ranks take part in each split, so that a rank
// that has revoked c leaves none waiting (mpi/system).
func divideByString(c mpi.Comm, value string, listed bool, check func(first bool) error) (*group, []int, error) {
	h := fnv.New32a()
	h.Write([]byte(value))
	own := c.Split(int(h.Sum32()&0x7fffffff), c.Rank())
	g, ranks, differ, err := describe(c, own, value, listed, check)
	if !differ || err != nil {
		return g, ranks, err
	}
	first := firstWith(own, value, c.Rank())
	own.Free()
	own = c.Split(first, c.Rank())
	g, ranks, _, err = describe(c, own, value, listed, check)
	return g, ranks, err
}

// describe finds out what the ranks of a group have to know about it and about the other
// groups. differ says whether any group has ranks with different values. It takes one reduction
// in the group, and one over all ranks, which also agrees on the error of check.
func describe(c, own mpi.Comm, value string, listed bool, check func(first bool) error) (g *group, ranks []int, differ bool, err error) {
	// The largest and the smallest of each: of the parts of a digest, of ranks.
	const parts = sha256.Size / 8
	digest := sha256.Sum256([]byte(value))
	var part [parts + 1]int64
	for i := range parts {
		part[i] = int64(binary.LittleEndian.Uint64(digest[8*i:]))
	}
	part[parts] = int64(c.Rank())
	var values []int64
	for _, v := range part {
		values = append(values, v, ^v)
	}
	n := len(values)
	if listed {
		values = append(values, make([]int64, own.Size())...)
		values[n+own.Rank()] = int64(c.Rank())
	}
	own.Allreduce(values, mpi.Max)
	for i := range parts {
		differ = differ || values[2*i] != ^values[2*i+1]
	}
	last, first := int(values[2*parts]), int(^values[2*parts+1])
	all := []int64{0, 0, int64(own.Size())}
	if differ {
		all[0] = 1
	}
	if last-first+1 != own.Size() {
		all[1] = 1
	}
	err = mpi.AgreeMax(c, check(own.Rank() == 0), all)
	for _, r := range values[n:] {
		ranks = append(ranks, int(r))
	}
	return &group{Comm: own, first: first, largest: int(all[2]), inRows: all[1] == 0}, ranks, all[0] == 1, err
}

// firstWith returns the first rank of a group that gives the same string. name is what the
// caller is to be called.
func firstWith(group mpi.Comm, value string, name int) (first int) {
	open := true // the rank has not been named yet
	for root := 0; root < group.Size(); {
		text := mpi.BcastBytes(group, fmt.Appendf(nil, "%d %s", name, value), root)
		number, its, _ := strings.Cut(string(text), " ")
		if open && its == value {
			open = false
			first, _ = strconv.Atoi(number) // it is one
		}
		next := group.Size()
		if open {
			next = group.Rank()
		}
		root = mpi.AllreduceOne(group, next, mpi.Min)
	}
	return first
}
