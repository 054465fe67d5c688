// Package reddesc reads redundancy descriptors, which say how the files of a rank are protected:
// by which scheme, and in which set of ranks.
//
// A descriptor is stored with a dataset in the filemap of its rank, and in those of other
// members of its set, so that it is known after a node is lost (SCR Developer Guide,
// "Redundancy descriptors"). Package filemap returns those of a node's cache.
package reddesc

import (
	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
)

// Descriptor is the protection of a rank's files.
type Descriptor struct {
	Scheme   string // SINGLE, PARTNER, XOR or RS
	Failures int    // lost members that RS and PARTNER were asked to tolerate; 0: their default
	Store    string // storage of the cache
	Group    string // what fails together, as NODE: no set has two ranks of one group
	Sets     int    // number of sets in the job
	Set      int    // number of the rank's set, from 0
	Members  int    // ranks in that set
	Member   int    // place of the rank in it, from 0
}

// FromHash returns the descriptor in h, nil if h is nil or has none that can be used.
func FromHash(h *hash.Hash) *Descriptor {
	s := reddesc.FromHash(h)
	if s == nil || s.Made() < 0 || s.Member < 0 || s.Member >= s.Members || s.Set < 0 || s.Set >= s.Sets {
		return nil
	}
	return &Descriptor{Scheme: s.Type, Failures: s.Failures, Store: s.Store, Group: s.Group,
		Sets: s.Sets, Set: s.Set, Members: s.Members, Member: s.Member}
}

// Tolerates reports whether the files of these members of the set can be rebuilt from those of the
// others. A member is lost if any of its files is, or its redundancy file.
func (d *Descriptor) Tolerates(lost []int) bool {
	s := reddesc.Stored{Params: reddesc.Params{Type: d.Scheme, Failures: d.Failures}, Members: d.Members}
	return s.Tolerates(lost)
}
