package cache

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/meta"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/reddesc"
)

// distributeDataset gives every rank the description of a dataset, from the
// lowest rank that has it recorded as complete (spec 001
// scr_distribute_datasets). A node that was away for some runs may have
// another dataset of the same id; the newest counts. It is collective.
func (k *Cache) distributeDataset(id int) (dataset.Dataset, error) {
	var mine dataset.Dataset
	for _, rank := range k.maps.Ranks(id) {
		d := k.maps.Dataset(id, rank)
		if d.Complete() && d.ID() == id && (mine.Hash == nil || d.Created().After(mine.Created())) {
			mine = d
		}
	}
	newest := []int64{math.MinInt64}
	if mine.Hash != nil {
		newest[0] = mine.Created().UnixMicro()
	}
	if err := k.World.Allreduce(newest, mpi.Max); err != nil {
		return dataset.Dataset{}, err
	}
	first := []int64{int64(k.World.Size())}
	if mine.Hash != nil && mine.Created().UnixMicro() == newest[0] {
		first[0] = int64(k.me())
	}
	if err := k.World.Allreduce(first, mpi.Min); err != nil {
		return dataset.Dataset{}, err
	}
	if int(first[0]) == k.World.Size() {
		return dataset.Dataset{}, fmt.Errorf("%w: it was not completed", redundancy.ErrUnrecoverable)
	}
	h, err := hash.Bcast(mine.Hash, int(first[0]), k.World)
	return dataset.Dataset{Hash: h}, err
}

// dropOthers deletes parts of other datasets that have the same id as d.
func (k *Cache) dropOthers(d dataset.Dataset) error {
	var failed error
	for _, rank := range k.maps.Ranks(d.ID()) {
		other := k.maps.Dataset(d.ID(), rank)
		if other.Hash == nil || other.Created().Equal(d.Created()) {
			continue
		}
		k.Log.Warn("files of rank %d here are of another dataset %d (%s), from an earlier run; they are deleted", rank, d.ID(), other.Name())
		if k.device(d.ID()) != "" { // where the files may by now be those of the newer one
			k.maps.RemoveRank(d.ID(), rank)
			continue
		}
		if err := k.deletePart(d.ID(), rank); failed == nil {
			failed = err
		}
	}
	return mpi.Agree(k.World, failed)
}

// distributeDescriptor gives every rank the redundancy descriptor that it had
// for a dataset, from its own filemap or from a rank that kept a copy (spec
// 001 scr_distribute_reddescs). It is collective.
func (k *Cache) distributeDescriptor(id int) (*reddesc.Descriptor, error) {
	send := hash.New()
	for _, rank := range k.maps.Ranks(id) {
		if h := k.maps.Reddesc(id, rank); h != nil && rank < k.World.Size() {
			send.Set(strconv.Itoa(rank), h)
		}
	}
	received, err := hash.Exchange(send, k.World)
	if err != nil {
		return nil, err
	}
	var own *hash.Hash
	for _, h := range received.All() {
		own = h
		break
	}
	desc, err := reddesc.FromHash(k.World, own)
	var agreed *mpi.AgreedError
	if !errors.As(err, &agreed) {
		return desc, err
	}
	first := []int64{int64(k.World.Size())} // who still has one
	if own != nil {
		first[0] = int64(k.me())
	}
	if err := k.World.Allreduce(first, mpi.Min); err != nil {
		return nil, err
	}
	count := []int64{0}
	if own == nil {
		count[0] = 1
	}
	if err := k.World.Allreduce(count, mpi.Sum); err != nil {
		return nil, err
	}
	if count[0] == 0 {
		return nil, fmt.Errorf("%w: %w", redundancy.ErrUnrecoverable, err)
	}
	_, offered, err := k.offer(id)
	if err != nil {
		return nil, err
	}
	left := k.takeStock(id, offered)
	who, err := k.losses(left.failed && !left.known)
	if err != nil {
		return nil, err
	}
	protection := "nobody knows how it was protected"
	if int(first[0]) < k.World.Size() {
		text, err := mpi.BcastBytes(k.World, []byte(reddesc.Describe(own)), int(first[0]))
		if err != nil {
			return nil, err
		}
		protection = string(text)
	}
	return nil, fmt.Errorf("%w: %s have lost files, and the descriptions of %d are lost with those who kept them; %s",
		redundancy.ErrUnrecoverable, who, count[0], protection)
}

// Keys of what ranks tell each other about files that have to move.
const (
	keyRound = "ROUND" // of the sender, in which the files can come
	keyFiles = "FILES" // that the part has in all
	keyFile  = "FILE"  // / name, of each that is whole
)

// batch is how many pieces of files move at a time, if they are in different
// files: that is the room that moving takes on a node, for each of its ranks.
const batch = 64

// distributeFiles moves the files of a dataset to the nodes where the ranks
// that own them now are (spec 001 scr_distribute_files). A job that was killed
// while it did that has left the files of a rank on several nodes; so whoever
// has some that are whole offers those, and the owner, if it finds all of them
// among the offers and its own, asks for what it misses. In each round a rank
// sends to at most one other and receives from at most one. A file is deleted
// where it was as soon as its owner has it, so that it takes no room for a
// second copy of everything, and is on some node at any instant. Files whose
// owner does not want them are deleted in the end. It is collective.
func (k *Cache) distributeFiles(c *Cached) error {
	id, me := c.ID(), k.me()
	offers, offered, err := k.offer(id)
	if err != nil {
		return err
	}
	own := k.takeStock(id, offered)
	keep := map[int]bool{} // parts that did not arrive
	var failed error
	for {
		source, names, round, err := own.next(k)
		if failed == nil {
			failed = err
		}
		want := hash.New()
		last := []int64{-1}
		if source >= 0 {
			w := want.At(strconv.Itoa(source))
			for _, name := range names {
				w.At(keyFile, name)
			}
			last[0] = round
		}
		wanted, err := hash.Exchange(want, k.World)
		if err != nil {
			return err
		}
		if err := k.World.Allreduce(last, mpi.Max); err != nil {
			return err
		}
		if last[0] < 0 {
			break
		}
		for r := range last[0] + 1 {
			m := move{id: id, to: -1, from: -1}
			if r < int64(len(offers)) && wanted.Has(strconv.Itoa(offers[r])) {
				m.to, m.names = offers[r], wanted.Get(strconv.Itoa(offers[r]), keyFile)
			}
			if source >= 0 && r == round {
				m.from = source
			}
			sent, missed, err := k.swap(m)
			if err != nil {
				return err
			}
			keep[m.to] = keep[m.to] || !sent
			if missed != nil {
				own.failed = true
				c.elsewhere = c.elsewhere || !errors.As(missed, new(*redundancy.CorruptError))
			}
		}
	}
	for _, rank := range k.maps.Ranks(id) {
		if rank == me || keep[rank] {
			continue
		}
		// Where ranks share storage, the files may be in use by their owner.
		if k.device(id) == "" {
			if err := k.deleteFiles(id, rank); failed == nil {
				failed = err
			}
		}
		k.forget(c, rank)
	}
	if err := k.maps.Fold(); failed == nil {
		failed = err
	}
	return mpi.Agree(k.World, failed)
}

// forget takes a rank's part of a dataset out of the filemap, all but the
// description that the caller keeps for it.
func (k *Cache) forget(c *Cached, rank int) {
	id := c.ID()
	of, desc := k.maps.Dataset(id, rank), k.maps.Reddesc(id, rank)
	k.maps.RemoveRank(id, rank)
	if keepsDescriptor(c, rank) {
		k.maps.SetDataset(id, rank, of)
		k.maps.SetReddesc(id, rank, desc)
	}
}

// offer tells the owner of every part which of its files are whole here. It
// returns the ranks that have been told, in the order of the rounds in which
// they can have the files, and what the caller was offered. It is collective.
func (k *Cache) offer(id int) (ranks []int, offered *hash.Hash, err error) {
	send := hash.New()
	for _, rank := range k.maps.Ranks(id) {
		if rank >= k.World.Size() {
			continue
		}
		of := hash.New()
		if files, _ := k.maps.Expected(id, rank); files >= 0 {
			of.SetInt(keyFiles, int64(files))
		}
		for _, f := range k.filesOf(id, rank) {
			if f.Meta.Check(f.Path) == nil {
				of.At(keyFile, nameOf(f))
			}
		}
		if err := k.maps.Check(id, rank); err != nil {
			k.incomplete(id, rank, err)
		}
		if of.Size() > 0 {
			send.Set(strconv.Itoa(rank), of)
			ranks = append(ranks, rank)
		}
	}
	// Begin with the ranks above my own, so that not all ranks of a node that
	// has many parts offer them in the same order.
	start := 0
	for start < len(ranks) && ranks[start] < k.me() {
		start++
	}
	ranks = append(ranks[start:], ranks[:start]...)
	for round, rank := range ranks {
		send.Get(strconv.Itoa(rank)).SetInt(keyRound, int64(round))
	}
	offered, err = hash.Exchange(send, k.World)
	return ranks, offered, err
}

// nameOf is the name of a file below the directory of its dataset, as it was
// read from disk.
func nameOf(f redundancy.File) string { return f.Meta.Text("FILE") }

// stock is what the owner of a part knows of its files.
type stock struct {
	id      int
	files   int // that the part has, -1 if nobody knows
	offered *hash.Hash
	known   bool // to be complete, in the filemap
	failed  bool // some did not arrive
}

// takeStock looks at what is offered. If it is not all of the part, nothing
// need move.
func (k *Cache) takeStock(id int, offered *hash.Hash) *stock {
	s := &stock{id: id, files: -1, offered: offered, known: k.maps.Whole(id, k.me())}
	names := map[string]bool{}
	for _, of := range offered.All() {
		if n, ok := of.Int(keyFiles); ok {
			s.files = max(s.files, int(n))
		}
		for name := range of.Get(keyFile).All() {
			names[name] = true
		}
	}
	s.failed = s.files != len(names)
	return s
}

// next returns which files to ask whom for, in which of its rounds; nobody (-1)
// if there is nothing more to ask for. What has come is then complete.
func (s *stock) next(k *Cache) (source int, names []string, round int64, err error) {
	source = -1
	if s.failed || s.known {
		return source, nil, 0, nil
	}
	have := map[string]bool{}
	for _, f := range k.Files(s.id) {
		if f.Meta.Check(f.Path) == nil {
			have[nameOf(f)] = true
		} else if err := k.deleteFile(s.id, k.me(), f.Path); err != nil {
			s.failed = true
			return source, nil, 0, err
		}
	}
	for _, rank := range s.offered.Ints() {
		of := s.offered.Get(strconv.Itoa(rank))
		var missing []string
		for name := range of.Get(keyFile).All() {
			if !have[name] {
				missing = append(missing, name)
			}
		}
		at, _ := of.Int(keyRound)
		// Who has most of them, and can send them soonest.
		if rank != k.me() && len(missing) > 0 && (len(missing) > len(names) || len(missing) == len(names) && at < round) {
			source, names, round = rank, missing, at
		}
	}
	switch {
	case source >= 0:
		s.offered.Unset(strconv.Itoa(source)) // once is enough
	case len(have) != s.files:
		s.failed = true // what has come is gone again
	default:
		s.known = true
		k.maps.SetExpected(s.id, k.me(), s.files, k.World.Size())
		err = k.maps.Fold() // before anybody forgets that they had it
	}
	return source, names, round, err
}

// incomplete says why what is here of a part is not all of it. That a file is
// gone or has another size is somebody's doing; that the part was not completed
// is what a killed job leaves, and of a rank that was on a lost node there is a
// description only.
func (k *Cache) incomplete(id, rank int, why error) {
	tell := k.Log.Warn
	if files, _ := k.maps.Expected(id, rank); files < 0 || !k.maps.Dataset(id, rank).Complete() {
		tell = k.Log.Detail
	}
	tell("dataset %d: not all files of rank %d are here: %v", id, rank, why)
}

// move is what a rank has to do in a round: to send some of its files of a part
// to the owner, and to receive some of its own. Either rank may be -1.
type move struct {
	id       int
	to, from int
	names    *hash.Hash // of files to send
}

// swap does what is to be done in a round. Files go in batches, each in one
// stream of pieces; the sender deletes those of a batch once the receiver has
// them on disk and in its filemap. sent says whether all have arrived at the
// other rank, and missed why they have not here. What does not arrive counts as
// lost, and may be rebuilt; the error is of MPI.
func (k *Cache) swap(m move) (sent bool, missed, err error) {
	if m.to < 0 && m.from < 0 {
		return true, nil, nil
	}
	var outgoing, incoming []redundancy.File
	var leaving *hash.Hash
	if m.to >= 0 {
		for _, f := range k.filesOf(m.id, m.to) {
			if m.names.Has(nameOf(f)) {
				outgoing = append(outgoing, f)
			}
		}
		leaving = redundancy.NewMember(m.to, outgoing).Encode()
	}
	arriving, err := k.swapHash(leaving, m.to, m.from)
	if err != nil {
		return false, nil, err
	}
	if m.from >= 0 {
		incoming, missed = k.expect(m.id, arriving)
	}
	most := batch * int64(k.Piece)
	out, in := batches(leaving, most), batches(arriving, most)
	sent = true
	for len(out) > 0 || len(in) > 0 {
		step := transit{move: m, failed: missed}
		if len(out) == 0 {
			step.to = -1
		} else {
			step.outgoing, outgoing = outgoing[:out[0].files], outgoing[out[0].files:]
			out = out[1:]
		}
		if len(in) == 0 {
			step.from = -1
		} else {
			if missed == nil {
				step.incoming, incoming = incoming[:in[0].files], incoming[in[0].files:]
			}
			step.announced = in[0].bytes // what will come, whether it can be stored or not
			in = in[1:]
		}
		var arrived bool
		if arrived, missed, err = k.carry(step); err != nil {
			return false, nil, err
		}
		if !arrived {
			sent, out = false, nil
		}
		if missed != nil {
			in = nil
		}
	}
	if missed == nil {
		return sent, nil, nil
	}
	k.Log.Warn("dataset %d: my files did not arrive from rank %d: %v", m.id, m.from, missed)
	for _, f := range k.Files(m.id) {
		if !f.Meta.Complete() {
			k.letGo(m.id, k.me(), f)
		}
	}
	return sent, missed, nil
}

// letGo deletes a file that is not needed here. If that is not possible it is in
// the way, and no more.
func (k *Cache) letGo(id, rank int, f redundancy.File) {
	if err := k.deleteFile(id, rank, f.Path); err != nil {
		k.Log.Warn("dataset %d: a file of rank %d that is not needed here cannot be deleted: %v", id, rank, err)
	}
}

// transit is a batch of files on its way.
type transit struct {
	move
	outgoing, incoming []redundancy.File
	announced          int64 // bytes to come
	failed             error // why what comes cannot be stored
}

// carry sends one batch of files and receives another. It returns whether that
// which was sent has arrived, and why what was to come has not.
func (k *Cache) carry(t transit) (arrived bool, failed, err error) {
	source, sink := redundancy.OpenLogical(t.outgoing), redundancy.CreateLogical(t.incoming)
	var outflow []redundancy.Source
	if t.to >= 0 {
		outflow = append(outflow, source.Source(0, t.to))
	}
	var inflow []redundancy.Sink
	if t.from >= 0 {
		inflow = append(inflow, redundancy.Sink{From: t.from, Size: t.announced,
			Write: func(buf []byte, at int64) { sink.Write(buf, at, 0) }})
	}
	if err := redundancy.Stream(k.World, outflow, inflow, k.Piece); err != nil {
		return false, nil, err
	}
	if err := source.Close(); err != nil {
		k.Log.Warn("dataset %d: files of rank %d could not be sent to it: %v", t.id, t.to, err)
	}
	failed = t.failed
	if err := sink.Close(); failed == nil {
		failed = err
	}
	if failed == nil {
		failed = sink.Matches()
	}
	if failed == nil {
		failed = k.secure(t.id, t.incoming)
	}
	// Tell the sender whether it may let go.
	ack := hash.New()
	if failed == nil {
		ack.Set("OK", nil)
	}
	answer, err := k.swapHash(ack, t.from, t.to)
	if err != nil {
		return false, nil, err
	}
	if t.to >= 0 && !answer.Has("OK") {
		return false, failed, nil
	}
	for _, f := range t.outgoing {
		k.letGo(t.id, t.to, f)
	}
	return true, failed, nil
}

// secure makes sure that files that have come are on disk, and then, in the
// filemap, that they are whole.
func (k *Cache) secure(id int, files []redundancy.File) error {
	if len(files) == 0 {
		return nil
	}
	dir, err := os.Open(k.Dir(id))
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(dir.Fd())) // one by one, many small files would take very long
	if e := dir.Close(); err == nil {
		err = e
	}
	for _, f := range files {
		if err == nil {
			err = k.maps.AddFile(id, k.me(), f.Path, f.Meta)
		}
	}
	if err == nil {
		err = k.maps.Sync()
	}
	return err
}

// load is a number of files that move together.
type load struct {
	files int
	bytes int64
}

// batches divides the files that a member's hash describes, as its sender counts
// them, into batches that have no more than so many bytes or are one file. Both
// sides come to the same.
func batches(h *hash.Hash, most int64) []load {
	var list []load
	described := h.Get(keyFile)
	for i := range described.Size() {
		size := max(meta.Meta{Hash: described.Get(strconv.Itoa(i))}.Size(), 0)
		if len(list) == 0 || list[len(list)-1].bytes+size > most {
			list = append(list, load{})
		}
		list[len(list)-1].files++
		list[len(list)-1].bytes += size
	}
	return list
}

// swapHash sends h to one rank and receives one from another; either may be -1.
func (k *Cache) swapHash(h *hash.Hash, to, from int) (*hash.Hash, error) {
	switch {
	case to >= 0 && from >= 0:
		return hash.Sendrecv(h, to, from, k.World)
	case to >= 0:
		return nil, hash.Send(h, to, k.World)
	default:
		return hash.Recv(from, k.World)
	}
}

// expect enters the files that are about to arrive.
func (k *Cache) expect(id int, arriving *hash.Hash) ([]redundancy.File, error) {
	m, err := redundancy.DecodeMember(arriving)
	if err != nil {
		return nil, err
	}
	files := m.In(k.Dir(id))
	for _, f := range files {
		md := meta.Meta{Hash: f.Meta.Clone()}
		md.SetComplete(false)
		if err := k.maps.AddFile(id, k.me(), f.Path, md); err != nil {
			return nil, err
		}
	}
	return files, nil
}
