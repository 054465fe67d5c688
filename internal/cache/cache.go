// Package cache keeps datasets on storage inside the compute nodes: what is
// there, room for the next, where files have to be after a restart, and
// rebuilding what was lost (spec 001).
//
// The state of a rank's part of the cache is its filemap. The state that all
// ranks share is the list of datasets that can be used: it is the same on all
// of them, because it changes only in collective calls.
//
//	cache.go       the list, files of a dataset being written
//	place.go       which directory a dataset is in: that of a store
//	complete.go    a dataset becomes usable
//	scatter.go     on a restart: filemaps to the ranks now on the node
//	distribute.go  … files to the nodes where their ranks now run
//	rebuild.go     … and what was lost from the others
package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/filemap"
	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/eventlog"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/report"
	"github.com/goscr/goscr/meta"
	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/reddesc"
)

// Config is what a cache needs to know.
type Config struct {
	World, Node mpi.Comm         // all ranks; those that share the node's storage
	Stores      []*reddesc.Store // the first holds what no descriptor says otherwise of
	ControlBase string
	User, JobID string
	Prefix      string // of the job; without symbolic links, the same on all ranks
	Piece       int    // bytes that are read, sent and written at a time
	Distribute  bool   // on a restart, move files to where their ranks are
	// VerifyEvicted reads datasets that leave to make room, and says what of them is
	// not what was written.
	VerifyEvicted bool
	Log           *report.Logger
	Events        *eventlog.Log // on rank 0
}

// Cached is a dataset in the cache that can be used.
type Cached struct {
	dataset.Dataset
	Desc *reddesc.Descriptor

	store     *reddesc.Store
	restored  bool // Desc is its own, and not that of the session
	elsewhere bool // the caller's files are whole on another node, and could not be stored here
}

// free gives the communicator of a descriptor back that was made again for the
// dataset. It is collective.
func (c *Cached) free() error {
	if !c.restored {
		return nil
	}
	c.restored = false
	return c.Desc.Free()
}

// Cache is the caller's part of the cache.
type Cache struct {
	Config
	places  []*place       // directories that hold datasets; first those of the stores
	at      map[int]*place // where the node's part of a dataset is
	control string         // holds the filemaps
	maps    *filemap.Store
	list    []*Cached       // usable, newest first
	unused  []int           // ids of those that this run cannot use
	foreign []Foreign       // of these, those of jobs of another size, newest first
	dirs    map[string]bool // known to be there
	lock    *os.File        // held while the job runs, on the first rank of a node
	highest int             // id of any dataset ever seen here
}

// Open makes the directories of the cache and takes the filemaps of earlier
// runs up. It is collective.
func Open(c Config) (*Cache, error) {
	k := &Cache{
		Config:  c,
		at:      map[int]*place{},
		control: filepath.Join(c.ControlBase, c.below()),
		dirs:    map[string]bool{},
	}
	if err := k.open(); err != nil {
		_ = k.Close() // there is a better reason already
		return nil, err
	}
	return k, nil
}

func (k *Cache) open() error {
	err := k.openPlaces()
	if k.Node.Rank() == 0 {
		if e := privateDir(k.ControlBase, k.User, "scr."+k.JobID); err == nil {
			err = e
		}
		if err == nil {
			err = k.occupy(dying)
		}
		report.Forget(k.control)
	}
	if err := mpi.Agree(k.World, err); err != nil {
		return err
	}
	if err := mpi.Agree(k.World, k.scatter()); err != nil {
		return err
	}
	return mpi.Agree(k.World, k.removeSpares())
}

// removeSpares removes what a killed run has left, which is in nobody's way.
func (k *Cache) removeSpares() error {
	var err error
	for _, p := range k.places {
		if !k.leads(p) {
			continue
		}
		spares, _ := match(p.dir, sparePattern)
		for _, path := range spares {
			if e := os.Remove(path); err == nil && !errors.Is(e, fs.ErrNotExist) {
				err = e
			}
		}
	}
	return err
}

// Control is the control directory, which the processes of a node share.
func (k *Cache) Control() string { return k.control }

// lockFile is locked by a job for as long as it runs.
const lockFile = "lock"

// dying is how long the processes of an earlier run may take to end.
const dying = 10 * time.Second

// occupy makes sure that no other job uses the control directory: two with the
// same job id would take each other's files for their own. The lock is one that
// the kernel takes back when the process ends, however it does.
func (k *Cache) occupy(patience time.Duration) error {
	f, err := os.OpenFile(filepath.Join(k.control, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	k.lock = f
	begun, told := time.Now(), false
	for ; ; time.Sleep(20 * time.Millisecond) {
		want := unix.Flock_t{Type: unix.F_WRLCK}
		err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &want)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		switch waited := time.Since(begun); {
		case waited < patience/10:
		case !told:
			told = true
			k.Log.Warn("a job of %s with job id %s is still running on this node%s: waiting up to %v for it to end", k.User, k.JobID, holder(f), patience)
		case waited >= patience:
			return fmt.Errorf("another job of %s with job id %s is running on this node%s: give each its own SCR_JOB_ID",
				k.User, k.JobID, holder(f))
		}
	}
}

// holder says which process has the lock of a file, for messages; nothing if that
// cannot be told.
func holder(f *os.File) string {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock) != nil || lock.Type == unix.F_UNLCK || lock.Pid <= 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", lock.Pid)
}

// privateDir makes a directory below base that only the user can enter. What
// is there already must be the user's own and no symbolic link: whoever can
// put something in its place could read and change checkpoints.
func privateDir(base string, below ...string) error {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return fmt.Errorf("storage of the node: %w (SCR_CACHE_BASE, SCR_CNTL_BASE and STORE= lines say where it is)", err)
	}
	dir := base
	for _, name := range below {
		dir = filepath.Join(dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return &fs.PathError{Op: "stat", Path: dir, Err: err}
		}
		switch {
		case st.Mode&unix.S_IFMT != unix.S_IFDIR:
			return fmt.Errorf("%s is not a directory: remove it, or choose another SCR_CACHE_BASE and SCR_CNTL_BASE", dir)
		case int(st.Uid) != os.Geteuid():
			return fmt.Errorf("%s belongs to user %d: choose another SCR_CACHE_BASE and SCR_CNTL_BASE", dir, st.Uid)
		}
		if st.Mode&0o077 != 0 {
			if err := os.Chmod(dir, 0o700); err != nil {
				return err
			}
		}
	}
	return nil
}

// Dir is where the node's part of a dataset is.
func (k *Cache) Dir(id int) string {
	return filepath.Join(k.place(id).dir, fmt.Sprintf("scr.dataset.%d", id))
}

// me is the caller's rank in the job.
func (k *Cache) me() int { return k.World.Rank() }

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

// Highest is the highest id of a dataset seen in the cache on any rank.
func (k *Cache) Highest() int { return k.highest }

// job describes a dataset to its scheme.
func (k *Cache) job(c *Cached) *redundancy.Job {
	id := c.ID()
	return &redundancy.Job{
		Set: c.Desc.Set, Dataset: c.Dataset, Ranks: k.World.Size(), Dir: k.Dir(id), Piece: k.Piece,
		Register: func(f redundancy.File) error {
			md := meta.Meta{Hash: f.Meta.Clone()}
			md.SetComplete(false) // until all of it is there
			return k.maps.AddFile(id, k.me(), f.Path, md)
		},
		Recycle: k.place(id).recycle(k.me()),
	}
}

// A redundancy file of a dataset that is evicted makes the next dataset's: it
// waits under a name that stands in no filemap, and that the next run removes.
const sparePattern = "spare.*"

func (p *place) sparePath(rank int) string {
	return filepath.Join(p.dir, fmt.Sprintf("spare.%d", rank))
}

// recycle returns a function that puts the spare file of a rank, if there is one,
// at a path.
func (p *place) recycle(rank int) func(path string) error {
	return func(path string) error {
		if !p.spare {
			return nil
		}
		p.spare = false
		err := os.Rename(p.sparePath(rank), path)
		if errors.Is(err, fs.ErrNotExist) { // somebody has cleaned up
			return nil
		}
		return err
	}
}

// dropSpares deletes the spare files.
func (k *Cache) dropSpares() error {
	var err error
	for _, p := range k.places {
		if !p.spare {
			continue
		}
		p.spare = false
		if e := os.Remove(p.sparePath(k.me())); err == nil && !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
	}
	return err
}

// save makes the caller's redundancy file of a dataset that is about to be
// deleted the spare one.
func (k *Cache) save(id int) {
	_, made := redundancy.Split(k.Files(id))
	p := k.place(id)
	if p.store == nil { // no other dataset will be made there
		return
	}
	if len(made) > 0 && k.inside(made[0].Path) && made[0].Meta.Check(made[0].Path) == nil && os.Rename(made[0].Path, p.sparePath(k.me())) == nil {
		p.spare = true
	}
}

// Create begins a dataset. Its files are entered with Add, and it becomes
// usable with Complete. It is collective.
func (k *Cache) Create(d dataset.Dataset, desc *reddesc.Descriptor) (*Cached, error) {
	c := &Cached{Dataset: d, Desc: desc, store: k.Store(desc.Store)}
	id := d.ID()
	for i, s := range k.Stores {
		if s == c.store {
			k.at[id] = k.places[i]
		}
	}
	k.highest = max(k.highest, id)
	var err error
	if k.Node.Rank() == 0 {
		err = os.Mkdir(k.Dir(id), 0o700)
		if errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	k.dirs[k.Dir(id)] = true
	if e := k.record(c); err == nil {
		err = e
	}
	return c, mpi.Agree(k.World, err)
}

// KeyNode, in the redundancy descriptor of another rank, is the node that rank
// runs on: for the commands that scavenge what is left when it is down.
const KeyNode = "NODE"

// describe stores the description of a dataset.
func (k *Cache) describe(c *Cached) {
	d := c.Dataset
	d.SetPlace(dataset.Place{Prefix: k.Prefix, Dir: k.place(c.ID()).dir})
	k.maps.SetDataset(c.ID(), k.me(), d)
}

// record stores the descriptions of a dataset. Each member of a set also
// stores the redundancy descriptors of as many members to its left as the
// scheme can lose, so that one of them is left to say what it was.
func (k *Cache) record(c *Cached) error {
	id, set := c.ID(), c.Desc.Set
	k.describe(c)
	k.maps.SetReddesc(id, k.me(), c.Desc.Hash())
	n := set.Size()
	for d := 1; d <= c.Desc.Scheme.Failures(n); d++ {
		left := (set.Me() - d + n) % n
		mine := c.Desc.Hash()
		mine.SetValue(KeyNode, k.Log.Node)
		h, err := hash.Sendrecv(mine, (set.Me()+d)%n, left, set.Comm)
		if err != nil {
			return err
		}
		of := c.Dataset
		of.SetComplete(false) // says what the descriptor is of, and no more
		k.maps.SetDataset(id, set.Ranks[left], of)
		k.maps.SetReddesc(id, set.Ranks[left], h)
	}
	return k.maps.Fold()
}

// keepsDescriptor reports whether record stores the redundancy descriptor of
// another rank with the caller.
func keepsDescriptor(c *Cached, rank int) bool {
	set := c.Desc.Set
	n := set.Size()
	for d := 1; d <= c.Desc.Scheme.Failures(n); d++ {
		if set.Ranks[(set.Me()-d+n)%n] == rank {
			return true
		}
	}
	return false
}

// Add enters a file of the dataset being written and returns its path in the
// cache. md must have its File. Entering a file again is no error.
func (k *Cache) Add(c *Cached, md meta.Meta) (string, error) {
	file := md.File()
	if file == "" {
		return "", fmt.Errorf("%q does not lead below the directory of the dataset", md.Text("FILE"))
	}
	path := filepath.Join(k.Dir(c.ID()), file)
	if k.maps.Meta(c.ID(), k.me(), path).Hash != nil {
		return path, nil
	}
	if err := k.maps.AddFile(c.ID(), k.me(), path, md); err != nil {
		return "", err
	}
	if dir := filepath.Dir(path); !k.dirs[dir] {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		k.dirs[dir] = true
	}
	return path, nil
}

// Files returns the caller's files of a dataset, redundancy included, sorted
// by path.
func (k *Cache) Files(id int) []redundancy.File { return k.filesOf(id, k.me()) }

func (k *Cache) filesOf(id, rank int) []redundancy.File {
	var files []redundancy.File
	for _, path := range k.maps.Files(id, rank) {
		files = append(files, redundancy.File{Path: path, Meta: k.maps.Meta(id, rank, path)})
	}
	return files
}

// Delete removes a dataset, usable or not, with all its files. It is
// collective.
func (k *Cache) Delete(id int) error {
	var err error
	if c := k.Find(id); c != nil {
		err = c.free()
	}
	k.list = slices.DeleteFunc(k.list, func(c *Cached) bool { return c.ID() == id })
	for _, rank := range k.maps.Ranks(id) {
		if e := k.deletePart(id, rank); err == nil {
			err = e
		}
	}
	if e := k.maps.Fold(); err == nil {
		err = e
	}
	if err := mpi.Agree(k.World, err); err != nil {
		return err
	}
	// What is left are directories, and files the program made without asking.
	if p := k.place(id); k.leads(p) {
		err = os.RemoveAll(k.Dir(id))
		if p.store == nil { // nothing will be put there again
			_ = os.Remove(p.dir)
			_ = os.Remove(filepath.Dir(p.dir))
		}
	}
	for dir := range k.dirs {
		if dir == k.Dir(id) || strings.HasPrefix(dir, k.Dir(id)+"/") {
			delete(k.dirs, dir)
		}
	}
	delete(k.at, id)
	return mpi.Agree(k.World, err)
}

// deletePart deletes a rank's files of a dataset, and then its entry, which is
// on disk after the next Fold.
func (k *Cache) deletePart(id, rank int) error {
	if err := k.deleteFiles(id, rank); err != nil {
		return err
	}
	k.maps.RemoveRank(id, rank)
	return nil
}

func (k *Cache) deleteFiles(id, rank int) error {
	for _, path := range k.maps.Files(id, rank) {
		if err := k.deleteFile(id, rank, path); err != nil {
			return err
		}
	}
	return nil
}

func (k *Cache) deleteFile(id, rank int, path string) error {
	if !k.inside(path) {
		return fmt.Errorf("filemap names %s, which is in no cache directory", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	k.maps.RemoveFile(id, rank, path)
	return nil
}

// inside reports whether a path that was read from disk lies in the cache.
func (k *Cache) inside(path string) bool {
	for _, p := range k.places {
		rel, err := filepath.Rel(p.dir, path)
		if err == nil && filepath.IsLocal(rel) && rel != "." {
			return true
		}
	}
	return false
}

// Evict deletes datasets that make room for another one, and those that this run
// cannot use. It is collective.
func (k *Cache) Evict(leaving []*Cached) error {
	for len(k.unused) > 0 {
		id := k.unused[0]
		k.unused = k.unused[1:]
		k.Log.Info("dataset %d, which this run cannot use, leaves the cache", id)
		if err := k.Delete(id); err != nil {
			return err
		}
	}
	for _, c := range leaving {
		k.Log.Info("dataset %d (%s) leaves the cache to make room", c.ID(), c.Name())
		if k.VerifyEvicted {
			own, _ := redundancy.Split(k.Files(c.ID()))
			if err := redundancy.Verify(own, k.Piece); err != nil {
				k.Log.Warn("dataset %d (%s), which leaves the cache: %v", c.ID(), c.Name(), err)
			}
		}
		k.save(c.ID())
		if err := k.Delete(c.ID()); err != nil {
			return err
		}
	}
	return nil
}

// Purge deletes all datasets, usable or not. It is collective.
func (k *Cache) Purge() error {
	return k.each(func(id int) error {
		k.highest = max(k.highest, id)
		k.Log.Info("dataset %d is deleted from the cache", id)
		return k.Delete(id)
	})
}

// Close gives what the cache holds in memory back, as far as Open has come.
func (k *Cache) Close() error {
	err := k.dropSpares()
	if k.maps != nil {
		err = errors.Join(err, k.maps.Close())
	}
	if k.lock != nil {
		err = errors.Join(err, k.lock.Close())
	}
	return err
}

// Free gives the communicators back that the cache has made. It is collective.
func (k *Cache) Free() error {
	var first error
	for _, c := range k.list {
		if err := c.free(); first == nil {
			first = err
		}
	}
	return first
}
