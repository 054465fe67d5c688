package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/descriptors"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/mpi"
)

// In a directory that all ranks share (GROUP=WORLD) several ranks may write parts of one
// file. The lowest of them owns the file: the file is counted, read, flushed and deleted with
// this rank, and the entries of the others refer to it (SHARED). No node takes such files
// away, but a node that is lost takes away its filemaps. So when a dataset is complete each
// node puts a copy of its entries in the directory of the dataset (filemap.CopiesDir).

// share waits until no rank writes to files any more and what was written is on the medium,
// and then decides which rank owns each file that several have. It is collective; the result is agreed.
func (v *validation) share() error {
	failed := v.failed
	for _, f := range v.files {
		if err := syncWritten(f.Path); err != nil {
			failed = cmp.Or(failed, fmt.Errorf("file %s was routed but cannot be used: %w", f.Meta.File(), err))
		}
	}
	if err := mpi.Agree(v.world, failed); err != nil {
		return err
	}
	owners, err := redundancy.Owners(v.world, redundancy.Names(v.files))
	if err != nil {
		return err
	}
	for _, f := range v.files {
		f.Meta.SetCounted()
		if owner, shared := owners[f.Meta.File()]; shared {
			f.Meta.SetShared(owner)
		}
	}
	return nil
}

// Common returns the directory of a dataset if all ranks share it, else "". There any rank
// can read the files of all.
func (k *Cache) Common(id int) string {
	if !k.parts.places.world[id] {
		return ""
	}
	return k.parts.places.dir(id)
}

// syncWritten syncs what any process of the node has written to a file. On a network file
// system another node sees only then how large the file is. A file that cannot be opened is
// left to File.Record.
func syncWritten(path string) error {
	f, err := descriptors.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) // do not wait for a pipe
	if err != nil {
		return nil
	}
	err = trust.Sync(f)
	return errors.Join(err, f.Close())
}

// sameSizes checks that the ranks that share a file see the same size of it. It is
// collective; the result is agreed.
func (v *validation) sameSizes() error {
	shared := false
	for _, f := range v.files {
		shared = shared || f.Meta.Shared()
	}
	if !mpi.Any(v.world, shared) {
		return nil
	}
	sized := func(f redundancy.File) string { return fmt.Sprintf("%s %d", f.Meta.File(), f.Meta.Size()) }
	var names []string
	for _, f := range v.files {
		names = append(names, sized(f))
	}
	owners, err := redundancy.Owners(v.world, names)
	if err != nil {
		return err
	}
	for _, f := range v.files {
		if _, same := owners[sized(f)]; f.Meta.Shared() && !same {
			err = cmp.Or(err, fmt.Errorf("%s has %d bytes here and another size on other ranks: no rank may write to it any more when it completes the dataset",
				f.Path, f.Meta.Size()))
		}
	}
	return mpi.Agree(v.world, err)
}

// copies are the copies of the entries of a node, beside the datasets.
type copies struct {
	*descriptions
	node mpi.Comm
}

// keep puts a copy of the caller's entry of a dataset, and of those of the other ranks
// on the node, beside the dataset. It is collective; the result is agreed.
func (p *copies) keep(c *Cached, files []redundancy.File) error {
	id, me := c.ID(), p.me()
	part := &filemap.Map{}
	for _, f := range files {
		part.AddFile(id, me, f.Path, f.Meta)
	}
	part.SetExpected(id, me, len(files), p.world.Size())
	d := p.description(c)
	d.SetComplete(true)
	part.SetDataset(id, me, d)
	desc := c.Desc.Stored()
	desc.Node = p.log.Node
	part.SetReddesc(id, me, desc.Hash())

	send := hash.New()
	send.Set("0", part.Hash())
	received, err := hash.Exchange(send, p.node)
	if err == nil && p.node.Rank() == 0 {
		all := &filemap.Map{}
		for _, h := range received.All() {
			all.Merge(filemap.FromHash(h))
		}
		err = p.write(id, all)
	}
	return mpi.Agree(p.world, err)
}

// write writes the copy of a node's entries.
func (p *copies) write(id int, all *filemap.Map) error {
	dir := filepath.Join(p.places.dir(id), filemap.CopiesDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return hash.WriteFile(filepath.Join(dir, fmt.Sprintf("filemap_%d.scrinfo", p.me())), all.Hash())
}

// read returns those of the copies of filemaps beside a dataset that the caller is to read.
// It is collective.
func (p *copies) read(d filemap.Description) (list []*filemap.Map) {
	dir := filepath.Join(p.places.dir(d.ID()), filemap.CopiesDir)
	names := hash.New()
	if p.me() == 0 {
		found, _ := filepath.Glob(filepath.Join(dir, filemap.Pattern)) // if there are none, the files count as lost
		for _, path := range found {
			names.At(filepath.Base(path))
		}
	}
	names = hash.Bcast(names, 0, p.world)
	for i, name := range names.Keys() {
		if i%p.world.Size() != p.me() {
			continue
		}
		h, err := hash.ReadFile(filepath.Join(dir, name))
		if err != nil {
			p.log.Warn("dataset %d: the copy of a filemap cannot be read: %v", d.ID(), err)
			continue
		}
		list = append(list, filemap.FromHash(h))
	}
	return list
}

// recall gives those ranks whose filemaps have lost their entry of a dataset the copy that
// is beside the dataset. It is collective; the error is agreed.
func (p *copies) recall(d filemap.Description) error {
	id, me := d.ID(), p.me()
	p.places.putWorld(id, d.Dir)
	if !mpi.Any(p.world, !p.maps.Whole(id, me) || !p.known(id)) {
		return nil
	}
	list := p.read(d)
	send := hash.New()
	for _, all := range list {
		for _, rank := range all.Ranks(id) {
			if rank < p.world.Size() && all.Dataset(id, rank).Same(d.Dataset) {
				send.Set(strconv.Itoa(rank), all.Extract(rank).Hash())
			}
		}
	}
	received, err := hash.Exchange(send, p.world)
	if err != nil {
		return err
	}
	for _, h := range received.All() {
		p.enter(d, filemap.FromHash(h), me)
	}
	err = p.maps.Fold()
	if noRoom(err) {
		err = nil // the next run can recall it in the same way
	}
	return mpi.Agree(p.world, err)
}

// recallAll enters what the copies beside a dataset of a job of another size say of all its
// ranks, so that it can be flushed whichever nodes are left. It is collective.
func (p *copies) recallAll(d filemap.Description) {
	p.places.putWorld(d.ID(), d.Dir)
	for _, all := range p.read(d) {
		for _, rank := range all.Ranks(d.ID()) {
			if all.Dataset(d.ID(), rank).Same(d.Dataset) {
				p.enter(d, all, rank)
			}
		}
	}
}

// enter enters what a copy has of a rank's part of a dataset and the caller's filemap has not.
func (p *copies) enter(d filemap.Description, from *filemap.Map, rank int) {
	id, maps := d.ID(), p.maps
	for _, path := range from.Files(id, rank) {
		md := from.Meta(id, rank, path)
		file := md.File()
		if file == "" {
			continue
		}
		path = filepath.Join(p.places.dir(id), file)
		if maps.Meta(id, rank, path).Complete() || md.Check(path) != nil {
			continue
		}
		maps.Map.AddFile(id, rank, path, md)
	}
	files, size := from.Expected(id, rank)
	maps.SetExpected(id, rank, files, size)
	if !maps.Dataset(id, rank).Complete() || maps.Reddesc(id, rank) == nil {
		d.Dir = p.places.place(id).dir
		maps.SetDataset(id, rank, d)
		maps.SetReddesc(id, rank, from.Reddesc(id, rank))
	}
}
