package stripe

import (
	"iter"
	"slices"
	"testing"

	"github.com/goscr/goscr/mpi"
)

// links is a network with simulated time. The unit of time is that in which a link carries a
// piece. Each member has a link for what it sends and one for what it receives.
type links struct {
	out, in []float64           // when the links are free again
	arrive  map[route][]float64 // when messages arrive
	posted  map[route]int
	carried []float64 // by the busier link of each member
}

const (
	latency = 0.3
	work    = 0.1 // time in which a member adds a piece
	piece   = 4   // bytes
)

// clocked is the communicator of a member with a clock.
type clocked struct {
	mpi.Comm // the rest, which is not called
	*links
	rank  int
	now   float64
	pause func(struct{}) bool
	ready func() bool
}

type arrival struct {
	m     *clocked
	route route
	n     int // number of the message on its route, -1 for a send
	size  int
	sent  float64
}

func (m *clocked) Rank() int                 { return m.rank }
func (m *clocked) Size() int                 { return len(m.out) }
func (m *clocked) Allreduce([]int64, mpi.Op) {} // for mpi.Agree without errors

func (m *clocked) Isend(buf []byte, to, tag int) mpi.Request {
	m.pause(struct{}{}) // members that are not as far send first
	time := float64(len(buf)) / piece
	m.out[m.rank] = max(m.out[m.rank], m.now) + time
	m.in[to] = max(m.in[to]+time, m.out[m.rank])
	r := route{m.rank, to, tag}
	m.arrive[r] = append(m.arrive[r], m.in[to]+latency)
	m.carried[m.rank] += time
	m.carried[len(m.out)+to] += time
	return arrival{m: m, n: -1, sent: m.in[to]}
}

func (m *clocked) Irecv(buf []byte, from, tag int) mpi.Request {
	r := route{from, m.rank, tag}
	m.posted[r]++
	return arrival{m: m, route: r, n: m.posted[r] - 1, size: len(buf)}
}

func (a arrival) Test() (mpi.Status, bool) { panic("not called") }

func (a arrival) Wait() mpi.Status {
	time := a.sent
	if a.n >= 0 {
		a.m.ready = func() bool { return a.n < len(a.m.arrive[a.route]) }
		a.m.pause(struct{}{})
		a.m.ready = nil
		time = a.m.arrive[a.route][a.n]
	}
	a.m.now = max(a.m.now, time)
	return mpi.Status{Count: a.size}
}

// Shards that take time to read.
func (m *clocked) Data(_ int64, n, _ int, _ func(int, []byte)) int {
	m.now += work * float64(n) / piece
	return n
}
func (m *clocked) Redundancy(_ int, offset int64, n int, use func(int, []byte)) {
	m.Data(offset, n, 0, use)
}
func (m *clocked) StoreData([]byte, int64, int)       {}
func (m *clocked) StoreRedundancy([]byte, int, int64) {}

// use returns which part of the time the busiest link of a set carries something.
func use(t *testing.T, n, k, lost int) float64 {
	l := &links{make([]float64, n), make([]float64, n), map[route][]float64{}, map[route]int{}, make([]float64, 2*n)}
	members, resume := make([]*clocked, n), make([]func() (struct{}, bool), n)
	for i := range n {
		m := &clocked{links: l, rank: i}
		members[i] = m
		resume[i], _ = iter.Pull(func(pause func(struct{}) bool) {
			m.pause = pause
			s := Set{Comm: m, Code: factors{}, K: k, Chunk: 100 * piece, Piece: piece}
			var err error
			if lost == 0 {
				err = s.Encode(m)
			} else {
				err = s.Recover(m, []int{0, n / 2}[:lost], nil)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	end := 0.0
	for left := n; left > 0; {
		next := -1 // the member with the earliest clock of those that can continue
		for i, m := range members {
			if resume[i] != nil && (m.ready == nil || m.ready()) && (next < 0 || m.now < members[next].now) {
				next = i
			}
		}
		if _, more := resume[next](); !more {
			resume[next] = nil
			left--
			end = max(end, members[next].now)
		}
	}
	return slices.Max(l.carried) / end
}

// Links always carry something, however many members a set has. The times are simulated.
func TestReduce_LinksAreUsed(t *testing.T) {
	for _, n := range []int{3, 4, 5, 6, 8, 9, 10, 12, 16, 24} {
		for _, x := range []struct{ k, lost int }{{1, 0}, {1, 1}, {2, 0}, {2, 1}, {2, 2}} {
			if u := use(t, n, x.k, x.lost); u < 0.94 {
				t.Errorf("set of %d that tolerates %d losses, %d lost: the busiest link is used for %.2f of the time", n, x.k, x.lost, u)
			}
		}
	}
}
