package hash

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/goscr/goscr/mpi"
)

// Hashes between the ranks of a communicator (SCR Developer's Manual, "Sending and
// receiving hashes").

// Tags of messages. Exchange and Collect have their own, since they receive from any source.
const (
	tagHash     = 1001
	tagExchange = 1002
	tagCollect  = 1003
)

// Send sends a copy of h to a rank, which receives it with Recv.
func Send(h *Hash, dst int, c mpi.Comm) error {
	return c.Send(h.Pack(nil), dst, tagHash)
}

// Recv waits for a hash from a rank.
func Recv(src int, c mpi.Comm) (*Hash, error) {
	h, _, err := recv(src, tagHash, c)
	return h, err
}

func recv(src, tag int, c mpi.Comm) (*Hash, int, error) {
	status, err := c.Probe(src, tag)
	if err != nil {
		return nil, 0, err
	}
	buf := make([]byte, status.Count)
	if _, err := c.Recv(buf, status.Source, tag); err != nil {
		return nil, 0, err
	}
	h, err := decodeMessage(buf, status.Source)
	return h, status.Source, err
}

func decodeMessage(buf []byte, src int) (*Hash, error) {
	h, n, err := Unpack(buf)
	if err == nil && n != len(buf) {
		err = corrupt(n, "%d bytes after the hash", len(buf)-n)
	}
	if err != nil {
		return nil, fmt.Errorf("hash from rank %d: %w", src, err)
	}
	return h, nil
}

// Sendrecv sends h to one rank and waits for a hash from another.
func Sendrecv(h *Hash, dst, src int, c mpi.Comm) (*Hash, error) {
	buf, err := message(h)
	if err != nil {
		return nil, err
	}
	request, err := c.Isend(buf, dst, tagHash)
	if err != nil {
		return nil, err
	}
	received, err := Recv(src, c)
	_, e := request.Wait()
	if e == nil {
		mpi.Free(buf) // not after an error or a panic: MPI may still read from it
	}
	return received, errors.Join(err, e)
}

// message packs h into memory that MPI may keep.
func message(h *Hash) ([]byte, error) {
	buf, err := mpi.Alloc(h.PackSize())
	if err != nil {
		return nil, err
	}
	return buf[:len(h.Pack(buf[:0]))], nil
}

// Bcast returns root's hash on every rank. h is ignored elsewhere.
func Bcast(h *Hash, root int, c mpi.Comm) (*Hash, error) {
	var data []byte
	if c.Rank() == root {
		data = h.Pack(nil)
	}
	data, err := mpi.BcastBytes(c, data, root)
	if err != nil {
		return nil, err
	}
	return decodeMessage(data, root)
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
	return decodeMessage(data, 0)
}

// Collect returns the hashes of n ranks on rank 0, the lowest rank first; each of the n ranks
// passes its hash, and the others nil. It sends one message for each hash, and no rank but 0 waits
// for others: before the ranks call Collect again, rank 0 must have told them, by an operation in
// which all ranks wait for it, that it has all.
func Collect(h *Hash, n int, c mpi.Comm) ([]*Hash, error) {
	if c.Rank() > 0 {
		if h == nil {
			return nil, nil
		}
		return nil, c.Send(h.Pack(nil), 0, tagCollect)
	}
	from := map[int]*Hash{}
	if h != nil {
		from[0] = h
	}
	for len(from) < n {
		h, src, err := recv(mpi.AnySource, tagCollect, c)
		if err != nil {
			return nil, err
		}
		from[src] = h
	}
	var list []*Hash
	for _, rank := range slices.Sorted(maps.Keys(from)) {
		list = append(list, from[rank])
	}
	return list, nil
}

// Exchange sends the hash under each key of send, which is a rank, to that
// rank, and returns the received hashes under the ranks that sent them. It is
// collective; no rank need know which ranks send to it.
//
// The cost on a rank grows with its own partners and with log P: every rank
// sends synchronously, and once its partners have received all it enters a
// barrier in which it goes on receiving; when the barrier is complete no rank
// has anything left to receive (T. Hoefler, C. Siebert, A. Lumsdaine,
// "Scalable communication protocols for dynamic sparse data exchange", PPoPP
// 2010). Before that the ranks agree whether any of them has something to send,
// which is all that most exchanges of a restart need.
func Exchange(send *Hash, c mpi.Comm) (*Hash, error) {
	received := New()
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	// One buffer for all messages: a rank with many files may have thousands of partners.
	size := 0
	partners := 0
	for key, h := range send.All() {
		size += h.PackSize()
		if key != strconv.Itoa(c.Rank()) {
			partners++
		}
	}
	buffer, err := mpi.Alloc(size)
	note(err)
	// A rank could otherwise send a message of this exchange to a rank that has not finished the
	// exchange before.
	most, err := mpi.AllreduceOne(c, partners, mpi.Max)
	if err != nil {
		mpi.Free(buffer)
		return nil, err
	}
	rest := buffer
	var requests []mpi.Request
	for key, h := range send.All() {
		dst, err := strconv.Atoi(key)
		// "01" would be a second hash for rank 1, of which it could keep one.
		if err != nil || dst < 0 || dst >= c.Size() || strconv.Itoa(dst) != key {
			note(fmt.Errorf("exchange with rank %q of %d", key, c.Size()))
			continue
		}
		if dst == c.Rank() {
			received.Set(key, h.Clone())
			continue
		}
		if buffer == nil { // there is no memory: the others wait for this rank to take part
			continue
		}
		n := len(h.Pack(rest[:0]))
		buf := rest[:n:n]
		rest = rest[n:]
		request, err := c.Issend(buf, dst, tagExchange)
		if err != nil {
			note(err)
			continue
		}
		requests = append(requests, request)
	}
	if most > 0 {
		err = receiveUntilQuiet(requests, received, c)
		note(err)
	}
	if err == nil { // else MPI may still read from it
		mpi.Free(buffer)
	}
	if first != nil {
		return nil, first
	}
	return received, nil
}

func receiveUntilQuiet(requests []mpi.Request, received *Hash, c mpi.Comm) error {
	var barrier mpi.Request
	var first error
	for {
		_, found, err := c.Iprobe(mpi.AnySource, tagExchange)
		if err != nil {
			return err
		}
		if found {
			h, src, err := recv(mpi.AnySource, tagExchange, c)
			if err != nil && first == nil {
				first = err // go on: others wait for us to take part
			}
			received.Set(strconv.Itoa(src), h)
			continue
		}
		if barrier == nil {
			for len(requests) > 0 {
				_, done, err := requests[0].Test()
				if err != nil {
					return err
				}
				if !done {
					break
				}
				requests = requests[1:]
			}
			if len(requests) == 0 {
				if barrier, err = c.Ibarrier(); err != nil {
					return err
				}
			}
			continue
		}
		_, done, err := barrier.Test()
		if err != nil || done {
			if first == nil {
				first = err
			}
			return first
		}
	}
}
