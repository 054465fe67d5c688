package redundancy

import "github.com/goscr/goscr/mpi"

// Source is what a rank sends in a stream.
type Source struct {
	To   []int // ranks that all of it goes to
	Size int64 // bytes
	// Read fills a piece from offset.
	Read func(buf []byte, offset int64)
}

// Sink is what a rank receives in a stream.
type Sink struct {
	From  int
	Size  int64
	Write func(buf []byte, offset int64)
}

// ahead is the number of pieces of a stream that are under way at a time.
const ahead = 4

// Stream sends a source, in pieces, to some ranks, while it fills sinks from
// others. Ranks may stream in a ring, or any other pattern in which each source
// has its sinks.
func Stream(c mpi.Comm, source Source, sinks []Sink, piece int) error {
	if len(source.To) == 0 {
		source.Size = 0
	}
	count := func(size int64) int64 { return (size + int64(piece) - 1) / int64(piece) }
	length := func(size, i int64) int64 { return min(int64(piece), size-i*int64(piece)) }
	total := count(source.Size)
	for _, s := range sinks {
		total = max(total, count(s.Size))
	}
	if total == 0 {
		return nil
	}
	buffer, err := mpi.Alloc(ahead * (1 + len(sinks)) * piece)
	if err != nil {
		return err
	}
	part := func(who int, i int64) []byte { return buffer[(who*ahead+int(i%ahead))*piece:][:piece] }
	sending := make([][]mpi.Request, ahead)
	receiving := make([][ahead]mpi.Request, len(sinks))

	await := func(i int64) error {
		for k, s := range sinks {
			if i >= count(s.Size) {
				continue
			}
			receiving[k][i%ahead], err = c.Irecv(part(1+k, i)[:length(s.Size, i)], s.From, 0)
			if err != nil {
				return err
			}
		}
		return nil
	}
	for i := range int64(ahead) {
		if err := await(i); err != nil {
			return err
		}
	}
	// What comes is taken a few pieces after what goes, so that it need not be
	// waited for.
	const lag = ahead - 1
	for i := range total + lag {
		if i < count(source.Size) {
			for _, r := range sending[i%ahead] {
				if _, err := r.Wait(); err != nil {
					return err
				}
			}
			sending[i%ahead] = sending[i%ahead][:0]
			buf := part(0, i)[:length(source.Size, i)]
			source.Read(buf, i*int64(piece))
			for _, to := range source.To {
				r, err := c.Isend(buf, to, 0)
				if err != nil {
					return err
				}
				sending[i%ahead] = append(sending[i%ahead], r)
			}
		}
		done := i - lag
		if done < 0 {
			continue
		}
		for k, s := range sinks {
			if done >= count(s.Size) {
				continue
			}
			if _, err := receiving[k][done%ahead].Wait(); err != nil {
				return err
			}
			s.Write(part(1+k, done)[:length(s.Size, done)], done*int64(piece))
		}
		if err := await(done + ahead); err != nil {
			return err
		}
	}
	for _, requests := range sending {
		for _, r := range requests {
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
	}
	mpi.Free(buffer) // not after an error: MPI may still use it
	return nil
}
