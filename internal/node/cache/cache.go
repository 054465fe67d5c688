// Package cache keeps datasets on storage inside the compute nodes: it lists them,
// evicts some for the next, and on a restart migrates files and rebuilds lost ones.
//
// The state of a rank's part of the cache is its filemap. The state that all
// ranks share is the list of datasets that can be used: it is the same on all
// of them, because it changes only in collective calls.
//
// Each of these files calls only those below it:
//
//	rebuild.go    on a restart: each dataset is restored, postponed, left unused or deleted
//	repair.go     … verifies a dataset and rebuilds lost files
//	unused.go     datasets that this run does not use, and that another run may
//	foreign.go    ... those of jobs of another size
//	complete.go   a dataset becomes usable
//	room.go       ... or its store is full
//	cache.go      the list, files of a dataset being written
//	world.go      directories that all ranks share: files of several ranks
//	describe.go   descriptions of datasets, and redundancy descriptors
//	losses.go     … which ranks have lost files, for messages
//	parts.go      the files of a rank, and their entries in its filemap
//	filemaps.go   on a restart: the filemaps of a node, to the ranks now on it
//	strays.go     files that killed processes have left
//	spare.go      a redundancy file that is evicted becomes the next one
//	aside.go      datasets that cannot be deleted
//	place.go      which directory a dataset is in
//	dir.go        directories that only the user can enter
//	lock.go       one job at a time
//	migrate/      files are moved to the nodes where their ranks now run
package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/node/filemap"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/eventlog/phases"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/redundancy/reddesc"
	"github.com/goscr/goscr/internal/sys/lock"
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

// Cached is a dataset in the cache that can be used: at once, or after a call of Restore if it is
// postponed. The fields below the first line are conditions; internal/README.md defines their words.
type Cached struct {
	dataset.Dataset
	Desc *reddesc.Descriptor

	store    *reddesc.Store
	restored bool // Desc was made again for this dataset, and is freed with it
	refused  bool // this node had no room for the caller's files, which are whole on another node
	bare     bool // the caller has no redundancy file: goscr has not made it yet, or could not make it again
	waiting  bool // no attempt to protect the dataset has ended yet; the same on all ranks
	withheld bool // a restart is not offered this dataset; the same on all ranks
	// postponed is the description of a dataset whose files Restore has not verified and rebuilt yet. It is nil
	// on all ranks or on none.
	postponed *filemap.Description
	unchecked bool // some files have no checksum; the same on all ranks
	damaged   bool // the dataset is postponed, and some rank misses files; the same on all ranks

	encoding   time.Duration // how long the caller took to protect its files
	redundancy int64         // bytes that all ranks have made to protect them
}

// Encoded returns how long the caller took to protect its files in Complete, and how many
// bytes all ranks have made for that.
func (c *Cached) Encoded() (took time.Duration, bytes int64) { return c.encoding, c.redundancy }

// Store returns the store that has the dataset.
func (c *Cached) Store() *reddesc.Store { return c.store }

// Protected reports whether an attempt to protect the dataset has ended. The redundancy exists then unless the
// attempt failed on some rank: Exposed finds that out. The result is the same on all ranks.
func (c *Cached) Protected() bool { return !c.waiting }

// Postponed reports whether Restore has not verified and rebuilt the files of a dataset of an earlier run
// yet. The result is the same on all ranks.
func (c *Cached) Postponed() bool { return c.postponed != nil }

// Exposed reports for each of the datasets whether the loss of one more node may lose it: some rank has no redundancy
// file, or the dataset is postponed and some rank misses files. The call is collective.
func (k *Cache) Exposed(list []*Cached) []bool {
	if len(list) == 0 {
		return nil
	}
	seen := make([]int64, len(list))
	for i, c := range list {
		if c.bare || c.Postponed() && c.damaged {
			seen[i] = 1
		}
	}
	k.World.Allreduce(seen, mpi.Max)
	exposed := make([]bool, len(list))
	for i := range list {
		exposed[i] = seen[i] == 1
	}
	return exposed
}

// Unchecked reports whether files of a dataset have no checksums yet, so that Restore and the next run can
// only compare their sizes. Checked ends that. It is the same on all ranks.
func (c *Cached) Unchecked() bool { return c.unchecked }

// Verified returns now for a dataset whose files have just been protected, the zero time if they were not
// read for that.
func (c *Cached) Verified() time.Time {
	if c.unchecked {
		return time.Time{}
	}
	return time.Now()
}

// Withheld reports whether a checkpoint is not offered for a restart although nothing is
// wrong with it. It is the same on all ranks.
func (c *Cached) Withheld() bool { return c.withheld }

// Withhold sets what Withheld reports. All ranks call it.
func (c *Cached) Withhold(withheld bool) { c.withheld = withheld }

// made returns the number of redundancy files of each rank of the caller's set.
func (c *Cached) made() int {
	if c.Desc == nil || !c.Desc.Scheme.Tolerates(c.Desc.Set.Size(), []int{0}) {
		return 0
	}
	return 1
}

// Redundant reports whether the caller's files of a dataset have redundancy, which is computed from all
// their bytes.
func (c *Cached) Redundant() bool { return c.made() > 0 }

// free frees the communicator of a descriptor that was made again for the dataset. It
// is collective.
func (c *Cached) free() {
	if c.restored {
		c.restored = false
		c.Desc.Free()
	}
}

// Cache is the caller's part of the cache.
type Cache struct {
	Config
	control string     // directory that holds the filemaps
	lock    *lock.Lock // held while the job runs
	maps    *filemaps
	places  *places
	parts   *parts
	descs   *descriptions
	list    []*Cached // usable, newest first
	unused  []unused  // datasets that this run does not use, oldest first
	foreign []Foreign // those of unused that jobs of another size have written, newest first
	spoiled bool      // this run has failed to complete a dataset, possibly for lack of room
	strays  []stray
	highest int // highest id of all datasets that were seen in this cache
}

// Open makes the directories of the cache and reads the filemaps of earlier runs. Open may change the stores: those that all nodes share are so afterwards. It
// is collective. locked, unless nil, is called on the first rank of each node with its control directory, when the caches
// of all nodes are locked, so that no other run uses them; its error is agreed, too.
func Open(c Config, run probe.Run, locked func(control string) error) (*Cache, error) {
	name := "scr." + c.JobID
	k := &Cache{Config: c, control: filepath.Join(c.Control.Dir, c.User, name)}
	k.maps = &filemaps{node: c.Node, here: c.NodeRanks, dir: k.control, log: c.Log}
	opened := false
	defer func() {
		if !opened { // also if MPI fails
			_ = k.Close() // the first error says more
		}
	}()
	if err := k.open(name, run, locked); err != nil {
		return nil, err
	}
	k.descs = &descriptions{parts: k.parts, prefix: c.Prefix, node: c.Log.Node}
	opened = true
	return k, nil
}

// open locks the directories, whose last element is name, makes them, and gives the
// ranks of the node their filemaps. It is collective.
func (k *Cache) open(name string, run probe.Run, locked func(control string) error) error {
	k.places = newPlaces(k.Node, k.Stores, k.User, name)
	sharing := newSharing(k.World, k.Node, k.places.all, k.Log, run)
	var err error
	if k.Node.Rank() == 0 {
		defer sharing.remove()
		doubts := k.places.doubts(k.User) // before lockControl makes directories
		k.lock, err = lockControl(k.Config, k.control, run)
		if err == nil { // until it has the lock, scr_clean may remove them
			err = k.places.makeDirs(k.User, name)
		}
		if err == nil {
			for _, line := range doubts {
				k.Log.WarnJob("%s", line)
			}
			err = cmp.Or(removeTemporary(k.control, k.Log), sharing.put())
		}
		report.Forget(k.control)
	}
	if err := mpi.AgreeSum(k.World, err, sharing.counts); err != nil {
		return err
	}
	k.places.nodes = sharing.nodes()
	if k.Node.Rank() == 0 {
		err = sharing.look(k.Log.Node)
		if err == nil && locked != nil {
			err = locked(k.control)
		}
	} else {
		k.lock, err = joinLock(filepath.Join(k.control, LockFile))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("node %s has no %s here, which another rank of that node has made: are these ranks on different machines that have the same name? "+
				"SCR_NODE_NAME gives each node a name of its own: %w", k.Log.Node, k.control, err)
		}
	}
	all, found, e := k.maps.collect(err, k.places.search)
	if err = cmp.Or(err, e); e == nil { // else it is so on all ranks of the node
		k.places.enter(found)
		err = k.maps.deal(all, err)
	}
	most := append(sharing.seen, k.maps.newest())
	if err := mpi.AgreeMax(k.World, err, most); err != nil {
		return err
	}
	sharing.seen = most[:len(sharing.seen)]
	k.parts = &parts{world: k.World, places: k.places, maps: k.maps.own, log: k.Log, dirs: map[string]bool{}, newest: int(most[len(sharing.seen)])}
	if err := sharing.apply(k); err != nil {
		return err
	}
	if k.Node.Rank() == 0 {
		k.places.listStores(k.Config, k.control)
		k.findStrays(all)
	}
	k.places.removeOldSpares(k.Log)
	k.places.removeAside(k.Log)
	return nil
}

// lockControl makes the control directory of a node and locks it. While it waits for the
// lock, scr_clean may remove the directory; then it makes it again.
func lockControl(c Config, control string, run probe.Run) (*lock.Lock, error) {
	for {
		if err := privateDir(c.Control, c.User, filepath.Base(control)); err != nil {
			return nil, err
		}
		l, err := takeLock(filepath.Join(control, LockFile), c.User, c.JobID, string(run)+" ", c.Log.Node)
		if !gone(control) {
			return l, err
		}
		l.Release()
	}
}

// gone reports whether nothing has the name path.
func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// listStores records the job's own stores on this node, for commands that clean up the
// node: they look below SCR_CACHE_BASE without being told, but do not know that nodes share it. What an earlier run has recorded
// stays as long as it is there. It is no error if the list cannot be written.
func (p *places) listStores(c Config, control string) {
	list, err := filemap.ReadStores(control)
	if err == nil && c.Allocation != c.JobID {
		list.Allocation = c.Allocation
	}
	for dir := range list.Dirs {
		if _, gone := os.Lstat(dir); gone != nil {
			delete(list.Dirs, dir)
		}
	}
	for i, x := range p.all[:len(c.Stores)] { // the first is that of SCR_CACHE_BASE
		if x.dir != control && (i > 0 || x.store.Shared) {
			list.Dirs[x.dir] = x.store.Shared
		}
	}
	if err == nil {
		err = list.Write(control)
	}
	if err != nil && !noRoom(err) {
		c.Log.Warn("%v: scr_clean and scr_du may not find the caches of this job", err)
	}
}

// findStrays finds the strays of the node, on its first rank, which has all entries. Their
// ids count as seen, so that no new dataset is put into their directories.
func (k *Cache) findStrays(all *filemap.Map) {
	k.strays = k.places.strays(all)
	for _, s := range k.strays {
		k.highest = max(k.highest, s.id)
	}
}

// Nodes returns the number of nodes on which the job runs.
func Nodes(k *Cache) int { return k.places.nodes }

// ControlDir returns the control directory, which the processes of a node share.
func (k *Cache) ControlDir() string { return k.control }

// List returns the usable datasets, newest first. It is the same on all ranks.
func (k *Cache) List() []*Cached { return k.list }

// Find returns a usable dataset, nil if there is none of that id.
func (k *Cache) Find(id int) *Cached {
	for _, c := range k.list {
		if c.ID() == id {
			return c
		}
	}
	return nil
}

// Highest returns the highest id of a dataset that the caller has seen in the cache. It may
// differ between ranks, since only the first rank of a node sees strays.
func (k *Cache) Highest() int { return k.highest }

// Leaving returns the datasets of a series to evict from a store so that at most keep of them stay in it.
// Datasets of the least worth come first, and among those of equal worth the oldest.
func (k *Cache) Leaving(s *reddesc.Store, series string, keep int, worth func(*Cached) int) []*Cached {
	var all []*Cached
	for _, c := range slices.Backward(k.list) {
		if c.store == s && c.Series() == series {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *Cached) int { return worth(a) - worth(b) })
	return all[:max(len(all)-max(keep, 0), 0)]
}

// storeNumber returns the index of the store called name, or 0 if there is none.
func storeNumber(stores []*reddesc.Store, name string) int {
	return max(slices.IndexFunc(stores, func(s *reddesc.Store) bool { return s.Name == name }), 0)
}

// job describes a dataset to its scheme.
func (k *Cache) job(c *Cached) *redundancy.Job {
	id := c.ID()
	return &redundancy.Job{
		Set: c.Desc.Set, Dataset: c.Dataset, Ranks: k.World.Size(), Dir: k.places.dir(id), Piece: k.Piece,
		Register:  func(f redundancy.File) error { return k.parts.register(id, f) },
		Recycle:   k.places.place(id).recycle(k.World.Rank()),
		Unchecked: k.leavesUnchecked(id),
	}
}

// leavesUnchecked reports whether Complete takes no checksums of the caller's files of a dataset if there is
// no redundancy to compute from them: to read all bytes once more would take two fifths of the time in which the
// program has written them. In memory that is no risk for a restart, since a power failure leaves nothing there that could be wrong.
func (k *Cache) leavesUnchecked(id int) bool {
	return !k.Checksums && !k.VerifyEvicted && !k.places.world[id] && InMemory(k.places.place(id).dir)
}

// InMemory reports whether a directory is on a file system that a reboot empties.
func InMemory(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC)
}

// Checked records checksums of files of a dataset that is unchecked, all of which were read now. files are the
// caller's, with the paths of copies; others are left out. It is collective. If they cannot be recorded in the
// filemap, the next run finds the dataset unchecked.
func (k *Cache) Checked(c *Cached, files []redundancy.File) {
	if !c.unchecked {
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
		k.Log.Detail("dataset %d: its checksums are not recorded: %v", c.ID(), err)
	}
	c.unchecked = mpi.Any(k.World, left)
}

// ErrOtherProgram says that the number of a dataset is that of one that another program needs.
var ErrOtherProgram = errors.New("the dataset cannot be stored")

// Create begins a dataset. Its files are entered with Add, and it becomes
// usable with Complete. It is collective.
func (k *Cache) Create(d dataset.Dataset, desc *reddesc.Descriptor) (*Cached, error) {
	c := &Cached{Dataset: d, Desc: desc, store: k.Stores[storeNumber(k.Stores, desc.Store)]}
	id := d.ID()
	k.highest = max(k.highest, id)
	if i := slices.IndexFunc(k.unused, func(u unused) bool { return u.id == id && u.stays() }); i >= 0 { // on all ranks
		other := k.unused[i].other
		return nil, mpi.Agree(k.World, fmt.Errorf("%w: the cache has a dataset %d, too, which is %s of another program and not yet in %s: run that program again, so that it flushes it, "+
			"delete it with scr_clean, or give this one its own SCR_JOB_ID", ErrOtherProgram, id, other.Name(), other.Prefix))
	}
	// What the cache has of a dataset that is fetched again cannot stay beside it.
	k.deleteUnused(id)
	k.places.put(id, c.store)
	return c, mpi.Agree(k.World, cmp.Or(k.parts.makeDir(id), k.descs.record(c)))
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

// Files returns the caller's files of a dataset, redundancy included, sorted
// by path.
func (k *Cache) Files(id int) []redundancy.File { return k.parts.files(id, k.World.Rank()) }

// Delete removes a dataset, usable or not, with all its files. If some cannot be deleted,
// it reports that and sets them aside (aside.go). It is collective.
func (k *Cache) Delete(id int) {
	if c := k.Find(id); c != nil {
		c.free()
	}
	k.list = slices.DeleteFunc(k.list, func(c *Cached) bool { return c.ID() == id })
	stuck := k.parts.deleteAll(id)
	if stuck != nil {
		k.Log.Detail("dataset %d: %v", id, stuck)
	}
	k.World.Barrier() // all ranks have deleted their files
	k.parts.removeDir(id)
	k.World.Barrier()
	if stuck != nil { // entries are removed only after their files
		k.parts.forget(id)
	}
}

// Evict deletes datasets to make room for another one. It is collective.
func (k *Cache) Evict(leaving []*Cached) {
	k.removeStrays()
	for _, c := range leaving {
		k.Log.Info("dataset %d (%s) leaves the cache to make room", c.ID(), c.Name())
		own, made := redundancy.Split(k.Files(c.ID()))
		if k.VerifyEvicted && (!c.Postponed() || k.parts.maps.Whole(c.ID(), k.parts.me())) { // else it is known that files are lost
			if err := redundancy.Verify(own, k.Piece); err != nil {
				k.Log.Warn("dataset %d (%s), which leaves the cache: %v", c.ID(), c.Name(), err)
			}
		}
		if len(made) > 0 && k.places.inside(made[0].Path) {
			k.places.place(c.ID()).keep(k.World.Rank(), made[0])
		}
		k.Delete(c.ID())
	}
}

// Purge deletes all datasets, usable or not, the newest last: if it is interrupted, and the
// next run does not purge, that run must not restart from an older checkpoint while newer
// ones are gone. It is collective.
func (k *Cache) Purge() {
	k.removeStrays()
	var ids []int
	k.parts.each(func(id int) {
		k.highest = max(k.highest, id)
		ids = append(ids, id)
	})
	for _, id := range slices.Backward(ids) {
		k.Log.Info("dataset %d is deleted from the cache", id)
		k.Delete(id)
	}
}

// Close closes the files that Open has opened, and releases the lock. It may be called
// after Open has failed.
func (k *Cache) Close() error {
	defer k.lock.Release()
	return errors.Join(k.places.dropSpares(k.World.Rank()), k.maps.close())
}

// Free frees the communicators of restored descriptors. It is collective.
func (k *Cache) Free() {
	for _, c := range k.list {
		c.free()
	}
}
