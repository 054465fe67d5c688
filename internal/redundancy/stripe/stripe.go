// Package stripe is the engine of the schemes that compute redundancy: XOR and
// Reed-Solomon differ in arithmetic, not in how data moves.
//
// A set of N members bears the loss of any K of them. Each member's files, one
// after the other, are one logical file. It is cut into N-K chunks, which are
// the member's part of N-K columns; of the other K columns it keeps a chunk of
// redundancy each. With N = 5 and K = 2:
//
//	          member 0     member 1     member 2     member 3     member 4
//	column 0  redundancy 0 redundancy 1 chunk 0      chunk 0      chunk 0
//	column 1  chunk 0      redundancy 0 redundancy 1 chunk 1      chunk 1
//	column 2  chunk 1      chunk 0      redundancy 0 redundancy 1 chunk 2
//	column 3  chunk 2      chunk 1      chunk 1      redundancy 0 redundancy 1
//	column 4  redundancy 1 chunk 2      chunk 2      chunk 2      redundancy 0
//
// For K = 1 that is the layout of spec 004. Within a column, encoding and
// recovery are the same: from what some members have, what others shall have is
// computed as sums that travel from one to the next, each adding its part, and
// are delivered by the last (reduce.go). They differ only in who has and who
// shall have (plan.go).
package stripe

import (
	"slices"

	"github.com/goscr/goscr/internal/redundancy"
)

// Code is the arithmetic of a scheme. The shards of a column are counted from
// 0: first the members' chunks, in the order in which they come in the ring
// after those that keep redundancy, then the redundancy.
type Code interface {
	// Adder prepares to compute some shards of a column of n, k of them
	// redundancy, from n-k others.
	Adder(n, k int, from, wanted []int) (Adder, error)
}

// Adder adds parts of shards to the sums that become the wanted ones.
type Adder interface {
	// Add adds part, which is of from[i], to each of sums, all of its length.
	// first says that nothing has been added yet, whatever is in sums.
	Add(i int, first bool, part []byte, sums [][]byte)
}

// Scheme is a redundancy scheme that computes.
type Scheme struct {
	Type      string // value of TYPE in a descriptor and in descriptions of files
	Extension string // of redundancy files
	K         int    // losses it bears in a set
	Code      Code
}

var _ redundancy.Scheme = Scheme{}

// Name is the value of TYPE in a descriptor.
func (s Scheme) Name() string { return s.Type }

// Failures is K in a set of more than K members.
func (s Scheme) Failures(n int) int {
	if n <= s.K {
		return 0
	}
	return s.K
}

// Verify reads a member's files and redundancy and compares checksums.
func (s Scheme) Verify(j *redundancy.Job, files []redundancy.File) error {
	return redundancy.VerifyAll(files, j.Piece)
}

// Bears reports whether the loss of some members of a set of n can be borne.
func (s Scheme) Bears(n int, lost []int) bool { return len(lost) <= s.Failures(n) }

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
func (s Scheme) encoding(n int) ([]column, error) {
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
	return columns, s.prepare(columns, n)
}

// recovery is the plan by which what some members have lost is computed: in
// every column, from N-K of the others. Columns begin at different ones, so that
// all have about as much to do.
func (s Scheme) recovery(n int, lost []int) ([]column, error) {
	var survivors []int
	for d := 1; d <= n; d++ {
		if m := (lost[0] + d) % n; !slices.Contains(lost, m) {
			survivors = append(survivors, m)
		}
	}
	columns := make([]column, n)
	for c := range columns {
		columns[c].wanted = lost
		for i := range n - s.K {
			columns[c].from = append(columns[c].from, survivors[(c+i)%len(survivors)])
		}
	}
	return columns, s.prepare(columns, n)
}

func (s Scheme) prepare(columns []column, n int) error {
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
