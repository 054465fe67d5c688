package migrate

import (
	"cmp"
	"os"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/redundancy"
)

// batchPieces is how many pieces of files move at a time, if they are in different
// files: that is the room that moving takes on a node, for each of its ranks.
const batchPieces = 64

// transfer does what a rank has to do in a round: it sends some files of a part to
// their owner, and receives some of its own; either rank may be -1. Files go in
// batches, each in one stream of pieces; the sender deletes those of a batch once
// the receiver has them on disk and in its filemap. sent says whether all have
// arrived at the other rank, and missed why they have not here. What does not
// arrive counts as lost, and may be rebuilt; the error is of MPI.
func (m *Migration) transfer(outgoing fileList, to, from int) (sent bool, missed, err error) {
	if to < 0 && from < 0 {
		return true, nil, nil
	}
	coming, err := swap(m.World, message{list: outgoing}, to, from)
	if err != nil {
		return false, nil, err
	}
	missed = m.expect(coming.list)
	most := batchPieces * int64(m.Piece)
	out, in := outgoing.batches(most), coming.list.batches(most)
	sent = true
	for len(out) > 0 || len(in) > 0 {
		b := batch{to: -1, from: -1, missed: missed}
		if len(out) > 0 {
			b.to, b.outgoing, out = to, out[0], out[1:]
		}
		if len(in) > 0 {
			b.from, b.incoming, in = from, in[0], in[1:]
		}
		var arrived bool
		if arrived, missed, err = m.moveBatch(b); err != nil {
			return false, nil, err
		}
		if !arrived {
			sent, out = false, nil
		}
		if missed != nil { // the sender stops too
			in = nil
		}
	}
	if missed != nil {
		m.Log.Warn("dataset %d: my files did not arrive from rank %d: %v", m.ID, from, missed)
		for _, f := range m.Files(m.World.Rank()) {
			if !f.Meta.Complete() {
				m.discard(m.World.Rank(), f)
			}
		}
	}
	return sent, missed, nil
}

// expect gives files that are about to arrive their paths, and enters them.
func (m *Migration) expect(files fileList) error {
	if err := files.place(m.Dir); err != nil {
		return err
	}
	for _, f := range files {
		md := f.Meta.Clone()
		md.SetComplete(false)
		if err := m.Maps.AddFile(m.ID, m.World.Rank(), f.Path, md); err != nil {
			return err
		}
	}
	return nil
}

// batch is files that move together, out and in. Either rank may be -1.
type batch struct {
	to, from           int
	outgoing, incoming fileList
	missed             error // why what comes cannot be stored
}

// moveBatch sends one batch of files and receives another. It returns whether that
// which was sent has arrived, and why what was to come has not.
func (m *Migration) moveBatch(b batch) (arrived bool, missed, err error) {
	missed, err = m.stream(b)
	if err != nil {
		return false, nil, err
	}
	if missed == nil {
		missed = m.secure(b.incoming)
	}
	// Tell the sender whether it may delete them.
	answer := message{files: len(b.incoming)}
	if missed != nil {
		answer.files = -1
	}
	answer, err = swap(m.World, answer, b.from, b.to)
	if err != nil {
		return false, nil, err
	}
	if b.to >= 0 && answer.files != len(b.outgoing) {
		return false, missed, nil
	}
	for _, f := range b.outgoing {
		m.discard(b.to, f)
	}
	return true, missed, nil
}

// stream sends the bytes of a batch and stores those of the other. What cannot be
// stored is received all the same.
func (m *Migration) stream(b batch) (missed, err error) {
	stored := b.incoming
	if b.missed != nil {
		stored = nil
	}
	source, sink := redundancy.OpenLogical(b.outgoing), redundancy.CreateLogical(stored)
	var sources []redundancy.Source
	if b.to >= 0 {
		sources = append(sources, source.Source(0, b.to))
	}
	var sinks []redundancy.Sink
	if b.from >= 0 {
		sinks = append(sinks, redundancy.Sink{From: b.from, Size: b.incoming.bytes(),
			Write: func(buf []byte, at int64) { sink.Write(buf, at, 0) }})
	}
	if err := redundancy.Stream(m.World, sources, sinks, m.Piece); err != nil {
		return nil, err
	}
	if err := source.Close(); err != nil {
		m.Log.Warn("dataset %d: files of rank %d could not be sent to it: %v", m.ID, b.to, err)
	}
	return cmp.Or(b.missed, sink.Close(), sink.Matches()), nil
}

// secure makes sure that files that have come are on disk, and then, in the
// filemap, that they are whole.
func (m *Migration) secure(files fileList) error {
	if len(files) == 0 {
		return nil
	}
	dir, err := os.Open(m.Dir)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(dir.Fd())) // one by one, many small files would take very long
	if err := cmp.Or(err, dir.Close()); err != nil {
		return err
	}
	for _, f := range files {
		if err := m.Maps.AddFile(m.ID, m.World.Rank(), f.Path, f.Meta); err != nil {
			return err
		}
	}
	return m.Maps.Sync()
}

// discard deletes a file that is not needed here. If that is not possible it is in
// the way, and no more.
func (m *Migration) discard(rank int, f redundancy.File) {
	if err := m.Delete(rank, f); err != nil {
		m.Log.Warn("dataset %d: a file of rank %d that is not needed here cannot be deleted: %v", m.ID, rank, err)
	}
}
