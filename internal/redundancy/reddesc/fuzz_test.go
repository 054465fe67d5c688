package reddesc

import (
	"testing"

	"github.com/goscr/goscr/hash"
)

// Any tree is read as a descriptor, which can be described and written again.
func FuzzStored(f *testing.F) {
	for _, s := range []*Stored{
		{Params: Params{Type: "XOR", Store: "/dev/shm", Group: "NODE", SetSize: 8, Hop: 1}, Sets: 1, Members: 4, Member: 2, Node: "a"},
		{Params: Params{Type: "RS", Failures: 2}, Sets: 2, Set: 1, Members: 1 << 20},
		{Params: Params{Type: "PARTNER", Failures: 1 << 30}, Members: -1, Member: -5},
	} {
		f.Add(s.Hash().Pack(nil))
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		h, _, err := hash.Unpack(packed)
		if err != nil {
			return
		}
		s := FromHash(h)
		if text := s.String(); text == "" {
			t.Error("nothing is said")
		}
		if again := FromHash(s.Hash()); *again != *s {
			t.Errorf("%+v is read as %+v", *s, *again)
		}
	})
}
