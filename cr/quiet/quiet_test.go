package quiet

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

const spaces, tags = 2, 3

// network is an MPI of its own, in which messages are late: it keeps the order only of those
// between two ranks over one communicator, as MPI promises.
type network struct {
	mu     sync.Mutex
	random *rand.Rand
	queues map[[3]int][]Message // in transit: space, from, to
	boxes  map[int]*Drained     // arrived, in the order of arrival
}

func newNetwork(seed uint64) *network {
	return &network{random: rand.New(rand.NewPCG(seed, 1)), queues: map[[3]int][]Message{}, boxes: map[int]*Drained{}}
}

func (n *network) send(from, to int, m Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := [3]int{int(m.Space), from, to}
	n.queues[key] = append(n.queues[key], m)
}

// receive lets one message arrive, perhaps, and returns one that has arrived and fits.
func (n *network) receive(to int, space int64, source, tag int) (Message, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var waiting [][3]int
	for key, q := range n.queues {
		if key[2] == to && len(q) > 0 {
			waiting = append(waiting, key)
		}
	}
	slices.SortFunc(waiting, func(a, b [3]int) int { return slices.Compare(a[:], b[:]) })
	box := n.boxes[to]
	if box == nil {
		box = new(Drained)
		n.boxes[to] = box
	}
	if len(waiting) > 0 && n.random.IntN(3) > 0 {
		key := waiting[n.random.IntN(len(waiting))]
		box.Add(n.queues[key][0])
		n.queues[key] = n.queues[key][1:]
	}
	return box.Receive(space, source, tag)
}

// left is how many messages are in transit, or have arrived and were not received.
func (n *network) left() (sum int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, q := range n.queues {
		sum += len(q)
	}
	for _, b := range n.boxes {
		sum += b.Len()
	}
	return sum
}

// tagOf is the tag of the number-th message between two ranks over a communicator.
func tagOf(seed uint64, space int64, from, to, number int) int {
	return rand.New(rand.NewPCG(seed, uint64(space)<<48|uint64(from)<<32|uint64(to)<<16|uint64(number))).IntN(tags)
}

// rank is a rank of a program that sends and receives at random.
type rank struct {
	seed      uint64
	me, ranks int
	net       *network
	marks     *Bookmarks
	drained   *Drained
	random    *rand.Rand
	sent      map[[2]int]int   // by space and destination: how many
	open      map[[2]int][]int // by space and source: numbers that were not received and are below next
	next      map[[2]int]int   // ... the first number above all that were received
	total     int              // received
}

func (r *rank) send() {
	space, to := r.random.IntN(spaces), r.random.IntN(r.ranks)
	key := [2]int{space, to}
	number := r.sent[key]
	r.sent[key]++
	data := binary.LittleEndian.AppendUint32(nil, uint32(number))
	r.marks.Sent[to]++
	r.net.send(r.me, to, Message{int64(space), r.me, tagOf(r.seed, int64(space), r.me, to, number), data})
}

// receive receives a message, if there is one for what it asks, and compares it with the one that
// MPI's rules of matching give.
func (r *rank) receive(space int64, source, tag int) (bool, error) {
	m, ok := r.drained.Probe(space, source, tag)
	if again, found := r.drained.Receive(space, source, tag); found != ok || again.Source != m.Source || again.Tag != m.Tag || string(again.Data) != string(m.Data) {
		return false, fmt.Errorf("probed was %v, received %v", m, again)
	}
	if !ok {
		if m, ok = r.net.receive(r.me, space, source, tag); !ok {
			return false, nil
		}
		r.marks.Received[m.Source]++
	}
	number := int(binary.LittleEndian.Uint32(m.Data))
	if m.Space != space || source != Any && m.Source != source || tag != Any && m.Tag != tag || m.Tag != tagOf(r.seed, space, m.Source, r.me, number) {
		return false, fmt.Errorf("rank %d asked for space %d, source %d, tag %d, and got %v", r.me, space, source, tag, m)
	}
	key := [2]int{int(space), m.Source}
	for ; r.next[key] <= number; r.next[key]++ {
		r.open[key] = append(r.open[key], r.next[key])
	}
	for _, earlier := range r.open[key] {
		if earlier < number && (tag == Any || tagOf(r.seed, space, m.Source, r.me, earlier) == tag) {
			return false, fmt.Errorf("rank %d got message %d of rank %d over %d for tag %d before message %d", r.me, number, m.Source, space, tag, earlier)
		}
	}
	i := slices.Index(r.open[key], number)
	if i < 0 {
		return false, fmt.Errorf("rank %d got message %d of rank %d over %d twice", r.me, number, m.Source, space)
	}
	r.open[key] = slices.Delete(r.open[key], i, i+1)
	r.total++
	return true, nil
}

func (r *rank) anything() (space int64, source, tag int) {
	return int64(r.random.IntN(spaces)), r.random.IntN(r.ranks+1) - 1, r.random.IntN(tags+1) - 1
}

// quiesce drains all that is missing, and checks that nothing is left in the network.
func (r *rank) quiesce(world mpi.Comm) error {
	if err := r.marks.Exchange(world); err != nil {
		return err
	}
	for {
		missing, err := r.marks.Missing()
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			break
		}
		for source := range missing {
			for space := range int64(spaces) {
				if m, ok := r.net.receive(r.me, space, source, Any); ok {
					r.marks.Received[source]++
					r.drained.Add(m)
				}
			}
		}
	}
	world.Barrier()
	if n := r.net.left(); n != 0 {
		return fmt.Errorf("%d messages are in flight in a quiet network", n)
	}
	world.Barrier()
	return nil
}

// Programs with messages in flight at every instant are brought to rest, again and again, and get
// each message once, in MPI's order; also after a restart from what a snapshot has of them.
func TestQuiesce(t *testing.T) {
	for seed := range uint64(30) {
		ranks := 1 + int(seed)%6
		net := newNetwork(seed)
		var mu sync.Mutex
		sent, received, held := 0, 0, 0
		_, err := local.Run(ranks, local.Options{}, func(world mpi.Comm) error {
			r := &rank{seed: seed, me: world.Rank(), ranks: ranks, net: net, marks: NewBookmarks(ranks), drained: new(Drained),
				random: rand.New(rand.NewPCG(seed, uint64(world.Rank())+2)), sent: map[[2]int]int{}, open: map[[2]int][]int{}, next: map[[2]int]int{}}
			for range 8 {
				for range r.random.IntN(40) {
					if r.random.IntN(2) == 0 {
						r.send()
					} else if _, err := r.receive(r.anything()); err != nil {
						return err
					}
				}
				if err := r.quiesce(world); err != nil {
					return err
				}
				mu.Lock()
				held += r.drained.Len()
				mu.Unlock()
				restored := new(Drained)
				for _, m := range r.drained.All() {
					restored.Add(m)
				}
				r.drained = restored
			}
			for r.drained.Len() > 0 { // nothing is in the network any more
				if _, err := r.receive(r.anything()); err != nil {
					return err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			received += r.total
			for _, n := range r.sent {
				sent += n
			}
			return nil
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if sent != received || ranks > 1 && held == 0 {
			t.Errorf("seed %d: %d messages sent, %d received, %d were held", seed, sent, received, held)
		}
	}
}

// A message that was received and not counted as sent is told.
func TestMissing_Uncounted(t *testing.T) {
	b := NewBookmarks(2)
	b.Received[1] = 1
	if _, err := b.Missing(); err == nil || err.Error() != "rank 1 has sent 0 messages, and 1 of it have been received" {
		t.Error(err)
	}
}

// An exchange sends bookmarks to those ranks only to which something was sent since the last.
func TestExchange_Sparse(t *testing.T) {
	const ranks = 8
	var bytes [2]int64
	for again := range bytes {
		stats, err := local.Run(ranks, local.Options{}, func(world mpi.Comm) error {
			b := NewBookmarks(ranks)
			to, from := (world.Rank()+1)%ranks, (world.Rank()+ranks-1)%ranks
			b.Sent[to] = 5
			if err := b.Exchange(world); err != nil {
				return err
			}
			missing, err := b.Missing()
			if err != nil || len(missing) != 1 || missing[from] != 5 {
				return fmt.Errorf("missing are %v, %v", missing, err)
			}
			b.Received[from] = 5
			if again == 1 {
				if err := b.Exchange(world); err != nil {
					return err
				}
			}
			missing, err = b.Missing()
			if err != nil || len(missing) != 0 {
				return fmt.Errorf("missing are %v, %v", missing, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stats {
			bytes[again] += s.Bytes
		}
	}
	var none int64
	stats, err := local.Run(ranks, local.Options{}, func(world mpi.Comm) error { return NewBookmarks(ranks).Exchange(world) })
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats {
		none += s.Bytes
	}
	if bytes[0] <= none || bytes[1] != bytes[0]+none {
		t.Errorf("an exchange sends %d bytes, one that has nothing to tell %d, and the two %d", bytes[0], none, bytes[1])
	}
}

// Messages come back from a file in their order; of a file that is cut at any byte, or has
// something else in any byte of its headers, nothing is taken that is not whole.
func TestDrained_File(t *testing.T) {
	path := filepath.Join(t.TempDir(), "messages")
	var d Drained
	for i, text := range []string{"", "one", "a longer one"} {
		d.Add(Message{Space: int64(i) << 33, Source: i, Tag: 7 * i, Data: []byte(text)})
	}
	if err := d.Save(path); err != nil {
		t.Fatal(err)
	}
	var got Drained
	if err := got.Load(path); err != nil {
		t.Fatal(err)
	}
	same := func(a, b Message) bool {
		return a.Space == b.Space && a.Source == b.Source && a.Tag == b.Tag && string(a.Data) == string(b.Data)
	}
	if !slices.EqualFunc(got.All(), d.All(), same) {
		t.Errorf("read %v, written %v", got.All(), d.All())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const header = headerSize
	whole := map[int]int{len(magic): 0, len(magic) + header: 1, len(magic) + 2*header + 3: 2}
	for n := range len(data) {
		if err := os.WriteFile(path, data[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		var cut Drained
		err := cut.Load(path)
		if messages, ok := whole[n]; ok != (err == nil) || cut.Len() != messages {
			t.Errorf("cut to %d bytes: %d messages, %v", n, cut.Len(), err)
		}
	}
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 0xff
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := got.Load(path); err == nil && got.Len() != d.Len() {
			t.Errorf("byte %d changed: %d messages", i, got.Len())
		}
	}
	if err := got.Load(filepath.Join(t.TempDir(), "none")); err != nil || got.Len() != 0 {
		t.Errorf("without a file: %d messages, %v", got.Len(), err)
	}
}

// A snapshot has what receives of the program have got, before what is in the store, and the calls that send; the
// store of the run that continues has neither. A call is repeated once.
func TestDrained_Snapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "messages")
	var d, got Drained
	call := Send{Kind: 2, Space: World, To: 1, Tag: 4, Bytes: 1 << 40}
	d.Add(Message{Space: World, Source: 1, Tag: 3, Data: []byte("second")})
	d.Copy(Message{Space: World, Source: 1, Tag: 3, Data: []byte("first")})
	d.Begun(call)
	if err := d.Save(path); err != nil {
		t.Fatal(err)
	}
	if d.Forget(0); d.Len() != 1 || d.Sends() != 0 || d.Empty() {
		t.Errorf("%d messages and %d calls are left", d.Len(), d.Sends())
	}
	if err := got.Load(path); err != nil || got.Sends() != 1 {
		t.Fatalf("%d calls, %v", got.Sends(), err)
	}
	for _, text := range []string{"first", "second"} {
		if m, ok := got.Receive(World, Any, 3); !ok || string(m.Data) != text {
			t.Errorf("%q, expected %q", m.Data, text)
		}
	}
	other := call
	other.Tag++
	if got.Repeated(other) || !got.Repeated(call) || got.Repeated(call) || !got.Empty() {
		t.Error("calls are not repeated once each")
	}
	d.Begun(call)
	d.Begun(other)
	if d.Forget(1); d.Repeated(other) || !d.Repeated(call) {
		t.Error("a call that was not repeated is forgotten, or one of this snapshot is not")
	}
}

// What is in transit is said by communicator, source and tag.
func TestDrained_Report(t *testing.T) {
	var d Drained
	for _, m := range []Message{{Space: World, Source: 2, Tag: 5}, {Space: World, Source: 2, Tag: 5}, {Space: World, Source: 2, Tag: 1}, {Space: 9, Source: 0}} {
		d.Add(m)
	}
	want := []string{"1 of rank 0 over another communicator (1 with tag 0)", "3 of rank 2 over MPI_COMM_WORLD (1 with tag 1, 2 with tag 5)"}
	if got := d.Report(); !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}
