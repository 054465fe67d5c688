package redundancy

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
)

// The header of a member's redundancy file also describes the files of as many
// members to its left as the scheme bears the loss of. So whichever are lost,
// the description of each one's files is left with somebody: with the nearest
// survivor to its right.

// PartnerRoom returns the room that the descriptions of the k members to the
// left will take in a header, once their checksums are known. It is collective.
func PartnerRoom(set *Set, k int, mine Member) (room int, err error) {
	n := set.Size()
	out, in := make([]byte, 8), make([]byte, 8)
	binary.LittleEndian.PutUint64(out, uint64(mine.PackSize()))
	for d := 1; d <= k; d++ {
		if _, err := set.Comm.Sendrecv(out, (set.Me()+d)%n, 0, in, (set.Me()-d+n)%n, 0); err != nil {
			return 0, err
		}
		room += len(partnerKey(d)) + 1 + int(binary.LittleEndian.Uint64(in))
	}
	return room, nil
}

// ExchangePartners sets the descriptions of the k members to the left. It is
// collective.
func (h Header) ExchangePartners(set *Set, k int, mine Member) error {
	n := set.Size()
	for d := 1; d <= k; d++ {
		left, err := hash.Sendrecv(mine.Hash, (set.Me()+d)%n, (set.Me()-d+n)%n, set.Comm)
		if err != nil {
			return err
		}
		h.SetPartner(d, Member{left})
	}
	return nil
}

// TellOwners gives each member that has lost its files the description of them,
// from the nearest survivor to its right. h is the header of a survivor, nil on
// those who have lost theirs. It is collective.
func TellOwners(set *Set, lost []int, k int, h *Header) (Member, error) {
	n := set.Size()
	send := hash.New()
	for d := 1; d <= k && h != nil; d++ {
		left := (set.Me() - d + n) % n
		if !slices.Contains(lost, left) {
			break // it is nearer to all that are further left
		}
		if m := h.Partner(d); m.Hash != nil {
			send.Set(strconv.Itoa(left), m.Hash)
		}
	}
	received, err := hash.Exchange(send, set.Comm)
	for _, m := range received.All() {
		return Member{m}, err
	}
	return Member{}, err
}

// TellKeepers gives each member that has lost its redundancy file the
// descriptions that it is to keep there again: those of the k members to its
// left. They are returned by member. It is collective.
func TellKeepers(set *Set, lost []int, k int, mine Member) (*hash.Hash, error) {
	n := set.Size()
	send := hash.New()
	for d := 1; d <= k; d++ {
		if right := (set.Me() + d) % n; slices.Contains(lost, right) {
			send.Set(strconv.Itoa(right), mine.Hash)
		}
	}
	return hash.Exchange(send, set.Comm)
}
