package hash

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/goscr/goscr/internal/mpi/buffer"
	"github.com/goscr/goscr/mpi"
)

// Hashes between the ranks of a communicator (SCR Developer's Manual, "Sending and
// receiving hashes"). If an operation fails, or what arrives is no hash, these functions panic with
// an *mpi.OpError.

// Tags of messages. Exchange and Collect have their own, since they receive from any source.
const (
	tagHash     = 1001
	tagExchange = 1002
	tagCollect  = 1003
)

// Send sends a copy of h to a rank, which receives it with Recv.
func Send(h *Hash, dst int, c mpi.Comm) { c.Send(h.Pack(nil), dst, tagHash) }

// Recv waits for a hash from a rank.
func Recv(src int, c mpi.Comm) *Hash {
	h, _ := recv(src, tagHash, c)
	return h
}

func recv(src, tag int, c mpi.Comm) (*Hash, int) {
	status := c.Probe(src, tag)
	buf := make([]byte, status.Count)
	c.Recv(buf, status.Source, tag)
	return decodeMessage(buf, status.Source), status.Source
}

func decodeMessage(buf []byte, src int) *Hash {
	h, n, err := Unpack(buf)
	if err == nil && n != len(buf) {
		err = corrupt(n, "%d bytes after the hash", len(buf)-n)
	}
	if err != nil {
		panic(&mpi.OpError{Op: "receive", Err: fmt.Errorf("hash from rank %d: %w", src, err)})
	}
	return h
}

// Sendrecv sends h to one rank and waits for a hash from another.
func Sendrecv(h *Hash, dst, src int, c mpi.Comm) *Hash {
	buf := buffer.Lend(c, h.PackSize())
	defer buf.Return()
	request := c.Isend(buf.Bytes[:len(h.Pack(buf.Bytes[:0]))], dst, tagHash)
	received := Recv(src, c)
	request.Wait()
	buf.Done()
	return received
}

// Bcast returns root's hash on every rank. h is ignored elsewhere.
func Bcast(h *Hash, root int, c mpi.Comm) *Hash {
	var data []byte
	if c.Rank() == root {
		data = h.Pack(nil)
	}
	return decodeMessage(mpi.BcastBytes(c, data, root), root)
}

// FromRoot runs f on rank 0, and returns its hash on all ranks, or an error on all if it
// fails. It is collective, and costs no more than Bcast if there is no error.
func FromRoot(c mpi.Comm, f func() (*Hash, error)) (*Hash, error) {
	data, err := mpi.BytesFromRoot(c, func() ([]byte, error) {
		h, err := f()
		if err != nil {
			return nil, err
		}
		return h.Pack(nil), nil
	})
	if err != nil {
		return nil, err
	}
	return decodeMessage(data, 0), nil
}

// Collect returns the hashes of n ranks on rank 0, the lowest rank first; each of the n ranks
// passes its hash, and the others nil. It sends one message for each hash, and no rank but 0 waits
// for others: before the ranks call Collect again, rank 0 must have told them, by an operation in
// which all ranks wait for it, that it has all.
func Collect(h *Hash, n int, c mpi.Comm) []*Hash {
	if c.Rank() > 0 {
		if h != nil {
			c.Send(h.Pack(nil), 0, tagCollect)
		}
		return nil
	}
	from := map[int]*Hash{}
	if h != nil {
		from[0] = h
	}
	for len(from) < n {
		h, src := recv(mpi.AnySource, tagCollect, c)
		from[src] = h
	}
	var list []*Hash
	for _, rank := range slices.Sorted(maps.Keys(from)) {
		list = append(list, from[rank])
	}
	return list
}

// Exchange sends the hash under each key of send, which is a rank, to that
// rank, and returns the received hashes under the ranks that sent them. It is
// collective; no rank need know which ranks send to it.
//
// The cost on a rank grows with its own partners and with log P: every rank
// sends synchronously, and once its partners have received all it enters a
// barrier in which it still receives; when the barrier is complete no rank
// has anything left to receive (T. Hoefler, C. Siebert, A. Lumsdaine,
// "Scalable communication protocols for dynamic sparse data exchange", PPoPP
// 2010). Before that the ranks agree whether any of them has something to send,
// which is all that most exchanges of a restart need, and whether any of them cannot send: there
// is no memory for what it sends, or a key is no rank of c. The error is agreed.
func Exchange(send *Hash, c mpi.Comm) (*Hash, error) {
	// One buffer for all messages: a rank with many files may have thousands of partners.
	size := 0
	partners := int64(0)
	var wrong error
	for key, h := range send.All() {
		size += h.PackSize()
		if key != strconv.Itoa(c.Rank()) {
			partners++
		}
		// "01" would be a second hash for rank 1, of which it could keep one.
		if dst, err := strconv.Atoi(key); err != nil || dst < 0 || dst >= c.Size() || strconv.Itoa(dst) != key {
			wrong = fmt.Errorf("exchange with rank %q of %d", key, c.Size())
		}
	}
	var memory []byte
	err := mpi.Try(func() error { memory = buffer.Get(size); return nil })
	// A rank could otherwise send a message of this exchange to a rank that has not finished the
	// exchange before.
	most, err := mpi.AgreeMaxOne(c, cmp.Or(wrong, err), partners)
	if err != nil {
		buffer.Put(memory)
		return nil, err
	}
	received := New()
	rest := memory
	var requests []mpi.Request
	for key, h := range send.All() {
		dst, _ := strconv.Atoi(key)
		if dst == c.Rank() {
			received.Set(key, h.Clone())
			continue
		}
		n := len(h.Pack(rest[:0]))
		buf := rest[:n:n]
		rest = rest[n:]
		requests = append(requests, c.Issend(buf, dst, tagExchange))
	}
	if most > 0 {
		receiveUntilQuiet(requests, received, c)
	}
	buffer.Put(memory) // not after a panic: MPI may still read from it
	return received, nil
}

func receiveUntilQuiet(requests []mpi.Request, received *Hash, c mpi.Comm) {
	var barrier mpi.Request
	for {
		if _, found := c.Iprobe(mpi.AnySource, tagExchange); found {
			h, src := recv(mpi.AnySource, tagExchange, c)
			received.Set(strconv.Itoa(src), h)
			continue
		}
		if barrier == nil {
			for len(requests) > 0 {
				if _, done := requests[0].Test(); !done {
					break
				}
				requests = requests[1:]
			}
			if len(requests) == 0 {
				barrier = c.Ibarrier()
			}
			continue
		}
		if _, done := barrier.Test(); done {
			return
		}
	}
}
