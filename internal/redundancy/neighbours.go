package redundancy

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
)

// The header of a member's redundancy file also describes the files of the k neighbours
// to its left, if the scheme tolerates the loss of k members. So whichever k members are
// lost, the nearest survivor to the right of each has the description of its files.

// descriptions are the packed descriptions of members in a header, by their keys. A rank may have very many files, so they
// stay packed.
type descriptions map[string][]byte

// size returns how many bytes the descriptions and their keys take in a header.
func (d descriptions) size() (size int) {
	for key, packed := range d {
		size += len(key) + 1 + len(packed)
	}
	return size
}

// describe returns the descriptions of the members that a header describes.
func (h *Header) describe() descriptions {
	d := descriptions{keyCurrent: h.Current.encode().Pack(nil)}
	for i, m := range h.Left {
		if m != nil {
			d[partnerKey(i+1)] = m.encode().Pack(nil)
		}
	}
	return d
}

// spaceFor returns descriptions of the caller and of the k neighbours to its left that have only their sizes yet: the
// checksums of files are not known, but have a fixed length. It is collective.
func spaceFor(set *Set, k int, mine Member) descriptions {
	n := set.Size()
	size := mine.encode().PackSize()
	d := descriptions{keyCurrent: make([]byte, size)}
	out, in := make([]byte, 8), make([]byte, 8)
	binary.LittleEndian.PutUint64(out, uint64(size))
	for i := 1; i <= k; i++ {
		set.Comm.Sendrecv(out, (set.Me()+i)%n, 0, in, (set.Me()-i+n)%n, 0)
		d[partnerKey(i)] = make([]byte, binary.LittleEndian.Uint64(in))
	}
	return d
}

// exchange fills the descriptions that spaceFor has returned. It is collective; the error is not agreed.
func (d descriptions) exchange(set *Set, mine Member) (err error) {
	n, own := set.Size(), d[keyCurrent]
	if packed := mine.encode().Pack(own[:0]); len(packed) != len(own) { // takes part, because the others wait for this member
		err = fmt.Errorf("the description of files of rank %d has %d bytes, and had %d before", mine.Rank, len(packed), len(own))
	}
	for i := 1; i < len(d); i++ {
		set.Comm.Sendrecv(own, (set.Me()+i)%n, 0, d[partnerKey(i)], (set.Me()-i+n)%n, 0)
	}
	return err
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
