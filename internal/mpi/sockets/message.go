package sockets

import (
	"fmt"
	"slices"

	"github.com/goscr/goscr/mpi"
)

// A key names the message space of a communicator for one purpose: its context's id, and in
// the lowest two bits what the messages are for.
const (
	forUser = iota
	forCollective
	forBarrier
)

func key(context uint64, purpose uint64) uint64 { return context<<2 | purpose }

// context is what identifies a communicator.
type context struct {
	id      uint64      // larger than that of every older communicator of any of its ranks
	members []int       // ranks in the network, by rank in the communicator
	ranks   map[int]int // the inverse
	family  *family     // nil: it cannot be revoked
}

func newContext(id uint64, members []int, f *family) *context {
	x := &context{id, members, make(map[int]int, len(members)), f}
	for rank, member := range members {
		x.ranks[member] = rank
	}
	return x
}

// family is what a communicator that can be revoked and all that are made from it share.
type family struct {
	root   *context
	parent *family // of the communicator from which the root was made
	why    *mpi.RevokedError
}

// revoked returns the revoked family that a family is or descends from, nil if there is none.
func (f *family) revoked() *family {
	for f != nil && f.why == nil {
		f = f.parent
	}
	return f
}

// over returns why a family is revoked, nil if it is not.
func (f *family) over() *mpi.RevokedError {
	if f = f.revoked(); f != nil {
		return f.why
	}
	return nil
}

// frame returns the frame that tells others of a revocation, and the reason that follows it.
func (f *family) frame() (frame, []byte) {
	text := f.why.Reason
	return frame{kind: kindRevoke, tag: uint32(f.why.Rank), context: f.root.id, size: uint64(len(text))}, []byte(text)
}

// message is one that was announced to this rank and that no receive has taken.
type message struct {
	key   uint64
	from  int // rank in the network
	tag   uint32
	id    uint64
	size  int
	data  []byte   // of a short message
	left  int      // bytes of data that have not arrived
	taker *receive // waits for them
	own   *send    // by this rank itself
}

// receive waits for a message.
type receive struct {
	key  uint64
	from int // rank in the network, or mpi.AnySource
	tag  uint32
	buf  []byte
	want int // bytes, once a message is taken
	got  int
	done bool

	source, size int    // of the message
	then         func() // called when it is done, unless nil
}

func (r *receive) matches(m *message) bool {
	return r.key == m.key && r.tag == m.tag && (r.from == mpi.AnySource || r.from == m.from)
}

// take says that r receives m.
func (r *receive) take(m *message) {
	r.source, r.size, r.want = m.from, m.size, min(m.size, len(r.buf))
}

// err returns the error of a receive that is done.
func (r *receive) err() error {
	if r.size > len(r.buf) {
		return fmt.Errorf("%w: %d bytes with tag %d, room for %d", mpi.ErrTruncated, r.size, r.tag, len(r.buf))
	}
	return nil
}

// send is a message of this rank.
type send struct {
	key    uint64
	buf    []byte // the caller's, unless the message is short
	short  bool
	number uint64 // its id, once the receiver wants it
	limit  int    // bytes that the receiver wants
	sent   int
	done   bool
	to     *peer // nil: this rank itself
	family *family
}

// mailbox has the messages and the receives that wait for each other.
type mailbox struct {
	contexts map[uint64]*context // by id
	next     uint64              // no context of this rank has an id that is not lower
	posted   []*receive
	arrived  []*message // in the order in which they were announced
}

func (b *mailbox) enter(x *context) {
	b.contexts[x.id] = x
	b.next = max(b.next, x.id+1)
}

// wanted reports whether a message with this key can be received. It can when its context is
// not known yet: other ranks may be further in the same Split.
func (b *mailbox) wanted(key uint64) bool {
	x := b.contexts[key>>2]
	if x == nil {
		return key>>2 >= b.next
	}
	return x.family.over() == nil
}

// deliver returns the receive for a message. If there is none it keeps the message.
func (b *mailbox) deliver(m *message) *receive {
	for i, r := range b.posted {
		if r.matches(m) {
			b.posted = slices.Delete(b.posted, i, i+1)
			return r
		}
	}
	b.arrived = append(b.arrived, m)
	return nil
}

// post returns the first message for a receive. If there is none it keeps the receive.
func (b *mailbox) post(r *receive) *message {
	for i, m := range b.arrived {
		if r.matches(m) {
			b.arrived = slices.Delete(b.arrived, i, i+1)
			return m
		}
	}
	b.posted = append(b.posted, r)
	return nil
}

// find returns the first message for a receive, and keeps it.
func (b *mailbox) find(r *receive) *message {
	for _, m := range b.arrived {
		if r.matches(m) {
			return m
		}
	}
	return nil
}

// clean drops what no one can receive any more, and returns the messages among that.
func (b *mailbox) clean() (dropped []*message) {
	b.posted = slices.DeleteFunc(b.posted, func(r *receive) bool { return !b.wanted(r.key) })
	b.arrived = slices.DeleteFunc(b.arrived, func(m *message) bool {
		if b.wanted(m.key) {
			return false
		}
		dropped = append(dropped, m)
		return true
	})
	return dropped
}
