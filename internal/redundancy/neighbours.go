package redundancy

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
)

// The header of a member's redundancy file also describes the files of the k neighbours
// to its left, if the scheme tolerates the loss of k members. So whichever k members are
// lost, the nearest survivor to the right of each has the description of its files.

// partnerRoom returns how many bytes the descriptions of the k neighbours to the left
// will need in a header. Their checksums are not known yet, but have a fixed length. It
// is collective.
func partnerRoom(set *Set, k int, mine Member) (room int) {
	n := set.Size()
	out, in := make([]byte, 8), make([]byte, 8)
	binary.LittleEndian.PutUint64(out, uint64(mine.encode().PackSize()))
	for d := 1; d <= k; d++ {
		set.Comm.Sendrecv(out, (set.Me()+d)%n, 0, in, (set.Me()-d+n)%n, 0)
		room += len(partnerKey(d)) + 1 + int(binary.LittleEndian.Uint64(in))
	}
	return room
}

// exchangePartners sets h.Left to the descriptions of the k neighbours to the left. It is
// collective; the error is not agreed.
func (h *Header) exchangePartners(set *Set, k int) error {
	n := set.Size()
	var failed error
	for d := 1; d <= k; d++ { // continues after an error, because the others wait for this member
		left, err := decodeMember(hash.Sendrecv(h.Current.encode(), (set.Me()+d)%n, (set.Me()-d+n)%n, set.Comm))
		failed = errors.Join(failed, err)
		h.Left = append(h.Left, &left)
	}
	return failed
}

// restoreCurrent sends each lost member the description of its files, which its nearest
// surviving neighbour to the right has. h is the header of a survivor, and nil on the
// lost members. It returns the description that the caller has received, nil if it has
// received none. It is collective.
func restoreCurrent(set *Set, lost []int, k int, h *Header) (*Member, error) {
	n := set.Size()
	send := map[int]*Member{}
	for d := 1; d <= k && h != nil; d++ {
		left := (set.Me() - d + n) % n
		if !slices.Contains(lost, left) {
			break // members further to the left have this survivor as their nearest one
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

// restoreLeft sends each lost member the descriptions of the k neighbours to its left,
// so that it can store them in its redundancy file. mine describes the caller. On a lost
// member the result has these descriptions, the nearest neighbour first, and nil for
// those that were not received. It is collective.
func restoreLeft(set *Set, lost []int, k int, mine Member) ([]*Member, error) {
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

// exchangeMembers sends each rank r the description send[r], and returns those received,
// by sender. It omits those that it cannot decode. It is collective.
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
