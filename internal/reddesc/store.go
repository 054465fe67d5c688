package reddesc

import (
	"fmt"
	"os"

	"github.com/goscr/goscr/mpi"
)

// Views of a store.
const (
	Private = "PRIVATE" // each node has its own
	Global  = "GLOBAL"  // all ranks have the same
)

// Store is storage that can hold datasets, seen by one rank.
type Store struct {
	Name   string   // its directory on rank 0, which names it on all ranks
	Base   string   // its directory here
	Count  int      // most datasets it keeps
	Comm   mpi.Comm // ranks that share it, which is a group's
	Leader int      // the first of them, by its rank in the job
	Shared bool     // by ranks of several nodes
	SetBy  string   // the parameter that names it, and where its value is from
	World  bool     // by all ranks of the job: they can write parts of one file, and none is lost with a node
}

// NewStore describes a store. group names the ranks that share it; if it is "" view
// does, by default the ranks of a node. If create is set it makes Base if it is not
// there. It is collective over the groups' world; the result is agreed.
func NewStore(g *Groups, name, base string, count int, group, view string, create bool) (*Store, error) {
	if group == "" {
		group = map[string]string{Global: World}[view]
	}
	if group == "" {
		group = Node
	}
	c, err := g.Comm(group)
	if err == nil && view == Global && group != World {
		err = fmt.Errorf("VIEW=GLOBAL and GROUP=%s: what all ranks share has GROUP=%s", group, World)
	}
	if err == nil && !create {
		if info, e := os.Stat(base); e != nil || !info.IsDir() {
			err = fmt.Errorf("%s is not there, and is not made with MKDIR=0", base)
		}
	}
	if err != nil {
		err = fmt.Errorf("STORE=%s: %w", name, err)
	}
	if err := mpi.Agree(g.World, err); err != nil {
		return nil, err
	}
	leader, err := mpi.AllreduceOne(c, g.World.Rank(), mpi.Min)
	if err != nil {
		return nil, err
	}
	shared := group != Node
	return &Store{Name: name, Base: base, Count: count, Comm: c, Leader: leader, Shared: shared,
		World: shared && c.Size() == g.World.Size()}, nil
}
