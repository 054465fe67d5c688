package redundancy

import "github.com/goscr/goscr/mpi"

// Source is something that a rank sends.
type Source struct {
	To   []int // ranks that all of it goes to; nobody, if it is only to be checked
	Tag  int   // tells apart what goes from one rank to another
	Size int64 // bytes
	// Each passes the n bytes from offset to use, in parts that begin at from.
	Each func(offset int64, n int, use func(from int, data []byte))
}

// Sink is something that a rank receives.
type Sink struct {
	From, Tag int
	Size      int64
	Write     func(buf []byte, offset int64)
}

// Source is all of the files.
func (l *Logical) Source(tag int, to ...int) Source {
	return Source{To: to, Tag: tag, Size: l.size, Each: func(offset int64, n int, use func(from int, data []byte)) {
		l.Each(offset, n, 0, use)
	}}
}

// Source is a section.
func (r *Reader) Source(i, tag int, to ...int) Source {
	return Source{To: to, Tag: tag, Size: r.layout.sections[i].size, Each: func(offset int64, n int, use func(from int, data []byte)) {
		r.Each(i, offset, n, use)
	}}
}

// ahead is the number of pieces of a stream that are under way at a time.
const ahead = 4

// Stream sends sources, piece by piece, side by side, while it fills sinks from
// others. Ranks may stream in a ring, or any other pattern in which each source
// has its sinks: a rank never waits for more than what the others do with pieces
// that come before the one that it is at.
func Stream(c mpi.Comm, sources []Source, sinks []Sink, piece int) error {
	count := func(size int64) int64 { return (size + int64(piece) - 1) / int64(piece) }
	length := func(size, i int64) int64 { return min(int64(piece), size-i*int64(piece)) }
	var total int64
	for _, s := range sources {
		total = max(total, count(s.Size))
	}
	for _, s := range sinks {
		total = max(total, count(s.Size))
	}
	if total == 0 {
		return nil
	}
	buffer, err := mpi.Alloc(ahead * (len(sources) + len(sinks)) * piece)
	if err != nil {
		return err
	}
	part := func(who int, i int64) []byte { return buffer[(who*ahead+int(i%ahead))*piece:][:piece] }
	sending := make([][ahead][]mpi.Request, len(sources))
	receiving := make([][ahead]mpi.Request, len(sinks))

	await := func(i int64) error {
		for k, s := range sinks {
			if i >= count(s.Size) {
				continue
			}
			receiving[k][i%ahead], err = c.Irecv(part(len(sources)+k, i)[:length(s.Size, i)], s.From, s.Tag)
			if err != nil {
				return err
			}
		}
		return nil
	}
	send := func(k int, s Source, i int64) error {
		if i >= count(s.Size) {
			return nil
		}
		at, n := i*int64(piece), int(length(s.Size, i))
		if len(s.To) == 0 {
			s.Each(at, n, func(int, []byte) {})
			return nil
		}
		if err := waitAll(sending[k][i%ahead]); err != nil {
			return err
		}
		sending[k][i%ahead] = sending[k][i%ahead][:0]
		buf := part(k, i)[:n]
		s.Each(at, n, func(from int, data []byte) { copy(buf[from:], data) })
		for _, to := range s.To {
			r, err := c.Isend(buf, to, s.Tag)
			if err != nil {
				return err
			}
			sending[k][i%ahead] = append(sending[k][i%ahead], r)
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
		for k, s := range sources {
			if err := send(k, s, i); err != nil {
				return err
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
			s.Write(part(len(sources)+k, done)[:length(s.Size, done)], done*int64(piece))
		}
		if err := await(done + ahead); err != nil {
			return err
		}
	}
	for k := range sending {
		for _, requests := range sending[k] {
			if err := waitAll(requests); err != nil {
				return err
			}
		}
	}
	mpi.Free(buffer) // not after an error: MPI may still use it
	return nil
}

func waitAll(requests []mpi.Request) error {
	for _, r := range requests {
		if _, err := r.Wait(); err != nil {
			return err
		}
	}
	return nil
}
