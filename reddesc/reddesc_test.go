package reddesc

import (
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
)

func stored(scheme string, failures, members, member int) *hash.Hash {
	s := reddesc.Stored{Params: reddesc.Params{Type: scheme, Failures: failures, Group: "NODE"}, Sets: 2, Set: 1, Members: members, Member: member}
	return s.Hash()
}

func TestBears(t *testing.T) {
	for _, test := range []struct {
		scheme   string
		failures int
		lost     []int
		want     bool
	}{
		{"SINGLE", 0, nil, true}, {"SINGLE", 0, []int{0}, false},
		{"XOR", 0, []int{3}, true}, {"XOR", 0, []int{0, 3}, false},
		{"PARTNER", 1, []int{0, 2}, true}, {"PARTNER", 1, []int{0, 1}, false},
		{"RS", 2, []int{0, 1}, true}, {"RS", 2, []int{0, 1, 2}, false},
	} {
		d := FromHash(stored(test.scheme, test.failures, 4, 0))
		if d == nil || d.Members != 4 || d.Set != 1 || d.Group != "NODE" {
			t.Fatalf("%s: %+v", test.scheme, d)
		}
		if got := d.Tolerates(test.lost); got != test.want {
			t.Errorf("%s of 4 without %v: %v", test.scheme, test.lost, got)
		}
	}
}

// A descriptor that contradicts itself is none: programs index their lists by its numbers.
func TestFromHash_Bad(t *testing.T) {
	for name, h := range map[string]*hash.Hash{
		"none": nil, "unknown scheme": stored("FOO", 0, 4, 0), "a member outside of the set": stored("XOR", 0, 4, 4), "no members": stored("XOR", 0, 0, 0),
		"a negative member": stored("XOR", 0, 4, -1), "empty": hash.New(),
	} {
		if d := FromHash(h); d != nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
