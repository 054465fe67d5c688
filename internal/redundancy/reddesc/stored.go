package reddesc

import (
	"fmt"

	"github.com/goscr/goscr/hash"
)

// Stored is a descriptor as it is stored with a dataset, in the filemap of its rank and in those
// of other members of the set. The keys are SCR's but for NODE:
//
//	ENABLED = 1
//	INDEX, INTERVAL, STORE, GROUP, TYPE, SET_SIZE, SET_FAILURES, HOP_DISTANCE   see Params
//	GROUPS, GROUP_ID       number of sets, and of the rank's set
//	GROUP_SIZE, GROUP_RANK members of that set, and the rank's place in it
//	NODE                   of the rank, in the filemaps of others
type Stored struct {
	Params
	Sets    int    `hash:"GROUPS"`
	Set     int    `hash:"GROUP_ID"`
	Members int    `hash:"GROUP_SIZE"`
	Member  int    `hash:"GROUP_RANK"`
	Node    string `hash:"NODE,omitempty"`
}

// Stored returns the descriptor in the form in which it is stored.
func (d *Descriptor) Stored() *Stored {
	return &Stored{Params: d.Params, Sets: d.sets, Set: d.id, Members: d.Set.Size(), Member: d.Set.Me()}
}

// protection returns what the sets of so many ranks tolerate, as far as the caller knows.
func (s *Stored) protection(ranks int) Protection {
	sets := min(max(s.Sets, 1), ranks)
	return protection(s.Params, place{smallest: ranks / sets, larger: ranks % sets})
}

// Hash encodes a descriptor.
func (s *Stored) Hash() *hash.Hash {
	h := hash.NewValues("ENABLED", "1")
	h.SetFields(s)
	return h
}

// FromHash decodes a descriptor; nil is none.
func FromHash(h *hash.Hash) *Stored {
	if h == nil {
		return nil
	}
	s := hash.As[Stored](h)
	return &s
}

// Made returns how many redundancy files the rank has once its dataset is protected, -1 if the
// descriptor is nil or has an unknown scheme.
func (s *Stored) Made() int {
	if s == nil {
		return -1
	}
	switch scheme, err := scheme(s.Type, s.Failures); {
	case err != nil:
		return -1
	case scheme.Tolerates(s.Members, []int{0}):
		return 1
	}
	return 0
}

// Tolerates reports whether the files of these members of the set can be rebuilt.
func (s *Stored) Tolerates(lost []int) bool {
	scheme, err := scheme(s.Type, s.Failures)
	return err == nil && scheme.Tolerates(s.Members, lost)
}

// String describes the protection.
func (s *Stored) String() string {
	scheme, err := scheme(s.Type, s.Failures)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s tolerates the loss of %d of the %d members of a set", scheme.Name(), scheme.Failures(s.Members), s.Members)
}
