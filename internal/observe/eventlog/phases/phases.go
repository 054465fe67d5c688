// Package phases measures on all ranks how long the phases of a checkpoint take, and logs
// the least, the median and the most of them, and which rank and node was slowest.
//
// All phases of a call are measured by one reduction, a maximum of 66 numbers a phase. Two
// of them give the most, with its rank, and the least, over all ranks. The others are a
// sample of at most 64 ranks at equal distances; their median is that of all ranks in a
// job of up to 64, and an estimate in a larger one. The slowest rank tells rank 0 its node
// in a message of its own, once in a session.
package phases

import (
	"math"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// Phase is the caller's part of a phase. Type, Note, Start and Bytes are logged as rank 0
// has them.
type Phase struct {
	Type  string // WRITE, ENCODE, …
	Note  string
	Start time.Time
	Value float64 // seconds; percent if Type is FILL
	Bytes *int64
}

// Took is a Phase of the caller that began at start and has taken some time since.
func Took(name string, start time.Time, took time.Duration) Phase {
	return Phase{Type: name, Start: start, Value: took.Seconds()}
}

// Meter measures phases on the ranks of a session. Methods of a nil Meter do nothing.
type Meter struct {
	world  mpi.Comm
	events *eventlog.Log  // on rank 0
	node   string         // of the caller
	told   bool           // rank 0 knows node
	nodes  map[int]string // on rank 0: those that ranks have told
}

// New returns a Meter, or nil if enabled is false. enabled is the same on all ranks.
func New(world mpi.Comm, node string, enabled bool, events *eventlog.Log) *Meter {
	if !enabled {
		return nil
	}
	return &Meter{world: world, events: events, node: node, nodes: map[int]string{0: node}}
}

const (
	sample   = 64 // most ranks of which the median is taken
	width    = 2 + sample
	unit     = 1e6 // numbers that are reduced have six decimals
	rankBits = 24  // of a number that also has a rank
	most     = 1<<38 - 1
	tag      = 0x5e7 // of the message with the name of a node
	longest  = 256   // bytes of a node's name in it
	none     = math.MinInt64
)

// Log measures phases of a dataset, and logs each on rank 0. list has the same types on all
// ranks. It is collective.
func (m *Meter) Log(d dataset.Dataset, list ...Phase) {
	if m == nil || len(list) == 0 {
		return
	}
	values := make([]int64, width*len(list))
	for i, p := range list {
		m.enter(values[i*width:][:width], p.Value)
	}
	m.world.Allreduce(values, mpi.Max)
	spreads := make([]eventlog.Spread, len(list))
	for i := range list {
		spreads[i] = spread(values[i*width:][:width])
		m.tell(spreads[i].Rank)
	}
	if m.world.Rank() != 0 {
		return
	}
	for i, p := range list {
		spreads[i].Node = m.nodes[spreads[i].Rank]
		r := eventlog.Record{Note: p.Note, Start: p.Start, Bytes: p.Bytes, Spread: &spreads[i]}
		m.events.Dataset(p.Type, d, r)
	}
}

// enter sets the caller's numbers for the reduction.
func (m *Meter) enter(values []int64, value float64) {
	n := int64(min(max(value, 0)*unit, most))
	rank, size := m.world.Rank(), m.world.Size()
	values[0] = n<<rankBits | int64(rank)
	values[1] = -n
	slots := values[2:]
	for i := range slots {
		slots[i] = none
	}
	if i, ok := slot(rank, size); ok {
		slots[i] = n
	}
}

// slot returns the place of a rank in the sample, if it is in it.
func slot(rank, size int) (int, bool) {
	n := min(size, sample)
	i := (rank*n + size - 1) / size
	return i, i < n && i*size/n == rank
}

// spread is what the reduction has found of a phase.
func spread(values []int64) eventlog.Spread {
	seconds := func(n int64) float64 { return float64(n) / unit }
	sorted := slices.DeleteFunc(slices.Clone(values[2:]), func(n int64) bool { return n == none })
	slices.Sort(sorted)
	middle := len(sorted) / 2
	median := seconds(sorted[middle])
	if len(sorted)%2 == 0 {
		median = (median + seconds(sorted[middle-1])) / 2
	}
	return eventlog.Spread{Least: seconds(-values[1]), Median: median, Most: seconds(values[0] >> rankBits), Rank: int(values[0] & (1<<rankBits - 1))}
}

// tell lets rank 0 know the node of a rank, unless it knows it.
func (m *Meter) tell(rank int) {
	switch m.world.Rank() {
	case 0:
		if _, known := m.nodes[rank]; known {
			return
		}
		name := make([]byte, longest)
		s := m.world.Recv(name, rank, tag)
		m.nodes[rank] = string(name[:s.Count])
	case rank:
		if m.told {
			return
		}
		m.told = true
		m.world.Send([]byte(m.node)[:min(len(m.node), longest)], 0, tag)
	}
}
