package migrate

import (
	"cmp"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/redundancy"
)

// batchPieces is the largest number of pieces in a batch of several files. It bounds the
// additional space that migration needs on a node for each rank.
const batchPieces = 64

// transfer does one round: it sends some files of a part to their owner, and receives
// some of the caller's own; either rank may be -1. Files are sent in batches, each in
// one stream of pieces; the sender deletes a batch once the receiver has it on disk and
// in its filemap. sent reports whether all files have arrived at the other rank. missed is
// the reason why some have not arrived here, nil if all have. Files that do not arrive count
// as lost, and may be rebuilt.
func (m *Migration) transfer(outgoing fileList, to, from int) (sent bool, missed error) {
	if to < 0 && from < 0 {
		return true, nil
	}
	coming := swap(m.World, message{List: outgoing, Places: identities(outgoing)}, to, from)
	missed = coming.List.place(m.Dir)
	arriving, outgoing, missed := m.keep(coming, outgoing, to, from, missed)
	if missed == nil {
		missed = m.expect(arriving)
	}
	most := batchPieces * int64(m.Piece)
	out, in := outgoing.batches(most), arriving.batches(most)
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
		if arrived, missed = m.moveBatch(b); !arrived {
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
	return sent, missed
}

// expect enters files that are about to arrive in the filemap.
func (m *Migration) expect(files fileList) error {
	for _, f := range files {
		md := f.Meta.Clone()
		md.SetComplete(false)
		if err := m.Maps.AddFile(m.ID, m.World.Rank(), f.Path, md); err != nil {
			return err
		}
	}
	return nil
}

// batch is the files that are sent and received together. Either rank may be -1.
type batch struct {
	to, from           int
	outgoing, incoming fileList
	missed             error // the reason why received files cannot be stored, else nil
}

// moveBatch sends one batch of files and receives another. arrived reports whether the
// sent batch has arrived; missed is the reason why the other has not, nil if it has.
func (m *Migration) moveBatch(b batch) (arrived bool, missed error) {
	kept, missed := m.stream(b)
	if missed == nil {
		missed = m.secure(kept)
	}
	// Tell the sender whether it may delete them.
	answer := message{Files: len(b.incoming)}
	if missed != nil {
		answer.Files = -1
	}
	answer = swap(m.World, answer, b.from, b.to)
	if b.to >= 0 && answer.Files != len(b.outgoing) {
		return false, missed
	}
	for _, f := range b.outgoing {
		m.discard(b.to, f)
	}
	return true, missed
}

// stream sends the files of a batch, and receives and stores the incoming ones, of which it
// returns those that are right. It receives bytes even if it cannot store them, so that the
// sender can continue.
func (m *Migration) stream(b batch) (kept fileList, missed error) {
	stored := b.incoming
	if b.missed != nil {
		stored = nil
	}
	source, sink := redundancy.OpenLogical(b.outgoing), redundancy.CreateLogical(stored)
	defer source.Release()
	defer sink.Release()
	var sources []redundancy.Source
	if b.to >= 0 {
		sources = append(sources, source.Source(0, b.to))
	}
	var sinks []redundancy.Sink
	if b.from >= 0 {
		sinks = append(sinks, redundancy.Sink{From: b.from, Size: b.incoming.bytes(),
			Write: func(buf []byte, at int64) { sink.Write(buf, at, 0) }})
	}
	redundancy.Stream(m.World, sources, sinks, m.Piece)
	unread := message{}
	if err := source.Close(); err != nil {
		m.Log.Warn("dataset %d: files of rank %d could not be sent to it: %v", m.ID, b.to, err)
		unread.Files = -1
	}
	// Zeros have arrived in place of bytes that could not be read, and not every file has a checksum.
	unread = swap(m.World, unread, b.to, b.from)
	missed = cmp.Or(b.missed, sink.Close())
	if missed == nil && b.from >= 0 && unread.Files < 0 {
		missed = &redundancy.CorruptError{Path: fmt.Sprintf("a file of rank %d", b.from), Reason: "cannot be read: the warning of that rank has the cause"}
	}
	if missed == nil {
		kept, missed = m.compare(b.incoming, sink)
	}
	return kept, missed
}

// compare compares received files with their descriptions. If a redundancy file has changed
// it is discarded, and made again later; if a file of the program has changed, that is an
// error.
func (m *Migration) compare(files fileList, sink *redundancy.Logical) (kept fileList, err error) {
	for i, crc := range sink.Checksums() {
		f := files[i]
		want, known := f.Meta.CRC()
		if !known && !redundant(f.Meta.Label()) { // of files without redundancy (Job.Unchecked)
			f.Meta.SetCRC(crc)
		}
		if known && crc != want {
			changed := &redundancy.CorruptError{Path: f.Path, Reason: fmt.Sprintf("checksum 0x%08x, was written with 0x%08x", crc, want)}
			if !redundant(f.Meta.Label()) {
				return nil, changed
			}
			m.Log.Warn("dataset %d: my redundancy did not arrive: %v", m.ID, changed)
			m.discard(m.World.Rank(), f)
			continue
		}
		kept = append(kept, f)
	}
	return kept, nil
}

// secure syncs received files, and then records them as whole in the filemap.
func (m *Migration) secure(files fileList) error {
	if len(files) == 0 {
		return nil
	}
	dir, err := os.Open(m.Dir)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(dir.Fd())) // one call, since to sync many small files one by one takes very long
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

// discard deletes a file that is not needed here. If that fails it only warns: the file does
// no harm other than to take space.
func (m *Migration) discard(rank int, f redundancy.File) {
	if err := m.Delete(rank, f); err != nil {
		m.tellUndeleted(rank, err)
	}
}

func (m *Migration) tellUndeleted(rank int, err error) {
	m.Log.Warn("dataset %d: a file of rank %d that is not needed here cannot be deleted: %v", m.ID, rank, err)
}
