// Package cache keeps datasets on storage inside the compute nodes: it lists them,
// evicts some for the next, and on a restart migrates files and rebuilds lost ones.
//
// The state of a rank's part of the cache is its filemap. The state that all
// ranks share is the list of datasets that can be used: it is the same on all
// of them, because it changes only in collective calls.
//
// Each of these files calls only those below it:
//
//	protect.go      a dataset is protected behind the program
//	complete.go     a dataset is valid on all ranks, and becomes usable
//	cache.go        Cache, which has the others: a dataset is begun, written and evicted
//	rebuild.go      Recovery, on a restart: each dataset is restored, postponed, left unused or deleted
//	repair.go       … verifies a dataset and rebuilds lost files
//	foreign.go      datasets of jobs of another size
//	unused.go       UnusedList: datasets that this run does not use, and that another run may
//	room.go         a store is full
//	directories.go  the directories of the node
//	strays.go       files that killed processes have left
//	list.go         UsableList: datasets that can be used
//	world.go        directories that all ranks share: files of several ranks
//	describe.go     descriptions of datasets, and redundancy descriptors
//	losses.go       … which ranks have lost files, for messages
//	parts.go        the files of a rank, and their entries in its filemap
//	filemaps.go     on a restart: the filemaps of a node, to the ranks now on it
//	spare.go        a redundancy file that is evicted becomes the next one
//	aside.go        datasets that cannot be deleted
//	place.go        which directory a dataset is in
//	dir.go          directories that only the user can enter
//	lock.go         one job at a time
//	migrate/        files are moved to the nodes where their ranks now run
package cache

import (
	"cmp"
	"slices"
	"time"

	"github.com/goscr/goscr/internal/lifecycle/life"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/probe"
	"github.com/goscr/goscr/mpi"
)

// Config holds the parameters of a cache, and the parts of the library that it uses.
type Config struct {
	World, Node mpi.Comm         // all ranks; the ranks that share the node's storage
	NodeRanks   []int            // the ranks of Node, by their ranks in World
	Stores      []*reddesc.Store // the first is the default
	Control     Base
	User, JobID string
	Allocation  string // the resource manager's id of the allocation, "" if there is none
	Prefix      string // of the job; without symbolic links, the same on all ranks
	Piece       int    // bytes that are read, sent and written at a time
	Distribute  bool   // on a restart, move files to the nodes of their ranks
	// VerifyEvicted reads datasets before they are evicted, and reports files that
	// have changed.
	VerifyEvicted bool
	// Checksums takes checksums of all files in Complete, also where nothing but the checksums needs the bytes: see
	// unchecked.
	Checksums bool
	Booted    time.Time // when the node of the caller has started; zero: as the kernel says
	Log       *report.Logger
	Events    *eventlog.Log // on rank 0
	Phases    *phases.Meter // nil: phases are not measured
}

// Cache is the caller's part of the cache. It begins, completes, protects and evicts datasets.
type Cache struct {
	Config Config
	*UsableList
	Unused   *UnusedList
	Recovery *Recovery
	dirs     *directories
	copies   *copies
}

// Open makes the directories of the cache and reads the filemaps of earlier runs. Open may change the stores: those that all nodes share are so afterwards. It
// is collective. locked, unless nil, is called on the first rank of each node with its control directory, when the caches
// of all nodes are locked, so that no other run uses them; its error is agreed, too.
func Open(c Config, run probe.Run, locked func(control string) error) (*Cache, error) {
	dirs := newDirectories(c)
	opened := false
	defer func() {
		if !opened { // also if MPI fails
			_ = dirs.close() // the first error says more
		}
	}()
	newest, err := dirs.open(run, locked)
	if err != nil {
		return nil, err
	}
	p := &parts{world: c.World, places: dirs.places, maps: dirs.maps.own, log: c.Log, piece: c.Piece, checks: c.Checksums || c.VerifyEvicted, dirs: map[string]bool{}, newest: newest}
	for _, s := range dirs.strays { // no new dataset is put into their directories
		p.highest = max(p.highest, s.id)
	}
	d := &descriptions{parts: p, prefix: c.Prefix}
	usable := &UsableList{parts: p, descs: d}
	k := &Cache{Config: c, UsableList: usable, dirs: dirs, copies: &copies{d, c.Node}}
	k.Unused = &UnusedList{usable: usable, parts: p, stores: c.Stores, prefix: c.Prefix}
	k.Recovery = &Recovery{config: c, parts: p, descs: d, copies: k.copies, repairer: &repairer{p, c.Node}, usable: usable, unused: k.Unused}
	opened = true
	return k, nil
}

// Nodes returns the number of nodes on which the job runs.
func (k *Cache) Nodes() int { return k.dirs.places.nodes }

// ControlDir returns the control directory, which the processes of a node share.
func (k *Cache) ControlDir() string { return k.dirs.control }

// Highest returns the highest id of a dataset that the caller has seen in the cache. It may
// differ between ranks, since only the first rank of a node sees strays.
func (k *Cache) Highest() int { return k.parts.highest }

// Checked records checksums of files of a dataset that is unchecked, all of which were read now. files are the
// caller's, with the paths of copies; others are left out. It is collective. If they cannot be recorded in the
// filemap, the next run finds the dataset unchecked.
func (k *Cache) Checked(c *Cached, files []redundancy.File) {
	if !c.Unchecked() {
		return
	}
	found := map[string]uint32{}
	for _, f := range files {
		if crc, known := f.Meta.CRC(); known {
			found[f.Meta.Label()] = crc
		}
	}
	left := false
	own, _ := redundancy.Split(k.Files(c.ID()))
	for _, f := range redundancy.Counted(own) {
		if _, known := f.Meta.CRC(); known {
			continue
		}
		crc, read := found[f.Meta.Label()]
		if left = left || !read; read {
			f.Meta.SetCRC(crc)
		}
	}
	if err := k.parts.maps.Fold(); err != nil {
		k.Config.Log.Detail("dataset %d: its checksums are not recorded: %v", c.ID(), err)
	}
	if !mpi.Any(k.Config.World, left) {
		k.Happened(c, life.Checked)
	}
}

// Create begins a dataset. Its files are entered with Add, and it becomes
// usable with Complete. It is collective.
func (k *Cache) Create(d dataset.Dataset, desc *reddesc.Descriptor) (*Cached, error) {
	c := &Cached{Dataset: d, Desc: desc, store: k.Config.Stores[storeNumber(k.Config.Stores, desc.Store)]}
	id := d.ID()
	k.parts.highest = max(k.parts.highest, id)
	if err := k.Unused.MakeWay(id); err != nil {
		return nil, err
	}
	k.parts.places.put(id, c.store)
	return c, mpi.Agree(k.Config.World, cmp.Or(k.parts.makeDir(id), k.descs.record(c)))
}

// Add enters a file of the dataset being written and returns its path in the
// cache. md must have its File. Entering a file again is no error.
func (k *Cache) Add(c *Cached, md meta.Meta) (string, error) { return k.parts.add(c.ID(), md) }

// MakeDirectory makes a directory of the caller's in the dataset being written, without what an
// earlier run has left there, and returns its path. below is relative to the directory of the
// dataset. Files that the program makes in it have to be entered with Add.
func (k *Cache) MakeDirectory(c *Cached, below string) (string, error) {
	return k.parts.makeOwnDir(c.ID(), below)
}

// Evict deletes datasets to make room for another one. It is collective.
func (k *Cache) Evict(leaving []*Cached) {
	k.dirs.removeStrays(k.UsableList)
	for _, c := range leaving {
		k.Config.Log.Info("dataset %d (%s) leaves the cache to make room", c.ID(), c.Name())
		own, made := redundancy.Split(k.Files(c.ID()))
		if k.Config.VerifyEvicted && (!c.Postponed() || k.parts.maps.Whole(c.ID(), k.parts.me())) { // else it is known that files are lost
			if err := redundancy.Verify(own, k.Config.Piece); err != nil {
				k.Config.Log.Warn("dataset %d (%s), which leaves the cache: %v", c.ID(), c.Name(), err)
			}
		}
		if len(made) > 0 && k.parts.places.inside(made[0].Path) {
			k.parts.places.place(c.ID()).keep(k.parts.me(), made[0])
		}
		k.Happened(c, life.Evicted)
		k.Delete(c.ID())
	}
}

// Purge deletes all datasets, usable or not, the newest last: if it is interrupted, and the
// next run does not purge, that run must not restart from an older checkpoint while newer
// ones are gone. It is collective.
func (k *Cache) Purge() {
	k.dirs.removeStrays(k.UsableList)
	var ids []int
	k.parts.each(func(id int) { ids = append(ids, id) })
	for _, id := range slices.Backward(ids) {
		k.Config.Log.Info("dataset %d is deleted from the cache", id)
		k.Delete(id)
	}
}

// Removed reports whether somebody has removed directories of the running job, or the
// caller's filemap: a script that cleans up nodes, or a user. It is not collective.
func (k *Cache) Removed() bool { return k.dirs.removed() }

// Remake makes again what Removed has missed, so that the job and later runs can use the
// cache of the node. It returns the datasets that have lost files, for Recovery.Repair, except datasets that are not
// protected yet, and those that Recovery.Restore checks later. It is collective; the error is agreed.
func (k *Cache) Remake() (damaged []*Cached, err error) {
	if err := k.dirs.remake(k.parts, k.list); err != nil {
		return nil, err
	}
	lost := make([]int64, len(k.list))
	for i, c := range k.list {
		if c.Protected() && !c.Postponed() {
			lost[i] = one(k.parts.damage(c) != none)
		}
	}
	k.Config.World.Allreduce(lost, mpi.Max)
	for i, c := range k.list {
		if lost[i] == 1 {
			damaged = append(damaged, c)
		}
	}
	return damaged, nil
}

// Close closes the files that Open has opened, and releases the lock.
func (k *Cache) Close() error { return k.dirs.close() }
