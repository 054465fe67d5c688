package reddesc

import (
	"fmt"

	"github.com/goscr/goscr/hash"
)

// A descriptor is stored, in the filemap of its rank and in those of other members
// of the set, under these keys, which are SCR's but for NODE:
const (
	keyEnabled   = "ENABLED" // 1
	keyIndex     = "INDEX"
	keyInterval  = "INTERVAL"
	keyStore     = "STORE"
	keyGroup     = "GROUP"
	keyType      = "TYPE"
	keySetSize   = "SET_SIZE"
	keyFailures  = "SET_FAILURES"
	keyHop       = "HOP_DISTANCE"
	keyGroups    = "GROUPS"     // number of sets
	keyGroupID   = "GROUP_ID"   // number of the rank's
	keyGroupSize = "GROUP_SIZE" // members of it
	keyGroupRank = "GROUP_RANK" // the rank in the set
	keyNode      = "NODE"       // of the rank, in the filemaps of others
)

// Stored is a descriptor as it is stored with a dataset.
type Stored struct {
	Params
	Sets, Set       int    // number of sets, and of the rank's set
	Members, Member int    // of that set, and the rank's place in it
	Node            string // of the rank, "" if that is not recorded
}

// Stored returns the descriptor in the form in which it is stored.
func (d *Descriptor) Stored() *Stored {
	return &Stored{Params: d.Params, Sets: d.sets, Set: d.id, Members: d.Set.Size(), Member: d.Set.Me()}
}

// Hash encodes a descriptor.
func (s *Stored) Hash() *hash.Hash {
	h := hash.New()
	h.SetInt(keyEnabled, 1)
	h.SetInt(keyIndex, int64(s.Index))
	h.SetInt(keyInterval, int64(s.Interval))
	h.SetValue(keyStore, s.Store)
	h.SetValue(keyGroup, s.Group)
	h.SetValue(keyType, s.Type)
	h.SetInt(keySetSize, int64(s.SetSize))
	h.SetInt(keyFailures, int64(s.Failures))
	h.SetInt(keyHop, int64(s.Hop))
	h.SetInt(keyGroups, int64(s.Sets))
	h.SetInt(keyGroupID, int64(s.Set))
	h.SetInt(keyGroupSize, int64(s.Members))
	h.SetInt(keyGroupRank, int64(s.Member))
	if s.Node != "" {
		h.SetValue(keyNode, s.Node)
	}
	return h
}

// FromHash decodes a descriptor; nil is none.
func FromHash(h *hash.Hash) *Stored {
	if h == nil {
		return nil
	}
	number := func(key string) int {
		n, _ := h.Int(key)
		return int(n)
	}
	return &Stored{
		Params: Params{
			Index: number(keyIndex), Interval: number(keyInterval), Store: h.Text(keyStore),
			Group: h.Text(keyGroup), Type: h.Text(keyType), SetSize: number(keySetSize),
			Failures: number(keyFailures), Hop: number(keyHop),
		},
		Sets: number(keyGroups), Set: number(keyGroupID),
		Members: number(keyGroupSize), Member: number(keyGroupRank),
		Node: h.Text(keyNode),
	}
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
	case scheme.Bears(s.Members, []int{0}):
		return 1
	}
	return 0
}

// Bears reports whether the files of these members of the set can be rebuilt.
func (s *Stored) Bears(lost []int) bool {
	scheme, err := scheme(s.Type, s.Failures)
	return err == nil && scheme.Bears(s.Members, lost)
}

// String describes the protection.
func (s *Stored) String() string {
	scheme, err := scheme(s.Type, s.Failures)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s tolerates the loss of %d of the %d members of a set", scheme.Name(), scheme.Failures(s.Members), s.Members)
}
