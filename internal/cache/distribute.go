package cache

import (
	"fmt"
	"math"
	"strconv"

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
	return reddesc.FromHash(k.World, own)
}

const (
	keyRound  = "ROUND"
	keyDevice = "DEVICE" // see device
)

// distributeFiles moves the files of a dataset to the nodes where the ranks
// that own them now are (spec 001 scr_distribute_files). A part is offered by
// whoever has all of it; its owner takes it from itself if it can, else from
// who can send it soonest. In each round a rank sends to at most one other and
// receives from at most one. Files whose owner does not want them are deleted.
// It is collective.
func (k *Cache) distributeFiles(c *Cached) error {
	id, me, n := c.ID(), k.me(), k.World.Size()
	var offers []int // ranks whose parts I have, in the order of rounds
	for _, rank := range k.maps.Ranks(id) {
		if rank >= n {
			continue
		}
		if err := k.maps.Check(id, rank); err != nil {
			k.incomplete(id, rank, err)
			continue
		}
		offers = append(offers, rank)
	}
	// Begin with the ranks above my own, so that not all ranks of a node that
	// has many parts offer them in the same order.
	start := 0
	for start < len(offers) && offers[start] < me {
		start++
	}
	offers = append(offers[start:], offers[:start]...)

	send := hash.New()
	for round, rank := range offers {
		send.At(strconv.Itoa(rank)).SetInt(keyRound, int64(round))
		send.At(strconv.Itoa(rank)).SetValue(keyDevice, k.device(id))
	}
	offered, err := hash.Exchange(send, k.World)
	if err != nil {
		return err
	}
	source, sourceRound := -1, int64(-1)
	for _, rank := range offered.Ints() {
		round, _ := offered.Get(strconv.Itoa(rank)).Int(keyRound)
		if source < 0 || rank == me || (source != me && round < sourceRound) {
			source, sourceRound = rank, round
		}
	}
	want := hash.New()
	if source >= 0 {
		want.At(strconv.Itoa(source)).SetInt(keyRound, sourceRound)
		want.At(strconv.Itoa(source)).SetValue(keyDevice, k.device(id))
	}
	wanted, err := hash.Exchange(want, k.World)
	if err != nil {
		return err
	}
	last := []int64{-1}
	if source >= 0 && source != me {
		last[0] = sourceRound
	}
	if err := k.World.Allreduce(last, mpi.Max); err != nil {
		return err
	}

	var failed error
	keep := map[int]bool{} // parts that did not arrive
	for round := range int(last[0]) + 1 {
		to, from := -1, -1
		if round < len(offers) && offers[round] != me && wanted.Has(strconv.Itoa(offers[round])) {
			to = offers[round]
		}
		if source != me && int64(round) == sourceRound {
			from = source
		}
		arrived, err := k.swap(id, peer{to, k.reaches(id, wanted, to)}, peer{from, k.reaches(id, offered, from)})
		if failed == nil {
			failed = err
		}
		keep[to] = !arrived
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
		of, desc := k.maps.Dataset(id, rank), k.maps.Reddesc(id, rank)
		k.maps.RemoveRank(id, rank)
		if keepsDescriptor(c, rank) {
			k.maps.SetDataset(id, rank, of)
			k.maps.SetReddesc(id, rank, desc)
		}
	}
	if err := k.maps.Fold(); failed == nil {
		failed = err
	}
	return mpi.Agree(k.World, failed)
}

// incomplete says why a part counts as lost. That a file is gone or has another
// size is somebody's doing; that the part was not completed is what a killed
// job leaves, and of a rank that was on a lost node there is a description only.
func (k *Cache) incomplete(id, rank int, why error) {
	tell := k.Log.Warn
	if files, _ := k.maps.Expected(id, rank); files < 0 || !k.maps.Dataset(id, rank).Complete() {
		tell = k.Log.Detail
	}
	tell("dataset %d: the files of rank %d count as lost: %v", id, rank, why)
}

// peer is a rank that files of a dataset are sent to or received from, -1 for
// none. It may reach them where they are, on storage that it shares with the
// caller.
type peer struct {
	rank    int
	reaches bool
}

// reaches reports whether a rank has said that it has the same storage as the
// caller for a dataset.
func (k *Cache) reaches(id int, said *hash.Hash, rank int) bool {
	device := k.device(id)
	return device != "" && said.Get(strconv.Itoa(rank)).Text(keyDevice) == device
}

// swap sends the files of a rank to it, and receives the caller's own from
// another. All files of a part go in one stream of pieces.
// The sender deletes its files once the receiver has its own on disk and in
// its filemap, which arrived reports. What does not arrive counts as lost, and
// may be rebuilt; the error is of something worse.
func (k *Cache) swap(id int, receiver, sender peer) (arrived bool, err error) {
	to, from := receiver.rank, sender.rank
	if to < 0 && from < 0 {
		return true, nil
	}
	var outgoing []redundancy.File
	description := hash.New()
	if to >= 0 {
		outgoing = k.filesOf(id, to)
		description = redundancy.NewMember(to, outgoing).Hash
	}
	arriving, err := k.swapHash(description, to, from)
	if err != nil {
		return false, err
	}
	var incoming []redundancy.File
	var failed error // of receiving
	if from >= 0 {
		incoming, failed = k.expect(id, redundancy.Member{Hash: arriving})
	}
	announced := totalSize(arriving) // what will come, whether it can be stored or not
	sent, stored := outgoing, incoming
	if receiver.reaches {
		sent = nil
	}
	if sender.reaches {
		announced, stored = 0, nil
	}
	source, sink := redundancy.OpenLogical(sent), redundancy.CreateLogical(stored)
	outflow := redundancy.Source{Size: source.Size(), Read: func(buf []byte, at int64) { source.Read(buf, at, 0) }}
	if to >= 0 {
		outflow.To = []int{to}
	}
	var inflow []redundancy.Sink
	if from >= 0 {
		inflow = append(inflow, redundancy.Sink{From: from, Size: announced,
			Write: func(buf []byte, at int64) { sink.Write(buf, at, 0) }})
	}
	if err := redundancy.Stream(k.World, outflow, inflow, k.Piece); err != nil {
		return false, err
	}
	if err := source.Close(); err != nil {
		k.Log.Warn("dataset %d: files of rank %d could not be sent to it: %v", id, to, err)
	}
	if err := sink.Close(); failed == nil {
		failed = err
	}
	if failed == nil {
		failed = sink.Matches()
	}
	if failed == nil && from >= 0 {
		for _, f := range incoming {
			k.maps.Map.AddFile(id, k.me(), f.Path, f.Meta)
		}
		k.maps.SetExpected(id, k.me(), len(incoming), k.World.Size())
		failed = k.maps.Fold()
	}

	// Tell the sender whether it may let go.
	ack := hash.New()
	if failed == nil {
		ack.Set("OK", nil)
	}
	answer, err := k.swapHash(ack, from, to)
	if err != nil {
		return false, err
	}
	arrived = to < 0 || answer.Has("OK")
	if to >= 0 && arrived && !receiver.reaches {
		err = k.deleteFiles(id, to)
	}
	if failed != nil {
		k.Log.Warn("dataset %d: my files did not arrive from rank %d: %v", id, from, failed)
		if sender.reaches {
			return arrived, err
		}
		if e := k.deleteFiles(id, k.me()); err == nil {
			err = e
		}
	}
	return arrived, err
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
func (k *Cache) expect(id int, m redundancy.Member) ([]redundancy.File, error) {
	files, err := m.Files(k.Dir(id))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		md := meta.Meta{Hash: f.Meta.Clone()}
		md.SetComplete(false)
		if err := k.maps.AddFile(id, k.me(), f.Path, md); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// totalSize is the number of bytes that a member's files have together, as
// its sender counts them.
func totalSize(h *hash.Hash) int64 {
	var total int64
	for _, md := range h.Get("FILE").All() {
		total += max(meta.Meta{Hash: md}.Size(), 0)
	}
	return total
}
