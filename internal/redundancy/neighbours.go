package redundancy

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
)

// The header of a member's redundancy file also describes the files of the k members
// to its left, if the scheme bears the loss of k. So whichever k are lost, the
// nearest survivor to the right of each has the description of its files.

// partnerRoom returns the bytes that the descriptions of the k members to the left
// will take in a header, once their checksums are known. It is collective.
func partnerRoom(set *Set, k int, mine Member) (room int, err error) {
	n := set.Size()
	out, in := make([]byte, 8), make([]byte, 8)
	binary.LittleEndian.PutUint64(out, uint64(mine.encode().PackSize()))
	for d := 1; d <= k; d++ {
		if _, err := set.Comm.Sendrecv(out, (set.Me()+d)%n, 0, in, (set.Me()-d+n)%n, 0); err != nil {
			return 0, err
		}
		room += len(partnerKey(d)) + 1 + int(binary.LittleEndian.Uint64(in))
	}
	return room, nil
}

// exchangePartners sets the descriptions of the k members to the left. It is
// collective.
func (h *Header) exchangePartners(set *Set, k int) error {
	n := set.Size()
	var failed error
	for d := 1; d <= k; d++ { // also after an error: the others wait for it
		received, err := hash.Sendrecv(h.Current.encode(), (set.Me()+d)%n, (set.Me()-d+n)%n, set.Comm)
		left, e := decodeMember(received)
		failed = errors.Join(failed, err, e)
		h.Left = append(h.Left, &left)
	}
	return failed
}

// tellOwners gives each member that has lost its files the description of them,
// from the nearest survivor to its right, nil if there is none. h is the header of a
// survivor, nil on the members lost. It is collective.
func tellOwners(set *Set, lost []int, k int, h *Header) (*Member, error) {
	n := set.Size()
	send := map[int]*Member{}
	for d := 1; d <= k && h != nil; d++ {
		left := (set.Me() - d + n) % n
		if !slices.Contains(lost, left) {
			break // it is nearer to all that are further left
		}
		if d <= len(h.Left) && h.Left[d-1] != nil {
			send[left] = h.Left[d-1]
		}
	}
	received, err := exchangeMembers(set.Comm, send)
	for _, m := range received {
		return m, err
	}
	return nil, err
}

// tellKeepers gives each member that has lost its redundancy file the descriptions
// of the k members to its left, the nearest first, to store them again. It is
// collective.
func tellKeepers(set *Set, lost []int, k int, mine Member) ([]*Member, error) {
	n := set.Size()
	send := map[int]*Member{}
	for d := 1; d <= k; d++ {
		if right := (set.Me() + d) % n; slices.Contains(lost, right) {
			send[right] = &mine
		}
	}
	received, err := exchangeMembers(set.Comm, send)
	left := make([]*Member, k)
	for d := range left {
		left[d] = received[(set.Me()-d-1+n)%n]
	}
	return left, err
}

// exchangeMembers sends each rank the description that send has for it, and returns
// those received, by sender. It leaves out those that it cannot decode, and does not
// return early for them. It is collective.
func exchangeMembers(c mpi.Comm, send map[int]*Member) (map[int]*Member, error) {
	h := hash.New()
	for rank, m := range send {
		h.Set(strconv.Itoa(rank), m.encode())
	}
	received, err := hash.Exchange(h, c)
	members := map[int]*Member{}
	for _, rank := range received.Ints() {
		if m, err := decodeMember(received.Get(strconv.Itoa(rank))); err == nil {
			members[rank] = &m
		}
	}
	return members, err
}
