package stripe

import "slices"

// column says which shards of one column are computed, and from which.
type column struct {
	from   []int // members, in the order in which they add to the sums
	wanted []int // members that get the results
	add    Adder
}

// geometry maps the members of a set to the shards of a column.
type geometry struct{ n, k int }

// shard returns the number of a member's shard in a column.
func (g geometry) shard(c, member int) int {
	d := (member - c + g.n) % g.n
	if d < g.k {
		return g.n - g.k + d
	}
	return d - g.k
}

// redundant returns the number of the redundancy chunk that a member has in a
// column, -1 if it has data there.
func (g geometry) redundant(c, member int) int {
	if d := (member - c + g.n) % g.n; d < g.k {
		return d
	}
	return -1
}

// chunk returns the number of the chunk of its logical file that a member has in a
// column in which it has no redundancy.
func (g geometry) chunk(c, member int) int {
	before := 0
	for i := range c {
		if g.redundant(i, member) < 0 {
			before++
		}
	}
	return before
}

// encoding returns the plan to compute redundancy: in every column, from the members
// with data, in the order of the ring.
func (s Set) encoding() ([]column, error) {
	n := s.Comm.Size()
	columns := make([]column, n)
	for c := range columns {
		for d := range n {
			m := (c + d) % n
			if d < s.K {
				columns[c].wanted = append(columns[c].wanted, m)
			} else {
				columns[c].from = append(columns[c].from, m)
			}
		}
	}
	return columns, s.prepare(columns)
}

// recovery returns the plan to compute the shards of lost members: in every column,
// from N-K of the others. Columns begin at different members, so that all have about
// as much work. If only is not nil, the members in it get their shards of the
// columns in which one of them has data.
func (s Set) recovery(lost, only []int) ([]column, error) {
	n := s.Comm.Size()
	g := geometry{n, s.K}
	var survivors []int
	for d := 1; d <= n; d++ {
		if m := (lost[0] + d) % n; !slices.Contains(lost, m) {
			survivors = append(survivors, m)
		}
	}
	columns := make([]column, n)
	for c := range columns {
		columns[c].wanted = lost
		if only != nil {
			columns[c].wanted = only
			if !slices.ContainsFunc(only, func(m int) bool { return g.redundant(c, m) < 0 }) {
				columns[c].wanted = nil
				continue
			}
		}
		for i := range n - s.K {
			columns[c].from = append(columns[c].from, survivors[(c+i)%len(survivors)])
		}
	}
	return columns, s.prepare(columns)
}

// prepare finds the arithmetic of the columns of which shards are computed.
func (s Set) prepare(columns []column) error {
	n := len(columns)
	g := geometry{n, s.K}
	for c := range columns {
		if len(columns[c].wanted) == 0 {
			continue
		}
		shards := func(members []int) []int {
			list := make([]int, len(members))
			for i, m := range members {
				list[i] = g.shard(c, m)
			}
			return list
		}
		var err error
		columns[c].add, err = s.Code.Adder(n, s.K, shards(columns[c].from), shards(columns[c].wanted))
		if err != nil {
			return err
		}
	}
	return nil
}
