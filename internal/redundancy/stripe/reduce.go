package stripe

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/mpi/buffer"
	"github.com/goscr/goscr/mpi"
)

// inTransit is the number of pieces that a member works on at the same time.
const inTransit = 8

// step is the work of a member for one piece of one column.
type step struct {
	take  func(*slot, step)
	c     int
	i     int // index of the member in column.from; -1: it gets a result, or only checks
	last  bool
	time  int // of the step, if all steps took the same time
	lag   int // in which turn after its piece has begun it is done
	phase int // its tick in that turn
}

// slot holds a piece in transit. Its sums, one for each member that gets a result,
// follow each other.
type slot struct {
	tag       int
	offset    int64 // in a chunk
	size      int
	out, in   []byte // sums to send, and received sums
	sending   []mpi.Request
	coming    mpi.Request
	results   [][]byte // of the member itself, received in advance
	awaited   []mpi.Request
	nextSums  int // number of sums awaited so far
	nextFinal int // number of results awaited so far
}

// reduction moves all pieces of all columns.
type reduction struct {
	Set
	me      int
	columns []column
	width   int // number of members that get a result
	shards  Shards
	reads   bool // the member checks shards that are not needed

	steps      []step // in the order in which they are done in a turn
	final      []step // those that get results, in the order in which they are done for a piece
	receives   int    // number of steps that wait for sums
	prev, next int    // members that send sums to this one, and get its sums
	slots      [inTransit]slot
}

// reduce computes the columns. It is collective over the set.
//
// The sums of each piece of a column pass through the members in column.from.
// Columns begin at different members, in rounds in which no member begins two. A step has
// a time: as the first of a column a member waits for no other, as the second for one, and so
// on; results come last.
//
// Members do their steps in the order of ticks. In every turn a piece begins, and its steps
// follow at equal distances, of eight ticks at least, until its slot is needed again. So what a
// step waits for was sent eight or more ticks before, and the links always carry something,
// however many members there are (TestReduce_LinksAreUsed). A step waits for messages of earlier
// ticks, and for its member's earlier messages, which others begin to receive at earlier ticks or
// when they get a result in the same turn, for which they wait for earlier ticks only. So no order
// of messages can block it, if all members count the same ticks. Results are got at the end of a
// turn, when they have had most time to arrive.
//
// If fewer members are lost than the set tolerates, some shards are not needed. Their
// members read them as well, to check them, while others have more to do.
func (s Set) reduce(columns []column, shards Shards, reads bool) error {
	r := &reduction{Set: s, me: s.Comm.Rank(), columns: columns, shards: shards, reads: reads}
	r.plan()
	total := (s.Chunk + int64(s.Piece) - 1) / int64(s.Piece)
	var memory buffer.Loan
	err := mpi.Try(func() error { memory = r.allocate(int(min(total, inTransit))); return nil })
	defer memory.Return()
	if err := mpi.Agree(s.Comm, err); err != nil {
		memory.Done()
		return err
	}
	for turn := range total + inTransit - 1 {
		if turn < total {
			r.open(turn)
		}
		for _, st := range r.steps {
			piece := turn - int64(st.lag)
			if piece < 0 || piece >= total {
				continue
			}
			st.take(r.slot(piece), st)
		}
	}
	for i := range r.slots {
		r.slots[i].sent()
	}
	memory.Done()
	return nil
}

// plan sorts the member's steps.
func (r *reduction) plan() {
	me := r.me
	begun := map[int]int{} // rounds, by the member that begins
	end := 1               // time of the last step of all members, the same for all
	for c, col := range r.columns {
		r.width = max(r.width, len(col.wanted))
		begin := 0
		if len(col.from) > 0 {
			begin = begun[col.from[0]] * len(col.from)
			begun[col.from[0]]++
		}
		end = max(end, begin+len(col.from))
		if i := slices.Index(col.from, me); i >= 0 {
			r.steps = append(r.steps, step{take: r.add, c: c, i: i, last: i == len(col.from)-1, time: begin + i})
			if i > 0 {
				r.prev = col.from[i-1]
				r.receives++
			}
			if i < len(col.from)-1 {
				r.next = col.from[i+1]
			}
		}
		switch {
		case slices.Contains(col.wanted, me):
			r.final = append(r.final, step{take: r.get, c: c, i: -1, time: begin + len(col.from)})
		case r.reads && !slices.Contains(col.from, me):
			r.steps = append(r.steps, step{take: r.check, c: c, i: -1})
		}
	}
	turn := end + 1                        // in ticks
	distance := (inTransit*turn - 1) / end // of the steps of a piece, so that the last one is before the eighth turn ends
	// Sorts steps as they are done for a piece, and returns them as they are done in a turn.
	inOrder := func(steps []step) []step {
		// What others wait for comes before checks.
		slices.SortStableFunc(steps, func(a, b step) int { return cmp.Or(a.time-b.time, b.i-a.i) })
		for i := range steps {
			tick := steps[i].time * distance
			steps[i].lag, steps[i].phase = tick/turn, tick%turn
		}
		return slices.SortedStableFunc(slices.Values(steps), func(a, b step) int { return a.phase - b.phase })
	}
	r.steps = append(inOrder(r.steps), inOrder(r.final)...)
}

// allocate gives the first n slots, which are used, their buffers.
func (r *reduction) allocate(n int) buffer.Loan {
	sums := r.width * r.Piece
	ahead := min(len(r.final), max(r.width, 2))
	each := 2*sums + ahead*r.Piece
	memory := buffer.Lend(r.Comm, n*each)
	rest := memory.Bytes
	take := func(n int) []byte {
		b := rest[:n:n]
		rest = rest[n:]
		return b
	}
	for i := range n {
		s := &r.slots[i]
		s.tag, s.out, s.in = i, take(sums), take(sums)
		for range ahead {
			s.results = append(s.results, take(r.Piece))
		}
		s.awaited = make([]mpi.Request, ahead)
	}
	return memory
}

func (r *reduction) slot(piece int64) *slot { return &r.slots[piece%inTransit] }

// open begins a piece: it begins to receive the first messages.
func (r *reduction) open(piece int64) {
	s := r.slot(piece)
	s.offset = piece * int64(r.Piece)
	s.size = int(min(int64(r.Piece), r.Chunk-s.offset))
	s.nextSums, s.nextFinal = 0, 0
	r.await(s)
	for range s.results {
		r.awaitResult(s)
	}
}

// await begins to receive the sums for the next step that needs some.
func (r *reduction) await(s *slot) {
	if s.nextSums == r.receives {
		return
	}
	s.nextSums++
	s.coming = r.Comm.Irecv(s.in[:r.width*s.size], r.prev, s.tag)
}

// awaitResult begins to receive the next result for which there is a buffer.
func (r *reduction) awaitResult(s *slot) {
	if s.nextFinal == len(r.final) {
		return
	}
	i := s.nextFinal % len(s.results)
	from := r.columns[r.final[s.nextFinal].c].from
	s.nextFinal++
	s.awaited[i] = r.Comm.Irecv(s.results[i][:s.size], from[len(from)-1], len(r.slots)+s.tag)
}

// sent returns when s.out may be used again.
func (s *slot) sent() {
	for _, request := range s.sending {
		request.Wait()
	}
	s.sending = s.sending[:0]
}

// receive waits for a message of n bytes.
func receive(request mpi.Request, n int, what string) {
	if got := request.Wait().Count; got != n {
		panic(&mpi.OpError{Op: "receive", Err: fmt.Errorf("%d bytes of %s where %d were due", got, what, n)})
	}
}

// add adds the member's part to the sums of a piece and sends them on.
func (r *reduction) add(s *slot, st step) {
	col := r.columns[st.c]
	if st.i == 0 {
		s.sent()
		r.contribute(s, st, s.out)
	} else {
		receive(s.coming, r.width*s.size, "sums")
		r.contribute(s, st, s.in)
		s.sent()
		s.out, s.in = s.in, s.out
		r.await(s)
	}
	if !st.last {
		s.send(r.Comm, s.out[:r.width*s.size], r.next, s.tag)
		return
	}
	for t, m := range col.wanted {
		s.send(r.Comm, s.out[t*s.size:][:s.size], m, len(r.slots)+s.tag)
	}
}

func (s *slot) send(c mpi.Comm, data []byte, to, tag int) {
	s.sending = append(s.sending, c.Isend(data, to, tag))
}

// contribute adds the member's part of a piece to the sums in buf.
func (r *reduction) contribute(s *slot, st step, buf []byte) {
	sums := make([][]byte, r.width)
	covered := r.each(st.c, s.offset, s.size, func(from int, data []byte) {
		for t := range sums {
			sums[t] = buf[t*s.size+from:][:len(data)]
		}
		r.columns[st.c].add.Add(st.i, st.i == 0, data, sums)
	})
	if st.i == 0 {
		for t := range sums {
			clear(buf[t*s.size+covered : (t+1)*s.size])
		}
	}
}

// each passes a piece of the member's shard of a column to use, in parts that begin
// at from, and returns how many bytes they cover; the rest is zeros.
func (r *reduction) each(c int, offset int64, n int, use func(from int, data []byte)) (covered int) {
	g := geometry{len(r.columns), r.K}
	if i := g.redundant(c, r.me); i >= 0 {
		r.shards.Redundancy(i, offset, n, use)
		return n
	}
	return r.shards.Data(int64(g.chunk(c, r.me))*r.Chunk+offset, n, c, use)
}

// store stores a computed piece of a shard.
func (r *reduction) store(c int, offset int64, data []byte) {
	g := geometry{len(r.columns), r.K}
	if i := g.redundant(c, r.me); i >= 0 {
		r.shards.StoreRedundancy(data, i, offset)
		return
	}
	r.shards.StoreData(data, int64(g.chunk(c, r.me))*r.Chunk+offset, c)
}

// check reads the member's part of a piece that no member needs.
func (r *reduction) check(s *slot, st step) {
	r.each(st.c, s.offset, s.size, func(int, []byte) {})
}

// get stores a result.
func (r *reduction) get(s *slot, st step) {
	i := slices.IndexFunc(r.final, func(f step) bool { return f.c == st.c }) % len(s.results)
	receive(s.awaited[i], s.size, "a result")
	r.store(st.c, s.offset, s.results[i][:s.size])
	r.awaitResult(s)
}
