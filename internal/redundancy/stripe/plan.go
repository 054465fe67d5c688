package stripe

import "slices"

// column is what has to be computed of one column, and from what.
type column struct {
	from   []int // members, in the order in which the sums travel
	wanted []int // members that get the results
	add    Adder
}

// geometry of a set: which shard of a column a member has.
type geometry struct{ n, k int }

// shard returns the number of a member's shard in a column.
func (g geometry) shard(c, member int) int {
	d := (member - c + g.n) % g.n
	if d < g.k {
		return g.n - g.k + d
	}
	return d - g.k
}

// redundant returns which of its chunks of redundancy a member keeps of a
// column, -1 if it has data in it.
func (g geometry) redundant(c, member int) int {
	if d := (member - c + g.n) % g.n; d < g.k {
		return d
	}
	return -1
}

// chunk returns which chunk of its logical file a member has in a column that
// it keeps no redundancy of.
func (g geometry) chunk(c, member int) int {
	before := 0
	for i := range c {
		if g.redundant(i, member) < 0 {
			before++
		}
	}
	return before
}

// encoding is the plan by which redundancy is computed: in every column, from
// the members with data, in the order of the ring.
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

// recovery is the plan by which what some members have lost is computed: in
// every column, from N-K of the others. Columns begin at different ones, so that
// all have about as much to do. If only is not nil, those in it get what is in
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

// prepare finds the arithmetic of the columns in which there is something to do.
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
