package cache

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/mpi"
)

// descriptions are the descriptions of datasets and their redundancy descriptors in
// the filemaps. If a scheme tolerates the loss of k members of a set, each member also stores
// the descriptors of the k members to its left, so that each descriptor survives the loss.
type descriptions struct {
	*parts
	prefix  string                // prefix directory of the job
	current []*reddesc.Descriptor // of this run
}

// known reports whether the caller's own filemap describes its part of a dataset.
func (p *descriptions) known(id int) bool {
	return !p.maps.Dataset(id, p.me()).IsZero() && p.maps.Reddesc(id, p.me()) != nil
}

// describe stores the description of a dataset in the caller's entry.
func (p *descriptions) describe(c *Cached) {
	id := c.ID()
	p.maps.SetDataset(id, p.me(), p.description(c))
}

// description describes a dataset in the caller's entry.
func (p *descriptions) description(c *Cached) filemap.Description {
	id := c.ID()
	return filemap.Description{Dataset: c.Dataset, Prefix: p.prefix, Dir: p.places.place(id).dir, World: p.places.world[id]}
}

// record stores the descriptions of a dataset, the caller's and its neighbours'.
// It is collective over the set.
func (p *descriptions) record(c *Cached) error {
	id, set := c.ID(), c.Desc.Set
	own := c.Desc.Stored()
	p.describe(c)
	p.maps.SetReddesc(id, p.me(), own.Hash())
	own.Node = p.log.Node
	for d, left := range keptFor(c) {
		h := hash.Sendrecv(own.Hash(), (set.Me()+d+1)%set.Size(), left, set.Comm)
		of := filemap.Description{Dataset: c.Dataset}
		of.SetComplete(false) // it only names the dataset of the descriptor
		if !p.maps.Dataset(id, set.Ranks[left]).Same(c.Dataset) {
			p.maps.SetDataset(id, set.Ranks[left], of)
		}
		p.maps.SetReddesc(id, set.Ranks[left], h)
	}
	return p.maps.Fold()
}

// keptFor returns the members of the set whose descriptors the caller stores, the
// nearest first.
func keptFor(c *Cached) []int {
	n := c.Desc.Set.Size()
	var left []int
	for d := 1; d <= c.Desc.Scheme.Failures(n); d++ {
		left = append(left, (c.Desc.Set.Me()-d+n)%n)
	}
	return left
}

// forget removes a rank's part of a dataset from the filemap, except the description
// that the caller keeps for it.
func (p *descriptions) forget(c *Cached, rank int) {
	kept := slices.ContainsFunc(keptFor(c), func(member int) bool { return c.Desc.Set.Ranks[member] == rank })
	if kept {
		p.maps.RemoveFiles(c.ID(), rank)
	} else {
		p.maps.RemoveRank(c.ID(), rank)
	}
}

// recorded is what the filemaps of all ranks have of a dataset.
type recorded struct {
	filemap.Description      // from the lowest rank that has it recorded as complete
	ranks               int  // how many have written the dataset, -1 if no rank knows it
	mixed               bool // some ranks have parts of other datasets of the same id
}

// find finds out what is recorded of a dataset. A node that some runs did not use may have another dataset of
// the same id; the newest counts. It takes one reduction, and a message of the rank that has the description unless it is the same
// everywhere. It is collective.
func (p *descriptions) find(id int) (recorded, error) {
	var mine filemap.Description
	newest, oldest := int64(math.MinInt64), int64(math.MaxInt64) // of all that the caller has
	for _, rank := range p.maps.Ranks(id) {
		d := p.maps.Dataset(id, rank)
		if d.Complete() && d.ID() == id && (mine.IsZero() || d.Created().After(mine.Created())) {
			mine = d
		}
		if !d.IsZero() {
			newest, oldest = max(newest, d.Created().UnixMicro()), min(oldest, d.Created().UnixMicro())
		}
	}
	created, first := int64(math.MinInt64), int64(math.MinInt64)
	digest, inverse := int64(math.MaxInt64), int64(math.MaxInt64) // without mine they are those of no description
	if !mine.IsZero() {
		created, first = mine.Created().UnixMicro(), -int64(p.me())
		digest = digestOf(mine)
		inverse = ^digest
	}
	most := []int64{created, first, digest, inverse, newest, -oldest, int64(p.written(id))}
	p.world.Allreduce(most, mpi.Max)
	found := recorded{ranks: int(most[6]), mixed: most[4] != -most[5]}
	if most[0] == math.MinInt64 {
		return found, fmt.Errorf("%w: %w", redundancy.ErrUnrecoverable, errUnfinished)
	}
	root := int(-most[1])
	if found.mixed {
		root = p.first(created == most[0])
	}
	if found.Description = mine; most[2] != ^most[3] {
		found.UnmarshalHash(hash.Bcast(mine.MarshalHash(), root, p.world))
	}
	return found, nil
}

// digestOf returns a digest of a description.
func digestOf(d filemap.Description) int64 {
	sum := sha256.Sum256(d.MarshalHash().Pack(nil))
	return int64(binary.LittleEndian.Uint64(sum[:]))
}

// first returns the lowest rank on which holds is true, the number of ranks if there
// is none. It is collective.
func (p *descriptions) first(holds bool) int {
	rank := p.world.Size()
	if holds {
		rank = p.me()
	}
	return mpi.AllreduceOne(p.world, rank, mpi.Min)
}

// dropOthers deletes parts of other datasets that have the same id as d. It is not collective.
func (p *descriptions) dropOthers(d filemap.Description) error {
	var failed error
	for _, rank := range p.maps.Ranks(d.ID()) {
		other := p.maps.Dataset(d.ID(), rank)
		if other.IsZero() || other.Created().Equal(d.Created()) {
			continue
		}
		p.log.Warn("files of rank %d here are of another dataset %d (%s), from an earlier run; they are deleted", rank, d.ID(), other.Name())
		if p.places.device(d.ID()) != "" { // the files may belong to the newer one by now
			p.maps.RemoveRank(d.ID(), rank)
			continue
		}
		failed = cmp.Or(failed, p.deletePart(d.ID(), rank))
	}
	return failed
}

// ownDescriptor gives every rank its redundancy descriptor of a dataset, from its own
// filemap or from a rank with a copy, nil if there is none. It is collective.
func (p *descriptions) ownDescriptor(id int) (*reddesc.Stored, error) {
	send := hash.New()
	for _, rank := range p.maps.Ranks(id) {
		if h := p.maps.Reddesc(id, rank); h != nil && rank < p.world.Size() {
			send.Set(strconv.Itoa(rank), h)
		}
	}
	received, err := hash.Exchange(send, p.world)
	for _, h := range received.All() {
		return reddesc.FromHash(h), nil
	}
	return nil, err
}

// descriptor makes the descriptor of a dataset again. If descriptors are lost, it calls
// missing on all ranks, for its error message: missing reports whether some of the caller's
// files are on no node. It is collective.
func (p *descriptions) descriptor(id int, node mpi.Comm, missing func() (bool, error)) (*reddesc.Descriptor, error) {
	if desc := reddesc.Reuse(p.world, reddesc.FromHash(p.maps.Reddesc(id, p.me())), p.current); desc != nil {
		return desc, nil
	}
	own, err := p.ownDescriptor(id)
	if err != nil {
		return nil, err
	}
	desc, why := reddesc.Restore(p.world, own)
	if why == nil {
		return desc, nil
	}
	first := p.first(own != nil)
	lost := mpi.AllreduceOne(p.world, one(own == nil), mpi.Sum)
	if lost == 0 {
		return nil, fmt.Errorf("%w: %w", redundancy.ErrUnrecoverable, why)
	}
	gone, err := missing()
	if err != nil {
		return nil, err
	}
	who := losses(p.world, node, gone)
	protection := "nobody knows how it was protected"
	if first < p.world.Size() {
		var text []byte
		if own != nil {
			text = []byte(own.String())
		}
		text = mpi.BcastBytes(p.world, text, first)
		protection = string(text)
	}
	return nil, fmt.Errorf("%w: %s have lost files, and the copies of the descriptions of %d of them are lost, too; %s",
		redundancy.ErrUnrecoverable, who, lost, protection)
}
