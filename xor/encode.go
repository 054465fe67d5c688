package xor

import (
	"encoding/binary"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/meta"
	"github.com/goscr/goscr/mpi"
)

// Encode writes the member's redundancy file and records the checksums of its
// files as they are read. Every file is read once.
func (Scheme) Encode(j *redundancy.Job, files []redundancy.File) ([]redundancy.File, error) {
	set := j.Set
	data := redundancy.OpenLogical(files)
	chunk, err := chunkSize(set, data.Size())
	if err != nil {
		return nil, err
	}
	piece := int(min(int64(j.Piece), max(chunk, 64)))

	// Lay the header out. The neighbour's part of it comes once its checksums
	// are known; now its size is enough.
	header := redundancy.NewHeader(j, chunk, piece)
	current := redundancy.NewMember(set.Ranks[set.Me()], files)
	header.SetCurrent(current)
	size, err := neighbourSize(set, current.PackSize())
	if err != nil {
		return nil, err
	}
	out := j.Create(extension, meta.XOR, header, redundancy.PartnerSize(size))

	if err := reduceScatter(set, data, out, chunk, piece); err != nil {
		return nil, err
	}

	failed := data.Close()
	for i, crc := range data.Checksums() {
		files[i].Meta.SetCRC(crc)
	}
	partner, err := hash.Sendrecv(current.Hash, set.Right(), set.Left(), set.Comm)
	if err != nil {
		return nil, err
	}
	header.SetPartner(redundancy.Member{Hash: partner})
	file, err := out.Finish()
	if failed == nil {
		failed = err
	}
	return []redundancy.File{file}, failed
}

// neighbourSize tells the right neighbour a size and returns the left one's.
func neighbourSize(set *redundancy.Set, mine int) (int, error) {
	out, in := make([]byte, 8), make([]byte, 8)
	binary.LittleEndian.PutUint64(out, uint64(mine))
	_, err := set.Comm.Sendrecv(out, set.Right(), 0, in, set.Left(), 0)
	return int(binary.LittleEndian.Uint64(in)), err
}

// chunkSize is the smallest size of which N-1 chunks hold every member's files.
func chunkSize(set *redundancy.Set, size int64) (int64, error) {
	largest := []int64{size}
	err := set.Comm.Allreduce(largest, mpi.Max)
	n := int64(set.Size() - 1)
	return (largest[0] + n - 1) / n, err
}

// reduceScatter leaves the XOR of column i with member i. Piece by piece, the
// member right of it begins with its own part of the column; each next one
// adds its part and passes the sum on; the owner of the column ends it.
//
// The pieces go in two groups of slots, so that the last step of one group,
// which has to wait for the neighbour, comes after the first of the next,
// which has not.
func reduceScatter(set *redundancy.Set, data *redundancy.Logical, out *redundancy.Writer, chunk int64, piece int) error {
	n, me := set.Size(), set.Me()
	r, err := newRing(set, 2*depth, piece)
	if err != nil {
		return err
	}
	total := pieces(chunk, piece)
	groups := (total + depth - 1) / depth
	group := func(g int64) []slot {
		slots := r.slots[g%2*depth:][:min(depth, total-g*depth)]
		return slots
	}
	for g := range groups + 1 {
		if g < groups {
			c := (me - 1 + n) % n
			for i := range group(g) {
				s := &group(g)[i]
				if err := r.sent(s); err != nil {
					return err
				}
				s.place(g*depth+int64(i), chunk, piece)
				if err := r.await(s); err != nil {
					return err
				}
				data.Read(s.out[:s.size], column(c, me, chunk)+s.offset, int64(c))
				if err := r.send(s); err != nil {
					return err
				}
			}
		}
		if g > 0 {
			for i := range group(g - 1) {
				s := &group(g - 1)[i]
				if err := r.received(s); err != nil {
					return err
				}
				out.WriteBlock(s.in[:s.size], s.offset)
			}
		}
		if g < groups {
			for k := 2; k < n; k++ {
				c := (me - k + n) % n
				for i := range group(g) {
					s := &group(g)[i]
					if err := r.received(s); err != nil {
						return err
					}
					data.XOR(s.in[:s.size], column(c, me, chunk)+s.offset, int64(c))
					if err := r.sent(s); err != nil {
						return err
					}
					s.out, s.in = s.in, s.out
					if err := r.await(s); err != nil {
						return err
					}
					if err := r.send(s); err != nil {
						return err
					}
				}
			}
		}
	}
	for i := range r.slots {
		if err := r.sent(&r.slots[i]); err != nil {
			return err
		}
	}
	r.close()
	return nil
}
