package session

import (
	"slices"
	"strings"
	"testing"
)

func TestWish(t *testing.T) {
	hosts := []string{"a", "a", "b", "b"} // of ranks 0 to 3
	for _, c := range []struct {
		name  string
		to    []Destination
		ranks []int
		onto  []string
	}{
		{"all to spare nodes", []Destination{{2, "", -1}, {3, "", -1}}, []int{2, 3}, nil},
		{"all to one node", []Destination{{2, "c", -1}, {3, "c", 0}}, []int{2, 3}, []string{"c", "c"}},
		{"each near another", []Destination{{0, "", 2}, {3, "", 1}}, []int{0, 3}, []string{"b", "a"}},
		{"some stay", []Destination{{0, "", -1}, {1, "c", -1}, {2, "", -1}, {3, "", 0}}, []int{1, 3}, []string{"c", "a"}},
	} {
		w, err := wish(c.to, hosts)
		if err != nil || !slices.Equal(w.Ranks, c.ranks) || !slices.Equal(w.Onto, c.onto) || w.Off != nil {
			t.Errorf("%s: %+v, %v", c.name, w, err)
		}
	}
	if _, err := wish([]Destination{{0, "", 4}}, hosts); err == nil || !strings.Contains(err.Error(), "there is no rank 4") {
		t.Error(err)
	}
}
