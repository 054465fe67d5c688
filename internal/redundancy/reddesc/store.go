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
// does, by default the ranks of a node. If create is set Base need not be there. It is not
// collective, but all ranks of the groups' world make the same stores in the same order; an
// error may be one of the caller only.
func NewStore(g *Groups, name, base string, count int, group, view string, create bool) (*Store, error) {
	if group == "" {
		group = map[string]string{Global: World}[view]
	}
	if group == "" {
		group = Node
	}
	own, err := g.group(group)
	if err == nil && view == Global && group != World {
		err = fmt.Errorf("VIEW=GLOBAL and GROUP=%s: what all ranks share has GROUP=%s", group, World)
	}
	if err == nil && !create {
		if info, e := os.Stat(base); e != nil || !info.IsDir() {
			err = fmt.Errorf("%s is not there, and is not made with MKDIR=0", base)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("STORE=%s: %w", name, err)
	}
	shared := group != Node
	return &Store{Name: name, Base: base, Count: count, Comm: own.Comm, Leader: own.first, Shared: shared,
		World: shared && own.Size() == g.World.Size()}, nil
}

// ShareAmongAll records that all ranks of the job share the store, whatever its group is.
func (s *Store) ShareAmongAll(world mpi.Comm) {
	s.Comm, s.Leader, s.Shared, s.World = world, 0, true, true
}
