package stripe

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goscr/goscr/mpi"
)

// network has the members of a set run as coroutines, one at a time, so that a deadlock is
// certain when none can continue. A send is done when its receive has begun. No member asks which
// message has come first, so what happens does not depend on the order in which members run.
type network struct {
	random *rand.Rand
	routes map[route]*queue
	open   int // requests that were not waited for
}

type route struct{ from, to, tag int }

// queue has the messages and the receives of a route that wait for each other.
type queue struct{ sends, receives []*request }

// request is a send or a receive.
type request struct {
	m      *member
	buf    []byte
	before []byte   // what is in buf as long as it belongs to MPI
	other  *request // the receive of a send, or the send of a receive
	sends  bool
}

// member is the communicator of a member.
type member struct {
	mpi.Comm // the rest, which is not called
	*network
	rank, size int
	pause      func(struct{}) bool
	waits      *request
}

func (m *member) Rank() int                 { return m.rank }
func (m *member) Size() int                 { return m.size }
func (m *member) Allreduce([]int64, mpi.Op) {} // for mpi.Agree without errors

func (m *member) Isend(buf []byte, to, tag int) mpi.Request {
	r := &request{m: m, buf: buf, before: bytes.Clone(buf), sends: true}
	q := m.route(m.rank, to, tag)
	q.sends = append(q.sends, r)
	q.match()
	return r
}

func (m *member) Irecv(buf []byte, from, tag int) mpi.Request {
	for i := range buf {
		buf[i] = byte(m.random.Uint32())
	}
	r := &request{m: m, buf: buf, before: bytes.Clone(buf)}
	q := m.route(from, m.rank, tag)
	q.receives = append(q.receives, r)
	q.match()
	return r
}

func (n *network) route(from, to, tag int) *queue {
	n.open++
	r := route{from, to, tag}
	if n.routes[r] == nil {
		n.routes[r] = &queue{}
	}
	return n.routes[r]
}

func (q *queue) match() {
	if len(q.sends) > 0 && len(q.receives) > 0 {
		q.sends[0].other, q.receives[0].other = q.receives[0], q.sends[0]
		q.sends, q.receives = q.sends[1:], q.receives[1:]
	}
}

func (r *request) Test() (mpi.Status, bool) { panic("not called") }

func (r *request) Wait() mpi.Status {
	r.m.waits = r
	r.m.pause(struct{}{})
	r.m.waits = nil
	r.m.open--
	switch {
	case !bytes.Equal(r.buf, r.before):
		panic(&mpi.OpError{Op: "Wait", Err: errors.New("a buffer was used before its request was done")})
	case r.sends:
		return mpi.Status{}
	}
	if len(r.other.before) > len(r.buf) {
		panic(&mpi.OpError{Op: "Wait", Err: mpi.ErrTruncated})
	}
	return mpi.Status{Count: copy(r.buf, r.other.before)}
}

// run runs f on all members, in a random order.
func (n *network) run(size int, f func(*member) error) error {
	members, resume := make([]*member, size), make([]func() (struct{}, bool), size)
	errs := make([]error, size)
	for i := range size {
		m := &member{network: n, rank: i, size: size}
		members[i] = m
		resume[i], _ = iter.Pull(func(pause func(struct{}) bool) {
			m.pause = pause
			errs[i] = mpi.Try(func() error { return f(m) })
		})
	}
	for left := size; left > 0; {
		blocked := true
		for _, i := range n.random.Perm(size) {
			if w := members[i].waits; resume[i] == nil || w != nil && w.other == nil {
				continue
			}
			blocked = false
			if _, more := resume[i](); !more {
				resume[i] = nil
				left--
			}
			if errs[i] != nil {
				return fmt.Errorf("member %d: %w", i, errs[i])
			}
		}
		if blocked {
			return fmt.Errorf("%d members wait for each other", left)
		}
	}
	if n.open > 0 {
		return fmt.Errorf("%d requests were not waited for", n.open)
	}
	return nil
}

// factors is a code in which a shard is a sum, modulo 256, with a factor for each pair of shards.
type factors struct{ from, wanted []int }

func factor(from, wanted int) byte { return byte(from*106 + wanted*54 + 1) }

func (factors) Adder(_, _ int, from, wanted []int) (Adder, error) {
	return factors{from, wanted}, nil
}

func (f factors) Add(i int, first bool, part []byte, sums [][]byte) {
	for t, sum := range sums {
		for b, x := range part {
			if first {
				sum[b] = 0
			}
			sum[b] += x * factor(f.from[i], f.wanted[t])
		}
	}
}

// contents are the shards of a member, by column. Each must be read, and stored, from its
// beginning to its end.
type contents struct {
	geometry
	me     int
	chunk  int64
	size   int64 // of the logical file
	shards [][]byte
	read   []int64
	stored [][]byte
	err    error
}

func newContents(e example, me int, random *rand.Rand) *contents {
	s := &contents{
		geometry: geometry{e.n, e.k}, me: me, chunk: e.chunk, size: random.Int64N(int64(e.n-e.k)*e.chunk + 1),
		read: make([]int64, e.n), stored: make([][]byte, e.n),
	}
	for c := range e.n {
		shard := make([]byte, e.chunk)
		for i := range shard {
			if s.redundant(c, me) >= 0 || s.start(c)+int64(i) < s.size {
				shard[i] = byte(random.Uint32())
			}
		}
		s.shards = append(s.shards, shard)
	}
	return s
}

// start is the offset of a column in the logical file.
func (s *contents) start(c int) int64 { return int64(s.geometry.chunk(c, s.me)) * s.chunk }

// column is the column of a chunk of redundancy.
func (s *contents) column(i int) int { return (s.me - i + s.n) % s.n }

func (s *contents) Data(offset int64, n, c int, use func(int, []byte)) int {
	return s.pass(c, offset-s.start(c), n, int(min(max(s.size-offset, 0), int64(n))), use)
}

func (s *contents) Redundancy(i int, offset int64, n int, use func(int, []byte)) {
	s.pass(s.column(i), offset, n, n, use)
}

func (s *contents) pass(c int, at int64, n, covered int, use func(int, []byte)) int {
	if at != s.read[c] {
		s.err = fmt.Errorf("member %d reads byte %d of column %d after %d", s.me, at, c, s.read[c])
	}
	s.read[c] = at + int64(n)
	for from := 0; from < covered; from += 2 {
		use(from, s.shards[c][at:][from:min(from+2, covered)])
	}
	return covered
}

func (s *contents) StoreData(data []byte, offset int64, c int) { s.store(c, offset-s.start(c), data) }

func (s *contents) StoreRedundancy(data []byte, i int, offset int64) {
	s.store(s.column(i), offset, data)
}

func (s *contents) store(c int, at int64, data []byte) {
	if at != int64(len(s.stored[c])) {
		s.err = fmt.Errorf("member %d stores byte %d of column %d after %d", s.me, at, c, len(s.stored[c]))
	}
	s.stored[c] = append(s.stored[c], data...)
}

// example is a recovery, or an encoding if lost is nil.
type example struct {
	n, k       int
	lost, only []int
	chunk      int64
	piece      int
}

// run computes the example, and compares what each member reads and stores with what it should.
func (e example) run(random *rand.Rand) error {
	all := make([]*contents, e.n)
	for m := range all {
		all[m] = newContents(e, m, random)
	}
	net := &network{random: random, routes: map[route]*queue{}}
	var columns []column
	err := net.run(e.n, func(m *member) (err error) {
		s := Set{Comm: m, Code: factors{}, K: e.k, Chunk: e.chunk, Piece: e.piece}
		if e.lost == nil {
			columns, _ = s.encoding()
			return s.Encode(all[m.rank])
		}
		columns, _ = s.recovery(e.lost, e.only)
		return s.Recover(all[m.rank], e.lost, e.only)
	})
	if err != nil {
		return err
	}
	for m, s := range all {
		if s.err != nil {
			return s.err
		}
		for c, col := range columns {
			reads := int64(0)
			if e.lost == nil && s.redundant(c, m) < 0 || e.lost != nil && !slices.Contains(e.lost, m) {
				reads = e.chunk
			}
			if s.read[c] != reads {
				return fmt.Errorf("member %d read %d bytes of column %d instead of %d", m, s.read[c], c, reads)
			}
			var want []byte
			if slices.Contains(col.wanted, m) {
				want = make([]byte, e.chunk)
			}
			for _, f := range col.from {
				for i := range want {
					want[i] += all[f].shards[c][i] * factor(s.shard(c, f), s.shard(c, m))
				}
			}
			if !bytes.Equal(s.stored[c], want) {
				return fmt.Errorf("member %d stored %x of column %d instead of %x", m, s.stored[c], c, want)
			}
		}
	}
	return nil
}

// subsets returns all subsets of a list.
func subsets(list []int) [][]int {
	all := [][]int{{}}
	for _, x := range list {
		for _, s := range all {
			all = append(all, append(slices.Clone(s), x))
		}
	}
	return all
}

// In every small set, and in some larger ones, all members get the sums, whichever are lost
// and whichever are wanted: no order of messages blocks them, no message is taken for another,
// and no buffer is used too early.
func TestReduce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	try := func(e example) {
		if err := e.run(random); err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
	}
	for n := 2; n <= 5; n++ {
		members := random.Perm(n)
		for k := 1; k < n; k++ {
			for _, chunk := range []int64{0, 1, 5, 3 * inTransit, 3*inTransit + 1, 60} {
				e := example{n: n, k: k, chunk: chunk, piece: 3}
				try(e)
				for _, e.lost = range subsets(members)[1:] {
					if len(e.lost) > k {
						continue
					}
					e.only = nil
					try(e)
					for _, e.only = range subsets(e.lost) {
						try(e)
					}
				}
			}
		}
	}
	for range 150 {
		n := 6 + random.IntN(15)
		e := example{n: n, k: 1 + random.IntN(n-1), piece: 1 + random.IntN(4)}
		e.chunk = random.Int64N(int64(30 * e.piece))
		if random.IntN(4) > 0 {
			e.lost = random.Perm(n)[:1+random.IntN(e.k)]
		}
		if e.lost != nil && random.IntN(2) > 0 {
			e.only = e.lost[:random.IntN(len(e.lost)+1)]
		}
		try(e)
	}
}
