package stripe

import (
	"fmt"

	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/mpi"
)

// Encode writes the member's redundancy file and records the checksums of its
// files as they are read. Every file is read once.
func (s Scheme) Encode(j *redundancy.Job, files []redundancy.File) ([]redundancy.File, error) {
	set := j.Set
	n, k := set.Size(), s.K
	if k >= n {
		return nil, fmt.Errorf("%s with %d losses borne needs sets of more members than the %d of set %d", s.Type, k, n, set.ID)
	}
	columns, err := s.encoding(n)
	if err != nil {
		return nil, err
	}
	data := redundancy.OpenLogical(files)
	chunk, err := chunkSize(set, data.Size(), n-k)
	if err != nil {
		return nil, err
	}

	// Lay the header out. The neighbours' parts of it come once their checksums
	// are known; now their sizes are enough.
	header := redundancy.NewHeader(j, pieceSize(j.Piece, chunk, k))
	header.SetChunks(chunk, k)
	current := redundancy.NewMember(set.Ranks[set.Me()], files)
	header.SetCurrent(current)
	room, err := redundancy.PartnerRoom(set, k, current)
	if err != nil {
		return nil, err
	}
	out := j.Create(s.Extension, s.Type, header, room)

	p := &member{geometry: geometry{n, k}, me: set.Me(), chunk: chunk, data: data, out: out}
	if err := reduce(set, columns, chunk, int(header.Block()), p); err != nil {
		return nil, err
	}

	failed := data.Close()
	for i, crc := range data.Checksums() {
		files[i].Meta.SetCRC(crc)
	}
	if err := header.ExchangePartners(set, k, current); err != nil {
		return nil, err
	}
	file, err := out.Finish()
	if failed == nil {
		failed = err
	}
	return []redundancy.File{file}, failed
}

// chunkSize is the smallest size of which so many chunks hold every member's
// files.
func chunkSize(set *redundancy.Set, size int64, chunks int) (int64, error) {
	largest := []int64{size}
	err := set.Comm.Allreduce(largest, mpi.Max)
	return (largest[0] + int64(chunks) - 1) / int64(chunks), err
}

// pieceSize is how much of a chunk is passed on at a time. Sums of k pieces
// travel together, and what is under way shall fit into the memory that a rank
// may take.
func pieceSize(piece int, chunk int64, k int) int {
	const least, most = 64, 16 << 20
	piece = min(piece, most/(3*k*2*depth))
	return int(min(int64(piece), max(chunk, least)))
}

// member is the part of a member in encoding and recovery: what it has in its
// files and its redundancy file, and where what it gets is stored.
type member struct {
	geometry
	me    int
	chunk int64

	data *redundancy.Logical
	made *redundancy.Reader // its redundancy, when it is read
	out  *redundancy.Writer // its redundancy, when it is written
}

func (p *member) each(c int, offset int64, n int, use func(from int, data []byte)) int {
	if i := p.redundant(c, p.me); i >= 0 {
		p.made.Each(i, offset, n, use)
		return n
	}
	return p.data.Each(int64(p.geometry.chunk(c, p.me))*p.chunk+offset, n, int64(c), use)
}

func (p *member) store(c int, offset int64, piece []byte) {
	if i := p.redundant(c, p.me); i >= 0 {
		p.out.WriteBlock(piece, i, offset)
		return
	}
	p.data.Write(piece, int64(p.geometry.chunk(c, p.me))*p.chunk+offset, int64(c))
}
