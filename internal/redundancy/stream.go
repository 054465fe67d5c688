package redundancy

import (
	"github.com/goscr/goscr/internal/mpi/buffer"
	"github.com/goscr/goscr/mpi"
)

// Source is data that a rank sends.
type Source struct {
	To   []int // ranks that receive all of it; if empty, it is only read, to check it
	Tag  int   // of the messages; sources with the same receiver have different tags
	Size int64 // bytes
	// Each reads the n bytes from offset and passes them to use in batches: data[0] is
	// byte from of the n bytes.
	Each func(offset int64, n int, use func(from int, data []byte))
}

// Sink is data that a rank receives from the Source of rank From with the same tag and
// size.
type Sink struct {
	From, Tag int
	Size      int64 // bytes
	Write     func(buf []byte, offset int64)
}

// Source returns a source of all bytes of the files, which it reads as column 0.
func (l *Logical) Source(tag int, to ...int) Source {
	return Source{To: to, Tag: tag, Size: l.size, Each: func(offset int64, n int, use func(from int, data []byte)) {
		l.Each(offset, n, 0, use)
	}}
}

// Source returns a source of section i.
func (r *Reader) Source(i, tag int, to ...int) Source {
	return Source{To: to, Tag: tag, Size: r.layout.sections[i].size, Each: func(offset int64, n int, use func(from int, data []byte)) {
		r.Each(i, offset, n, use)
	}}
}

// Sink returns a sink that writes section i.
func (w *Writer) Sink(i, from, tag int) Sink {
	return Sink{From: from, Tag: tag, Size: w.layout.sections[i].size, Write: func(buf []byte, offset int64) {
		w.WriteBlock(buf, i, offset)
	}}
}

const (
	// ahead is the number of pieces of a source or sink in transit at a time.
	ahead = 4
	// lag is the number of pieces sent before a rank waits for the first: by then
	// most of that piece has arrived.
	lag = ahead - 1
)

// Stream sends all sources at the same time, and receives all sinks, in pieces of piece
// bytes. The pattern of messages may be a ring, or any other in which every receiver of
// a source has a sink for it. There is no deadlock: to send or receive piece i, a rank
// waits only for others to receive pieces before i.
func Stream(c mpi.Comm, sources []Source, sinks []Sink, piece int) {
	memory := buffer.Lend(c, ahead*(len(sources)+len(sinks))*piece)
	defer memory.Return()
	rest, pieces := memory.Bytes, int64(0)
	// begin allots slots for a source or sink of size bytes.
	begin := func(size int64) moving {
		m := moving{comm: c, size: size, piece: int64(piece)}
		for i := range m.slots {
			m.slots[i].buf, rest = rest[:piece], rest[piece:]
		}
		pieces = max(pieces, m.pieces())
		return m
	}
	outgoing, incoming := make([]moving, len(sources)), make([]moving, len(sinks))
	for k, s := range sources {
		outgoing[k] = begin(s.Size)
	}
	for k, s := range sinks {
		incoming[k] = begin(s.Size)
		for i := range int64(ahead) {
			incoming[k].post(s, i)
		}
	}
	for i := range pieces + lag {
		for k, s := range sources {
			if i >= outgoing[k].pieces() {
				continue
			}
			outgoing[k].send(s, i)
		}
		arrived := i - lag
		for k, s := range sinks {
			if arrived < 0 || arrived >= incoming[k].pieces() {
				continue
			}
			incoming[k].store(s, arrived)
			incoming[k].post(s, arrived+ahead)
		}
	}
	for k := range outgoing {
		for i := range outgoing[k].slots {
			outgoing[k].slots[i].finish()
		}
	}
	memory.Done()
}

// moving is a source or sink with pieces in transit.
type moving struct {
	comm        mpi.Comm
	size, piece int64       // bytes
	slots       [ahead]slot // piece i is in slot i modulo ahead
}

// slot holds a piece in transit.
type slot struct {
	buf      []byte
	requests []mpi.Request
}

func (m *moving) pieces() int64 { return (m.size + m.piece - 1) / m.piece }

// slot returns the slot of piece i, where the piece begins, and its length.
func (m *moving) slot(i int64) (p *slot, offset int64, n int) {
	offset = i * m.piece
	return &m.slots[i%ahead], offset, int(min(m.piece, m.size-offset))
}

// send sends piece i of a source once its slot is free.
func (m *moving) send(s Source, i int64) {
	p, offset, n := m.slot(i)
	if len(s.To) == 0 {
		s.Each(offset, n, func(int, []byte) {})
		return
	}
	p.finish()
	s.Each(offset, n, func(from int, data []byte) { copy(p.buf[from:], data) })
	for _, to := range s.To {
		p.requests = append(p.requests, m.comm.Isend(p.buf[:n], to, s.Tag))
	}
}

// post posts the receive of piece i of a sink, if there is such a piece.
func (m *moving) post(s Sink, i int64) {
	if i >= m.pieces() {
		return
	}
	p, _, n := m.slot(i)
	p.requests = append(p.requests, m.comm.Irecv(p.buf[:n], s.From, s.Tag))
}

// store waits for piece i of a sink, and writes it.
func (m *moving) store(s Sink, i int64) {
	p, offset, n := m.slot(i)
	p.finish()
	s.Write(p.buf[:n], offset)
}

// finish waits for the requests of a slot, so that its buffer may be used again.
func (p *slot) finish() {
	for _, r := range p.requests {
		r.Wait()
	}
	p.requests = p.requests[:0]
}
