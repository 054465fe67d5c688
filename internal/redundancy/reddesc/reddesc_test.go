package reddesc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

// made is what the ranks of a job say of their sets.
type made struct {
	mu      sync.Mutex
	sets    map[string][]int // by the ranks of the set, written out
	hashes  map[int]*hash.Hash
	warning string
	kinds   map[int]string // scheme and losses that it tolerates, by rank

	protection Protection
}

func (m *made) sizes() []int {
	var sizes []int
	for _, ranks := range m.sets {
		sizes = append(sizes, len(ranks))
	}
	slices.Sort(sizes)
	slices.Reverse(sizes)
	return sizes
}

// create makes a descriptor with rank r on nodes[r].
func create(t testing.TB, nodes []string, p Params) *made {
	t.Helper()
	m := &made{sets: map[string][]int{}, hashes: map[int]*hash.Hash{}, kinds: map[int]string{}}
	_, err := local.Run(len(nodes), local.Options{}, func(world mpi.Comm) error {
		g := NewGroups(world, nodes[world.Rank()])
		d, warning, err := Create(g, p)
		if err != nil {
			return err
		}
		m.mu.Lock()
		differ := len(m.kinds) > 0 && warning != m.warning
		m.sets[fmt.Sprint(d.Set.Ranks)] = d.Set.Ranks
		m.hashes[world.Rank()] = d.Stored().Hash()
		m.warning, m.protection = warning, d.Protection
		m.kinds[world.Rank()] = fmt.Sprint(d.Scheme.Name(), d.Scheme.Failures(d.Set.Size()))
		m.mu.Unlock()
		if differ {
			return fmt.Errorf("warning %q, another rank has another", warning)
		}
		if d.Set.Ranks[d.Set.Me()] != world.Rank() || d.Set.ID != slices.Min(d.Set.Ranks) {
			return fmt.Errorf("set %d: %v, I am member %d", d.Set.ID, d.Set.Ranks, d.Set.Me())
		}
		d.Free()
		g.Free()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func placed(perNode ...int) []string {
	var nodes []string
	for n, ranks := range perNode {
		for range ranks {
			nodes = append(nodes, fmt.Sprint("node", n))
		}
	}
	return nodes
}

func repeat(n, per int) []int { return slices.Repeat([]int{per}, n) }

func xorOf(size int) Params { return Params{Interval: 1, Group: Node, Type: "XOR", SetSize: size} }

func TestCreate_SizesOfSets(t *testing.T) {
	for _, c := range []struct {
		perNode []int
		size    int
		want    string
	}{
		{repeat(2, 1), 8, "[2]"},
		{repeat(3, 1), 8, "[3]"},
		{repeat(8, 1), 8, "[8]"},
		{repeat(15, 1), 8, "[15]"},
		{repeat(16, 1), 8, "[8 8]"},
		{repeat(17, 1), 8, "[9 8]"},
		{repeat(24, 1), 8, "[8 8 8]"},
		{repeat(31, 1), 8, "[11 10 10]"},
		{repeat(7, 1), 2, "[3 2 2]"},
		{repeat(8, 4), 8, "[8 8 8 8]"},
		{repeat(4, 3), 8, "[4 4 4]"},
		{repeat(16, 2), 8, "[8 8 8 8]"},
		{[]int{3, 2, 1}, 8, "[2 2 2]"},
		{[]int{2, 1, 1}, 8, "[2 2]"},
		{[]int{1, 1, 1, 5}, 8, "[2 2 2 1 1]"},
	} {
		m := create(t, placed(c.perNode...), xorOf(c.size))
		if got := fmt.Sprint(m.sizes()); got != c.want {
			t.Errorf("%v ranks a node, SET_SIZE=%d: sets of %v, want %v", c.perNode, c.size, got, c.want)
		}
	}
}

// Each set has the best that its size allows, and those that fall short are
// told, with what they have.
func TestCreate_BestForEachSet(t *testing.T) {
	for _, c := range []struct {
		perNode []int
		p       Params
		want    string // scheme of each rank
		says    []string
	}{
		{[]int{1, 1, 1, 5}, Params{Type: "XOR"}, "XOR1 XOR1 XOR1 SINGLE0 SINGLE0 XOR1 XOR1 XOR1",
			[]string{"CKPT=3 asks for XOR in groups NODE", "2 with a single member kept with SINGLE", "of 5 sets"}},
		{[]int{2, 2, 3}, Params{Type: "RS"}, "RS2 XOR1 XOR1 RS2 XOR1 XOR1 RS2", []string{"asks for RS in", "2 with 2 members kept with XOR for the loss of 1"}},
		{[]int{1, 1, 1}, Params{Type: "RS", Failures: 5}, "RS2 RS2 RS2", []string{"RS for 5 losses", "1 with 3 members kept with RS for the loss of 2"}},
		{[]int{2, 2, 2}, Params{Type: "PARTNER", Failures: 3}, "PARTNER2 PARTNER2 PARTNER2 PARTNER2 PARTNER2 PARTNER2",
			[]string{"2 with 3 members kept with PARTNER for the loss of 2"}},
		{[]int{2}, Params{Type: "PARTNER"}, "SINGLE0 SINGLE0", []string{"all ranks run on one node: SINGLE replaces PARTNER (CKPT=3)", "run on more nodes"}},
		{[]int{2, 2, 2}, Params{Type: "RS"}, "RS2 RS2 RS2 RS2 RS2 RS2", nil},
	} {
		c.p.Group, c.p.SetSize, c.p.SetBy = Node, 8, "CKPT=3"
		nodes := placed(c.perNode...)
		m := create(t, nodes, c.p)
		var kinds []string
		for r := range nodes {
			kinds = append(kinds, m.kinds[r])
		}
		if got := strings.Join(kinds, " "); got != c.want {
			t.Errorf("%v ranks a node, %+v: %s, want %s", c.perNode, c.p, got, c.want)
		}
		if (m.warning == "") != (c.says == nil) {
			t.Errorf("%v ranks a node, %+v: warning %q", c.perNode, c.p, m.warning)
		}
		for _, text := range c.says {
			if !strings.Contains(m.warning, text) {
				t.Errorf("%v ranks a node, %+v: warning %q does not say %q", c.perNode, c.p, m.warning, text)
			}
		}
		_, err := local.Run(len(nodes), local.Options{}, func(world mpi.Comm) error {
			d, err := Restore(world, FromHash(m.hashes[world.Rank()]))
			if err != nil {
				return err
			}
			if got := fmt.Sprint(d.Scheme.Name(), d.Scheme.Failures(d.Set.Size())); got != kinds[world.Rank()] {
				return fmt.Errorf("made again it is %s, was %s", got, kinds[world.Rank()])
			}
			if m.warning == "" && d.Protection != m.protection {
				return fmt.Errorf("made again it is protected with %s, was with %s", d.Protection, m.protection)
			}
			d.Free()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Reed-Solomon has no sets of more members than it can compute with, whatever
// is asked for.
func TestCreate_LargeSetsOfRS(t *testing.T) {
	m := create(t, placed(repeat(300, 1)...), Params{Type: "RS", Group: Node, SetSize: 300})
	if got := fmt.Sprint(m.sizes()); got != "[150 150]" {
		t.Errorf("sets of %s", got)
	}
}

// Wherever the ranks are, no two members of a set are on one node, the sizes of
// sets differ by one at most, and none is smaller than it has to be.
func TestCreate_AnyPlacement(t *testing.T) {
	const seed = 11
	for round := range 120 {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		nodes := make([]string, 1+random.IntN(40))
		different := 1 + random.IntN(12)
		on := map[string]int{}
		for r := range nodes {
			nodes[r] = fmt.Sprint("n", random.IntN(different))
			on[nodes[r]]++
		}
		if round%2 == 0 { // as most launchers place ranks: those of a node follow one another
			slices.Sort(nodes)
		}
		largest := 0
		for _, ranks := range on {
			largest = max(largest, ranks)
		}
		size := 1 + random.IntN(9)
		m := create(t, nodes, xorOf(size))
		size = max(size, 2)
		what := fmt.Sprintf("seed %d, round %d, ranks on %v, SET_SIZE=%d: sets %v", seed, round, nodes, size, m.sets)
		alone := 0
		for _, kind := range m.kinds {
			if kind != "XOR1" {
				alone++
			}
		}
		// Each rank of the largest group needs one of another for company.
		if alone != max(2*largest-len(nodes), 0) && len(nodes) > 1 || (alone > 0) != (m.warning != "") {
			t.Fatalf("%s: %d are alone, %d in the largest group; %s", what, alone, largest, m.warning)
		}
		seen := map[int]bool{}
		for _, ranks := range m.sets {
			members := map[string]bool{}
			for _, r := range ranks {
				if seen[r] || members[nodes[r]] {
					t.Fatalf("%s: rank %d is in two sets, or two ranks of a set share a node", what, r)
				}
				seen[r], members[nodes[r]] = true, true
			}
		}
		if len(seen) != len(nodes) {
			t.Fatalf("%s: %d of %d ranks are in a set", what, len(seen), len(nodes))
		}
		sizes := m.sizes()
		first, last := sizes[0], sizes[len(sizes)-1]
		if first-last > 1 {
			t.Fatalf("%s: sizes from %d to %d", what, last, first)
		}
		// A set can have so many members if every node has at most as many
		// ranks as there are sets.
		if possible := min(size, len(nodes)/largest); last < possible {
			t.Fatalf("%s: a set has %d members, %d are possible", what, last, possible)
		}
	}
}

// A later run, with the ranks on other nodes, has the sets of the first.
func TestRestore_SameSetsAfterRanksMoved(t *testing.T) {
	for _, p := range []Params{xorOf(2), xorOf(8), {Interval: 3, Index: 1, Group: Node, Type: "SINGLE", SetSize: 4, Store: "/store"}} {
		nodes := placed(3, 2, 3, 1, 3)
		m := create(t, nodes, p)
		_, err := local.Run(len(nodes), local.Options{}, func(world mpi.Comm) error {
			d, err := Restore(world, FromHash(m.hashes[world.Rank()]))
			if err != nil {
				return err
			}
			if _, ok := m.sets[fmt.Sprint(d.Set.Ranks)]; !ok {
				return fmt.Errorf("set %v is not one of %v", d.Set.Ranks, m.sets)
			}
			if !d.Stored().Hash().Equal(m.hashes[world.Rank()]) || d.Interval != p.Interval || d.Store != p.Store || d.Scheme.Name() != p.Type {
				return fmt.Errorf("%+v", d)
			}
			d.Free()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// What a rank has lost, or what was changed on disk, is an error on all ranks.
func TestRestore_Refuses(t *testing.T) {
	nodes := placed(repeat(6, 1)...)
	m := create(t, nodes, xorOf(3))
	for name, change := range map[string]func(h *hash.Hash) *hash.Hash{
		"lost":             func(*hash.Hash) *hash.Hash { return nil },
		"empty":            func(*hash.Hash) *hash.Hash { return hash.New() },
		"unknown scheme":   func(h *hash.Hash) *hash.Hash { h.SetValue("TYPE", "TAPE"); return h },
		"another scheme":   func(h *hash.Hash) *hash.Hash { h.SetValue("TYPE", "PARTNER"); return h },
		"another set":      func(h *hash.Hash) *hash.Hash { h.SetInt("GROUP_ID", 1-mustInt(h, "GROUP_ID")); return h },
		"a set of its own": func(h *hash.Hash) *hash.Hash { h.SetInt("GROUP_ID", 17); return h },
		"set of 40 bits":   func(h *hash.Hash) *hash.Hash { h.SetInt("GROUP_ID", 1<<40); return h },
		"member of 40":     func(h *hash.Hash) *hash.Hash { h.SetInt("GROUP_RANK", 1<<40); return h },
		"negative set":     func(h *hash.Hash) *hash.Hash { h.SetInt("GROUP_ID", -1); return h },
		"another member":   func(h *hash.Hash) *hash.Hash { h.SetInt("GROUP_RANK", mustInt(h, "GROUP_RANK")+1); return h },
		"another size":     func(h *hash.Hash) *hash.Hash { h.SetInt("GROUP_SIZE", 2); return h },
	} {
		for who := range 6 {
			failures := make([]error, 6)
			_, err := local.Run(6, local.Options{}, func(world mpi.Comm) error {
				h := m.hashes[world.Rank()].Clone()
				if world.Rank() == who {
					h = change(h)
				}
				_, failures[world.Rank()] = Restore(world, FromHash(h))
				return nil
			})
			if err != nil {
				t.Fatalf("%s on rank %d: %v", name, who, err)
			}
			for rank, err := range failures {
				if err == nil {
					t.Errorf("%s on rank %d: rank %d has a descriptor", name, who, rank)
				}
			}
		}
	}
}

func mustInt(h *hash.Hash, key string) int64 {
	n, ok := h.Int(key)
	if !ok {
		panic(key)
	}
	return n
}

func TestCreate_Refuses(t *testing.T) {
	for _, c := range []struct {
		p    Params
		says string
	}{
		{Params{Group: Node, Type: "RS", SetSize: 8, Failures: -1}, "SET_FAILURES"},
		{Params{Group: Node, Type: "XOR", SetSize: 8, Hop: -1}, "HOP_DISTANCE"},
		{Params{Group: Node, Type: "TAPE", SetSize: 8}, "no redundancy scheme"},
		{Params{Group: "RACK", Type: "XOR", SetSize: 8}, "no group"},
		{Params{Group: Node, Type: "XOR", SetSize: 0}, "at least 1"},
	} {
		_, err := local.Run(3, local.Options{}, func(world mpi.Comm) error {
			g := NewGroups(world, fmt.Sprint(world.Rank()))
			if _, _, err := Create(g, c.p); err == nil || !strings.Contains(err.Error(), c.says) {
				return fmt.Errorf("%+v: %v, want %q", c.p, err, c.says)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestGroups_OfEqualNames(t *testing.T) {
	// These two have one FNV-32a hash.
	nodes := []string{"costarring", "liquid", "costarring", "liquid", "other", "", "costarring"}
	_, err := local.Run(len(nodes), local.Options{}, func(world mpi.Comm) error {
		g := NewGroups(world, nodes[world.Rank()])
		c, err := g.Comm(Node)
		if err != nil {
			return err
		}
		want, before := 0, 0
		for r, n := range nodes {
			if n == nodes[world.Rank()] {
				want++
				if r < world.Rank() {
					before++
				}
			}
		}
		if c.Size() != want || c.Rank() != before {
			return fmt.Errorf("rank %d of %d on node %q, want %d of %d", c.Rank(), c.Size(), nodes[world.Rank()], before, want)
		}
		for i, r := range g.NodeRanks() {
			if nodes[r] != nodes[world.Rank()] || i > 0 && r <= g.NodeRanks()[i-1] || (r == world.Rank()) != (i == c.Rank()) {
				return fmt.Errorf("ranks %v of node %q", g.NodeRanks(), nodes[world.Rank()])
			}
		}
		if len(g.NodeRanks()) != want {
			return fmt.Errorf("ranks %v of node %q", g.NodeRanks(), nodes[world.Rank()])
		}
		if w, err := g.Comm(World); err != nil || w.Size() != len(nodes) {
			return fmt.Errorf("group WORLD: %v", err)
		}
		g.Free()
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestPick(t *testing.T) {
	var list []*Descriptor
	for _, n := range []int{1, 0, 4, 2} {
		list = append(list, &Descriptor{Params: Params{Interval: n}})
	}
	for number, want := range map[int]int{1: 1, 2: 2, 3: 1, 4: 4, 6: 2, 8: 4} {
		if got := Pick(list, number).Interval; got != want {
			t.Errorf("checkpoint %d: interval %d, want %d", number, got, want)
		}
	}
	if Pick(list[1:3], 3) != nil {
		t.Error("checkpoint 3 has a descriptor of interval 4")
	}
}

// Schemes are made with the losses asked for, and with the best that the groups
// there are allow.
func TestCreate_Schemes(t *testing.T) {
	for _, c := range []struct {
		p        Params
		ranks    int
		scheme   string
		failures int
		warns    bool
	}{
		{Params{Type: "SINGLE"}, 4, "SINGLE", 0, false},
		{Params{Type: "LOCAL"}, 4, "SINGLE", 0, false},
		{Params{Type: "xor"}, 4, "XOR", 1, false},
		{Params{Type: "PARTNER"}, 4, "PARTNER", 1, false},
		{Params{Type: "PARTNER", Failures: 3}, 4, "PARTNER", 3, false},
		{Params{Type: "RS"}, 4, "RS", 2, false},
		{Params{Type: "RS", Failures: 3}, 4, "RS", 3, false},
		{Params{Type: "RS", Failures: 1}, 4, "XOR", 1, false},
		{Params{Type: "RS", Failures: 4}, 4, "RS", 3, true},
		{Params{Type: "PARTNER", Failures: 4}, 4, "PARTNER", 3, true},
		{Params{Type: "RS"}, 2, "XOR", 1, true},
		{Params{Type: "PARTNER"}, 1, "SINGLE", 0, true},
	} {
		c.p.Group, c.p.SetSize = Node, 8
		_, err := local.Run(c.ranks, local.Options{}, func(world mpi.Comm) error {
			g := NewGroups(world, fmt.Sprint(world.Rank()))
			d, warning, err := Create(g, c.p)
			if err != nil {
				return err
			}
			if d.Scheme.Name() != c.scheme || d.Scheme.Failures(d.Set.Size()) != c.failures || (warning != "") != c.warns {
				return fmt.Errorf("%+v over %d: %s for %d losses, warning %q", c.p, c.ranks, d.Scheme.Name(), d.Scheme.Failures(d.Set.Size()), warning)
			}
			again, err := Restore(world, d.Stored())
			if err != nil {
				return err
			}
			if again.Scheme.Name() != c.scheme || again.Scheme.Failures(again.Set.Size()) != c.failures {
				return fmt.Errorf("%+v: stored and made again it is %s for %d losses", c.p, again.Scheme.Name(), again.Scheme.Failures(again.Set.Size()))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// With a distance of 3 over 12 nodes, neighbours in a set of all are 3 nodes
// apart, except where the count goes round.
func TestCreate_HopDistance(t *testing.T) {
	const nodes, hop = 12, 3
	_, err := local.Run(nodes, local.Options{}, func(world mpi.Comm) error {
		g := NewGroups(world, fmt.Sprint(world.Rank()))
		d, _, err := Create(g, Params{Type: "XOR", Group: Node, SetSize: nodes, Hop: hop})
		if err != nil {
			return err
		}
		far := 0
		for i, r := range d.Set.Ranks[1:] {
			if r-d.Set.Ranks[i] == hop {
				far++
			}
		}
		if far != nodes-hop {
			return fmt.Errorf("set %v", d.Set.Ranks)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A descriptor that was stored uses the set of this run if that is the same on all ranks, also if other settings differ.
func TestReuse(t *testing.T) {
	const nodes = 8
	_, err := local.Run(nodes, local.Options{}, func(world mpi.Comm) error {
		g := NewGroups(world, fmt.Sprint(world.Rank()))
		create := func(p Params) *Descriptor {
			p.Group = Node
			d, _, err := Create(g, p)
			if err != nil {
				panic(err)
			}
			return d
		}
		pairs, xor := create(Params{Type: "PARTNER", SetSize: 2}), create(Params{Type: "XOR", SetSize: 4})
		current := []*Descriptor{pairs, xor}
		reuse := func(change func(s *Stored)) *Descriptor {
			s := xor.Stored()
			change(s)
			return Reuse(world, s, current)
		}
		d := reuse(func(s *Stored) { s.Index, s.Interval, s.Store, s.Hop, s.Node = 7, 3, "/old", 1, "elsewhere" })
		if d == nil || d.Set != xor.Set || d.Store != "/old" || *d.Stored() == *xor.Stored() {
			return fmt.Errorf("%+v", d)
		}
		if again, err := Restore(world, d.Stored()); err != nil || d.Protection != again.Protection || !slices.Equal(d.Set.Ranks, again.Set.Ranks) || d.Set.ID != again.Set.ID || d.Scheme.Name() != again.Scheme.Name() {
			return fmt.Errorf("%+v, made again %+v: %v", d, again, err)
		}
		d.Free()
		xor.Set.Comm.Barrier() // is still there
		last := world.Rank() == nodes-1
		for i, change := range []func(s *Stored){
			func(s *Stored) { s.Type = "RS" },
			func(s *Stored) { s.Failures++ },
			func(s *Stored) { s.Sets++ },
			func(s *Stored) { s.Members++ },
			func(s *Stored) { s.Member = nodes - s.Member },
			func(s *Stored) { s.Set = nodes - s.Set },
		} {
			if d := reuse(func(s *Stored) {
				if last {
					change(s)
				}
			}); d != nil {
				return fmt.Errorf("change %d: %+v", i, d)
			}
		}
		s := xor.Stored()
		if last {
			s = nil // it is lost
		}
		if d := Reuse(world, s, current); d != nil {
			return fmt.Errorf("lost on a rank: %+v", d)
		}
		if d := Reuse(world, xor.Stored(), nil); d != nil {
			return fmt.Errorf("this run has none: %+v", d)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
